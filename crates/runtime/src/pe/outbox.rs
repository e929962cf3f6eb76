//! What a PE has to send at the end of its turn, with consecutive messages gathered into batches.

use crate::envelope::{Envelope, EnvelopeBatch};
use crate::id::KindId;
use crate::wire::{Content, Packet};
use gridspan_topology::PeId;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// The size of a batch in memory, without what its messages own, at which the next is begun. A batch
/// that grew on would be copied again and again, and would have left the cache before another core
/// takes it.
const BATCH_BYTES: usize = 512 << 10;

/// Packets by destination, in the order they were begun.
#[derive(Default)]
pub struct Outbox {
    packets: Vec<(PeId, Packet)>,
    /// The batch towards each PE that can still be appended to.
    open: FxHashMap<PeId, usize>,
    /// The most recent entry of `open`.
    latest: Option<(PeId, usize)>,
}

impl Outbox {
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
        if let Some(position) = open
            && let Content::Batch(batch) = &mut self.packets[position].1.0
            && let Some(batch) = batch.as_any_mut().downcast_mut::<EnvelopeBatch<M>>()
            && batch.kind == kind
            && size_of_val(&*batch.envelopes) < BATCH_BYTES
        {
            batch.envelopes.push(envelope);
            batch.heap_bytes += heap_bytes;
            self.latest = Some((to, position));
            return;
        }
        let batch = EnvelopeBatch { kind, envelopes: vec![envelope], heap_bytes };
        self.packets.push((to, Packet(Content::Batch(Box::new(batch)))));
        self.open.insert(to, self.packets.len() - 1);
        self.latest = Some((to, self.packets.len() - 1));
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
