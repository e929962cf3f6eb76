//! The stewards of a node, and what they send those of other nodes.
//!
//! A gift of tasks may be large, and what is large may be overtaken on its way. So notes between two nodes have numbers,
//! and one that comes too early waits.

use super::carriage::Carriage;
use crate::codec::DecodeError;
use crate::id::CollectionId;
use crate::steward::{Deed, Steward, Word};
use crate::wire::{Control, NoteHead, Packet, SpreadFrame};
use bytes::Bytes;
use gridspan_topology::{Layout, NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The stewards of a node's pools.
#[derive(Default)]
pub(super) struct Stewards {
    open: BTreeMap<CollectionId, Box<dyn Steward>>,
    /// Pools that were closed: what comes late is for nobody. As many as the root remembers collections.
    closed: BTreeSet<CollectionId>,
    /// What came for pools that are not known here yet.
    early: BTreeMap<CollectionId, Vec<(NodeId, Bytes)>>,
    lines: BTreeMap<NodeId, Line>,
    /// Guests that are gone. Their numbers are not used again.
    gone: BTreeSet<NodeId>,
    /// Bytes that wait.
    bytes: usize,
}

/// What two nodes have told each other.
#[derive(Default)]
struct Line {
    sent: u64,
    heard: u64,
    /// What came before what it follows.
    held: BTreeMap<u64, (CollectionId, Bytes)>,
}

/// What a call of a steward needs of its carrier.
pub(super) struct Post<'a> {
    pub(super) node: NodeId,
    pub(super) layout: &'a Layout,
    pub(super) now: Time,
    pub(super) out: &'a mut Vec<Carriage>,
}

impl Stewards {
    /// A worker of this node says something to the steward of its pool.
    pub(super) fn hear(&mut self, pool: CollectionId, word: Word, post: &mut Post<'_>) {
        let mut deeds = Vec::new();
        match word {
            Word::Open(steward) => return self.begin(pool, steward, post),
            Word::Close => {
                self.open.remove(&pool);
                self.closed.insert(pool);
                self.forget_early(pool);
                return;
            }
            Word::Gone(guest) => {
                self.gone.insert(guest);
                if let Some(line) = self.lines.remove(&guest) {
                    self.bytes -= line.held.values().map(|(_, note)| note.len()).sum::<usize>();
                }
            }
            _ => {}
        }
        if let Some(steward) = self.open.get_mut(&pool) {
            steward.hear(post.now, word, &mut deeds);
        }
        self.carry_out(pool, deeds, post);
    }

    /// A note comes from another node. Refused if it does not decode, or if more would wait here than `bytes_max`.
    pub(super) fn receive(
        &mut self,
        from: NodeId,
        NoteHead { pool, number }: NoteHead,
        note: Bytes,
        (bytes_max, post): (u64, &mut Post<'_>),
    ) -> Result<(), DecodeError> {
        if self.gone.contains(&from) {
            return Ok(());
        }
        let line = self.lines.entry(from).or_default();
        if number < line.heard || self.bytes as u64 + note.len() as u64 > bytes_max {
            let reason =
                format!("note {number} came when {} was due, or too much waits", line.heard);
            return Err(DecodeError::new("a note about tasks", reason));
        }
        self.bytes += note.len();
        line.held.insert(number, (pool, note));
        loop {
            let line = self.lines.entry(from).or_default();
            let Some((pool, note)) = line.held.remove(&line.heard) else { return Ok(()) };
            line.heard += 1;
            self.bytes -= note.len();
            self.accept(pool, from, note, post)?;
        }
    }

    /// When a steward is to be woken.
    pub(super) fn due(&self) -> Option<Time> {
        self.open.values().filter_map(|steward| steward.due()).min()
    }

    /// Wakes those whose time has come.
    pub(super) fn wake(&mut self, post: &mut Post<'_>) {
        let is_due = |steward: &dyn Steward| steward.due().is_some_and(|due| due <= post.now);
        let all = self.open.iter();
        let due: Vec<CollectionId> =
            all.filter(|(_, steward)| is_due(&***steward)).map(|(&pool, _)| pool).collect();
        for pool in due {
            let mut deeds = Vec::new();
            if let Some(steward) = self.open.get_mut(&pool) {
                steward.wake(post.now, &mut deeds);
            }
            self.carry_out(pool, deeds, post);
        }
    }

    /// Bytes that wait for others, or for a pool.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn begin(&mut self, pool: CollectionId, steward: Box<dyn Steward>, post: &mut Post<'_>) {
        self.open.insert(pool, steward);
        // What workers said before is lost: they say again how much there is.
        let mut deeds = Vec::new();
        if let Some(steward) = self.open.get_mut(&pool) {
            steward.hear(post.now, Word::Look, &mut deeds);
        }
        self.carry_out(pool, deeds, post);
        for (from, note) in self.forget_early(pool) {
            let mut deeds = Vec::new();
            if let Some(steward) = self.open.get_mut(&pool)
                && let Err(error) = steward.receive(post.now, from, &note, &mut deeds)
            {
                tracing::warn!(%from, %error, "what came before a pool was known here is dropped");
            }
            self.carry_out(pool, deeds, post);
        }
    }

    fn forget_early(&mut self, pool: CollectionId) -> Vec<(NodeId, Bytes)> {
        let early = self.early.remove(&pool).unwrap_or_default();
        self.bytes -= early.iter().map(|(_, note)| note.len()).sum::<usize>();
        early
    }

    fn accept(
        &mut self,
        pool: CollectionId,
        from: NodeId,
        note: Bytes,
        post: &mut Post<'_>,
    ) -> Result<(), DecodeError> {
        let Some(steward) = self.open.get_mut(&pool) else {
            if !self.closed.contains(&pool) {
                self.bytes += note.len();
                self.early.entry(pool).or_default().push((from, note));
            }
            return Ok(());
        };
        let mut deeds = Vec::new();
        steward.receive(post.now, from, &note, &mut deeds)?;
        self.carry_out(pool, deeds, post);
        Ok(())
    }

    fn carry_out(&mut self, pool: CollectionId, deeds: Vec<Deed>, post: &mut Post<'_>) {
        let leader = post.layout.leader(post.node);
        for deed in deeds {
            post.out.push(match deed {
                Deed::Send { to, note } => {
                    let line = self.lines.entry(to).or_default();
                    let head = NoteHead { pool, number: line.sent };
                    line.sent += 1;
                    let frame = SpreadFrame::note(leader, &head, note.into());
                    Carriage::Send { to, frame, is_bulk: false }
                }
                Deed::Tell { pe, order } => {
                    let packet = Packet::control(Control::Errand { collection: pool, order });
                    Carriage::Deliver { from: leader, to: pe, packet }
                }
            });
        }
    }
}
