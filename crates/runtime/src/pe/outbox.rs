//! What a PE has to send at the end of its turn, with consecutive messages gathered into batches.

use crate::envelope::{Envelope, EnvelopeBatch};
use crate::id::KindId;
use crate::wire::{Content, MessageFrame, Packet};
use gridspan_topology::PeId;
use rustc_hash::FxHashMap;
use serde::Serialize;
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
    pub(crate) fn envelope<M: Serialize + Send + 'static>(
        &mut self,
        to: PeId,
        kind: KindId,
        envelope: Envelope<M>,
        heap_bytes: usize,
    ) {
        let open = match self.latest {
            Some((pe, position)) if pe == to => Some(position),
            _ => self.open.get(&to).copied(),
        };
        let new = match self.here.contains(&to.0) {
            true => self.add_value(open, kind, envelope, heap_bytes),
            false => self.add_encoded(open, kind, &envelope),
        };
        let position = match (new, open) {
            (None, Some(position)) => position,
            (new, _) => {
                self.packets.extend(new.map(|content| (to, Packet(content))));
                self.open.insert(to, self.packets.len() - 1);
                self.packets.len() - 1
            }
        };
        self.latest = Some((to, position));
    }

    /// Adds a message to a batch, or gives back a new one.
    #[inline]
    fn add_value<M: Serialize + Send + 'static>(
        &mut self,
        open: Option<usize>,
        kind: KindId,
        envelope: Envelope<M>,
        heap_bytes: usize,
    ) -> Option<Content> {
        if let Some(position) = open
            && let Content::Batch(batch) = &mut self.packets[position].1.0
            && let Some(batch) = batch.as_any_mut().downcast_mut::<EnvelopeBatch<M>>()
            && batch.kind == kind
            && size_of_val(&*batch.envelopes) < BATCH_BYTES
        {
            batch.envelopes.push(envelope);
            batch.heap_bytes += heap_bytes;
            return None;
        }
        let batch = EnvelopeBatch { kind, envelopes: vec![envelope], heap_bytes };
        Some(Content::Batch(Box::new(batch)))
    }

    /// Adds a message to a frame, or gives back a new one.
    #[inline]
    fn add_encoded<M: Serialize>(
        &mut self,
        open: Option<usize>,
        kind: KindId,
        envelope: &Envelope<M>,
    ) -> Option<Content> {
        if let Some(position) = open
            && let Content::Frame(frame) = &mut self.packets[position].1.0
            && frame.kind == kind
            && !frame.is_full()
        {
            frame.push(envelope);
            return None;
        }
        let mut frame = MessageFrame::new(kind);
        frame.push(envelope);
        Some(Content::Frame(frame))
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
