//! Two processes over loopback: asks, small messages one way, and bulk.
//!
//! `cargo bench --bench network`; a word after `--` selects figures, as in `-- bulk`. With
//! `GRIDSPAN_BENCH_FULL=1`, bulk is 1 GiB instead of 256 MiB.
//!
//! Each figure is measured with both processes on one core, where the time is that of the work
//! alone, and on two cores, where it includes the cost of waking a core.

#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/bare_quinn.rs"]
mod bare_quinn;
#[path = "support/bare_tcp.rs"]
mod bare_tcp;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/grpc.rs"]
mod grpc;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/nodes.rs"]
mod nodes;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/wire.rs"]
mod wire;

use bare_quinn::Tuning;
use gridspan_studies::figures::FigureUnit;
use gridspan_topology::{GridSpec, Layout};
use nodes::Cores;
use std::time::Duration;
use suite::{Contender, Sample, Suite};
use wire::Task;

/// Goal for an ask and its answer: the time divided by that of a ping-pong over raw quinn.
const ASK_RATIO: f64 = 1.25;
/// Goal for bulk: the rate divided by that of tuned quinn.
const BULK_RATIO: f64 = 0.9;

/// Goal for a small message one way with a core for each process: 20 million a second.
const SMALL_MESSAGE: Duration = Duration::from_nanos(50);

const MEBIBYTE: u32 = 1 << 20;

fn main() {
    match nodes::role().as_deref() {
        Some(nodes::JOB) => return nodes::second_node(wire::job()),
        Some(bare_quinn::ROLE) => return bare_quinn::serve(),
        Some(bare_tcp::ROLE) => return bare_tcp::serve(),
        Some(grpc::ROLE) => return grpc::serve(),
        _ => {}
    }
    let mut suite = Suite::new("network");
    for cores in [Cores::One, Cores::Two] {
        questions(&mut suite, cores);
        small_messages(&mut suite, cores);
        bulk(&mut suite, cores);
    }
    suite.finish();
}

/// Two nodes of one PE each at one site, without any emulation.
fn two_nodes() -> GridSpec {
    let layout = Layout::new(vec![("here".to_owned(), vec![1, 1])]);
    GridSpec::from_layout(&layout).expect("the layout is small")
}

fn gridspan(cores: Cores, warm_up: Task, task: Task) -> Sample {
    wire::measure(&two_nodes(), false, cores, warm_up, task)
}

fn title(what: &str, cores: Cores) -> String {
    let on = match cores {
        Cores::One => "one core",
        Cores::Two => "two cores",
    };
    format!("{what}, {on}")
}

/// Round trips of 64 bytes.
fn questions(suite: &mut Suite, cores: Cores) {
    let count = suite.choose(5_000, 100);
    let warm_up = Task::Ask(count / 10);
    let contenders = vec![
        Contender::new("gridspan", || gridspan(cores, warm_up, Task::Ask(count))),
        Contender::new("quinn streams", || bare_quinn::ping_pong(count, cores)).goal(ASK_RATIO),
        Contender::new("tonic unary", || grpc::unary(count, cores)).slower(),
        Contender::new("tonic both ways", || grpc::both_ways(count, cores)).slower(),
    ];
    suite.compare(&title("ask", cores), FigureUnit::Time, contenders);
}

/// 64 bytes one way, at the highest rate.
fn small_messages(suite: &mut Suite, cores: Cores) {
    let count = suite.choose(1_000_000, 20_000);
    let warm_up = Task::Stream(count / 10);
    let ours = Contender::new("gridspan", || gridspan(cores, warm_up, Task::Stream(count)));
    let contenders = vec![
        if cores == Cores::Two { ours.limit(SMALL_MESSAGE) } else { ours },
        Contender::new("tonic stream", || grpc::one_way(count, cores)).slower(),
        Contender::new("TCP in batches", || bare_tcp::stream(count, cores)),
    ];
    suite.compare(&title("64 B one way", cores), FigureUnit::Rate, contenders);
}

/// Large messages one way.
fn bulk(suite: &mut Suite, cores: Cores) {
    let is_full = std::env::var_os("GRIDSPAN_BENCH_FULL").is_some_and(|value| value != "0");
    let count = suite.choose(if is_full { 1024 } else { 256 }, 8);
    let warm_up = count.min(64);
    let bare = |tuning| bare_quinn::bulk((warm_up, count), tuning, cores, |address| address);
    let ours = |count| Task::Bulk(count, MEBIBYTE);
    let contenders = vec![
        Contender::new("gridspan", || gridspan(cores, ours(warm_up), ours(count))),
        Contender::new("quinn, 6,500 B packets", || bare(Tuning::Machine)).goal(BULK_RATIO),
        Contender::new("quinn, 65,000 B packets", || bare(Tuning::Jumbo)),
        Contender::new("quinn as it comes", || bare(Tuning::Default)),
    ];
    let unit = FigureUnit::Bits(MEBIBYTE.into());
    suite.compare(&title("bulk", cores), unit, contenders);
}
