//! Errors of the end of a job, which a user awaits or requests.

use thiserror::Error;

/// A job does not end, or its exit code is unknown.
#[derive(Debug, Error)]
pub(crate) enum JobEndError {
    /// No launcher attends to a job whose nodes are kept on several hosts, and only a launcher can
    /// kill these nodes.
    #[error("the job {job} has no launcher, and only a launcher can kill its nodes on other hosts")]
    OnlyKept { job: String },
    /// A job runs on another machine, where it can be killed.
    #[error("the job {job} runs on {machine}")]
    OtherMachine { job: String, machine: String },
    /// A killed job has not ended.
    #[error("the job {job} has not ended")]
    NotKilled { job: String },
    /// A job has not ended in time.
    #[error("the job {job} still runs")]
    StillRuns { job: String },
    /// A job has ended, and its launcher has not reported the exit code.
    #[error("the job {job} has ended, with an exit code that is not known")]
    UnknownExit { job: String },
}

impl JobEndError {
    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::OnlyKept { job } => {
                format!("`gridctl attach {job}` starts another launcher; kill the job then")
            }
            Self::OtherMachine { job, machine } => {
                format!("run `gridctl kill {job}` on {machine}")
            }
            Self::NotKilled { .. } => {
                "one of its processes is stuck in the kernel, most often while it uses a file; \
                 `ps -eo pid,stat,args` shows it with the state `D`"
                    .into()
            }
            Self::StillRuns { .. } => "give it a longer `--timeout`".into(),
            Self::UnknownExit { .. } => {
                "only a running launcher of node processes reports it: that of `gridctl run -n`, \
                 `--grid`, `--driver cluster` or `--detach`"
                    .into()
            }
        }
    }
}
