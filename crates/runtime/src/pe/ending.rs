//! The end of the job.

use super::core::Core;
use crate::address::id::COORDINATOR;
use crate::error::JobError;
use crate::message::Control;
use gridspan_topology::PeId;

impl Core {
    /// Reports the job's outcome to the coordinator, for main or the driver.
    pub(crate) fn end(&mut self, outcome: Result<(), JobError>) {
        self.post(COORDINATOR, Control::End { outcome });
    }

    /// Stops this PE. The first PE of a node also stops the others there.
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
