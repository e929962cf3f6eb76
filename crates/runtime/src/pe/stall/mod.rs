//! Answers the coordinator when it looks for a reason that the job does not go on; see
//! `coordinator/stall.rs`.

pub(in crate::pe) mod state;

use crate::address::id::{COORDINATOR, MAIN_PE};
use crate::message::{Control, Looked, MainStatus};
use crate::pe::core::Core;

impl Core {
    /// How much this PE has ever done. Questions and upkeep do not count.
    pub(in crate::pe) fn activity(&self) -> u64 {
        self.created.wrapping_add(self.processed)
    }

    /// Whether this PE only has upkeep to do, now and later, unless something comes.
    pub(in crate::pe) fn has_only_upkeep(&self) -> bool {
        let is_idle = self.lanes.is_empty() && self.requests.is_empty() && self.own_controls == 0;
        is_idle && !self.awaits_event() && !self.delivery.is_awaiting()
    }

    /// Whether something will happen here although nothing comes.
    fn awaits_event(&self) -> bool {
        self.timers.next().is_some() || self.next_accumulator().is_some()
    }

    /// The coordinator wants to know what this PE does.
    pub(in crate::pe) fn handle_look(&mut self, round: u64) {
        self.looks.asked = Some(round);
    }

    /// Lets the driver answer the coordinator, if this PE is idle. Called at the end of a turn.
    pub(in crate::pe) fn settle_look(&mut self) {
        if self.looks.asked.is_some() && self.lanes.is_empty() && self.own_controls == 0 {
            self.looks.order = self.looks.asked.take();
        }
    }

    /// Answers the coordinator. `is_quiet`: whether all that this node had sent before the last
    /// answer has arrived, and nothing waits to be taken.
    pub fn looked(&mut self, round: u64, is_quiet: bool, main: MainStatus) {
        let is_timed =
            self.awaits_event() || !self.delivery.awaited().all(|id| self.is_stranded(id));
        let (activity, pending) = (self.activity(), self.pending_work());
        let is_quiet = is_quiet && !is_timed && self.lanes.is_empty() && self.requests.is_empty();
        let main = (self.me == MAIN_PE).then_some(main);
        let looked = Looked { round, activity, is_quiet, pending, main };
        self.post(COORDINATOR, Control::Looked(Box::new(looked)));
    }
}
