//! What a PE has to send at the end of its turn, with consecutive messages gathered into batches.

use crate::envelope::{EnvelopeBatch, Header};
use crate::id::KindId;
use crate::wire::{Content, MessageFrame, Packet};
use gridspan_topology::PeId;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::any::Any;
use std::ops::Range;

/// The size of a batch in memory, without what its messages own, at which the next is begun. A batch
/// that grew on would be copied again and again, and would have left the cache before another core
/// takes it.
const BATCH_BYTES: usize = 512 << 10;

/// Packets by destination, in the order they were begun. Messages to other nodes are encoded at once, those
/// to PEs of the same node stay values.
pub struct Outbox {
    /// The PEs of this node.
    here: Range<u32>,
    packets: Vec<(PeId, Packet)>,
    /// The packet of messages towards each PE that can still be appended to.
    open: FxHashMap<PeId, usize>,
    /// The most recent entry of `open`.
    latest: Option<(PeId, usize)>,
}

impl Outbox {
    /// An empty outbox of a PE whose node has the PEs `here`.
    pub(crate) fn new(here: Range<u32>) -> Self {
        Self { here, packets: Vec::new(), open: FxHashMap::default(), latest: None }
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
        let open = self.open_for(to);
        if !is_here {
            if let Some(Content::Frame(frame)) = open
                && frame.kind == kind
                && !frame.is_full()
            {
                return frame.push(header, &message);
            }
            let mut frame = MessageFrame::new(kind);
            frame.push(header, &message);
            return self.begin(to, Content::Frame(frame));
        }
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
        self.packets.push((to, packet));
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes all packets, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (PeId, Packet)> {
        self.open.clear();
        self.latest = None;
        self.packets.drain(..)
    }
}
