//! What can be wrong with a command, and the next step.

use gridspan::variables::{GridLoadError, VariableError};
use gridspan_runtime::net::IdentityError;
use gridspan_topology::{EmulateError, SiteError};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use thiserror::Error;

/// A command that could not be carried out. Nothing of the job was started, or all of it has ended.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    /// The command does not say what to run.
    #[error("there is no program to run")]
    NoProgram,
    /// A name that is neither a job's nor a path.
    #[error("there is no built-in job `{name}`")]
    UnknownJob {
        /// The name.
        name: String,
        /// Jobs whose names are near.
        near: Vec<&'static str>,
        /// Whether a file of that name lies in the current directory.
        is_file: bool,
    },
    /// A built-in job refuses its arguments, or was asked for help.
    #[error(transparent)]
    Arguments(#[from] clap::Error),
    /// An argument of a built-in job is not text.
    #[error("an argument of the job is not UTF-8 text")]
    NotText,
    /// A program cannot be started.
    #[error("cannot start {}: {error}", .path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A grid file cannot be used.
    #[error(transparent)]
    Grid(#[from] GridLoadError),
    /// A shorthand cannot be read.
    #[error("--emulate: {0}")]
    Emulate(#[from] EmulateError),
    /// A number of nodes that is too large.
    #[error("--nodes: {0}")]
    Nodes(#[from] SiteError),
    /// A host of the grid is another machine.
    #[error("host `{host}` of the grid is not this machine, and nodes start on this machine only")]
    RemoteHost {
        /// The host.
        host: String,
    },
    /// The environment asks for something that cannot be.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// Certificates cannot be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The system refuses something that launching needs.
    #[error("cannot {what}: {error}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// Why it cannot be.
        error: io::Error,
    },
}

impl CliError {
    /// For `map_err`: the system refuses to do something.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { what, error }
    }

    /// What to do next; nothing where the error says it already.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoProgram => {
                "name a built-in job (`gridctl jobs` lists them) or the path of a program".into()
            }
            Self::UnknownJob { name, is_file: true, .. } => {
                format!("write `./{name}` to run the program in this directory")
            }
            Self::UnknownJob { near, .. } if !near.is_empty() => {
                format!("did you mean {}?", quoted(near))
            }
            Self::UnknownJob { .. } => {
                "`gridctl jobs` lists the jobs; the path of a program contains a `/`".into()
            }
            Self::NotText => "write the argument in UTF-8".into(),
            Self::Start { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => "check the path".into(),
                io::ErrorKind::PermissionDenied => {
                    "is it a program? `chmod +x` makes it one".into()
                }
                _ => "is it a program for this machine?".into(),
            },
            Self::RemoteHost { .. } => {
                "`--emulate FILE` runs all its nodes here, behind the links that the file describes"
                    .into()
            }
            Self::Grid(GridLoadError::Read { .. }) => "check the path".into(),
            Self::Variable(_) => "`unset` the variable to have the default".into(),
            Self::System { .. } => {
                "see the limits of this shell with `ulimit -a`, or start fewer nodes".into()
            }
            Self::Grid(GridLoadError::Content { .. })
            | Self::Arguments(_)
            | Self::Emulate(_)
            | Self::Nodes(_)
            | Self::Identity(_) => return None,
        })
    }

    /// Prints the error and the next step.
    pub(crate) fn report(&self) {
        // With standard error closed there is nobody to tell.
        let _ = match self {
            Self::Arguments(error) => error.print(),
            _ => match self.hint() {
                Some(hint) => writeln!(io::stderr(), "error: {self}\nhint: {hint}"),
                None => writeln!(io::stderr(), "error: {self}"),
            },
        };
    }

    /// 2 for usage, 1 for a machine that refuses, 0 for help that was asked for.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Arguments(error) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
            Self::Identity(_) | Self::System { .. } => ExitCode::from(gridspan::EXIT_FAILED),
            _ => ExitCode::from(gridspan::EXIT_USAGE),
        }
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered() {
        let error =
            CliError::UnknownJob { name: "rign".into(), near: vec!["ring"], is_file: false };
        assert_eq!(error.hint().as_deref(), Some("did you mean `ring`?"));
    }

    #[test]
    fn a_file_without_a_path_is_explained() {
        let error = CliError::UnknownJob { name: "heat".into(), near: vec![], is_file: true };
        assert_eq!(
            error.hint().as_deref(),
            Some("write `./heat` to run the program in this directory")
        );
    }
}
