//! The end of the job; and whether all nodes run the same one.

use super::core::Core;
use crate::definition::Definition;
use crate::error::JobError;
use crate::wire::Control;
use gridspan_topology::PeId;

impl Core {
    /// Ends the job on all PEs. Runs on the root.
    pub(crate) fn stop(&mut self, outcome: Result<(), JobError>) {
        if self.outcome.is_none() {
            self.handle_stop(outcome);
        }
    }

    /// Stops. The root tells the first PE of every node, and that one the others of its node, so
    /// that no node which was lost stands between.
    pub(crate) fn handle_stop(&mut self, outcome: Result<(), JobError>) {
        if self.outcome.is_some() {
            return;
        }
        self.conclude_balances();
        let layout = self.common.layout.clone();
        let node = layout.node_of(self.me);
        if layout.leader(node) == self.me {
            for pe in layout.place(node).pes.clone().skip(1).map(PeId) {
                self.post(pe, Control::Stop { outcome: outcome.clone() });
            }
        }
        if self.me == Self::ROOT {
            let founders = layout.nodes().skip(1).map(|other| layout.leader(other));
            for leader in founders.chain(self.guest_leaders()) {
                self.post(leader, Control::Stop { outcome: outcome.clone() });
            }
        }
        self.outcome = Some(outcome);
    }

    /// Another node runs this program. The root compares it with its own: nothing else would notice
    /// that the node takes values for others.
    pub(super) fn handle_greet(&mut self, from: PeId, definition: &Definition) {
        let layout = &self.common.layout;
        let node = layout.node_of(from);
        let site = layout.site_name(layout.site_of(from)).to_owned();
        let (own, host) = (&self.common.definition, definition.origin.host.clone());
        if let Some(difference) = own.difference(definition) {
            return self.fail(JobError::OtherProgram { node, site, host, difference });
        }
        if own.is_of_other_build(definition) {
            let text = format!(
                "{node} at site {site}, on host {host}, runs another build of the program; what travels has the same \
                 structure"
            );
            self.common.watch.on_warning.iter().for_each(|tell| tell(&text));
        }
        self.note_greeting(node);
    }
}
