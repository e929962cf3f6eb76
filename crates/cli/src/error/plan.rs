//! Errors of `gridctl plan`.

use thiserror::Error;

/// `gridctl plan` has too few or too many arguments, its recording does not fit the grid, or the
/// run that it simulates fails.
#[derive(Debug, Error)]
pub(crate) enum PlanCommandError {
    /// A plan names no grid.
    #[error("there is no grid to plan for")]
    NoGrid,
    /// A plan names neither a recording nor a program.
    #[error("there is nothing to plan")]
    NothingToPlan,
    /// A plan names both.
    #[error("a plan is made from recordings or from a program, not from both")]
    TwoSources,
    /// A plan for a size lacks the sizes of its recordings.
    #[error("--size needs two recordings and the size of each")]
    NoSizes,
    /// The recorded calls go to other servers on the grid.
    #[error("the remote calls were recorded on {recorded}, and go to other servers on {wanted}")]
    OtherServers {
        /// The recorded sites and their PEs.
        recorded: String,
        /// Those of the grid.
        wanted: String,
    },
    /// The run that a plan simulates has failed.
    #[error("the simulated run has failed: {reason}")]
    NotRecorded {
        /// What it printed.
        reason: String,
    },
}

impl PlanCommandError {
    /// Whether the command line is wrong.
    pub(super) fn is_usage(&self) -> bool {
        !matches!(self, Self::NotRecorded { .. })
    }

    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NoGrid => {
                "write `--pes`, `--grid` or `--emulate`, such as `-e 4x8,wan=20ms`".into()
            }
            Self::NothingToPlan => {
                "write `--recording DIR`, or a program, such as `leanmd --steps 20`".into()
            }
            Self::TwoSources => "leave out `--recording`, or the program".into(),
            Self::NoSizes => {
                "for example `--recording r1=4000 --recording r2=8000 --size 64000`".into()
            }
            Self::OtherServers { .. } => {
                "`gridctl sim` gives the time of the job there; a plan needs a recording on as \
                 many sites and PEs"
                    .into()
            }
            Self::NotRecorded { .. } => {
                "try it with `gridctl sim`, which shows what the program prints".into()
            }
        }
    }
}
