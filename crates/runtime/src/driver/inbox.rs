//! Where packets for a PE wait, and how its thread sleeps until there are any.

use crate::wire::Packet;
use gridspan_topology::PeId;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Packets from other threads for one PE.
pub(super) struct Inbox {
    packets: Mutex<Contents>,
    /// Whether there are any; checked without the lock.
    ready: AtomicBool,
    /// Whether the PE's thread sleeps, or is about to.
    asleep: AtomicBool,
    /// Encoded bytes that wait here.
    bytes: AtomicUsize,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Contents {
    packets: Vec<(PeId, Packet)>,
    closed: bool,
}

impl Inbox {
    /// An empty inbox; `wake` ends the sleep of the PE's thread.
    pub(super) fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            packets: Mutex::default(),
            ready: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            bytes: AtomicUsize::new(0),
            wake,
        }
    }

    /// Adds packets, and wakes the PE if it sleeps. Packets to a closed inbox are dropped.
    pub(super) fn push(&self, packets: impl IntoIterator<Item = (PeId, Packet)>) {
        {
            let mut contents = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
            if contents.closed {
                return;
            }
            for (from, packet) in packets {
                self.bytes.fetch_add(packet.wire_len(), Ordering::Relaxed);
                contents.packets.push((from, packet));
            }
        }
        self.ready.store(true, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
    }

    /// Whether there are packets.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    /// Encoded bytes that wait here.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Swaps the packets with an empty vector.
    #[inline]
    pub(super) fn take(&self, empty: &mut Vec<(PeId, Packet)>) {
        if self.is_ready() {
            let mut contents = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
            self.ready.store(false, Ordering::SeqCst);
            self.bytes.store(0, Ordering::Relaxed);
            std::mem::swap(&mut contents.packets, empty);
        }
    }

    /// Announces sleep. If this returns false, packets have come and the thread must not sleep.
    pub(super) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if self.is_ready() {
            self.asleep.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Takes the announcement back.
    pub(super) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Drops what is in here and all that comes.
    pub(super) fn close(&self) {
        let dropped = {
            let mut contents = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
            contents.closed = true;
            std::mem::take(&mut contents.packets)
        };
        // Outside of the lock: dropping promises wakes main, which may push at once.
        drop(dropped);
    }
}
