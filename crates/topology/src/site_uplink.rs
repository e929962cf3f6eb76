//! The uplinks of sites: the limited rate at which a site sends to all other sites together, and
//! at which it receives from them.
//!
//! A frame between two sites passes the uplink of the sender, the link between the sites, and the
//! uplink of the receiver. It is not stored in between: its first bytes leave one of them while its
//! last bytes still enter. So three idle ones delay it as long as the slowest of them alone.
//!
//! **Capacity.** A frame takes the earliest free capacity of an uplink from the time at which its
//! first byte may enter it. If the capacity is free for a while only, the frame takes it, and the
//! rest of the frame continues in the next gap. So no frame waits while an uplink is idle, and a
//! frame that comes from far away does not delay one that was sent later but arrives earlier.
//!
//! **Times.** The [`Shaper`] of the link says when a frame begins to leave over the link, when its
//! last byte has left, and when it arrives. Its delay is the time from the second to the third.
//!
//! 1. The frame takes capacity of the sender's uplink from the begin on. Let `first` be the later
//!    of the begin and of the time at which it gets the first capacity, and `last` the later of the
//!    two times at which its last byte has left the link and the uplink.
//! 2. Its first byte reaches the receiving site at `first + delay`, and its last one at
//!    `last + delay`. It takes capacity of the receiver's uplink from `first + delay` on, but no
//!    earlier than is necessary to end at `last + delay`, since a frame from a slower link comes in
//!    slowly.
//! 3. It arrives at `last + delay`, or when its last byte is through the receiver's uplink,
//!    whichever is later. Unless the link has [`Link::reorder`](crate::Link::reorder), it does not
//!    arrive before a frame that was sent earlier over the same link.
//!
//! **Limits of the model.** An uplink never drops a frame: frames queue. What the link loses has
//! used the sender's uplink; what the queue of the link drops has used none. A wait for an uplink
//! does not change when the link is busy. So if frames have waited for an uplink that is faster
//! than their link, they may leave at the rate of the uplink until they have caught up.

