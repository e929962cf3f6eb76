//! Actors within one process: messages on a PE and between PEs, creation, memory and migration.
//!
//! `cargo bench --bench local`; a word after `--` selects figures, as in `-- ring`.

#[path = "support/async_actors.rs"]
mod async_actors;
#[path = "support/between.rs"]
mod between;
#[path = "support/population.rs"]
mod population;
#[path = "support/ring.rs"]
mod ring;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;

use async_actors::{kameo, ractor, tokio_mpsc};
use gridspan_studies::figures::{ComputedValue, FigureUnit};
use suite::{Contender, Suite};

/// Goal for a message on one PE: its time divided by that of a queue and a virtual call.
const BARE_RATIO: f64 = 3.0;
/// Goal for messages between PEs: their rate divided by that of each peer.
const PEER_RATIO: f64 = 2.0;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(population::ROLE) {
        let actors = arguments.next().and_then(|actors| actors.parse().ok());
        return population::report(actors.expect("the number of actors follows"));
    }
    let mut suite = Suite::new("local");
    on_one_pe(&mut suite);
    between_pes(&mut suite);
    populations(&mut suite);
    migrations(&mut suite);
    suite.finish();
}

/// A token around a ring: the cost of sending and handling one message.
fn on_one_pe(suite: &mut Suite) {
    let hops = suite.choose(5_000_000, 10_000);
    for (title, size) in [("ring of 2", 2), ("ring of 1000", 1000)] {
        let contenders = vec![
            Contender::new("gridspan", || ring::gridspan(size, hops)),
            Contender::new("queue and virtual call", || ring::bare(size, hops)).goal(BARE_RATIO),
        ];
        suite.compare(title, FigureUnit::Time, contenders);
    }
}

/// Messages between two PEs on two threads.
fn between_pes(suite: &mut Suite) {
    let messages = suite.choose(1_000_000, 10_000);
    let contenders = vec![
        Contender::new("gridspan", || between::stream(messages)),
        Contender::new("tokio mpsc", || tokio_mpsc::stream(messages)).goal(PEER_RATIO),
        Contender::new("kameo", || kameo::stream(messages)).goal(PEER_RATIO),
        Contender::new("ractor", || ractor::stream(messages)).goal(PEER_RATIO),
    ];
    suite.compare("stream between PEs", FigureUnit::Rate, contenders);
    let crossings = suite.choose(20_000, 500);
    let contenders = vec![
        Contender::new("gridspan", || between::ball(crossings)),
        Contender::new("tokio mpsc", || tokio_mpsc::ball(crossings)).slower(),
        Contender::new("kameo", || kameo::ball(crossings)).slower(),
        Contender::new("ractor", || ractor::ball(crossings)).slower(),
    ];
    suite.compare("one way between PEs", FigureUnit::Time, contenders);
}

/// Measures the creation and the memory of a million idle actors. Each measurement runs in a fresh
/// process.
fn populations(suite: &mut Suite) {
    const MEMORY: &str = "a million idle actors, memory with a state of 8 B";
    let actors = suite.choose(1_000_000, 10_000);
    let create = || population::in_fresh_process(actors).creation;
    suite.single("a million idle actors, creation", FigureUnit::Rate, None, create);
    if suite.wants(MEMORY) {
        let bytes = population::in_fresh_process(actors).bytes_each;
        suite.value(MEMORY, ComputedValue::new(format!("{bytes:.0} B each")));
    }
}

/// Actors that move back and forth between two PEs.
fn migrations(suite: &mut Suite) {
    let (small, large) = suite.choose((2_000, 100), (20, 4));
    let migrate = || population::migrate(64, small, 150);
    suite.single("migrations of 64 actors of 150 B", FigureUnit::Rate, None, migrate);
    let migrate = || population::migrate(8, large, 1_000_000);
    suite.single("migrations of 8 actors of 1 MB", FigureUnit::Rate, None, migrate);
}
