//! Messages on one PE, between two PEs of a node, between two nodes of each site, and between
//! every two sites. The figures are the times of one way and of a round trip, and the rate of
//! messages. For the rate, the receiver answers once after each [`WINDOW`] messages.
//!
//! The repetitions are doubled until a measurement is long enough. Each round then measures that
//! number of repetitions, and the figure is the median of the rounds, with its 95 % confidence
//! interval.

use super::ladder::{WINDOW, next_repetitions};
use super::peer::{Message, Operation, Peer};
use crate::paired::{MedianEstimate, three_digits};
use gridspan_runtime::{Collection, Grid, Ix1, Job, JobError, Layout, PeId, Per};
use std::time::Duration;

/// Timeout of a measurement.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The measurements to make.
pub(super) struct Plan {
    /// Sizes of messages in bytes.
    pub(super) sizes: Vec<usize>,
    /// Number of measurements of each size.
    pub(super) rounds: u32,
    /// Minimum time of a measurement.
    pub(super) enough_ns: u64,
    /// Whether to print JSON objects instead of tables.
    pub(super) json: bool,
}

pub(super) fn job(plan: Plan) -> Job {
    Job::new("pingpong").actor::<Peer>().main(async move |grid| run(&grid, &plan).await)
}

async fn run(grid: &Grid, plan: &Plan) -> Result<(), JobError> {
    let layout = grid.layout();
    let first = grid.create_group::<Peer>(Per::Pe, |_| ()).await?;
    let second = grid.create_group::<Peer>(Per::Pe, |_| ()).await?;
    let bench = Bench { first, second, plan };
    let pairs = pairs(layout);
    for &pair in &pairs {
        if !plan.json {
            println!("{}", pair.title(layout));
            println!(
                "{:>10}  {:>24}  {:>13}  {:>12}  {:>22}",
                "bytes", "one way us", "round trip us", "messages/s", "MB/s"
            );
        }
        for &bytes in &plan.sizes {
            let round_trip = bench.measure(pair, Operation::RoundTrip, bytes).await?;
            let window = bench.measure(pair, Operation::Window, bytes).await?;
            if plan.json {
                for figure in [round_trip, window] {
                    println!("{}", figure.json(layout, plan.rounds));
                }
            } else {
                println!("{}", row(pair.between, bytes, round_trip.ns, window.ns));
            }
        }
    }
    if !plan.json {
        let (sizes, pairs) = (plan.sizes.len(), pairs.len());
        println!(
            "verified: yes (messages of {sizes} sizes arrived whole in {pairs} pairs of actors)"
        );
    }
    Ok(())
}

/// The distance of two actors: on the same PE, or on different PEs, nodes or sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    OnePe,
    Pes,
    Nodes,
    Sites,
}

/// The PEs of two actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    between: Between,
    from: u32,
    to: u32,
}

/// Returns the pairs to measure: one on the first PE, one of two PEs of the first node with several
/// PEs, one of two nodes of each site with several nodes, and one of every two sites.
fn pairs(layout: &Layout) -> Vec<Pair> {
    let pair = |between, from, to| Pair { between, from, to };
    let mut pairs = vec![pair(Between::OnePe, 0, 0)];
    let mut nodes = layout.nodes().map(|node| layout.place(node).pes.clone());
    let pes = nodes.find(|pes| pes.len() > 1);
    pairs.extend(pes.map(|pes| pair(Between::Pes, pes.start, pes.start + 1)));
    let mut first_of_sites = Vec::new();
    for site in layout.sites() {
        let mut leaders = layout.nodes_in(site).map(|node| layout.leader(node).0);
        let (first, second) = (leaders.next(), leaders.next());
        pairs.extend(first.zip(second).map(|(from, to)| pair(Between::Nodes, from, to)));
        first_of_sites.extend(first);
    }
    for (at, &from) in first_of_sites.iter().enumerate() {
        let others = first_of_sites.iter().skip(at + 1);
        pairs.extend(others.map(|&to| pair(Between::Sites, from, to)));
    }
    pairs
}

