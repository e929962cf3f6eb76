//! The job: compares the two ways to broadcast. They alternate within each size and round, so that
//! other load on the machine affects both equally. Their ratio is the median of the ratios of the
//! rounds, with its 95 % confidence interval.
//!
//! The root measures the time from sending a broadcast to the result of a reduction to which each
//! member contributes when it has the payload. The reduction is the same for both ways. It is also
//! measured alone: all members but one contribute beforehand, and the root measures the time from a
//! message to the last member until the result, less half of a round trip to that member. Payloads
//! are checked after each broadcast, outside the timed interval.

use super::member::{BcastMember, Message, Question, Way};
use crate::entry::{Entry, message_size, parse};
use crate::paired::MedianEstimate;
use clap::Parser;
use gridspan_kernels::payload::{Digest, payload};
use gridspan_runtime::{Collection, Grid, Ix1, Job, JobError, Op, Per, Unordered};
use std::time::Duration;

const ABOUT: &str = "Broadcasts to all nodes, by the runtime and by a binomial tree of messages";

pub(crate) const ENTRY: Entry =
    Entry { name: "bcast", about: ABOUT, build: |arguments| Ok(job(parse("bcast", arguments)?)) };

/// Largest payload in bytes: with its header it must fit into one message of at most 60 MiB.
pub const BYTES_MAX: u64 = 48 << 20;
/// Timeout of one measurement, longer than any broadcast takes on any link.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Number of first rounds of each size that are not counted, in which congestion windows open.
const WARM_UP: u64 = 3;
/// Maximum number of members that take turns as the last contributor of a measured reduction.
const LAST_CONTRIBUTORS_MAX: u32 = 16;
/// Number of measurements of the reduction with each last contributor.
const CLOSINGS: u32 = 5;

#[derive(Clone, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Sizes of the payloads, such as 8B,1kB,1MB; at most 48MiB.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size,
          default_value = "8B,1kB,1MB")]
    bytes: Vec<usize>,
    /// Number of measured broadcasts of each size, for each way.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rounds: u64,
    /// The node whose member broadcasts, counted from 0.
    #[arg(long, value_name = "NODE", default_value_t = 0)]
    root: u32,
    /// Let the runtime broadcast without the total order.
    #[arg(long)]
    unordered: bool,
    /// Print one JSON object for each size, and one at the end, instead of a table.
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<usize, String> {
    message_size(text, BYTES_MAX)
}

fn job(options: Options) -> Job {
    Job::new("bcast").actor::<BcastMember>().main(async move |grid| run(&grid, &options).await)
}

async fn run(grid: &Grid, options: &Options) -> Result<(), JobError> {
    let nodes = grid.layout().node_count();
    let root = options.root;
    if root >= nodes {
        let last = nodes - 1;
        return Err(format!("there is no node {root}; `--root` takes 0 to {last}").into());
    }
    let members = grid.create_group::<BcastMember>(Per::Node, |_| (nodes, root)).await?;
    let runtime = if options.unordered { Way::Unordered } else { Way::Runtime };
    let ways = [runtime, Way::Binomial];
    let mut bench = Bench { grid, members, nodes, root, ways, payloads: 0 };
    let rounds = options.rounds;
    if !options.json {
        println!(
            "{rounds} rounds of each size over {nodes} nodes; times in us: median (least to most)"
        );
    }
    let mut sizes = Vec::with_capacity(options.bytes.len());
    for &bytes in &options.bytes {
        sizes.push((bytes, bench.compare(bytes, rounds).await?));
    }
    let closing_ns = Range::of(bench.closings().await?);
    if options.json {
        for (bytes, times_ns) in sizes {
            println!("{}", json_of_size((nodes, rounds, bytes), times_ns));
        }
        let (closing, payloads) = (closing_ns.to_json(), bench.payloads);
        println!(
            "{{\"nodes\":{nodes},\"reduction\":{closing},\"verified\":true,\"payloads\":{payloads}}}"
        );
        return Ok(());
    }
    println!("{:>10}  {:>26}  {:>26}  ratio", "bytes", "runtime", "binomial of messages");
    for (bytes, times_ns) in sizes {
        let ratio = MedianEstimate::of_paired_ratio(&times_ns[0], &times_ns[1]);
        let [runtime, binomial] = times_ns.map(|times_ns| Range::of(times_ns).show());
        println!("{bytes:>10}  {runtime:>26}  {binomial:>26}  {ratio}");
    }
    println!("of these times, the confirming reduction takes {} us", closing_ns.show());
    println!(
        "verified: yes ({} payloads reached each of {nodes} members whole and once)",
        bench.payloads
    );
    Ok(())
}

/// The times of one size as a JSON object.
fn json_of_size((nodes, rounds, bytes): (u32, u64, usize), times_ns: [Vec<f64>; 2]) -> String {
    let MedianEstimate { median, low, high } =
        MedianEstimate::of_paired_ratio(&times_ns[0], &times_ns[1]);
    let [runtime, binomial] = times_ns.map(|times_ns| Range::of(times_ns).to_json());
    format!(
        "{{\"nodes\":{nodes},\"rounds\":{rounds},\"bytes\":{bytes},\"runtime\":{runtime},\
         \"binomial_of_messages\":{binomial},\"ratio\":{median:.4},\
         \"ratio_low\":{low:.4},\"ratio_high\":{high:.4}}}"
    )
}

