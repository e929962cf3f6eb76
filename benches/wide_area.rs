//! Two processes over an emulated wide-area link: throughput with packet loss, and a round trip of
//! a megabyte.
//!
//! `cargo bench --bench wide_area`; a word after `--` selects figures, as in `-- echo`.

#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/bare_quinn.rs"]
mod bare_quinn;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/relay.rs"]
mod relay;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/wire.rs"]
mod wire;

use bare_quinn::Tuning;
use gridspan_studies::figures::FigureUnit;
use gridspan_topology::GridSpec;
use nodes::Cores;
use relay::Relay;
use std::cell::Cell;
use std::time::Duration;
use suite::{Contender, Suite};
use wire::Task;

/// Goal with packet loss: the rate divided by that of Cubic.
const CUBIC_RATIO: f64 = 20.0;

/// Goal for a round trip of a megabyte, of which the link alone takes 36 ms.
const ECHO_MAX: Duration = Duration::from_millis(55);

const MEBIBYTE: u32 = 1 << 20;
const MEGABYTE: u32 = 1_000_000;

fn main() {
    match nodes::role().as_deref() {
        Some(nodes::JOB) => return nodes::second_node(wire::job()),
        Some(bare_quinn::ROLE) => return bare_quinn::serve(),
        _ => {}
    }
    let mut suite = Suite::new("wide_area");
    lossy_link(&mut suite);
    echo(&mut suite);
    suite.finish();
}

fn link(text: &str) -> GridSpec {
    GridSpec::from_emulate(text).expect("the shorthand is well formed")
}

/// Bulk over 25 ms each way and 1 Gbit/s, with one packet in a hundred lost.
fn lossy_link(suite: &mut Suite) {
    let spec = link("2x1,wan=25ms,loss=1%");
    let count = suite.choose(64, 2);
    let bulk = |count| Task::Bulk(count, MEBIBYTE);
    let ours = || wire::measure(&spec, true, Cores::Two, bulk(count / 4), bulk(count));
    let seed = Cell::new(1);
    let quinn = |tuning, warm_up, count| {
        let relay = Cell::new(None);
        seed.set(seed.get() + 2);
        bare_quinn::bulk((warm_up, count), tuning, Cores::Two, |server| {
            let running = Relay::start(&spec, server, seed.get());
            let address = running.address();
            relay.set(Some(running));
            address
        })
    };
    let bbr = || quinn(Tuning::WideAreaBbr, count / 4, count);
    // Cubic transfers a sixteenth, because all of it would take minutes. That part includes slow
    // start, Cubic's fastest phase.
    let cubic = || quinn(Tuning::WideArea, 0, (count / 16).max(1));
    let contenders = vec![
        Contender::new("gridspan", ours),
        Contender::new("quinn with BBR", bbr).slower(),
        Contender::new("quinn with Cubic", cubic).goal(CUBIC_RATIO),
    ];
    let unit = FigureUnit::Bits(MEBIBYTE.into());
    suite.compare("bulk at 50 ms and 1 % loss", unit, contenders);
}

/// Round trips of a megabyte over 10 ms each way and 1 Gbit/s; the link alone takes 36 ms.
fn echo(suite: &mut Suite) {
    let spec = link("2x1,wan=10ms");
    let count = suite.choose(20, 3);
    let task = |count| Task::Echo(count, MEGABYTE);
    let ours = || wire::measure(&spec, true, Cores::Two, task(count / 5), task(count));
    suite.single("1 MB echo at 20 ms", FigureUnit::Time, Some(ECHO_MAX), ours);
}
