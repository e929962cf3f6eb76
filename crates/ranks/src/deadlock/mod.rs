//! Detection of deadlocks of a part of the ranks, while others run.
//!
//! **Looking.** Main lets all ranks look at themselves once in each period. A rank that has not
//! changed for some periods, and waits for messages of others, reports to rank 0 for which of them
//! it waits (`watch`). It also reports when it goes on or ends. So ranks that wait for a short time
//! send nothing.
//!
//! **Long pauses of main.** Looks of main are messages to all nodes, so main makes long pauses, in
//! which the job can become quiescent. Meanwhile each rank looks at itself by a timer, at the same
//! pace. A rank that has waited for some periods has reported its wait, and sets no further timer
//! until something changes at it: a job in which all ranks wait has no timers. So the time until a
//! report does not depend on main's pauses.
//!
//! **Suspicion.** Rank 0 looks for ranks that no rank can wake (`graph`). Their reports may be old,
//! and messages may be on their way to them.
//!
//! **Confirmation.** Each of them exchanges markers with the ranks for which it waits (`detector`).
//! Messages from one rank to another keep their order, so a message that was on its way has come
//! when the marker comes. If it completes a receive, or only changes what the rank waits for, the
//! number of the rank's changes differs, and the suspicion ends. A message may also make the actor
//! of a waiting rank send another: it accepts an offer, or reports that a message was matched. Such
//! an answer comes before the marker of the second round. A rank whose data are on their way does
//! not count as waiting. After two rounds without a change nothing can change any more.
//!
//! **Locks.** A rank that waits for a lock waits for those that hold it or have asked for it
//! earlier. The target, which is the rank that has the window, knows them; a rank that waits for
//! long asks it. A later request never gets the lock before an earlier one. So these ranks only
//! become fewer, and an old answer still names all that matter. They act by messages to the target,
//! whose actor then sends the grant. So the target exchanges markers with them and with the rank
//! that waits, also if the target runs. After the first round the target has all messages that they
//! had sent, and its grant comes before its marker of the second round.
//!
//! **Failures.** The notice of a failed rank may end any wait, so the ranks also exchange markers
//! with all that have failed. In a job with `ErrorsReturn` a rank also waits for all others of its
//! communicator, since each of them may revoke it or fail.
//!
//! Main notices deadlocks of all ranks, also those that depend on the name server.

mod detector;
mod graph;
mod report;
mod watch;

pub(crate) use detector::{Detector, Flush, Verdict};
pub(crate) use graph::WaitState;
pub(crate) use report::text;
pub(crate) use watch::WaitWatch;

use std::time::Duration;

/// Time between two looks of a rank at what it waits for. A deadlock of some ranks is reported
/// after at most five of these and a few crossings of the wide area.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(800);

/// Largest number of ranks of a job that look for deadlocks: rank 0 keeps a record of each that
/// waits.
pub(crate) const LOOKING_RANKS_MAX: u32 = 10_000;

/// Whether the ranks of a job are too many to look. `size`: number of ranks that the rank of number
/// `rank` knows of. A spawned rank knows at least that the ranks with lower numbers exist.
pub(crate) fn are_too_many(size: u32, rank: u32) -> bool {
    size.max(rank.saturating_add(1)) > LOOKING_RANKS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_look_if_the_job_has_at_most_ten_thousand() {
        assert!(!are_too_many(10_000, 0) && !are_too_many(2, 9_999));
        assert!(are_too_many(10_001, 0) && are_too_many(2, 10_000));
    }
}
