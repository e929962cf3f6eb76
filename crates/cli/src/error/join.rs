//! Errors of `gridctl join`.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// `gridctl join` has no invitation that it can use.
#[derive(Debug, Error)]
pub(crate) enum JoinCommandError {
    /// A file cannot be used as an invitation.
    #[error("cannot use the invitation {}: {error}", .path.display())]
    Invitation { path: PathBuf, error: io::Error },
    /// A program is not the one with which the job was started.
    #[error("{} is not the program that the job runs", .path.display())]
    OtherProgram { path: PathBuf },
    /// No invitation to the job, or to the requested site, is left.
    #[error("there is no invitation to join `{id}` left{}", .site.as_ref().map(|site| format!(" at site `{site}`")).unwrap_or_default())]
    NotInvited {
        id: String,
        /// The requested site.
        site: Option<String>,
    },
}

impl JoinCommandError {
    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NotInvited { .. } => {
                "start the job with `--guests N`; then N guests can join at each site once the nodes of the job have met".into()
            }
            Self::Invitation { .. } => {
                "copy a file `ID.invitation-N` from the folder where the launcher keeps its jobs (`$XDG_RUNTIME_DIR/gridspan`), made by the same build of gridctl".into()
            }
            Self::OtherProgram { .. } => {
                "it was rebuilt, or is another build; use the job's own program, or start the job again".into()
            }
        }
    }
}
