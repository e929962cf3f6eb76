//! Sends a message to another rank.

use super::RankActor;
use crate::packet::RankMessage;
use crate::pieces::{self, PIECE_BYTES};
use crate::program::RankProgram;
use gridspan_runtime::{ActorRef, Context, PeId};

impl<P: RankProgram> RankActor<P> {
    /// Sends a message to another rank: in pieces, if it is long and goes to another node.
    ///
    /// An offer to a rank on another PE of this node is sent with its data, up to a bound and
    /// without a copy. The receiver then need not wait until this PE handles its request for the
    /// data. For a receiver on this PE that gains nothing: it runs only when this rank awaits.
    pub(super) fn send(
        &self,
        rank: &ActorRef<Self>,
        to: u32,
        mut message: RankMessage,
        cx: &mut Context<'_, Self>,
    ) {
        if message.is_offer() && self.pe_here(to, cx).is_some_and(|pe| pe != cx.pe()) {
            self.local.with(|state| state.include_data(&mut message));
        }
        if message.heap_bytes() <= PIECE_BYTES || self.pe_here(to, cx).is_some() {
            cx.send(rank, message);
            return;
        }
        match pieces::cut(self.local.rank, &message, PIECE_BYTES) {
            Ok(pieces) => pieces.into_iter().for_each(|piece| cx.send(rank, piece)),
            Err(error) => cx.fail(format!("a long message to rank {to}: {error}")),
        }
    }

    /// The PE of a rank that lives on this node.
    fn pe_here(&self, rank: u32, cx: &Context<'_, Self>) -> Option<PeId> {
        let (_, pe) = self.places.find(rank)?;
        (cx.layout().node_of(PeId(pe)) == cx.node()).then_some(PeId(pe))
    }
}
