//! The right to number the broadcasts of a collection: how a PE uses it and gives it up.
//! `coordinator/sequencer.rs` explains how the right is passed on.

use crate::address::id::{COORDINATOR, CollectionId, KindId, MAIN_PE};
use crate::message::payload::Payload;
use crate::message::{Asked, BroadcastOrder, Control, SequencerNews, SequencerRight};
use crate::pe::core::Core;
use gridspan_topology::PeId;

impl Core {
    /// Numbers a broadcast here and sends it to all PEs, if this PE has the right. Otherwise
    /// returns its message.
    pub(super) fn broadcast_numbered(
        &mut self,
        (kind, collection): (KindId, CollectionId),
        (asked, has_moved): (&Asked, bool),
        message: Payload,
        priority: i32,
    ) -> Option<Payload> {
        let count = (asked.source, asked.count);
        let Some(number) = self.rights.number(collection, count, has_moved) else {
            return Some(message);
        };
        self.send_to_all(kind, message, |message| {
            let (order, asked) = (BroadcastOrder::Total(number), asked.clone());
            Control::Broadcast { kind, collection, order, asked, message, priority }
        });
        None
    }

    /// Handles a message about the right to number the broadcasts of a collection.
    pub(in crate::pe) fn handle_sequencer(
        &mut self,
        collection: CollectionId,
        news: SequencerNews,
    ) {
        let returned = match news {
            SequencerNews::Grant(right) => self.rights.grant(collection, right),
            SequencerNews::Recall(term) => self.rights.recall(collection, term, self.common.fault),
            SequencerNews::Renounce => return self.give_up_right(collection),
            // Addressed to the coordinator only.
            SequencerNews::Return(_) => return,
        };
        self.return_right(collection, returned);
    }

    /// Gives up the right before this PE requests an insertion. The coordinator puts insertions and
    /// broadcasts into one order, and a broadcast that this node sends later must come after the
    /// insertion. The other PEs of the node may learn of the insertion before the coordinator's
    /// recall arrives, so they give up the right too. Main may notify a member on any node, so
    /// main's PE makes all PEs give it up.
    pub(super) fn renounce_right(&mut self, collection: CollectionId) {
        if self.rights.has_renounced(collection) {
            return;
        }
        let layout = &self.common.layout;
        let me = self.me;
        let told = match me {
            MAIN_PE => 0..layout.pe_count(),
            _ => layout.place(layout.node_of(me)).pes.clone(),
        };
        for pe in told.map(PeId).filter(|&pe| pe != me) {
            self.post(pe, Control::Sequencer { collection, news: SequencerNews::Renounce });
        }
        self.give_up_right(collection);
    }

    fn give_up_right(&mut self, collection: CollectionId) {
        let right = self.rights.renounce(collection);
        self.return_right(collection, right);
    }

    fn return_right(&mut self, collection: CollectionId, right: Option<SequencerRight>) {
        if let Some(right) = right {
            let news = SequencerNews::Return(right);
            self.post(COORDINATOR, Control::Sequencer { collection, news });
        }
    }
}
