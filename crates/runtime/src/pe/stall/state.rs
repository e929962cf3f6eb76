//! State of a PE for the detection of stalls and for diagnoses.

use crate::address::id::ActorId;
use crate::message::ReductionGroup;
use crate::message::pending_work::NAMED_MAX;
use crate::pe::current_handler::CurrentHandler;
use gridspan_topology::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// State from which a PE answers questions about stalls and diagnoses.
#[derive(Default)]
pub(crate) struct Looks {
    /// The handler that the PE is running.
    pub(crate) current: Arc<CurrentHandler>,
    /// The round of the coordinator's last question, which this PE has not answered yet. Once idle,
    /// the PE passes the round to the driver, which knows whether packets are in flight.
    pub(crate) asked: Option<u64>,
    /// On main's PE: the coordinator's last round of a diagnosis, and the reductions and sync
    /// points that it asks about, until the driver adds the status of main.
    pub(crate) diagnosed: Option<(u64, Vec<(ReductionGroup, u64)>)>,
    /// Receivers that did not exist when a message came for them, at most [`NAMED_MAX`].
    pub(crate) absent_members: BTreeSet<ActorId>,
    /// The ends of main's sleeps, by the number of the sleep.
    sleeps: BTreeMap<u64, Time>,
    /// Number of sleeps so far.
    slept: u64,
}

impl Looks {
    /// Notes that a message was sent to a member that does not exist.
    pub(crate) fn note_absent(&mut self, id: ActorId) {
        if self.absent_members.len() < NAMED_MAX {
            self.absent_members.insert(id);
        }
    }

    /// Notes that main sleeps until a time, and returns the number of the sleep.
    pub(crate) fn begin_sleep(&mut self, until: Time) -> u64 {
        self.slept += 1;
        self.sleeps.insert(self.slept, until);
        self.slept
    }

    /// Notes that a sleep is over.
    pub(crate) fn end_sleep(&mut self, number: u64) {
        self.sleeps.remove(&number);
    }

    /// The time at which the first of main's sleeps ends.
    pub(crate) fn asleep_until(&self) -> Option<Time> {
        self.sleeps.values().min().copied()
    }
}
