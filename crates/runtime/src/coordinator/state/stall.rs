//! State of stall detection.

use crate::message::MainStatus;
use crate::message::pending_work::PendingWork;
use gridspan_topology::{PeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Combined answers of all PEs in a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Count of all work since the start.
    pub(crate) activity: u64,
    /// Whether no message is in flight, and no timer is set.
    pub(crate) is_quiet: bool,
    pub(crate) pending: PendingWork,
}

/// State between rounds.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct StallWatch {
    /// Whether watching has started.
    pub(crate) is_on: bool,
    /// Whether the stall was reported, which happens once.
    pub(crate) is_reported: bool,
    /// Whether long handlers were reported, which also happens once.
    pub(crate) is_handler_reported: bool,
    /// Whether messages to unknown members were dropped since the last activity.
    pub(crate) has_dropped: bool,
    /// The coordinator's activity at the last check.
    pub(crate) activity: u64,
    /// Time since which `activity` has not changed.
    pub(crate) idle_since: Time,
    /// Pause before the next check.
    pub(crate) pause: Duration,
    pub(crate) round: u64,
    /// PEs that have not answered in this round.
    pub(crate) missing: BTreeSet<PeId>,
    /// Answers in this round so far.
    pub(crate) sum: Round,
    pub(crate) main: MainStatus,
    pub(crate) previous: Option<Round>,
    /// PEs that have been inside one handler for long, with the actor and the time at which the
    /// handler began.
    pub(crate) inside: BTreeMap<PeId, (String, Time)>,
    /// Whether the job's time limit has passed, and PEs are asked for a last report.
    pub(crate) is_over_time: bool,
}
