//! Publications: read-only data that main sends to every PE.

use super::event::Asker;
use super::machine::Coordinator;
use super::state::publications::Publications;
use crate::message::Control;
use bytes::Bytes;

impl Coordinator {
    /// Sends a value to every PE, one copy per node over the network. Answers with the number of
    /// the publication once all PEs have the value.
    pub(super) fn publish(&mut self, asker: Asker, value: &Bytes) {
        let pes = self.common.layout.pe_count();
        let Publications { next, waiting } = &mut self.publications;
        let id = *next;
        *next += 1;
        waiting.insert(id, (pes, asker));
        self.post_to_all(|| Control::Publish { id, value: value.clone() });
    }

    pub(super) fn handle_published(&mut self, id: u32) {
        let waiting = &mut self.publications.waiting;
        let Some((missing, asker)) = waiting.get_mut(&id) else { return };
        *missing -= 1;
        if *missing == 0 {
            let asker = *asker;
            waiting.remove(&id);
            self.answer(asker, id);
        }
    }
}