impl Pair {
    /// The names of the sites of both actors.
    fn sites(self, layout: &Layout) -> [&str; 2] {
        [self.from, self.to].map(|pe| layout.site_name(layout.site_of(PeId(pe))))
    }

    fn title(self, layout: &Layout) -> String {
        let Self { between, from, to } = self;
        let [site, other] = self.sites(layout);
        match between {
            Between::OnePe => format!("on PE {from}"),
            Between::Pes => format!("between PE {from} and PE {to} of one node"),
            Between::Nodes => {
                format!("between two nodes of site {site}, PE {from} and PE {to}")
            }
            Between::Sites => {
                format!("between site {site} and site {other}, PE {from} and PE {to}")
            }
        }
    }
}

/// The time of an operation.
#[derive(Clone, Copy, Debug)]
struct Figure {
    pair: Pair,
    operation: Operation,
    bytes: usize,
    ns: MedianEstimate,
}

impl Figure {
    fn json(&self, layout: &Layout, rounds: u32) -> String {
        let Self { pair, operation, bytes, ns: MedianEstimate { median, low, high } } = self;
        let between = match pair.between {
            Between::OnePe => "one pe",
            Between::Pes => "pes",
            Between::Nodes => "nodes",
            Between::Sites => "sites",
        };
        let Pair { from, to, .. } = pair;
        let [site, other] = pair.sites(layout);
        let (name, rates) = match operation {
            Operation::RoundTrip => ("round trip", String::new()),
            Operation::Window => {
                let per_s = f64::from(WINDOW) / median * 1e9;
                let bytes_per_s = per_s * *bytes as f64;
                let rates =
                    format!(",\"messages_per_s\":{per_s:.0},\"bytes_per_s\":{bytes_per_s:.0}");
                ("window", rates)
            }
        };
        format!(
            "{{\"between\":\"{between}\",\"from\":{from},\"to\":{to},\
             \"sites\":[\"{site}\",\"{other}\"],\"operation\":\"{name}\",\"rounds\":{rounds},\
             \"bytes\":{bytes},\"ns\":{median:.1},\"ns_low\":{low:.1},\
             \"ns_high\":{high:.1}{rates}}}"
        )
    }
}

/// A row of a table, from the times of a round trip and of a window in ns. Inside a process the
/// bytes of messages stay where they are, so there is no rate.
fn row(
    between: Between,
    bytes: usize,
    round_trip: MedianEstimate,
    window: MedianEstimate,
) -> String {
    let MedianEstimate { median, low, high } = round_trip;
    let one_way_us = MedianEstimate { median: median / 2e3, low: low / 2e3, high: high / 2e3 };
    let round_trip_us = three_digits(median / 1e3);
    let MedianEstimate { median, low, high } = window;
    let per_s = f64::from(WINDOW) / median * 1e9;
    let mb_per_s = |ns: f64| f64::from(WINDOW) * bytes as f64 / ns * 1e3;
    let rate =
        MedianEstimate { median: mb_per_s(median), low: mb_per_s(high), high: mb_per_s(low) };
    let rate = match between {
        Between::OnePe | Between::Pes => "by reference".to_owned(),
        Between::Nodes | Between::Sites => rate.to_string(),
    };
    let one_way_us = one_way_us.to_string();
    format!("{bytes:>10}  {one_way_us:>24}  {round_trip_us:>13}  {per_s:>12.0}  {rate:>22}")
}

struct Bench<'a> {
    /// The actors that measure, one on each PE.
    first: Collection<Peer>,
    /// The actors that answer, one on each PE.
    second: Collection<Peer>,
    plan: &'a Plan,
}