use crate::id::SiteId;
use crate::shaper::{DropReason, Fate, Shaper};
use crate::spec::GridSpec;
use crate::units::{Bandwidth, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of busy intervals of an uplink: about as many as there are packets of 1200 bytes
/// in 80 MB. With more, the gap before the last one counts as busy.
const INTERVALS_MAX: usize = 1 << 16;

/// One direction of the uplink of a site. Memory: 16 bytes for each interval in which it will be
/// busy, of which there are at most 65,536.
///
/// ```
/// use gridspan_topology::{Bandwidth, SiteUplink, Time};
///
/// // One byte takes a microsecond.
/// let mut uplink = SiteUplink::new(Bandwidth::from_bits_per_second(8_000_000));
/// assert_eq!(uplink.carry(Time::ZERO, Time(50_000), 100), (Time(50_000), Time(150_000)));
/// // 50 bytes are through before these, and the rest follows them.
/// assert_eq!(uplink.carry(Time::ZERO, Time::ZERO, 80), (Time::ZERO, Time(180_000)));
/// ```
#[derive(Clone, Debug)]
pub struct SiteUplink {
    rate: Bandwidth,
    /// Latest time so far.
    now: Time,
    /// The begin and the end of each busy interval in nanoseconds. The intervals do not overlap or
    /// touch, and end after `now`.
    busy: BTreeMap<u64, u64>,
    /// Remainder of the rounding to nanoseconds, in units of a nanosecond divided by the rate in
    /// bits per second. The next frame takes it into account, so that the rate is exact.
    fraction: u128,
}

impl SiteUplink {
    /// Creates an idle uplink.
    pub const fn new(rate: Bandwidth) -> Self {
        Self { rate, now: Time::ZERO, busy: BTreeMap::new(), fraction: 0 }
    }

    /// Carries a frame of `bytes` whose first byte comes at `from`; decided at `now`, before which
    /// no later frame begins. Returns the time at which it gets the first capacity and the time at
    /// which its last byte is through. A `now` before that of an earlier call counts as the latest
    /// time so far. Takes amortised logarithmic time in the number of busy intervals.
    pub fn carry(&mut self, now: Time, from: Time, bytes: u64) -> (Time, Time) {
        self.now = self.now.max(now);
        let from = from.max(self.now);
        if self.rate.is_unlimited() {
            return (from, from);
        }
        self.forget();
        let (mut begin, mut at) = (from.as_nanos(), from.as_nanos());
        // If the uplink is busy at that time, or until then, the interval grows.
        if let Some((&busy_from, &until)) = self.busy.range(..=at).next_back()
            && until >= at
        {
            self.busy.remove(&busy_from);
            (begin, at) = (busy_from, until);
        }
        let mut left = self.nanos_for(bytes);
        let mut first = None;
        let through = loop {
            let next = self.busy.range(at..).next().map(|(&from, &until)| (from, until));
            let Some((busy_from, until)) = next.filter(|(from, _)| from - at <= left) else {
                first.get_or_insert(at);
                at = at.saturating_add(left);
                break at;
            };
            // The frame fills this gap, and the intervals around it become one.
            let gap = busy_from - at;
            if gap > 0 {
                first.get_or_insert(at);
            }
            left -= gap;
            self.busy.remove(&busy_from);
            at = until;
            if gap > 0 && left == 0 {
                break busy_from;
            }
        };
        if at > begin {
            self.busy.insert(begin, at);
        }
        self.limit_memory();
        (Time(first.unwrap_or(through)), Time(through))
    }

    /// Removes the intervals that have ended.
    fn forget(&mut self) {
        while let Some((&begin, &end)) = self.busy.first_key_value()
            && end <= self.now.as_nanos()
        {
            self.busy.remove(&begin);
        }
    }

    /// Joins the last two intervals if there are too many.
    fn limit_memory(&mut self) {
        if self.busy.len() > INTERVALS_MAX
            && let Some((_, end)) = self.busy.pop_last()
            && let Some(mut before) = self.busy.last_entry()
        {
            *before.get_mut() = end;
        }
    }

    /// Returns the time that `bytes` take, in whole nanoseconds.
    fn nanos_for(&mut self, bytes: u64) -> u64 {
        let rate = u128::from(self.rate.bits_per_second());
        let total = u128::from(bytes) * 8 * 1_000_000_000 + self.fraction;
        self.fraction = total % rate;
        u64::try_from(total / rate).unwrap_or(u64::MAX)
    }
}

/// The uplinks of the sites of a grid. Without any, frames pass their link as if this did not
/// exist.
///
/// ```
/// use gridspan_topology::{Fate, GridSpec, GridUplinks, NodeId, SiteId, Time};
///
/// // Both links carry a megabyte per second, but together no more.
/// let grid = GridSpec::from_emulate("3x1,wan=10ms,rate=8mbit,uplink=8mbit").unwrap();
/// let mut uplinks = GridUplinks::of(&grid);
/// let mut send = |to: u32| {
///     let mut shaper = grid.shaper(NodeId(0), NodeId(to), 1);
///     uplinks.send(&mut shaper, (SiteId(0), SiteId(to)), Time::ZERO, 1_000)
/// };
/// assert_eq!(send(1), Fate::Deliver { at: Time(11_000_000) });
/// assert_eq!(send(2), Fate::Deliver { at: Time(12_000_000) });
/// ```
#[derive(Clone, Debug, Default)]
pub struct GridUplinks {
    /// The direction out of each site that has a limit.
    out: BTreeMap<SiteId, SiteUplink>,
    /// The direction into each of these sites.
    into: BTreeMap<SiteId, SiteUplink>,
}

impl GridUplinks {
    /// Creates the idle uplinks of all sites.
    pub fn of(spec: &GridSpec) -> Self {
        let limited = spec.layout().sites().filter_map(|site| Some((site, spec.uplink(site)?)));
        let out: BTreeMap<_, _> =
            limited.map(|(site, rate)| (site, SiteUplink::new(rate))).collect();
        Self { into: out.clone(), out }
    }

    /// Creates the direction out of one site. Frames between other sites, and the uplinks of their
    /// receivers, count as not limited.
    pub fn out_of(spec: &GridSpec, site: SiteId) -> Self {
        let uplink = spec.uplink(site).map(|rate| (site, SiteUplink::new(rate)));
        Self { out: uplink.into_iter().collect(), into: BTreeMap::new() }
    }

    /// Sends a frame or packet of `bytes` at `now` over the link between two sites and through the
    /// uplinks of both, and returns its fate. Inside a site it only passes the link.
    pub fn send(
        &mut self,
        shaper: &mut Shaper,
        (from, to): (SiteId, SiteId),
        now: Time,
        bytes: u64,
    ) -> Fate {
        let is_limited = self.out.contains_key(&from) || self.into.contains_key(&to);
        if from == to || !is_limited {
            return shaper.send(now, bytes);
        }
        let begins = shaper.free_from(now);
        let fate = shaper.send(now, bytes);
        if fate == Fate::Drop(DropReason::QueueFull) {
            return fate;
        }
        let mut first = begins;
        let leaves = shaper.free_from(now);
        let mut last = leaves;
        if let Some(out) = self.out.get_mut(&from) {
            let (out_first, out_last) = out.carry(now, begins, bytes);
            (first, last) = (first.max(out_first), last.max(out_last));
        }
        let Fate::Deliver { at } = fate else { return fate };
        let delay = at.since(leaves);
        let mut arrives = last + delay;
        if let Some(into) = self.into.get_mut(&to) {
            let from = (first + delay).max(earlier(arrives, into.rate.time_for(bytes)));
            arrives = arrives.max(into.carry(now, from, bytes).1);
        }
        Fate::Deliver { at: shaper.in_order(arrives) }
    }
}

/// Returns the time that is earlier than `time` by a duration.
fn earlier(time: Time, by: Duration) -> Time {
    Time::ZERO + time.since(Time::ZERO + by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One byte takes a microsecond.
    fn uplink() -> SiteUplink {
        SiteUplink::new(Bandwidth::from_bits_per_second(8_000_000))
    }

    #[test]
    fn frames_that_come_together_follow_each_other() {
        let mut uplink = uplink();

        assert_eq!(uplink.carry(Time(0), Time(0), 100), (Time(0), Time(100_000)));
        assert_eq!(uplink.carry(Time(0), Time(0), 50), (Time(100_000), Time(150_000)));
        assert_eq!(uplink.carry(Time(0), Time(400_000), 1), (Time(400_000), Time(401_000)));
    }

    #[test]
    fn a_frame_uses_gaps_and_ends_where_one_is_just_long_enough() {
        let mut uplink = uplink();
        uplink.carry(Time(0), Time(50_000), 100);
        uplink.carry(Time(0), Time(200_000), 100);

        assert_eq!(uplink.carry(Time(0), Time(0), 50), (Time(0), Time(50_000)));
        assert_eq!(uplink.busy, BTreeMap::from([(0, 150_000), (200_000, 300_000)]));
        assert_eq!(uplink.carry(Time(0), Time(0), 60), (Time(150_000), Time(310_000)));
        assert_eq!(uplink.busy, BTreeMap::from([(0, 310_000)]));
    }

    #[test]
    fn the_past_is_forgotten_and_time_does_not_run_backwards() {
        let mut uplink = uplink();
        uplink.carry(Time(0), Time(0), 100);
        uplink.carry(Time(0), Time(300_000), 100);

        assert_eq!(uplink.carry(Time(100_000), Time(0), 1), (Time(100_000), Time(101_000)));
        assert_eq!(uplink.carry(Time(0), Time(0), 1), (Time(101_000), Time(102_000)));
        assert_eq!(uplink.busy, BTreeMap::from([(100_000, 102_000), (300_000, 400_000)]));
    }

    #[test]
    fn the_rate_is_exact_although_each_frame_takes_a_fraction_of_a_nanosecond() {
        let mut uplink = SiteUplink::new(Bandwidth::from_bits_per_second(24_000_000_000));

        let last = (0..3000).map(|_| uplink.carry(Time(0), Time(0), 1).1).last();

        assert_eq!(last, Some(Time(1000)));
        assert_eq!(SiteUplink::new(Bandwidth::UNLIMITED).carry(Time(7), Time(0), 9).1, Time(7));
    }

    #[test]
    fn the_number_of_intervals_is_bounded() {
        let mut uplink = uplink();

        for frame in 0..INTERVALS_MAX as u64 + 10 {
            uplink.carry(Time(0), Time(frame * 2_000), 1);
        }

        assert_eq!(uplink.busy.len(), INTERVALS_MAX);
    }

    proptest! {
        #[test]
        fn a_frame_takes_the_earliest_free_capacity(
            frames in prop::collection::vec((0..300_usize, 1..20_usize), 0..40),
        ) {
            // One byte takes a nanosecond.
            let mut uplink = SiteUplink::new(Bandwidth::from_bits_per_second(8_000_000_000));
            let mut is_busy = vec![false; 2000];
            for (from, bytes) in frames {
                let free = (from..is_busy.len()).filter(|&nanosecond| !is_busy[nanosecond]);
                let taken: Vec<usize> = free.take(bytes).collect();
                taken.iter().for_each(|&nanosecond| is_busy[nanosecond] = true);
                let (first, last) = (taken[0] as u64, taken[bytes - 1] as u64);

                let carried = uplink.carry(Time(0), Time(from as u64), bytes as u64);

                prop_assert_eq!(carried, (Time(first), Time(last + 1)));
                let nanoseconds: u64 = uplink.busy.iter().map(|(begin, end)| end - begin).sum();
                prop_assert_eq!(nanoseconds, is_busy.iter().filter(|&&busy| busy).count() as u64);
            }
        }
    }
}
