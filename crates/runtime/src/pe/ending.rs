//! The end of the job.

use super::core::Core;
use crate::address::id::COORDINATOR;
use crate::error::JobError;
use crate::message::Control;
use gridspan_topology::PeId;

impl Core {
    /// Main has ended, or the driver says how the job does.
    pub(crate) fn end(&mut self, outcome: Result<(), JobError>) {
        self.post(COORDINATOR, Control::End { outcome });
    }

    /// Stops. The first PE of a node tells the others there.
    pub(crate) fn handle_stop(&mut self, outcome: Result<(), JobError>) {
        if self.outcome.is_some() {
            return;
        }
        let layout = self.common.layout.clone();
        let node = layout.node_of(self.me);
        if layout.leader(node) == self.me {
            for pe in layout.place(node).pes.clone().skip(1).map(PeId) {
                self.post(pe, Control::Stop { outcome: outcome.clone() });
            }
        }
        self.outcome = Some(outcome);
    }
}
