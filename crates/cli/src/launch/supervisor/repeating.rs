//! How much work a loss makes the job repeat, and since when the job lacks the copies that the lost
//! nodes had.
//!
//! The launcher measures both. So they include the time in which a node's report reaches it, and a
//! launcher that has taken over a job knows neither until the next checkpoint.

use super::super::event::CheckpointPace;
use crate::quantity;
use gridspan_topology::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of checkpoints to remember. The remaining nodes may not know that the last one is
/// complete, and go back to the one before.
const KEPT: usize = 2;

/// What a launcher knows of the checkpoints of a job.
#[derive(Debug, Default)]
pub(super) struct Repeating {
    /// For each checkpoint, by number, when the work began that the job repeats if it goes back
    /// there; 0 is the beginning of the job.
    since: BTreeMap<u64, Time>,
    /// When the loss was noticed, and the checkpoint to which the job went back, while another loss
    /// could end the job: until the checkpoint has all its copies again, or there is another one.
    unprotected: Option<(Time, u64)>,
    /// Whether the launcher has said how often the job makes checkpoints.
    is_pace_told: bool,
}

impl Repeating {
    /// Notes that the job goes back to a checkpoint, or to its beginning, because of a loss that was
    /// noticed at `lost`. `lacks_copies`: another loss could end the job.
    pub(super) fn goes_back(&mut self, checkpoint: u64, lost: Time, lacks_copies: bool) {
        // Several losses may follow each other before the job has all copies again.
        let first = self.unprotected.map_or(lost, |(first, _)| first);
        self.unprotected = lacks_copies.then_some((first, checkpoint));
    }

    /// Notes that a run begins from a checkpoint, or from the beginning of the job.
    pub(super) fn begun(&mut self, checkpoint: u64, now: Time) {
        self.since = BTreeMap::from([(checkpoint, now)]);
    }

    /// Notes that the checkpoint to which the job went back has all its copies again. Returns a line
    /// for the user.
    pub(super) fn remade(&mut self, checkpoint: u64, now: Time) -> Option<String> {
        let (lost, _) = self.unprotected.take_if(|(_, back)| checkpoint == *back)?;
        Some(protection_text(checkpoint, now.since(lost)))
    }

    /// Notes that a checkpoint is complete, with the time since it was captured. Returns a line for
    /// the user if it ends the time without protection after a loss; never if the job does not run,
    /// because another node was lost.
    pub(super) fn completed(
        &mut self,
        checkpoint: u64,
        age: Duration,
        now: Time,
        is_running: bool,
    ) -> Option<String> {
        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        // If the report is late, a run may have begun from the checkpoint already.
        self.since.entry(checkpoint).or_insert(Time(now.0.saturating_sub(age)));
        while self.since.len() > KEPT {
            self.since.pop_first();
        }
        let (lost, _) = self.unprotected.take_if(|(_, back)| is_running && checkpoint > *back)?;
        Some(protection_text(checkpoint, now.since(lost)))
    }

    /// Notes how often the job makes checkpoints, if it computes that. Returns a line for the user
    /// the first time.
    pub(super) fn paced(&mut self, pace: CheckpointPace) -> Option<String> {
        if std::mem::replace(&mut self.is_pace_told, true) {
            return None;
        }
        let [next_after, cost] = [pace.next_after, pace.cost].map(quantity::long_time);
        let time_to_loss = quantity::long_time(pace.time_to_loss);
        Some(format!(
            "checkpoints follow about every {next_after}: one costs {cost}, and the job is \
             expected to lose a node every {time_to_loss} (`--node-mtbf`)"
        ))
    }

    /// The duration of the work that the job repeats if it goes back to a checkpoint because of a
    /// loss noticed at `lost`; `None` if it is unknown.
    pub(super) fn repeated(&self, checkpoint: u64, lost: Time) -> Option<Duration> {
        self.since.get(&checkpoint).map(|since| lost.since(*since))
    }
}

fn protection_text(checkpoint: u64, since_loss: Duration) -> String {
    let time = quantity::time(since_loss);
    format!("checkpoint {checkpoint} protects the job again, {time} after the loss")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn what_is_repeated_begins_when_the_checkpoint_was_captured() {
        let mut repeating = Repeating::default();
        assert_eq!(repeating.repeated(0, seconds(9)), None, "this launcher has taken over");
        repeating.begun(0, seconds(1));
        assert_eq!(repeating.repeated(0, seconds(9)), Some(Duration::from_secs(8)));
        assert_eq!(repeating.completed(1, Duration::from_secs(2), seconds(10), true), None);
        assert_eq!(repeating.repeated(1, seconds(15)), Some(Duration::from_secs(7)));
        repeating.completed(2, NOW, seconds(20), true);
        assert_eq!(repeating.repeated(1, seconds(21)), Some(Duration::from_secs(13)));
        assert_eq!(repeating.repeated(0, seconds(21)), None, "no node goes back that far");
        // The job goes back to the same checkpoint twice.
        repeating.begun(2, seconds(31));
        assert_eq!(repeating.repeated(2, seconds(33)), Some(Duration::from_secs(2)));
    }

    #[test]
    fn the_computed_interval_is_stated_once_with_the_expected_time_to_a_loss() {
        let mut repeating = Repeating::default();
        let pace = CheckpointPace {
            next_after: Duration::from_secs(39),
            cost: Duration::from_millis(980),
            time_to_loss: Duration::from_secs(800),
        };
        assert_eq!(
            repeating.paced(pace).unwrap(),
            "checkpoints follow about every 39.0 s: one costs 980 ms, and the job is \
             expected to lose a node every 13.3 min (`--node-mtbf`)"
        );
        assert_eq!(repeating.paced(pace), None);
    }

    #[test]
    fn the_next_checkpoint_ends_the_time_without_protection() {
        let mut repeating = Repeating::default();
        repeating.goes_back(3, seconds(10), true);
        repeating.goes_back(3, seconds(12), true);
        assert_eq!(repeating.completed(4, NOW, seconds(13), false), None, "another loss");
        assert_eq!(repeating.completed(3, NOW, seconds(14), true), None, "a late report");
        let text = repeating.completed(4, NOW, seconds(15), true).unwrap();
        assert_eq!(text, "checkpoint 4 protects the job again, 5.00 s after the loss");
        assert_eq!(repeating.completed(5, NOW, seconds(16), true), None, "once");
        // A change of the nodes is no loss.
        repeating.begun(5, seconds(17));
        assert_eq!(repeating.completed(6, NOW, seconds(18), true), None);
    }

    #[test]
    fn copies_that_are_made_again_end_the_time_without_protection() {
        let mut repeating = Repeating::default();
        repeating.goes_back(3, seconds(10), true);
        assert_eq!(repeating.remade(2, seconds(11)), None, "a late report");
        let text = repeating.remade(3, seconds(12)).unwrap();
        assert_eq!(text, "checkpoint 3 protects the job again, 2.00 s after the loss");
        assert_eq!(repeating.completed(4, NOW, seconds(13), true), None, "once");
        repeating.goes_back(4, seconds(20), false);
        assert_eq!(repeating.completed(5, NOW, seconds(21), true), None, "no copy was missing");
    }
}
