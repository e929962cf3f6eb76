//! Surroundings of node processes: variables, and the folder in which they run.

use crate::error::{CliError, RunFlagError};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Text in place of a value that is not shown.
const HIDDEN: &str = "***";

/// Surroundings that the user sets for nodes, here and on other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// Variables besides those of Gridspan.
    pub(crate) variables: Vec<(String, OsString)>,
    /// The folder, if the user has named one.
    pub(crate) folder: Option<PathBuf>,
}

impl Surroundings {
    /// Parses variables of the form `NAME=VALUE`, or `NAME` for the value that it has here.
    pub(crate) fn new(variables: &[String], folder: Option<PathBuf>) -> Result<Self, CliError> {
        let variable = |text: &String| {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.into())),
                None => (text.as_str(), std::env::var_os(text)),
            };
            let is_name = !name.is_empty() && !name.contains('\0');
            let value = value.filter(|_| is_name);
            let unset = || CliError::RunFlags(RunFlagError::Unset { name: name.to_owned() });
            value.map(|value| (name.to_owned(), value)).ok_or_else(unset)
        };
        let variables = variables.iter().map(variable).collect::<Result<_, _>>()?;
        Ok(Self { variables, folder })
    }

    /// Returns the surroundings with [`HIDDEN`] as the value of each variable: users pass secrets
    /// in variables.
    pub(crate) fn hidden(&self) -> Self {
        let names = self.variables.iter().map(|(name, _)| name);
        let variables = names.map(|name| (name.clone(), HIDDEN.into())).collect();
        Self { variables, folder: self.folder.clone() }
    }

    /// Applies the surroundings to a process of this machine.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
    }
}
