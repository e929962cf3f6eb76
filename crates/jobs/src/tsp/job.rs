//! The job: the search for the shortest tour by tasks.

use super::tour::{Path, ShortestTour};
use crate::entry::{Entry, parse};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use gridspan_kernels::tsp::{Best, PartialTour, SAMPLES, Sample};
use gridspan_runtime::{Grid, Job, JobError};

const ABOUT: &str = "The shortest tour through cities, by branch and bound with a shared bound";

pub(crate) const ENTRY: Entry =
    Entry { name: "tsp", about: ABOUT, build: |arguments| Ok(job(parse("tsp", arguments)?)) };

fn names() -> PossibleValuesParser {
    SAMPLES.iter().map(|sample| sample.name).collect::<Vec<_>>().into()
}

#[derive(Clone, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Sample of TSPLIB.
    #[arg(long, default_value = "gr17", value_parser = names())]
    sample: String,
    /// Number of remaining cities that one task orders without splitting further.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u8).range(0..=17))]
    grain: u8,
}

fn job(options: Options) -> Job {
    Job::new("tsp")
        .search::<Path>()
        .restartable_main(async move |grid: Grid| run(&grid, options.clone()).await)
}

async fn run(grid: &Grid, options: Options) -> Result<(), JobError> {
    let first = PartialTour::first(&options.sample, options.grain);
    let (root, sample) = first.ok_or("there is no such sample")?;
    let pool = grid.search_pool().await?;
    let begin = grid.now().await?;
    let ShortestTour(Best { length, tour, examined }) = pool.run(Path(root)).await?;
    let elapsed = grid.now().await?.since(begin);
    println!(
        "{} on {} PEs in {:.3} ms, {examined} partial tours examined",
        sample.name,
        grid.layout().pe_count(),
        elapsed.as_secs_f64() * 1e3,
    );
    let optimum = sample.optimum;
    if length == optimum && is_tour(&tour, length, sample) {
        println!("verified: yes (a tour of length {length}, the published optimum)");
        return Ok(());
    }
    Err(format!("verified: no ({tour:?} of length {length}; the published optimum is {optimum})")
        .into())
}

/// Whether the tour visits each city once and has this length.
fn is_tour(tour: &[u8], length: u32, sample: &Sample) -> bool {
    let mut cities = tour.to_vec();
    cities.sort_unstable();
    let steps = tour.iter().zip(tour.iter().cycle().skip(1));
    let sum: u32 = steps.map(|(&a, &b)| sample.distance(a.into(), b.into())).sum();
    cities.iter().map(|&city| usize::from(city)).eq(0..sample.cities) && sum == length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tour_visits_each_city_once() {
        let sample = &SAMPLES[0];
        let all: Vec<u8> = (0..sample.cities as u8).collect();
        let steps = (1..sample.cities).map(|city| sample.distance(city - 1, city)).sum::<u32>();
        let length = steps + sample.distance(sample.cities - 1, 0);
        assert!(is_tour(&all, length, sample) && !is_tour(&all, length + 1, sample));
        let mut twice = all;
        twice[3] = 4;
        assert!(!is_tour(&twice, length, sample));
    }
}
