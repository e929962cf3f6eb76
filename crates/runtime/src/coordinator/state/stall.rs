//! What has come of rounds of questions whether the job goes on.

use crate::message::MainStatus;
use crate::message::pending_work::PendingWork;
use gridspan_topology::{PeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What all PEs have said in a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    /// How much was ever done.
    pub(crate) activity: u64,
    /// Whether nothing is on its way, and no timer is set.
    pub(crate) is_quiet: bool,
    pub(crate) pending: PendingWork,
}

/// What is kept from round to round.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct StallWatch {
    /// Whether anybody wants to know.
    pub(crate) is_on: bool,
    /// Whether it was told, which is done once.
    pub(crate) is_told: bool,
    /// Whether it was told which handlers run for long, which is done once, too.
    pub(crate) is_handler_told: bool,
    /// Whether messages to unknown members were to be dropped since something happened last.
    pub(crate) has_dropped: bool,
    /// What the coordinator had done when it last looked, and since when it has done nothing more.
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