impl Bench<'_> {
    async fn measure(
        &self,
        pair: Pair,
        operation: Operation,
        bytes: usize,
    ) -> Result<Figure, JobError> {
        let mut repetitions = 1;
        // These measurements also open the congestion windows, so they are not counted.
        loop {
            let elapsed_ns = self.once(pair, operation, bytes, repetitions).await?;
            match next_repetitions(repetitions, elapsed_ns, self.plan.enough_ns) {
                Some(more) => repetitions = more,
                None => break,
            }
        }
        let mut times_ns = Vec::new();
        for _ in 0..self.plan.rounds {
            let elapsed_ns = self.once(pair, operation, bytes, repetitions).await?;
            times_ns.push(elapsed_ns as f64 / repetitions as f64);
        }
        Ok(Figure { pair, operation, bytes, ns: MedianEstimate::of(&times_ns) })
    }

    /// Returns the time of these repetitions in ns, at least 1.
    async fn once(
        &self,
        pair: Pair,
        operation: Operation,
        bytes: usize,
        repetitions: u64,
    ) -> Result<u64, JobError> {
        let partner = self.second.at(Ix1(pair.to as i32));
        let question =
            move |reply| Message::Measure { partner, operation, bytes, repetitions, reply };
        let first = self.first.member(Ix1(pair.from as i32));
        let elapsed_ns: Option<u64> = first.ask(PATIENCE, question).await?;
        match elapsed_ns {
            Some(elapsed_ns) => Ok(elapsed_ns.max(1)),
            None => {
                Err(format!("verified: no (a message of {bytes} bytes arrived damaged)").into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let sites = [("delft", vec![1, 2, 1]), ("urbana", vec![4]), ("oslo", vec![1, 1])];
        Layout::new(sites.map(|(name, pes)| (name.to_owned(), pes)).to_vec())
    }

    #[test]
    fn each_kind_of_pair_each_site_and_each_two_sites_are_measured() {
        let pairs = pairs(&layout());

        let places: Vec<_> = pairs.iter().map(|pair| (pair.between, pair.from, pair.to)).collect();
        let expected = [
            (Between::OnePe, 0, 0),
            (Between::Pes, 1, 2),
            (Between::Nodes, 0, 1),
            (Between::Nodes, 8, 9),
            (Between::Sites, 0, 4),
            (Between::Sites, 0, 8),
            (Between::Sites, 4, 8),
        ];
        assert_eq!(places, expected);
        let title = pairs[5].title(&layout());
        assert_eq!(title, "between site delft and site oslo, PE 0 and PE 8");
    }

    #[test]
    fn one_pe_has_no_other_pair() {
        assert_eq!(pairs(&Layout::single(1)).len(), 1);
        assert_eq!(pairs(&Layout::single(2)).len(), 2);
    }

    #[test]
    fn times_are_of_one_way_and_rates_of_a_window() {
        let round_trip = MedianEstimate { median: 4e3, low: 3e3, high: 6e3 };
        let window = MedianEstimate { median: 64e3, low: 32e3, high: 128e3 };

        let inside = row(Between::Pes, 1000, round_trip, window);
        let row = row(Between::Nodes, 1000, round_trip, window);
        let pair = Pair { between: Between::Sites, from: 0, to: 4 };
        let figure = Figure { pair, operation: Operation::Window, bytes: 1000, ns: window };
        let json = figure.json(&layout(), 10);

        let columns: Vec<_> = row.split_whitespace().collect();
        let expected =
            ["1000", "2.00", "[1.50,", "3.00]", "4.00", "1000000", "1000", "[500,", "2000]"];
        assert_eq!(columns, expected);
        assert!(inside.ends_with("1000000            by reference"), "{inside}");
        assert_eq!(
            json,
            "{\"between\":\"sites\",\"from\":0,\"to\":4,\"sites\":[\"delft\",\"urbana\"],\
             \"operation\":\"window\",\"rounds\":10,\"bytes\":1000,\"ns\":64000.0,\
             \"ns_low\":32000.0,\"ns_high\":128000.0,\"messages_per_s\":1000000,\
             \"bytes_per_s\":1000000000}"
        );
    }
}
