//! The queue of packets for a PE, and the sleep of its thread until packets arrive.

use crate::address::id::KindId;
use crate::message::Packet;
use crate::pe::Action;
use gridspan_topology::PeId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Packets and actions from other threads for one PE.
pub(super) struct Inbox {
    contents: Mutex<Contents>,
    /// Whether something was added since the last [`take`](Self::take); checked without the lock.
    ready: AtomicBool,
    /// Whether the PE's thread sleeps, or is about to.
    asleep: AtomicBool,
    /// Whether the last [`take`](Self::take) has left messages here for lack of room.
    left_behind: AtomicBool,
    /// Bytes of the waiting messages.
    bytes: AtomicUsize,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Contents {
    taken: Taken,
    closed: bool,
}

/// Contents that a PE takes out of its inbox. The PE keeps them from turn to turn to reuse the
/// allocations.
#[derive(Default)]
pub(super) struct Taken {
    /// Actions that main and the network request of the PE.
    pub(super) actions: Vec<Action>,
    /// Packets without messages. The PE takes these and actions even while messages have to wait.
    pub(super) control: Vec<(PeId, Packet)>,
    pub(super) messages: Vec<(PeId, Packet)>,
    /// Losses of nodes; handled after the packets that those nodes had sent before.
    pub(super) losses: Vec<Action>,
}

impl Inbox {
    /// Creates an empty inbox; `wake` ends the sleep of the PE's thread.
    pub(super) fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            contents: Mutex::default(),
            ready: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            left_behind: AtomicBool::new(false),
            bytes: AtomicUsize::new(0),
            wake,
        }
    }

    /// Adds packets, and wakes the PE if it sleeps. Packets to a closed inbox are dropped.
    pub(super) fn push(&self, packets: impl IntoIterator<Item = (PeId, Packet)>) {
        {
            let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            if contents.closed {
                return;
            }
            for (from, packet) in packets {
                if packet.is_control() {
                    contents.taken.control.push((from, packet));
                } else {
                    self.bytes.fetch_add(packet.bytes(), Ordering::Relaxed);
                    contents.taken.messages.push((from, packet));
                }
            }
        }
        self.announce();
    }

    /// Adds an action, and wakes the PE if it sleeps. An action for a closed inbox is dropped.
    pub(super) fn push_action(&self, action: Action) {
        {
            let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            if contents.closed {
                return;
            }
            contents.taken.actions.push(action);
        }
        self.announce();
    }

    /// Adds the reaction to the loss of a node. The PE runs it after all packets from that node.
    #[cfg(feature = "net")]
    pub(super) fn push_loss(&self, action: Action) {
        {
            let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            if contents.closed {
                return;
            }
            contents.taken.losses.push(action);
        }
        self.announce();
    }

    fn announce(&self) {
        self.ready.store(true, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
    }

    /// Whether something was added since the last [`take`](Self::take).
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    /// Whether the inbox holds something, including messages that were left for lack of room.
    pub(super) fn has_packets(&self) -> bool {
        self.is_ready() || self.left_behind.load(Ordering::Relaxed)
    }

    /// Bytes of the waiting messages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the types of actors for which the most bytes wait, and these bytes, for no more than
    /// `most` types.
    pub(super) fn fullest(&self, most: usize) -> Vec<(KindId, usize)> {
        let mut all: BTreeMap<KindId, usize> = BTreeMap::new();
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, packet) in &contents.taken.messages {
            if let Some(kind) = packet.kind() {
                *all.entry(kind).or_default() += packet.bytes();
            }
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|&(kind, bytes)| (std::cmp::Reverse(bytes), kind));
        all.truncate(most);
        all
    }

    /// Moves the contents to `taken`, which must be empty. Messages are left behind unless there is
    /// `room` for them.
    #[inline]
    pub(super) fn take(&self, taken: &mut Taken, room: bool) {
        // Messages that were left behind do not set `ready`. Their bytes count as waiting.
        if !self.is_ready() && (!room || !self.left_behind.load(Ordering::Relaxed)) {
            return;
        }
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        self.ready.store(false, Ordering::SeqCst);
        std::mem::swap(&mut contents.taken.actions, &mut taken.actions);
        std::mem::swap(&mut contents.taken.control, &mut taken.control);
        std::mem::swap(&mut contents.taken.losses, &mut taken.losses);
        if room {
            std::mem::swap(&mut contents.taken.messages, &mut taken.messages);
            self.left_behind.store(false, Ordering::Relaxed);
            self.bytes.store(0, Ordering::Relaxed);
        } else {
            let is_left = !contents.taken.messages.is_empty();
            self.left_behind.store(is_left, Ordering::Relaxed);
        }
    }

    /// Announces sleep. If this returns false, packets have arrived and the thread must not sleep.
    pub(super) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if self.is_ready() {
            self.asleep.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Withdraws the announcement of sleep.
    pub(super) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Drops the contents and everything that is added later.
    pub(super) fn close(&self) {
        let dropped = {
            let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            contents.closed = true;
            self.bytes.store(0, Ordering::Relaxed);
            std::mem::take(&mut contents.taken)
        };
        // Outside the lock: dropping promises wakes main, which may push at once.
        drop(dropped);
    }
}
