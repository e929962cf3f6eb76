//! Remote calls: empty calls compared with asks of the runtime and with tonic, chains of large
//! data, and large data to several servers.
//!
//! `cargo bench --bench calls`; a word after `--` selects figures, as in `-- chain`.
//!
//! Empty calls go to a second process. They are measured with both processes on one core,
//! where the time is that of the work alone, and on two cores. Chains run on the nodes of one
//! process, which communicate over QUIC.

#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/grpc.rs"]
mod grpc;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/remote.rs"]
mod remote;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;

use gridspan_studies::figures::{ComputedValue, FigureUnit};
use nodes::Cores;
use remote::{Chain, Empty, UNDER_WAY};
use suite::{Contender, Suite};

/// Goal for a chain without pinning: its time divided by that of a chain pinned to one server.
const CHAIN_RATIO: f64 = 1.1;

/// Goal for a call to a server that was never called before, in round trips.
const FRESH_CALL: f64 = 1.1;

const MEGABYTE: usize = 1_000_000;

fn main() {
    match nodes::role().as_deref() {
        Some(nodes::JOB) => return nodes::second_node(remote::job()),
        Some(grpc::ROLE) => return grpc::serve(),
        _ => {}
    }
    let mut suite = Suite::new("calls");
    for cores in [Cores::One, Cores::Two] {
        one_by_one(&mut suite, cores);
        many(&mut suite, cores);
    }
    chains(&mut suite);
    to_many(&mut suite);
    fresh_call(&mut suite);
    suite.finish();
}

fn title(what: &str, cores: Cores) -> String {
    match cores {
        Cores::One => format!("{what}, one core"),
        Cores::Two => format!("{what}, two cores"),
    }
}

/// Calls without arguments, one at a time.
fn one_by_one(suite: &mut Suite, cores: Cores) {
    let count = suite.choose(5_000, 50);
    let contenders = vec![
        Contender::new("gridspan call", || remote::empty(Empty::Calls, count, cores)),
        Contender::new("gridspan ask from main", || remote::empty(Empty::Asks, count, cores)),
        Contender::new("tonic unary", || grpc::unary(count, cores)).slower(),
    ];
    suite.compare(&title("empty call", cores), FigureUnit::Time, contenders);
}

/// Calls, of which [`UNDER_WAY`] run at the same time.
fn many(suite: &mut Suite, cores: Cores) {
    let count = suite.choose(20_000, 50);
    let contenders = vec![
        Contender::new("gridspan call_async", || remote::empty(Empty::Sessions, count, cores)),
        Contender::new("tonic unary, as many under way", || {
            grpc::under_way(UNDER_WAY as u64, count, cores)
        })
        .slower(),
    ];
    suite.compare(&title("empty calls", cores), FigureUnit::Rate, contenders);
}

/// Ten calls, each of which takes the 50 MB that the previous one returned.
fn chains(suite: &mut Suite) {
    let bytes = suite.choose(50 * MEGABYTE, MEGABYTE / 10);
    let contenders = vec![
        Contender::new("mapped", move || remote::chain(Chain::Mapped, bytes)),
        Contender::new("pinned to one server", move || remote::chain(Chain::Pinned, bytes))
            .goal(CHAIN_RATIO),
        Contender::new("through the client", move || remote::chain(Chain::Bridged, bytes)).slower(),
    ];
    suite.compare("chain of 10", FigureUnit::Time, contenders);
}

/// A call to a server that was never called before, in virtual time.
fn fresh_call(suite: &mut Suite) {
    const TITLE: &str = "fresh call over a wide area";
    if suite.wants(TITLE) {
        let trips = remote::round_trips();
        let value = ComputedValue::new(format!("{trips:.2} round trips"));
        let goal = format!("at most {FRESH_CALL}");
        suite.value(TITLE, value.goal(goal, trips <= FRESH_CALL));
    }
}

/// 100 MB from the client to four servers.
fn to_many(suite: &mut Suite) {
    let bytes = suite.choose(100 * MEGABYTE, MEGABYTE / 10);
    let contenders = vec![
        Contender::new("a group", move || remote::to_four(true, bytes)),
        Contender::new("four calls", move || remote::to_four(false, bytes)).slower(),
    ];
    suite.compare("100 MB to 4", FigureUnit::Time, contenders);
}
