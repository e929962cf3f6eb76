//! The verdict in one sentence: which of two recordings was faster, and where the difference lies.

use super::difference::{Both, Place, TimeDifference, ends, place, times};
use super::profile::Profile;
use crate::quantity::{digits, time};
use gridspan_record::Recording;
use std::time::Duration;

/// Minimum share by which the times of jobs differ; below it they count as equal.
const SHARE_MIN: f64 = 0.01;
/// A kind of time with at least this share of a difference explains most of it.
const SHARE_OF_MOST: f64 = 0.5;
/// Names of the recordings.
pub(super) const NAMES: [&str; 2] = ["A", "B"];

/// How a recorded job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordedOutcome {
    /// It was done.
    Done,
    /// It failed.
    Failed {
        /// The exit code of gridctl.
        exit_code: u8,
        /// The error.
        failure: Option<String>,
    },
    /// Its recording has no end.
    CutOff,
}

impl RecordedOutcome {
    /// Returns how a job ended.
    pub(super) fn of(recording: &Recording) -> Self {
        match &recording.ending {
            None => Self::CutOff,
            Some(ending) if ending.exit_code == 0 && ending.failure.is_none() => Self::Done,
            Some(ending) => {
                Self::Failed { exit_code: ending.exit_code, failure: ending.failure.clone() }
            }
        }
    }

    /// Describes the outcome, with the time of the job.
    pub(super) fn after(&self, end_ns: f64) -> String {
        let after = format!("after {}", duration(end_ns));
        match self {
            Self::Done => format!("done {after}"),
            Self::CutOff => format!("cut off {after}"),
            Self::Failed { exit_code, failure: None } => {
                format!("failed {after} with exit code {exit_code}")
            }
            Self::Failed { failure: Some(failure), .. } => format!("failed {after}: {failure}"),
        }
    }
}

/// The kind of time and the place that explain most of a difference.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reason {
    /// The kind, and its mean time per PE.
    pub(super) time: TimeDifference,
    pub(super) place: Place,
}

/// What a comparison says first.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// At least one of the jobs was not done, so that the times say little.
    NotDone,
    /// The times differ by less than a hundredth.
    Same,
    /// One was faster.
    Faster {
        /// Its position in [`NAMES`].
        which: usize,
        /// The time that it saved, as a share of the slower one's time.
        share: f64,
        /// Where the difference lies.
        reason: Option<Reason>,
    },
}

impl Verdict {
    /// Compares two profiles whose jobs ended in these ways.
    pub(super) fn of(outcomes: &[RecordedOutcome; 2], a: &Profile, b: &Profile) -> Self {
        if outcomes.iter().any(|outcome| *outcome != RecordedOutcome::Done) {
            return Self::NotDone;
        }
        let ends = ends(a, b);
        let share = ends.difference().abs() / ends.a.max(ends.b).max(1.0);
        if share < SHARE_MIN {
            return Self::Same;
        }
        let largest = times(a, b).into_iter().next();
        // A kind that differs in the direction of the whole exists, unless no time was recorded.
        let is_same_way = |time: &TimeDifference| time.ns.difference() * ends.difference() > 0.0;
        let reason = largest.filter(is_same_way).map(|time| {
            let place = place(&time.kind, a, b);
            Reason { time, place }
        });
        Self::Faster { which: usize::from(ends.b < ends.a), share, reason }
    }

    /// Returns the sentence.
    pub(super) fn sentence(&self, outcomes: &[RecordedOutcome; 2], ends: Both) -> String {
        let [a, b] = NAMES;
        match self {
            Self::NotDone => {
                format!("{a}: {}; {b}: {}", outcomes[0].after(ends.a), outcomes[1].after(ends.b))
            }
            Self::Same => format!(
                "{a} and {b} take the same time within {} %: {} and {}",
                digits(100.0 * SHARE_MIN),
                duration(ends.a),
                duration(ends.b)
            ),
            Self::Faster { which, share, reason } => {
                let faster = NAMES[*which];
                let (fast, slow) = (ends.a.min(ends.b), ends.a.max(ends.b));
                let times = format!("{} instead of {}", duration(fast), duration(slow));
                let share = digits(100.0 * share);
                let reason = reason.as_ref().map(|reason| because(reason, slow - fast));
                format!("{faster} is faster by {share} %: {times}{}", reason.unwrap_or_default())
            }
        }
    }
}

/// The part of the sentence about the kind of time and the place.
fn because(reason: &Reason, whole_ns: f64) -> String {
    let saved_ns = reason.time.ns.difference().abs();
    let part = match saved_ns >= SHARE_OF_MOST * whole_ns {
        true => "most of the difference",
        false => "the largest part of the difference",
    };
    let place = match &reason.place {
        Place::Everywhere => String::new(),
        Place::Site(site) => format!(", mostly at site {site}"),
        Place::Node(node) => format!(", mostly on node {node}"),
        Place::Pe(pe) => format!(", mostly on pe{pe}"),
    };
    format!("; {part} is {}, {} less per PE{place}", reason.time.kind, duration(saved_ns))
}

/// Formats a time in nanoseconds, which is not negative.
pub(super) fn duration(ns: f64) -> String {
    // A number that is too large becomes the largest one.
    time(Duration::from_nanos(ns.round() as u64))
}
