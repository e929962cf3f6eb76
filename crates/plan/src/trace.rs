//! The graph of a job, without places and times: a replay goes through it.
//!
//! **Handlings.** Each handler that ran is a [`Handling`] of an actor. It begins when its message
//! has arrived and its PE is free.
//!
//! **Firings.** An actor *fires* when it has handled the messages that it needs (see
//! `dependencies`): the handler that completes them also takes the time of the [`Firing`], and then
//! its messages leave.
//!
//! **Barriers.** Main and the runtime have no handlers. Their messages, and the answers for which
//! main waits, are barriers, which are passed one after the other: see `barriers`.

/// The barrier of handlings for which no barrier waits.
pub(crate) const NO_BARRIER: u32 = u32::MAX;

/// The graph of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobTrace {
    /// Names of the actor types.
    pub(crate) kinds: Vec<String>,
    /// The actors, ordered by type and then by where and when they were created.
    pub(crate) actors: Vec<TracedActor>,
    pub(crate) handlings: Vec<Handling>,
    /// The firings of an actor are contiguous, in their order.
    pub(crate) firings: Vec<Firing>,
    /// In the order in which they are passed. The last one is the end of the job.
    pub(crate) barriers: Vec<Barrier>,
    /// Number of PEs on which it was recorded.
    pub(crate) pes: u32,
    /// Number of rounds: steps, or firings of the actors of the type that computes most.
    pub(crate) rounds: u32,
    /// When each round was done in the recording.
    pub(crate) round_done_ns: Vec<u64>,
    /// Whether messages belong to steps, and PEs handle older ones first.
    pub(crate) has_steps: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TracedActor {
    /// Its type.
    pub(crate) kind: u32,
    /// The PE on which it started.
    pub(crate) pe: u32,
    pub(crate) firings: std::ops::Range<u32>,
}

/// A handler that ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Handling {
    pub(crate) actor: u32,
    /// The step of its message.
    pub(crate) step: Option<u64>,
    /// The round that it belongs to.
    pub(crate) round: Option<u32>,
    /// Time that it takes an ordinary PE, without a firing, in nanoseconds.
    pub(crate) work_ns: f64,
    /// Size of its message in bytes.
    pub(crate) bytes: u64,
    /// Time of the timer that sends the message, in nanoseconds; 0 if none does.
    pub(crate) delay_ns: u64,
    /// The type of the actor that sent the message; `None` for main and the runtime.
    pub(crate) from_kind: Option<u32>,
    /// The first firing that needs it.
    pub(crate) needed_by: u32,
    /// The first barrier that waits for it, or [`NO_BARRIER`].
    pub(crate) barrier: u32,
}

/// A time at which an actor computed and sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Firing {
    /// Number of handlings that it needs, beyond those of the firing before it.
    pub(crate) needs: u32,
    /// Whether it needs its own handling only, and no firing before it.
    pub(crate) is_independent: bool,
    /// Time that it takes an ordinary PE, in nanoseconds.
    pub(crate) work_ns: f64,
    /// The handlings of the messages that it sends.
    pub(crate) sends: Vec<u32>,
    /// The round that it ends.
    pub(crate) round: Option<u32>,
}

/// A time at which main got an answer, or at which main or the runtime sent. It is passed when the
/// barrier before it is passed, its handlings are done, and its request is answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Barrier {
    /// Number of handlings for which it waits, beyond those of the barrier before it.
    pub(crate) waits: u32,
    /// Number of round trips between main and the farthest PE that it then takes.
    pub(crate) round_trips: u32,
    /// The request of main that is answered.
    pub(crate) request: Option<Request>,
    /// Further time that it takes after all of this.
    pub(crate) rest_ns: f64,
    /// The handlings of the messages that are sent.
    pub(crate) sends: Vec<u32>,
}

/// A request of main whose answer takes some time, whatever handlers do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Request {
    /// The barrier after which main made it; `None` for the start of the job.
    pub(crate) after: Option<u32>,
    /// Time from that barrier to the request or, for a sleep, to the end of the sleep, in
    /// nanoseconds.
    pub(crate) since_ns: u64,
    /// Round trips between main and the farthest PE until the answer.
    pub(crate) round_trips: u32,
}

impl JobTrace {
    /// Returns the type of an actor.
    pub(crate) fn kind_of(&self, actor: u32) -> u32 {
        self.actors[actor as usize].kind
    }

    /// Returns the number of actors of each type.
    pub(crate) fn actors_by_kind(&self) -> Vec<usize> {
        let mut counts = vec![0; self.kinds.len()];
        for actor in &self.actors {
            counts[actor.kind as usize] += 1;
        }
        counts
    }

    /// Returns the time that the handlers of each actor take an ordinary PE, in nanoseconds.
    pub(crate) fn work_by_actor(&self) -> Vec<f64> {
        let mut work = vec![0.0; self.actors.len()];
        for handling in &self.handlings {
            work[handling.actor as usize] += handling.work_ns;
        }
        for (actor, work) in self.actors.iter().zip(&mut work) {
            let firings = &self.firings[actor.firings.start as usize..actor.firings.end as usize];
            *work += firings.iter().map(|firing| firing.work_ns).sum::<f64>();
        }
        work
    }
}
