//! The coordinator's place, as a PE knows it.

use crate::message::{Control, CoordinatorPlace};
use crate::pe::command::PeCommand;
use crate::pe::core::Core;
use gridspan_topology::PeId;
use std::sync::Arc;

impl Core {
    /// Sets the coordinator's place. The previous coordinator's plans for broadcasts of this node
    /// become invalid, and contributions go up a tree that is rooted at the new place. The first PE
    /// of a node notifies the others there.
    pub(in crate::pe) fn coordinator_at(&mut self, from: PeId, place: CoordinatorPlace) {
        if place.term <= self.coordinator_term {
            return;
        }
        if self.common.layout.is_guest(place.node) {
            let reason = format_args!("the coordinator cannot run at {}", place.node);
            return self.blame(self.common.node_of(from), reason);
        }
        self.coordinator_term = place.term;
        self.commands.push(PeCommand::CoordinatorAt(place));
        self.common.coordinator = place.node;
        self.own_plans.forget_up_to(place.versions_after());
        let layout = self.common.layout.clone();
        let here = layout.place(layout.node_of(self.me)).pes.clone();
        if here.start == self.me.0 {
            for pe in here.skip(1).map(PeId) {
                self.post(pe, Control::CoordinatorAt(place));
            }
        }
        let version = place.versions_after();
        if version > self.up_tree.0 {
            let tree = self.common.broadcasts.tree(&self.common.layout, place.node);
            self.up_tree = (version, Arc::new(tree));
        }
    }
}
