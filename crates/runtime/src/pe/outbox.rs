//! What a PE has to send at the end of its turn, with consecutive messages gathered into batches.

use crate::address::id::KindId;
use crate::message::envelope::{EnvelopeBatch, Header};
use crate::message::{Content, MessageFrame, Packet};
use gridspan_topology::PeId;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;

/// The size of a batch in memory, without what its messages own, at which the next is begun. A
/// batch that grew on would be copied again and again, and would have left the cache before another
/// core takes it.
const BATCH_BYTES: usize = 512 << 10;
/// Bytes at which a turn ends after the handler at hand, so that the driver passes them on and sees
/// whether the PE must be held back. Far above what a turn with small messages makes, little beside
/// the memory budget.
const TURN_BYTES: usize = 16 << 20;

/// Packets by destination, in the order they were begun. Messages to other nodes are encoded at
/// once, those to PEs of the same node stay values.
pub struct Outbox {
    /// The PEs of this node.
    here: Range<u32>,
    packets: Vec<(PeId, Packet)>,
    /// The packet of messages towards each PE that can still be appended to.
    open: FxHashMap<PeId, usize>,
    /// The most recent entry of `open`.
    latest: Option<(PeId, usize)>,
    /// What the packets count for in the memory budget.
    bytes: usize,
}

impl Outbox {
    /// An empty outbox of a PE whose node has the PEs `here`.
    pub(crate) fn new(here: Range<u32>) -> Self {
        Self { here, packets: Vec::new(), open: FxHashMap::default(), latest: None, bytes: 0 }
    }

    /// Adds a message, which owns `heap_bytes`.
    #[inline]
    pub(crate) fn message<M: Serialize + Send + 'static>(
        &mut self,
        to: PeId,
        kind: KindId,
        header: &Header,
        message: M,
        heap_bytes: usize,
    ) {
        let is_here = self.here.contains(&to.0);
        if !is_here {
            return self.encoded(to, kind, header, &message);
        }
        self.bytes += size_of::<M>() + heap_bytes;
        let open = self.open_for(to);
        if let Some(Content::Batch(batch)) = open
            && let batch = &mut **batch as &mut dyn Any
            && let Some(batch) = batch.downcast_mut::<EnvelopeBatch<M>>()
            && batch.kind == kind
            && batch.own_bytes() < BATCH_BYTES
        {
            return batch.push(header, message, heap_bytes);
        }
        let mut batch = EnvelopeBatch::new(kind);
        batch.push(header, message, heap_bytes);
        self.begin(to, Content::Batch(Box::new(batch)));
    }

    /// Adds a message for another node.
    #[inline]
    fn encoded<M: Serialize>(&mut self, to: PeId, kind: KindId, header: &Header, message: &M) {
        if let Some(Content::Frame(frame)) = self.open_for(to)
            && frame.kind == kind
            && !frame.is_full()
        {
            self.bytes += frame.push(header, message);
            return;
        }
        let mut frame = MessageFrame::new(kind);
        self.bytes += frame.push(header, message);
        self.begin(to, Content::Frame(frame));
    }

    /// What is in here counts for so much in the memory budget.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the turn should end, so that what is in here leaves.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= TURN_BYTES
    }

    /// The receivers of most bytes, a type on a PE each: which, and how many bytes.
    pub(crate) fn fullest(&self, most: usize) -> Vec<(KindId, PeId, usize)> {
        let mut all: BTreeMap<(KindId, PeId), usize> = BTreeMap::new();
        for (to, packet) in &self.packets {
            if let Some(kind) = packet.kind() {
                *all.entry((kind, *to)).or_default() += packet.bytes();
            }
        }
        let mut all: Vec<_> =
            all.into_iter().map(|((kind, to), bytes)| (kind, to, bytes)).collect();
        all.sort_by_key(|&(kind, to, bytes)| (std::cmp::Reverse(bytes), kind, to));
        all.truncate(most);
        all
    }

    /// The packet of messages towards a PE that can still be appended to.
    #[inline]
    fn open_for(&mut self, to: PeId) -> Option<&mut Content> {
        let position = match self.latest {
            Some((pe, position)) if pe == to => position,
            _ => {
                let position = *self.open.get(&to)?;
                self.latest = Some((to, position));
                position
            }
        };
        self.packets.get_mut(position).map(|(_, packet)| &mut packet.0)
    }

    /// Begins a packet of messages.
    #[inline(never)]
    fn begin(&mut self, to: PeId, content: Content) {
        let position = self.packets.len();
        self.packets.push((to, Packet(content)));
        self.open.insert(to, position);
        self.latest = Some((to, position));
    }

    /// Adds anything else.
    pub(crate) fn packet(&mut self, to: PeId, packet: Packet) {
        self.open.remove(&to);
        if self.latest.is_some_and(|(pe, _)| pe == to) {
            self.latest = None;
        }
        self.bytes += packet.bytes();
        self.packets.push((to, packet));
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes all packets, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (PeId, Packet)> {
        self.open.clear();
        (self.latest, self.bytes) = (None, 0);
        self.packets.drain(..)
    }
}