struct Bench<'a> {
    grid: &'a Grid,
    members: Collection<BcastMember>,
    nodes: u32,
    /// The node whose member broadcasts.
    root: u32,
    /// The ways in the order of their columns.
    ways: [Way; 2],
    /// Number of broadcasts so far.
    payloads: u64,
}

impl Bench<'_> {
    /// Returns the times of the rounds in ns, in the order of `ways`.
    async fn compare(&mut self, bytes: usize, rounds: u64) -> Result<[Vec<f64>; 2], JobError> {
        let mut times_ns = [Vec::new(), Vec::new()];
        for round in 0..WARM_UP + rounds {
            // The ways take turns to go first.
            let first = (round % 2) as usize;
            for place in [first, 1 - first] {
                let question = Question::Broadcast { way: self.ways[place], bytes, round };
                let elapsed_ns = self.measure(question).await?;
                self.verify(bytes, round).await?;
                if round >= WARM_UP {
                    times_ns[place].push(elapsed_ns);
                }
            }
        }
        Ok(times_ns)
    }

    /// Returns the time measured by the root, in ns.
    async fn measure(&self, question: Question) -> Result<f64, JobError> {
        let root = self.members.member(Ix1(self.root as i32));
        let message = move |reply| Message::Measure { question, reply };
        let elapsed_ns: Option<u64> = root.ask(PATIENCE, message).await?;
        match elapsed_ns {
            Some(elapsed_ns) => Ok(elapsed_ns as f64),
            None => Err("verified: no (some members did not confirm, or did so twice)".into()),
        }
    }

    async fn verify(&mut self, bytes: usize, round: u64) -> Result<(), JobError> {
        self.payloads += 1;
        let digest = Digest::of(&payload(bytes, round));
        // Unordered, because the PE of the root may number its ordered broadcasts itself only
        // while no other PE sends ordered broadcasts.
        self.members.broadcast_with(Unordered, Message::Verify { payloads: self.payloads, digest });
        let whole: u64 = self.members.reduction(Op::Sum).await?;
        if whole == u64::from(self.nodes) {
            return Ok(());
        }
        let nodes = self.nodes;
        let reason =
            format!("verified: no ({whole} of {nodes} members have the payload whole and once)");
        Err(reason.into())
    }

    /// Measures the reduction from the last contribution to the result, in ns, with several members
    /// in turn as the last contributor.
    async fn closings(&self) -> Result<Vec<f64>, JobError> {
        let stride = self.nodes.div_ceil(LAST_CONTRIBUTORS_MAX).max(1);
        let mut closings_ns = Vec::new();
        for last in (0..self.nodes).step_by(stride as usize) {
            for _ in 0..CLOSINGS {
                self.members.broadcast(Message::Contribute { except: Some(last) });
                self.grid.quiescence().await?;
                let closing_ns = self.measure(Question::Closing { last }).await?;
                let round_trip_ns = self.measure(Question::RoundTrip { with: last }).await?;
                closings_ns.push((closing_ns - round_trip_ns / 2.0).max(0.0));
            }
        }
        Ok(closings_ns)
    }
}

/// The median, minimum and maximum of some times, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    least_ns: f64,
    median_ns: f64,
    most_ns: f64,
}

impl Range {
    /// The range of at least one time.
    fn of(mut times_ns: Vec<f64>) -> Self {
        times_ns.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| times_ns.get(place).copied().unwrap_or(f64::NAN);
        let count = times_ns.len();
        let median_ns = (at(count.saturating_sub(1) / 2) + at(count / 2)) / 2.0;
        Self { least_ns: at(0), median_ns, most_ns: at(count.saturating_sub(1)) }
    }

    /// Returns a JSON object, in nanoseconds.
    fn to_json(self) -> String {
        let Self { least_ns, median_ns, most_ns } = self;
        format!(
            "{{\"median_ns\":{median_ns:.0},\"least_ns\":{least_ns:.0},\"most_ns\":{most_ns:.0}}}"
        )
    }

    /// Formats the range in microseconds.
    fn show(&self) -> String {
        let [least, median, most] =
            [self.least_ns, self.median_ns, self.most_ns].map(|ns| ns / 1e3);
        format!("{median:.0} ({least:.0} to {most:.0})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_times_is_the_mean_of_the_middle_two() {
        let range = Range::of(vec![4e3, 1e3, 2e3, 9e3]);
        assert_eq!(range, Range { least_ns: 1e3, median_ns: 3e3, most_ns: 9e3 });
        assert_eq!(range.show(), "3 (1 to 9)");
        assert_eq!(Range::of(vec![7.0]).median_ns, 7.0);
    }

    #[test]
    fn the_times_of_a_size_form_a_json_object() {
        let times_ns = [vec![3e3, 1e3, 2e3], vec![4e3; 3]];
        assert_eq!(
            json_of_size((4, 3, 1000), times_ns),
            "{\"nodes\":4,\"rounds\":3,\"bytes\":1000,\
             \"runtime\":{\"median_ns\":2000,\"least_ns\":1000,\"most_ns\":3000},\
             \"binomial_of_messages\":{\"median_ns\":4000,\"least_ns\":4000,\"most_ns\":4000},\
             \"ratio\":0.5000,\"ratio_low\":0.2500,\"ratio_high\":0.7500}"
        );
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        assert_eq!(size("1KB"), Ok(1000));
        assert_eq!(size("48MiB"), Ok(48 << 20));
        for text in ["0B", "49MiB", "8", "many", "unlimited"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
