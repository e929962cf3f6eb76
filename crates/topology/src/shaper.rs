//! One emulated link as a pure function of packet and time.
//!
//! A packet passes these stages:
//!
//! 1. **The queue.** The packet starts to leave when the previous packet has left. If it must wait
//!    and the queued bytes would exceed [`Link::queue_bytes`], it is dropped (drop-tail).
//! 2. **The rate.** It takes as long to leave as its bytes take at [`Link::bandwidth`]. Fractions
//!    of a nanosecond are carried to the next packet, so that a busy link keeps its rate exactly at
//!    any packet size.
//! 3. **The propagation.** It is lost with probability [`Link::loss`], but has used the link, or it
//!    arrives [`Link::latency`] and a uniform fraction of [`Link::jitter`] later. Without
//!    [`Link::reorder`] it never arrives before a packet sent earlier.
//!
//! Every packet draws the same number of random numbers, whatever its fate, so that a change of one
//! parameter of a link does not change the random numbers of later packets. The simulator and the
//! real-time emulator both call this code.

use crate::dice::Dice;
use crate::link::Link;
use crate::units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives whole at this time.
    Deliver {
        /// Time at which the last byte is received.
        at: Time,
    },
    /// It never arrives.
    Drop(DropReason),
}

/// The reason why a packet never arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It was lost on the link.
    Loss,
    /// The queue was full.
    QueueFull,
}

/// One direction of one emulated link. Memory: 16 bytes for each queued packet.
#[derive(Clone, Debug)]
pub struct Shaper {
    link: Link,
    dice: Dice,
    /// Latest time so far; time never runs backwards.
    now: Time,
    /// Time at which the last packet has left, rounded down to the nanosecond.
    busy_until_ns: u64,
    /// Remainder of the rounding, in units of a nanosecond divided by the rate in bits per second.
    busy_fraction: u128,
    /// Time at which each queued packet starts to leave, and its bytes.
    waiting: VecDeque<(Time, u64)>,
    waiting_bytes: u64,
    /// Future parameters and the times of the changes, in order of time.
    changes: VecDeque<(Time, Link)>,
    /// Latest arrival so far. Later packets follow it unless they may be reordered.
    last_arrival: Time,
    /// The same for arrivals that [`in_order`](Self::in_order) has returned. Separate, since the
    /// delay of a later packet must not contain how long others have waited for an uplink.
    last_in_order: Time,
}

impl Shaper {
    /// Creates an idle link whose loss and jitter are drawn from `seed`.
    pub fn new(link: Link, seed: u64) -> Self {
        Self {
            link,
            dice: Dice::new(seed),
            now: Time::ZERO,
            busy_until_ns: 0,
            busy_fraction: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            changes: VecDeque::new(),
            last_arrival: Time::ZERO,
            last_in_order: Time::ZERO,
        }
    }

    /// Sets the future changes of the parameters. Each has the effect of
    /// [`set_link`](Self::set_link) at its time.
    pub fn with_changes(mut self, mut changes: Vec<(Time, Link)>) -> Self {
        changes.sort_by_key(|&(at, _)| at);
        self.changes = changes.into();
        self
    }

    /// Returns the current parameters.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Sets the parameters for packets sent from now on. Packets sent before keep their fate and
    /// their place in the queue. A loss of 1 cuts the link.
    pub fn set_link(&mut self, link: Link) {
        // The fraction is counted in the old rate.
        self.busy_until_ns = self.idle_from().as_nanos();
        self.busy_fraction = 0;
        self.link = link;
    }

    /// Returns the number of queued bytes at `now`.
    pub fn waiting_bytes(&mut self, now: Time) -> u64 {
        self.advance(now);
        self.waiting_bytes
    }

    /// Returns the time at which the last packet sent has left, or `now` if that is later: a packet
    /// sent at `now` starts to leave then.
    pub fn free_from(&mut self, now: Time) -> Time {
        self.advance(now);
        self.idle_from().max(self.now)
    }

    /// Sends a packet of `bytes` at `now` and returns its fate. A `now` before that of an earlier
    /// call counts as the latest time so far.
    pub fn send(&mut self, now: Time, bytes: u64) -> Fate {
        self.advance(now);
        let lost = self.dice.chance(self.link.loss);
        let jitter_ns = nanos(self.dice.up_to(self.link.jitter));

        let begins = self.idle_from();
        if begins > self.now {
            let waiting_bytes = self.waiting_bytes.saturating_add(bytes);
            if waiting_bytes > self.link.queue_bytes {
                return Fate::Drop(DropReason::QueueFull);
            }
            self.waiting.push_back((begins, bytes));
            self.waiting_bytes = waiting_bytes;
        } else {
            self.busy_until_ns = self.now.as_nanos();
            self.busy_fraction = 0;
        }
        self.occupy(bytes);
        if lost {
            return Fate::Drop(DropReason::Loss);
        }

        let delay_ns = nanos(self.link.latency.duration()).saturating_add(jitter_ns);
        let mut at = Time(self.idle_from().as_nanos().saturating_add(delay_ns));
        if !self.link.reorder {
            at = at.max(self.last_arrival);
        }
        self.last_arrival = at.max(self.last_arrival);
        Fate::Deliver { at }
    }

    /// Returns when the packet sent last arrives if something after this link delays it to `at`:
    /// unless packets may be reordered, not before those for which this was called earlier.
    pub(crate) fn in_order(&mut self, at: Time) -> Time {
        let at = if self.link.reorder { at } else { at.max(self.last_in_order) };
        self.last_in_order = at.max(self.last_in_order);
        at
    }

    /// Applies due changes, and removes packets that have started to leave from the queue.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(&(at, link)) = self.changes.front()
            && at <= self.now
        {
            self.changes.pop_front();
            self.set_link(link);
        }
        while let Some(&(begins, bytes)) = self.waiting.front()
            && begins <= self.now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= bytes;
        }
    }

    /// Returns the first whole nanosecond at which nothing is being sent.
    fn idle_from(&self) -> Time {
        Time(self.busy_until_ns.saturating_add(u64::from(self.busy_fraction > 0)))
    }

    /// Adds the time that `bytes` take to leave.
    fn occupy(&mut self, bytes: u64) {
        if self.link.bandwidth.is_unlimited() {
            return;
        }
        let rate = u128::from(self.link.bandwidth.bits_per_second());
        let total = u128::from(bytes) * 8 * 1_000_000_000 + self.busy_fraction;
        let whole_ns = u64::try_from(total / rate).unwrap_or(u64::MAX);
        self.busy_until_ns = self.busy_until_ns.saturating_add(whole_ns);
        self.busy_fraction = total % rate;
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
