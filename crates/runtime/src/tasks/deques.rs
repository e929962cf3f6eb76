//! What the PEs of a node lay out for each other, and who of them sleeps.
//!
//! The deques are those of `crossbeam-deque`, which rayon uses too. A PE that finds nothing says
//! that it sleeps and looks once more; a PE that lays something out wakes one that sleeps. Both are
//! sequentially consistent, so that one of the two sees the other.

use super::frame::Token;
use crossbeam_deque::{Steal, Stealer, Worker};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// The tasks that a node's PEs offer each other.
pub(super) struct Deques<I> {
    seats: Vec<Seat<I>>,
    asleep: AtomicUsize,
}

struct Seat<I> {
    /// Set when the PE's worker has been made.
    offered: OnceLock<Stealer<Token<I>>>,
    asleep: AtomicBool,
}

impl<I> Deques<I> {
    pub(super) fn new(pes: usize) -> Self {
        let seat = |_| Seat { offered: OnceLock::new(), asleep: AtomicBool::new(false) };
        Self { seats: (0..pes).map(seat).collect(), asleep: AtomicUsize::new(0) }
    }

    /// The deque of the PE in `seat`, from which it takes the oldest itself too.
    pub(super) fn join(&self, seat: usize) -> Worker<Token<I>> {
        let own = Worker::new_fifo();
        // A second worker of the same seat would offer where nobody looks; there is none.
        let _ = self.seats[seat].offered.set(own.stealer());
        own
    }

    /// How many PEs share.
    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// How many tasks lie in a seat.
    pub(super) fn offered(&self, seat: usize) -> usize {
        self.seats[seat].offered.get().map_or(0, Stealer::len)
    }

    /// Takes the oldest task that a PE offers.
    pub(super) fn steal(&self, seat: usize) -> Option<Token<I>> {
        let stealer = self.seats[seat].offered.get()?;
        loop {
            match stealer.steal() {
                Steal::Success(token) => return Some(token),
                Steal::Empty => return None,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }

    /// A PE has found nothing. Returns whether the whole node sleeps now.
    pub(super) fn fall_asleep(&self, seat: usize) -> bool {
        if self.seats[seat].asleep.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.asleep.fetch_add(1, Ordering::SeqCst) + 1 == self.seats.len()
    }

    /// Wakes a PE. Returns whether it slept; whoever gets `true` has to tell it.
    pub(super) fn wake(&self, seat: usize) -> bool {
        let slept = self.seats[seat].asleep.swap(false, Ordering::SeqCst);
        if slept {
            self.asleep.fetch_sub(1, Ordering::SeqCst);
        }
        slept
    }

    /// Wakes one that sleeps, other than the one in this seat.
    pub(super) fn wake_other(&self, than: usize) -> Option<usize> {
        // What was laid out before must be seen by those whose sleep is not seen here.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) == 0 {
            return None;
        }
        (0..self.seats.len()).find(|&seat| seat != than && self.wake(seat))
    }

    /// Whether any sleeps.
    pub(super) fn has_sleepers(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) > 0
    }

    /// Whether all sleep.
    pub(super) fn is_dry(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) == self.seats.len()
    }
}
