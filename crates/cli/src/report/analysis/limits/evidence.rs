//! The facts from which limits are concluded, and shares of the time of all PEs.

use crate::report::analysis::awaited::Awaited;
use crate::report::analysis::events::Events;
use crate::report::analysis::kinds::Kinds;
use crate::report::analysis::loads::Loads;
use crate::report::analysis::places::Places;
use crate::report::analysis::profile::Profile;
use crate::report::analysis::traffic::Traffic;
use crate::report::analysis::waits::Waits;

/// The facts about a run.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) places: &'a Places,
    /// The handler types.
    pub(crate) kinds: &'a Kinds,
    /// Where the time of PEs went.
    pub(crate) profile: &'a Profile,
    pub(crate) traffic: &'a Traffic,
    /// What PEs waited for.
    pub(crate) waits: &'a Waits,
    /// The actors and senders behind the work of PEs.
    pub(crate) loads: &'a Loads,
    pub(crate) events: &'a Events,
    /// Whether the job ran in virtual time.
    pub(crate) is_simulated: bool,
    /// Share of the run's time in which the spans are known.
    pub(crate) kept_part: f64,
    /// Mean number of PEs that computed at the same time.
    pub(crate) parallelism: f64,
}

impl Evidence<'_> {
    /// Returns the share of this time in the time of all PEs.
    pub(crate) fn share_of(&self, ns: f64) -> f64 {
        ns / self.profile.pe_time_ns()
    }

    /// Share of the time of all PEs in which they waited.
    pub(crate) fn idle_share(&self) -> f64 {
        self.share_of(self.profile.total().idle_ns as f64)
    }

    /// Returns the time that PEs waited in the windows with known spans, in nanoseconds, including
    /// waits without an explanation. It assumes that PEs waited for as long in these windows as in
    /// others.
    fn waits_ns(&self) -> f64 {
        self.waits.total_ns().max(self.profile.total().idle_ns as f64 * self.kept_part)
    }

    /// Returns the share of the time of all PEs that `ns` of the known waits stand for. Known waits
    /// are a sample of all waits, whose total time is exact.
    pub(crate) fn share_of_waits(&self, ns: f64) -> f64 {
        let all = self.waits_ns();
        if all > 0.0 { ns / all * self.idle_share() } else { 0.0 }
    }

    /// Share of the time of all PEs in which they waited for `awaited`.
    pub(crate) fn share(&self, awaited: Awaited) -> f64 {
        self.share_of_waits(self.waits.awaited.get(&awaited).copied().unwrap_or(0.0))
    }

    /// Share of the time of all PEs in waits without a known cause.
    pub(crate) fn unknown_share(&self) -> f64 {
        let explained = self.share_of_waits(self.waits.total_ns());
        self.share(Awaited::Unknown) + (self.idle_share() - explained).max(0.0)
    }

    /// Returns a function of a recorded PE: the mean of `of` over all other recorded PEs, or 0 if
    /// there is no other. Sums once, because there may be a hundred thousand PEs.
    pub(crate) fn means_of_others(&self, of: impl Fn(usize) -> f64) -> impl Fn(usize) -> f64 {
        let sum: f64 = self.profile.recorded().map(|(pe, _)| of(pe)).sum();
        let others = self.profile.recorded_count().saturating_sub(1) as f64;
        // Values are at least 0, but rounding of the sum may make a small difference negative.
        move |pe: usize| if others > 0.0 { ((sum - of(pe)) / others).max(0.0) } else { 0.0 }
    }

    /// Time in which a PE was not idle, in nanoseconds.
    pub(crate) fn occupied_ns(&self, pe: usize) -> f64 {
        self.profile.pes.get(pe).map_or(0.0, |profile| profile.total.occupied_ns())
    }

    /// The work of a PE: its occupied time in nanoseconds without that of other threads, times its
    /// speed.
    pub(crate) fn work(&self, pe: usize) -> f64 {
        let times = self.profile.pes.get(pe).map(|profile| profile.total).unwrap_or_default();
        (times.occupied_ns() - times.waited_ns as f64) * self.places.speed(pe)
    }

    /// The mean of [`occupied_ns`](Self::occupied_ns) of all PEs.
    pub(crate) fn mean_occupied_ns(&self) -> f64 {
        self.profile.total().occupied_ns() / self.profile.recorded_count().max(1) as f64
    }

    /// Share of the time of all PEs that equal loads would save.
    pub(crate) fn imbalance_share(&self) -> f64 {
        let occupied = || self.profile.recorded().map(|(pe, _)| self.occupied_ns(pe));
        let most = occupied().fold(0.0, f64::max);
        self.share_of(occupied().map(|ns| most - ns).sum())
    }
}
