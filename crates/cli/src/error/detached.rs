//! Errors with a detached job and its launchers.

use crate::job_folder::Refusal;
use std::path::PathBuf;
use thiserror::Error;

/// A detached job cannot be found, attended or taken over.
#[derive(Debug, Error)]
pub(crate) enum DetachedJobError {
    /// The requested job was not started with `--detach`, or no job was.
    #[error("{}", no_detached_job(.id.as_deref()))]
    NoDetachedJob {
        /// The requested job.
        id: Option<String>,
        /// The detached jobs.
        known: Vec<String>,
    },
    /// No launcher attends to a detached job, and none can be started.
    #[error("no launcher attends to the job {job}")]
    Unattended {
        job: String,
        /// Its folder.
        path: PathBuf,
    },
    /// The launcher of a detached job must run on another machine.
    #[error("the launcher of {job} has ended, and the job was started on {machine}")]
    ElsewhereDetached { job: String, machine: String },
    /// Another launcher attends to a detached job, or did so a moment ago.
    #[error("a launcher attends to the job {job}: {by}")]
    Attended {
        job: String,
        /// The launcher.
        by: String,
    },
    /// Too few nodes of a detached job agree that this launcher may continue the job.
    #[error("the job {job} may not go on: {reason}")]
    NoQuorum {
        job: String,
        /// How many agree, and how many are needed.
        reason: String,
    },
    /// The launcher that was started for a detached job has given up.
    #[error("{}", .0.reason)]
    RefusedLauncher(Refusal),
    /// No node of a detached job still runs on a host.
    #[error("{host} has no node of a detached job{}: {reason}", .id.as_ref().map(|id| format!(" `{id}`")).unwrap_or_default())]
    NothingKept {
        host: String,
        /// The requested job.
        id: Option<String>,
        /// The reason, from the host.
        reason: String,
    },
    /// The folder in which a job was started does not exist on this machine.
    #[error("the job was started in {}, which is not on this machine", .path.display())]
    NoStartFolder { path: PathBuf },
}

impl DetachedJobError {
    /// Whether the command line is wrong.
    pub(super) fn is_usage(&self) -> bool {
        matches!(self, Self::NoDetachedJob { .. })
    }

    /// Returns the next step, unless the error already states it.
    pub(super) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoDetachedJob { known, .. } if !known.is_empty() => {
                format!("detached: {}", known.join(", "))
            }
            Self::NoDetachedJob { .. } => "start one with `gridctl run --detach PROGRAM`".into(),
            Self::ElsewhereDetached { job, machine } => {
                format!(
                    "on {machine}, `gridctl attach {job}` starts another one; if that machine has ended, \
                     `gridctl attach --from HOST {job}` starts one here, where HOST has \
                     another node of the job"
                )
            }
            Self::Attended { .. } => {
                "`gridctl attach` there shows the job; if that launcher has ended, try again in a few \
                 seconds"
                    .into()
            }
            Self::RefusedLauncher(refusal) => return refusal.hint.clone(),
            Self::NoQuorum { .. } => {
                "try again when more hosts can be reached; or name nodes, hosts or sites that have ended \
                 for good with `--ended`, so that they do not count; if some of them still run, \
                 the job runs twice"
                    .into()
            }
            Self::NothingKept { .. } => {
                "name a host where nodes of the job run, by the name in its grid file".into()
            }
            Self::NoStartFolder { .. } => {
                "create it; relative paths of the job begin there".into()
            }
            Self::Unattended { path, job } => {
                let output = path.join("output");
                format!(
                    "`{}` may say why; `gridctl attach {job}` starts another launcher",
                    output.display()
                )
            }
        })
    }
}

fn no_detached_job(id: Option<&str>) -> String {
    match id {
        Some(id) => format!("there is no detached job `{id}`"),
        None => "there is no detached job".to_owned(),
    }
}
