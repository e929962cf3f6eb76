//! A PE's answers when the coordinator looks for the reason why the job makes no progress; see
//! `coordinator/stall.rs`.

pub(in crate::pe) mod state;

use crate::address::id::{COORDINATOR, MAIN_PE};
use crate::message::{Control, Looked, MainStatus};
use crate::pe::checkpoint::captured_part::CapturedPart;
use crate::pe::command::PeCommand;
use crate::pe::core::Core;

impl Core {
    /// Amount of work that this PE has done. Questions and upkeep do not count.
    pub(in crate::pe) fn activity(&self) -> u64 {
        self.created.wrapping_add(self.processed)
    }

    /// Whether only upkeep is left on this PE, now and later, unless something arrives.
    pub(in crate::pe) fn has_only_upkeep(&self) -> bool {
        let is_idle = self.lanes.is_empty() && self.requests.is_empty() && self.own_controls == 0;
        is_idle && !self.awaits_event() && !self.delivery.is_awaiting()
    }

    /// Whether an event will occur here although nothing arrives.
    fn awaits_event(&self) -> bool {
        let will_report = self.checkpointing.reported.as_ref().is_some_and(|it| it.due.is_some());
        let is_timed = self.timers.next().is_some() || self.checkpointing.sending.room_at.is_some();
        let captured = self.checkpointing.captured.as_ref();
        let is_encoding = captured.is_some_and(CapturedPart::is_to_encode);
        is_timed || will_report || is_encoding || self.next_accumulator().is_some()
    }

    /// Notes that the coordinator asks for the state of this PE.
    pub(in crate::pe) fn handle_look(&mut self, round: u64) {
        self.looks.asked = Some(round);
    }

    /// Lets the driver answer the coordinator if this PE is idle. Called at the end of a turn.
    pub(in crate::pe) fn settle_look(&mut self) {
        if self.looks.asked.is_some() && self.lanes.is_empty() && self.own_controls == 0 {
            let look = self.looks.asked.take().map(|round| PeCommand::Look { round });
            self.commands.extend(look);
        }
    }

    /// Answers the coordinator. `is_quiet` states whether everything that this node had sent before
    /// its previous answer has arrived, and no packet waits to be handled here.
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
