//! Actors within one process: messages on a PE and between PEs, creation, memory and migration.
//!
//! `cargo bench --bench local`; a word after `--` selects figures, as in `-- ring`.

#[path = "support/async_actors.rs"]
mod async_actors;
#[path = "support/between.rs"]
mod between;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/figures.rs"]
mod figures;
#[path = "support/population.rs"]
mod population;
#[path = "support/ring.rs"]
mod ring;

use async_actors::{kameo, ractor, tokio_mpsc};
use figures::{Contender, Figures, Unit};

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
    let mut figures = Figures::new();
    on_one_pe(&mut figures);
    between_pes(&mut figures);
    populations(&mut figures);
    migrations(&mut figures);
    figures.finish();
}

/// A token around a ring: the cost of sending and handling one message.
fn on_one_pe(figures: &mut Figures) {
    let hops = figures.choose(20_000_000, 10_000);
    for (title, size) in [("ring of 2", 2), ("ring of 1000", 1000)] {
        let contenders = vec![
            Contender::new("gridspan", || ring::gridspan(size, hops)),
            Contender::new("queue and virtual call", || ring::bare(size, hops)).goal(BARE_RATIO),
        ];
        figures.compare(title, Unit::Time, 7, contenders);
    }
}

/// Messages between two PEs on two threads.
fn between_pes(figures: &mut Figures) {
    let messages = figures.choose(2_000_000, 10_000);
    let contenders = vec![
        Contender::new("gridspan", || between::stream(messages)),
        Contender::new("tokio mpsc", || tokio_mpsc::stream(messages)).goal(PEER_RATIO),
        Contender::new("kameo", || kameo::stream(messages)).goal(PEER_RATIO),
        Contender::new("ractor", || ractor::stream(messages)).goal(PEER_RATIO),
    ];
    figures.compare("stream between PEs", Unit::Rate, 9, contenders);
    let crossings = figures.choose(50_000, 500);
    let contenders = vec![
        Contender::new("gridspan", || between::ball(crossings)),
        Contender::new("tokio mpsc", || tokio_mpsc::ball(crossings)),
        Contender::new("kameo", || kameo::ball(crossings)),
        Contender::new("ractor", || ractor::ball(crossings)),
    ];
    figures.compare("one way between PEs", Unit::Time, 9, contenders);
}

/// A million idle actors, each time in a fresh process.
fn populations(figures: &mut Figures) {
    const TITLE: &str = "a million idle actors";
    let actors = figures.choose(1_000_000, 10_000);
    let contenders =
        vec![Contender::new("creation", || population::in_fresh_process(actors).creation)];
    figures.compare(TITLE, Unit::Rate, 3, contenders);
    if figures.wants(TITLE) {
        let bytes = population::in_fresh_process(actors).bytes_each;
        figures.note(TITLE, "memory, with a state of 8 B", &format!("{bytes:.0} B each"));
    }
}

/// Actors that move back and forth between two PEs.
fn migrations(figures: &mut Figures) {
    let (small, large) = figures.choose((2_000, 100), (20, 4));
    let contenders = vec![Contender::new("150 B", || population::migrate(64, small, 150))];
    figures.compare("migrations of 64 actors", Unit::Rate, 5, contenders);
    let contenders = vec![Contender::new("1 MB", || population::migrate(8, large, 1_000_000))];
    figures.compare("migrations of 8 actors", Unit::Rate, 5, contenders);
}
