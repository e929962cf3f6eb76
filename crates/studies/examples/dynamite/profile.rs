//! The programs of paper 4 ("Performance Measurements on Dynamite/DPVM"), as far as it tells of
//! them.

use std::time::Duration;

/// How long a message is under way; two follow each other in a round. Some times what PVM's take
/// through its daemons: as long as the times of computing and communicating are those of the paper,
/// it does not matter into how many rounds they are cut.
pub(crate) const LATENCY: Duration = Duration::from_millis(4);
/// What a task that never talks computes in one go.
const SILENT_ROUND: Duration = Duration::from_millis(50);
/// The bytes of a message between tasks.
pub(crate) const MESSAGE_BYTES: usize = 4096;

/// A parallel program as other programs' load sees it, and what became of it in the paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    /// Its name.
    pub(crate) name: &'static str,
    /// How many tasks it has.
    pub(crate) tasks: u32,
    /// How many nodes there are.
    pub(crate) nodes: u32,
    /// PEs on each node; processes, in the paper.
    pub(crate) pes: u32,
    /// Over how many nodes, from the first, the load cycles.
    pub(crate) cycle: u32,
    /// How long the load stays on a node.
    pub(crate) stay: Duration,
    /// How long it takes when no other program runs: table 1, "no load"; table 2, row 2.
    pub(crate) alone: Duration,
    /// The part of that in which a processor computes; the rest is communication. From the slowdown
    /// without Dynamite, since a fair scheduler makes this part alone longer.
    pub(crate) compute: f64,
    /// The size of a task in bytes. The paper tells that of `is` and `ft`; the others are assumed.
    pub(crate) bytes: usize,
    /// The slowdown without Dynamite, in percent.
    pub(crate) published_none: f64,
    /// The slowdown with it.
    pub(crate) published_dynamite: f64,
}

const MB: usize = 1_000_000;

const fn nas(name: &'static str, alone_s: u64, compute: f64, bytes: usize) -> Profile {
    Profile {
        name,
        tasks: 4,
        nodes: 8,
        pes: 1,
        // "On each node used by the benchmark."
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

    /// Whether its tasks never talk.
    pub(crate) fn is_silent(&self) -> bool {
        self.compute >= 1.0
    }

    /// What a task computes in a round, and how many rounds there are. A round is a computation and
    /// a message.
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

/// Table 1: four tasks on eight nodes, load for five minutes on each of the four that the tasks
/// began on.
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
