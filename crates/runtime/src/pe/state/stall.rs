//! What PEs and the root keep to find a job that cannot go on.

use crate::handler::CurrentHandler;
use crate::id::ActorId;
use crate::pending_work::{NAMED_MAX, PendingWork};
use gridspan_topology::{PeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What every PE keeps.
#[derive(Default)]
pub(crate) struct Looks {
    /// The handler that it is inside of.
    pub(crate) current: Arc<CurrentHandler>,
    /// The root's last question, while this PE has something to do.
    pub(crate) asked: Option<u64>,
    /// The same, for the driver, which knows what is on its way.
    pub(crate) order: Option<u64>,
    /// Some of the members that were sent something and do not exist.
    pub(crate) nobody: BTreeSet<ActorId>,
}

impl Looks {
    /// A message was for a member that does not exist.
    pub(crate) fn note_nobody(&mut self, id: ActorId) {
        if self.nobody.len() < NAMED_MAX {
            self.nobody.insert(id);
        }
    }
}

/// What all PEs have said in a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Round {
    /// How much was ever done.
    pub(crate) activity: u64,
    /// Whether nothing is on its way, and no timer is set.
    pub(crate) is_quiet: bool,
    pub(crate) pending: PendingWork,
}

/// What the root keeps.
#[derive(Default)]
pub(crate) struct StallWatch {
    /// Whether anybody wants to know.
    pub(crate) is_on: bool,
    /// Whether it was told, which is done once.
    pub(crate) is_told: bool,
    /// Whether it was told which handlers run for long, which is done once, too.
    pub(crate) is_handler_told: bool,
    /// Whether messages to unknown members were to be dropped since something happened last.
    pub(crate) has_dropped: bool,
    /// What the root had done when it last looked, and since when it has done nothing more.
    pub(crate) activity: u64,
    pub(crate) idle_since: Time,
    /// The pause before the next look.
    pub(crate) pause: Duration,
    /// The number of the round, and who has not answered.
    pub(crate) round: u64,
    pub(crate) missing: BTreeSet<PeId>,
    /// What has come of this round.
    pub(crate) sum: Round,
    pub(crate) main: MainStatus,
    /// The round before.
    pub(crate) previous: Option<Round>,
    /// PEs that are inside of one handler for long: of which actor, and since when.
    pub(crate) inside: BTreeMap<PeId, (String, Time)>,
    /// Whether the time of the job is up, and who still runs is to be told.
    pub(crate) is_over_time: bool,
}

/// What main does, as its driver sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MainStatus {
    /// It runs, or it is not known.
    #[default]
    Running,
    /// It waits for promises of Gridspan alone.
    WaitsInside,
    /// It waits for something that the runtime cannot see, too.
    WaitsOutside,
}
