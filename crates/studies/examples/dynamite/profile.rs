//! The programs of Iskra et al. (2000), "Performance Measurements on Dynamite/DPVM", with the data
//! that the paper gives.

use std::time::Duration;

/// Latency of a message; a round has two in sequence. It is several times that of PVM's messages
/// through its daemons. This does not matter: only the total times of computing and communicating
/// must be those of the paper, not the number of rounds into which they are divided.
pub(crate) const LATENCY: Duration = Duration::from_millis(4);
/// Time that a task without communication computes in one round.
const SILENT_ROUND: Duration = Duration::from_millis(50);
/// Size of a message between tasks in bytes.
pub(crate) const MESSAGE_BYTES: usize = 4096;

/// A parallel program, the load of other programs beside it, and the slowdowns in the paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) tasks: u32,
    pub(crate) nodes: u32,
    /// Number of PEs on each node; processes, in the paper.
    pub(crate) pes: u32,
    /// Number of nodes, from the first, over which the load cycles.
    pub(crate) cycle: u32,
    /// Time that the load stays on a node.
    pub(crate) stay: Duration,
    /// Run time when no other program runs: table 1, "no load"; table 2, row 2.
    pub(crate) alone: Duration,
    /// Fraction of `alone` in which a processor computes; the rest is communication.
    /// It is derived from the slowdown without Dynamite, since a fair scheduler prolongs only this
    /// part.
    pub(crate) compute: f64,
    /// Size of a task in bytes. The paper gives those of `is` and `ft`; the others are assumed.
    pub(crate) bytes: usize,
    /// Published slowdown without Dynamite, in percent.
    pub(crate) published_none: f64,
    /// Published slowdown with Dynamite, in percent.
    pub(crate) published_dynamite: f64,
}

const MB: usize = 1_000_000;

const fn nas(name: &'static str, alone_s: u64, compute: f64, bytes: usize) -> Profile {
    Profile {
        name,
        tasks: 4,
        nodes: 8,
        pes: 1,
        // Quoting the paper: "On each node used by the benchmark."
        cycle: 4,
        stay: Duration::from_secs(300),
        alone: Duration::from_secs(alone_s),
        compute,
        bytes,
        published_none: 0.0,
        published_dynamite: 0.0,
    }
}

impl Profile {
    const fn published(self, none: f64, dynamite: f64) -> Self {
        Self { published_none: none, published_dynamite: dynamite, ..self }
    }

    /// Whether its tasks never communicate.
    pub(crate) fn is_silent(&self) -> bool {
        self.compute >= 1.0
    }

    /// Returns the computation of a task in a round, and the number of rounds. A round is a
    /// computation and, unless tasks are silent, two messages in sequence.
    pub(crate) fn rounds(&self) -> (Duration, u64) {
        let crowd = f64::from(self.tasks.div_ceil(self.nodes));
        let round = match self.is_silent() {
            true => SILENT_ROUND.as_secs_f64(),
            false => 2.0 * LATENCY.as_secs_f64() / (1.0 - self.compute),
        };
        let work = round * self.compute / crowd;
        (Duration::from_secs_f64(work), (self.alone.as_secs_f64() / round).round() as u64)
    }
}

/// Table 1: four tasks on eight nodes, with load for five minutes in turn on each of the four nodes
/// on which the tasks start.
pub(crate) const NAS: [Profile; 5] = [
    nas("cg", 1795, 0.90, 20 * MB).published(87.0, 24.0),
    nas("ep", 1620, 1.0, 2 * MB).published(18.0, 9.0),
    nas("ft", 1859, 0.565, 30 * MB).published(45.0, 20.0),
    nas("is", 1511, 0.24, 40 * MB).published(12.0, 16.0),
    nas("mg", 1756, 0.525, 12 * MB).published(40.0, 6.0),
];

/// Table 2: Grail, with load for ten minutes on each node.
pub(crate) const GRAIL: [Profile; 2] = [
    Profile {
        name: "grail, sparse",
        tasks: 3,
        nodes: 4,
        pes: 1,
        cycle: 4,
        stay: Duration::from_secs(600),
        alone: Duration::from_secs(1880),
        compute: 0.98,
        bytes: 20 * MB,
        published_none: 75.0,
        published_dynamite: 34.0,
    },
    Profile {
        name: "grail, redundant",
        tasks: 9,
        nodes: 3,
        pes: 3,
        cycle: 3,
        stay: Duration::from_secs(600),
        alone: Duration::from_secs(2468),
        compute: 0.80,
        bytes: 20 * MB,
        published_none: 19.0,
        published_dynamite: 25.0,
    },
];
