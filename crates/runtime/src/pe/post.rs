//! Control packets between PEs, and the report that the job cannot continue.

use super::core::Core;
use crate::address::id::COORDINATOR;
use crate::error::JobError;
use crate::message::{Control, Packet};
use gridspan_topology::PeId;

impl Core {
    /// Sends a control packet, to this PE as well as to others.
    pub(super) fn post(&mut self, to: PeId, control: Control) {
        if control.is_counted() {
            self.created += 1;
        }
        self.own_controls += u64::from(to == self.me && control.is_of_pe());
        self.outbox.packet(to, Packet::control(control));
    }

    /// Sends a control that grows with the number of actors; to another node, in pieces.
    pub(super) fn post_large(&mut self, to: PeId, control: Control) {
        if self.common.node_of(to) == self.common.layout.node_of(self.me) {
            return self.post(to, control);
        }
        if control.is_counted() {
            self.created += 1;
        }
        for piece in self.pieces.split(&control) {
            self.outbox.packet(to, Packet::control(Control::Piece(piece)));
        }
    }

    /// Whether there are other nodes.
    pub(super) fn has_others(&self) -> bool {
        self.common.layout.node_count() > 1
    }

    pub(super) fn pes_here(
        &self,
    ) -> impl DoubleEndedIterator<Item = PeId> + ExactSizeIterator + use<> {
        let layout = &self.common.layout;
        layout.place(layout.node_of(self.me)).pes.clone().map(PeId)
    }

    /// Ends the job with an error, the first one if there are several.
    pub(crate) fn fail(&mut self, error: JobError) {
        if self.failure.is_none() {
            self.failure = Some(error.clone());
            self.post(COORDINATOR, Control::Failed { error });
        }
    }

    /// The node and site of this PE, for messages to people.
    pub(crate) fn place_name(&self) -> String {
        let layout = &self.common.layout;
        let node = layout.node_of(self.me);
        format!("{node} at site {}", layout.site_name(layout.site_of(self.me)))
    }

    #[cold]
    pub(crate) fn fail_type_mismatch(&mut self, actor: &str) {
        self.fail(JobError::Protocol(format!(
            "a message for a {actor} was addressed to a collection of another type"
        )));
    }
}
