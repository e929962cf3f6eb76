//! The job that measures a grid and tells the launcher: what `gridctl topo` runs.

use gridspan::control::Control;
use gridspan::links::LinkReport;
use gridspan_jobs::Entry;
use gridspan_runtime::{Grid, Job, JobError, Links};
use std::collections::BTreeSet;
use std::time::Duration;

/// Not among the jobs that are listed, since it does nothing without `gridctl topo`.
pub(crate) static PROBE: Entry =
    Entry { name: "__topo", about: "measures links for gridctl topo", build };

/// How often to look whether all is known.
const LOOK: Duration = Duration::from_millis(250);
/// After so many looks, what is still missing is not worth more waiting: a train of packets that
/// found a link too fast for it is not sent again for ten seconds.
const LOOKS_MAX: u32 = 24;

fn build(_: &[String]) -> Result<Job, clap::Error> {
    Ok(Job::new("topo").main(measure))
}

async fn measure(grid: Grid) -> Result<(), JobError> {
    let mut links = grid.links().await?;
    let mut looks = 0;
    while looks < LOOKS_MAX && !is_known(&links) {
        grid.sleep(LOOK).await?;
        links = grid.links().await?;
        looks += 1;
    }
    Control::Links(LinkReport::new(&links, &[])).tell();
    Ok(())
}

/// Whether each link between the coarsest groups was seen, and how fast it is in one direction.
fn is_known(links: &Links) -> bool {
    let with = |is_wanted: &dyn Fn(&gridspan_topology::LinkEstimate) -> bool| -> BTreeSet<_> {
        let wanted = links.estimates.iter().filter(|(_, estimate)| is_wanted(estimate));
        wanted.map(|&((a, b), _)| (a.min(b), a.max(b))).collect()
    };
    let (seen, fast) = (with(&|_| true), with(&|estimate| estimate.bandwidth.is_some()));
    let groups: Vec<_> = links.places.hierarchy.groups_at(1).collect();
    let mut pairs = groups
        .iter()
        .enumerate()
        .flat_map(|(at, &a)| groups[at + 1..].iter().map(move |&b| (a, b)));
    pairs.all(|pair| seen.contains(&pair) && fast.contains(&pair))
}
