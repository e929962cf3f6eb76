//! Remote calls: empty calls compared with asks of the runtime and with tonic, chains of large
//! data, and large data to several servers.
//!
//! `cargo bench --bench calls`; a word after `--` selects figures, as in `-- chain`.
//!
//! Empty calls go to a second process, with both processes on one core, where the time is the work,
//! and on two. Chains run on the nodes of one process, which communicate over QUIC.

#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/figures.rs"]
mod figures;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/grpc.rs"]
mod grpc;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/remote.rs"]
mod remote;

use figures::{Contender, Figures, Unit};
use nodes::Cores;
use remote::{Chain, Empty};

/// Goal for a chain without pinning: its time divided by that of a chain pinned to one server.
const CHAIN_RATIO: f64 = 1.1;

const MEGABYTE: usize = 1_000_000;

fn main() {
    match nodes::role().as_deref() {
        Some(nodes::JOB) => return nodes::second_node(remote::job()),
        Some(grpc::ROLE) => return grpc::serve(),
        _ => {}
    }
    let mut figures = Figures::new();
    for cores in [Cores::One, Cores::Two] {
        one_by_one(&mut figures, cores);
        many(&mut figures, cores);
    }
    chains(&mut figures);
    to_many(&mut figures);
    let trips = remote::round_trips();
    figures.note("fresh call over a wide area", "gridspan", &format!("{trips:.2} round trips"));
    figures.finish();
}

fn title(what: &str, cores: Cores) -> String {
    match cores {
        Cores::One => format!("{what}, one core"),
        Cores::Two => format!("{what}, two cores"),
    }
}

/// Calls without arguments, one at a time.
fn one_by_one(figures: &mut Figures, cores: Cores) {
    let count = figures.choose(10_000, 50);
    let contenders = vec![
        Contender::new("gridspan call", || remote::empty(Empty::Calls, count, cores)),
        Contender::new("gridspan ask from main", || remote::empty(Empty::Asks, count, cores)),
        Contender::new("tonic unary", || grpc::unary(count, cores)),
    ];
    figures.compare(&title("empty call", cores), Unit::Time, 5, contenders);
}

/// Calls that do not wait for each other.
fn many(figures: &mut Figures, cores: Cores) {
    let count = figures.choose(50_000, 50);
    let contenders = vec![
        Contender::new("gridspan call_async", || remote::empty(Empty::Sessions, count, cores)),
        Contender::new("tonic both ways", || grpc::both_ways(count, cores)),
    ];
    figures.compare(&title("empty calls", cores), Unit::Rate, 5, contenders);
}

/// Ten calls, each of which takes the 50 MB that the previous one returned.
fn chains(figures: &mut Figures) {
    let bytes = figures.choose(50 * MEGABYTE, MEGABYTE / 10);
    let contenders = vec![
        Contender::new("mapped", move || remote::chain(Chain::Mapped, bytes)),
        Contender::new("pinned to one server", move || remote::chain(Chain::Pinned, bytes))
            .goal(CHAIN_RATIO),
        Contender::new("through the client", move || remote::chain(Chain::Bridged, bytes)),
    ];
    figures.compare("chain of 10", Unit::Time, 5, contenders);
}

/// 100 MB from the client to four servers.
fn to_many(figures: &mut Figures) {
    let bytes = figures.choose(100 * MEGABYTE, MEGABYTE / 10);
    let contenders = vec![
        Contender::new("a group", move || remote::to_four(true, bytes)),
        Contender::new("four calls", move || remote::to_four(false, bytes)),
    ];
    figures.compare("100 MB to 4", Unit::Time, 5, contenders);
}
