//! The packets that a PE sends at the end of its turn, with consecutive messages gathered into
//! batches.

use crate::address::id::KindId;
use crate::message::envelope::{EnvelopeBatch, Header};
use crate::message::trace::{TRACE_MEMORY, Trace};
use crate::message::{Content, MessageFrame, Packet};
use gridspan_topology::PeId;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;

/// Size of a batch in memory, without the heap memory of its messages, at which the outbox begins
/// the next batch. A larger batch would be copied repeatedly as it grows, and would have left the
/// cache before another core takes it.
const BATCH_BYTES: usize = 512 << 10;
/// Number of bytes at which a turn ends after the current handler: the driver then sends the
/// packets and checks whether to hold the PE back. This is far above the output of a turn with
/// small messages, and little compared with the memory budget.
const TURN_BYTES: usize = 16 << 20;

/// Packets with their destinations, in the order in which they were begun. Messages to other nodes
/// are encoded at once, messages to PEs of the same node stay values.
pub(crate) struct Outbox {
    /// The PEs of this node.
    here: Range<u32>,
    packets: Vec<(PeId, Packet)>,
    /// For each PE, the position of the packet to which messages can still be appended.
    open: FxHashMap<PeId, usize>,
    /// The most recent entry of `open`.
    latest: Option<(PeId, usize)>,
    /// Bytes that the packets count for in the memory budget.
    bytes: usize,
}

impl Outbox {
    /// An empty outbox of a PE whose node has the PEs `here`.
    pub(crate) fn new(here: Range<u32>) -> Self {
        Self { here, packets: Vec::new(), open: FxHashMap::default(), latest: None, bytes: 0 }
    }

    /// Adds a message that owns `heap_bytes` on the heap.
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

    /// Notes where the last message for a PE comes from, and its size in bytes.
    pub(crate) fn trace(&mut self, to: PeId, trace: Trace, bytes: usize) {
        match self.open_for(to) {
            Some(Content::Batch(batch)) => batch.trace(trace, bytes),
            Some(Content::Frame(frame)) => frame.trace(trace),
            _ => return,
        }
        self.bytes += TRACE_MEMORY;
    }

    /// Bytes that the packets count for in the memory budget.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the turn should end, so that the packets are sent.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= TURN_BYTES
    }

    /// The receivers with the most bytes, as actor type, PE and bytes; at most `most` of them.
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

    /// The packet to which messages for a PE can still be appended.
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

    /// Adds a packet that is not gathered.
    pub(crate) fn packet(&mut self, to: PeId, packet: Packet) {
        self.open.remove(&to);
        if self.latest.is_some_and(|(pe, _)| pe == to) {
            self.latest = None;
        }
        self.bytes += packet.bytes();
        self.packets.push((to, packet));
    }

    /// Takes all packets, in order.
    pub(super) fn drain(&mut self) -> std::vec::Drain<'_, (PeId, Packet)> {
        self.open.clear();
        (self.latest, self.bytes) = (None, 0);
        self.packets.drain(..)
    }
}
