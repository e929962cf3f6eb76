//! What is lent to guests, and kept until its result is in.
//!
//! The result of such a loan comes back to a frame of its own on the steward's PE. When the guest is gone, that frame is
//! closed and the tasks are queued again for another one: so a result that comes too late finds no
//! frame, and nothing counts twice. A loan's result is one whole, however many had part in it; of
//! what a guest had lent on in its turn nothing counts either.
//!
//! A guest that leaves hands back tasks that it has not begun. They work for the frame of their loan from then on, and the loan
//! stays here until that frame is complete: should the guest be lost before it reports the rest, all of
//! the loan is done again.

use super::engine::{Engine, Work};
use super::frame::{Frame, FrameId, Lender, Token, Up};
use super::order::Loan;
use crate::codec::{self, DecodeError};
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId};
use std::collections::{BTreeMap, BTreeSet};

/// The loans that guests owe to this node. It holds the tasks of each, encoded: at most what one gift has.
#[derive(Default)]
pub(super) struct Ledger {
    owed: BTreeMap<FrameId, Entry>,
    /// Those of which parts were handed back.
    parted: BTreeSet<FrameId>,
}

struct Entry {
    guest: NodeId,
    items: Bytes,
}

impl Ledger {
    /// Enters a loan that is about to go to a guest, and has its result come back to the PE of `engine`.
    pub(super) fn enter<W: Work>(
        &mut self,
        guest: NodeId,
        loan: &mut Loan,
        engine: &mut Engine<W>,
    ) {
        let Lender { items, .. } = loan.lender;
        let up = Up::Lender(loan.lender.into());
        let frame = engine.frames.open(Frame { up, pending: items, state: W::loan() });
        self.owed.insert(frame, Entry { guest, items: loan.items.clone() });
        loan.lender = Lender { pe: engine.pe, frame, child: 0, items };
    }

    /// Parts of a loan were handed back, if the frame is that of one.
    pub(super) fn part(&mut self, frame: FrameId) {
        if self.owed.contains_key(&frame) {
            self.parted.insert(frame);
        }
    }

    /// Strikes out the loan whose result has come to this frame, and those of which parts were handed back, if they are
    /// complete. Returns how many they are.
    pub(super) fn strike<W: Work>(&mut self, frame: Option<FrameId>, engine: &Engine<W>) -> u64 {
        let is_open = |frame: &FrameId| engine.frames.contains(*frame);
        let parted = self.parted.extract_if(.., |frame| !is_open(frame));
        let complete = parted.chain(frame.filter(|frame| !is_open(frame)));
        complete.filter(|frame| self.owed.remove(frame).is_some()).count() as u64
    }

    /// Queues again what a guest owes, at the old end, since it was old when it was lent. Returns how many loans that are.
    pub(super) fn recall<W: Work>(
        &mut self,
        guest: NodeId,
        engine: &mut Engine<W>,
    ) -> Result<u64, DecodeError> {
        let owed: Vec<_> = self.owed.extract_if(.., |_, entry| entry.guest == guest).collect();
        let mut tokens = Vec::new();
        for (frame, entry) in &owed {
            let Some(Frame { up, .. }) = engine.frames.release(*frame) else { continue };
            let items: Vec<W::Item> = codec::decode(W::name(), &entry.items)?;
            let pending = items.len() as u64;
            let frame = engine.frames.open(Frame { up, pending, state: W::loan() });
            tokens.extend(items.into_iter().map(|item| Token { item, frame, child: 0 }));
        }
        engine.kept.splice(..0, tokens);
        Ok(owed.len() as u64)
    }

    /// How many loans are owed.
    pub(super) fn len(&self) -> u64 {
        self.owed.len() as u64
    }
}

/// Closes the frames whose results are for PEs that are gone; what works for them is dropped in time.
pub(super) fn forsake<W: Work>(engine: &mut Engine<W>, is_gone: impl Fn(PeId) -> bool) {
    let is_orphan = |up: &Up| matches!(up, Up::Lender(lender) if is_gone(lender.pe));
    for frame in engine.frames.find(is_orphan) {
        engine.frames.release(frame);
    }
}
