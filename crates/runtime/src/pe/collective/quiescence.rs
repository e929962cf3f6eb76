//! A PE's answers about quiescence; see `coordinator/quiescence.rs`.

use crate::address::id::COORDINATOR;
use crate::message::Control;
use crate::pe::core::Core;

impl Core {
    /// Answers the coordinator's pending rounds. Called when this PE is idle.
    pub(in crate::pe) fn answer_waves(&mut self) {
        while let Some(round) = self.rounds_pending.pop_first() {
            let (created, processed) = (self.created, self.processed);
            let stranded = self.report_stranded();
            self.post(
                COORDINATOR,
                Control::QuiescenceReply { round, created, processed, stranded },
            );
        }
    }
}
