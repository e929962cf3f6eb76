//! Errors of `gridctl topo`.

use gridspan_topology::MatrixTextError;
use std::path::PathBuf;
use thiserror::Error;

/// `gridctl topo` has no links to show.
#[derive(Debug, Error)]
pub(crate) enum TopoCommandError {
    /// A file of round trips is not text.
    #[error("cannot read {}: it is not text in UTF-8", .path.display())]
    BinaryMatrix { path: PathBuf },
    /// A file of round trips is malformed.
    #[error("{}, {error}", .path.display())]
    Matrix {
        path: PathBuf,
        /// The mistake and its position.
        error: MatrixTextError,
    },
    /// A file of round trips contains none.
    #[error("{}, line 1, column 1: there are no round trips", .path.display())]
    EmptyMatrix { path: PathBuf },
    /// The flags name no place to start nodes.
    #[error("--probe needs a place to start nodes")]
    NoPlace,
    /// A flag says how nodes are started, and none are.
    #[error("{flag} is about the start of nodes, and none are started")]
    NoNodes { flag: &'static str },
    /// The measuring nodes failed, as already reported, or were interrupted.
    #[error("the links could not be measured")]
    NotMeasured {
        /// The exit code of the measurement.
        code: u8,
    },
    /// The job has no links.
    #[error("job {id} runs as a single node, and a node has no links")]
    NoLinks { id: String },
    /// The job has not measured its links.
    #[error("job {id} has not measured its links yet")]
    NotMeasuredYet { id: String },
}

impl TopoCommandError {
    /// Whether the command line is wrong.
    pub(super) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::BinaryMatrix { .. }
                | Self::Matrix { .. }
                | Self::EmptyMatrix { .. }
                | Self::NoPlace
                | Self::NoNodes { .. }
        )
    }

    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::BinaryMatrix { .. } => {
                "a matrix is text: rows of round trips, separated by blanks or commas".into()
            }
            Self::Matrix { .. } | Self::EmptyMatrix { .. } => {
                "a matrix has a row of round trips for each node; the name of a grid file ends in \
                 `.toml`"
                    .into()
            }
            Self::NoPlace => {
                "name a grid file (`.toml`), or write `--nodes N`, `--site NAME` or `--emulate SPEC`"
                    .into()
            }
            Self::NoNodes { flag } => {
                format!("leave out {flag}, or name a place; a grid file needs `--probe`, too")
            }
            Self::NotMeasured { .. } => {
                "see the messages above; `--driver cluster` and `-v` may show more".into()
            }
            Self::NoLinks { .. } => "run it with `--nodes`, `--grid` or `--emulate`".into(),
            Self::NotMeasuredYet { .. } => "try again once the nodes of the job have met".into(),
        }
    }
}
