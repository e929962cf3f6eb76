//! The summary of a recovery, for the line that ends it: which nodes were lost, how that was
//! noticed, where the job goes on, and what it repeats.

use crate::names::abbreviated;
use crate::quantity;
use std::time::Duration;

/// What has happened since the job last ran.
#[derive(Default)]
pub(super) struct RecoverySummary {
    /// The names of the lost nodes, each with how its loss was noticed.
    losses: Vec<(String, String)>,
    /// The checkpoint to which the job goes back, 0 if it begins again, and the duration of the
    /// work that it repeats, if known.
    back: Option<(u64, Option<Duration>)>,
}

impl RecoverySummary {
    /// Notes the loss of a node. `is_exit_seen`: whether the launcher saw the end of its process.
    pub(super) fn lost(&mut self, name: &str, reason: &str, is_exit_seen: bool) {
        // The report of another node begins with the number that the lost one has in the run.
        let report = reason.strip_prefix("lost node").and_then(|rest| rest.split_once(": "));
        let observed = report.map_or(reason, |(_, observed)| observed);
        let at_once = if is_exit_seen { ", noticed at once" } else { "" };
        self.losses.push((name.to_owned(), format!("{observed}{at_once}")));
    }

    /// Notes where the job goes on. If it goes back several times, the last one counts.
    pub(super) fn goes_back(&mut self, checkpoint: u64, repeated: Option<Duration>) {
        self.back = Some((checkpoint, repeated));
    }

    /// The beginning of the line; `None` if no node was lost and the job goes on where it stopped.
    pub(super) fn text(&self) -> Option<String> {
        let lost = (!self.losses.is_empty()).then(|| self.losses_text());
        let parts: Vec<String> = lost.into_iter().chain(self.back_text()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn losses_text(&self) -> String {
        let lost_together = self.losses.chunk_by(|(_, one), (_, next)| one == next);
        let text = |losses: &[(String, String)]| {
            let names = abbreviated(losses.iter().map(|(name, _)| name.as_str()));
            let observed = losses.first().map_or("", |(_, observed)| observed.as_str());
            format!("{names} ({observed})")
        };
        let texts: Vec<String> = lost_together.map(text).collect();
        format!("lost {}", texts.join(", "))
    }

    fn back_text(&self) -> Option<String> {
        let (checkpoint, repeated) = self.back?;
        let to = match checkpoint {
            0 => "back to the beginning".to_owned(),
            number => format!("back to checkpoint {number}"),
        };
        Some(match repeated {
            Some(repeated) => format!("{to}, {} repeated", quantity::time(repeated)),
            None => to,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_the_same_observation_are_named_together() {
        let mut summary = RecoverySummary::default();
        assert_eq!(summary.text(), None);
        summary.lost("a/1", "it was killed by SIGKILL (9)", true);
        for name in ["b/2", "b/3"] {
            summary.lost(name, "lost node2 at site b: it was silent for 3s", false);
        }
        summary.goes_back(4, Some(Duration::from_millis(598)));
        summary.goes_back(0, None);

        assert_eq!(
            summary.text().unwrap(),
            "lost a/1 (it was killed by SIGKILL (9), noticed at once), b/[2-3] (it was silent for \
             3s); back to the beginning"
        );
    }

    #[test]
    fn a_job_that_another_launcher_left_goes_back_without_a_known_loss() {
        let mut summary = RecoverySummary::default();
        summary.goes_back(4, Some(Duration::from_millis(598)));
        assert_eq!(summary.text().unwrap(), "back to checkpoint 4, 598 ms repeated");
    }
}
