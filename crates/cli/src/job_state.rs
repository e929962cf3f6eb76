//! States of detached jobs, as their folders show them.

use crate::job_folder::{JobFolder, Stage};
use std::fmt;
use std::io;
use std::time::Duration;

/// Time that a launcher has to begin a job.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Added to the number of a signal in exit codes.
const OF_SIGNAL: u8 = 128;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    /// Its nodes are not connected yet.
    Starting,
    /// It runs.
    Running,
    /// It goes back to a checkpoint, or its nodes change.
    Changing,
    /// Its launcher ends its processes.
    Ending,
    /// No launcher attends to it. Its processes may have ended.
    Unattended,
    /// It has ended, with this exit code.
    Ended(u8),
    /// It has ended without an exit code: the machine was started again, or the launcher was killed
    /// before the job had begun.
    Gone,
}

impl JobState {
    /// Finds the state of a detached job.
    pub(crate) fn of(folder: &JobFolder) -> io::Result<Self> {
        // This order of the two checks counts a job that ends between them as ended, not as
        // unattended.
        let is_attended = folder.is_attended()?;
        if let Some(code) = folder.exit_code() {
            return Ok(Self::Ended(code));
        }
        let stage = folder.saved()?.map(|saved| saved.stage);
        if is_attended {
            return Ok(Self::at(stage.unwrap_or_default()));
        }
        if folder.start()?.is_before_boot() {
            return Ok(Self::Gone);
        }
        let age = folder.began()?.elapsed().unwrap_or_default();
        Ok(match stage {
            Some(_) => Self::Unattended,
            // If the launcher saved nothing, its processes have ended with it.
            None if age > START_PATIENCE => Self::Gone,
            None => Self::Starting,
        })
    }

    fn at(stage: Stage) -> Self {
        match stage {
            Stage::Starting => Self::Starting,
            Stage::Running => Self::Running,
            Stage::Changing => Self::Changing,
            Stage::Ending => Self::Ending,
        }
    }

    /// The exit code of a job that has ended.
    pub(crate) fn exit_code(self) -> Option<u8> {
        match self {
            Self::Ended(code) => Some(code),
            _ => None,
        }
    }

    /// Whether no process of the job runs, and no launcher will change that.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Ended(_) | Self::Gone)
    }

    /// Its name for scripts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Changing => "changing",
            Self::Ending => "ending",
            Self::Unattended => "unattended",
            Self::Ended(_) => "ended",
            Self::Gone => "gone",
        }
    }
}

/// Writes the state for people.
impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(0) => f.write_str("done"),
            Self::Ended(code) if *code > OF_SIGNAL => write!(f, "stopped ({code})"),
            Self::Ended(code) => write!(f, "failed ({code})"),
            other => f.write_str(other.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_jobs_show_their_exit_code() {
        let text = |code| JobState::Ended(code).to_string();
        assert_eq!([text(0), text(1), text(143)], ["done", "failed (1)", "stopped (143)"]);
        assert_eq!(JobState::Ended(1).name(), "ended");
        assert_eq!(JobState::at(Stage::Changing).to_string(), "changing");
    }
}
