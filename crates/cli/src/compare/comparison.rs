//! The comparison of two recordings.

use super::difference::{
    Both, CountDifference, TimeDifference, TrafficDifference, counts, ends, times, traffic,
};
use super::profile::Profile;
use super::verdict::{RecordedOutcome, Verdict};
use gridspan_record::Recording;
use std::path::Path;

/// Two recordings and their differences.
pub(super) struct Comparison<'a> {
    /// Their folders.
    pub(super) paths: [&'a Path; 2],
    pub(super) recordings: [&'a Recording; 2],
    /// How the jobs ended.
    pub(super) outcomes: [RecordedOutcome; 2],
    /// The times of the jobs in nanoseconds.
    pub(super) ends: Both,
    /// Which was faster, and why.
    pub(super) verdict: Verdict,
    /// Kinds of time.
    pub(super) times: Vec<TimeDifference>,
    /// Traffic by pairs of sites.
    pub(super) traffic: Vec<TrafficDifference>,
    /// What the runtime did.
    pub(super) counts: Vec<CountDifference>,
}

impl<'a> Comparison<'a> {
    /// Compares two recordings.
    pub(super) fn new(paths: [&'a Path; 2], recordings: [&'a Recording; 2]) -> Self {
        let outcomes = recordings.map(RecordedOutcome::of);
        let [a, b] = recordings.map(Profile::of);
        Self {
            paths,
            recordings,
            ends: ends(&a, &b),
            verdict: Verdict::of(&outcomes, &a, &b),
            times: times(&a, &b),
            traffic: traffic(&a, &b),
            counts: counts(&a, &b),
            outcomes,
        }
    }

    /// Returns the first line.
    pub(super) fn sentence(&self) -> String {
        self.verdict.sentence(&self.outcomes, self.ends)
    }
}
