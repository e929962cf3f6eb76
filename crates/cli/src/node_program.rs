//! The program that a node runs, in a form that can be sent to another machine.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program with its arguments, variables and folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeProgram {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Folder in which the node runs, if it exists.
    folder: PathBuf,
    /// Variables to set in addition to the user's.
    variables: Vec<(String, OsString)>,
}

impl NodeProgram {
    /// Describes the program of `command`.
    pub(crate) fn of(command: &Command) -> io::Result<Self> {
        let set = command.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?)));
        Ok(Self {
            program: std::path::absolute(command.get_program())?,
            arguments: command.get_args().map(ToOwned::to_owned).collect(),
            folder: command
                .get_current_dir()
                .map_or_else(std::env::current_dir, |folder| Ok(folder.into()))?,
            variables: set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        })
    }

    /// Replaces the path of the program.
    pub(crate) fn with_path(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Returns the path of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.program
    }

    /// Returns the command of the process, without the Gridspan variables of this process.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for name in gridspan::variables::ALL {
            command.env_remove(name);
        }
        command.args(&self.arguments);
        if self.folder.is_dir() {
            command.current_dir(&self.folder);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn the_described_command_is_the_same_command() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("/opt/my job");
        command.args(["--name", "it's"]).env("WHO", "a b").env_remove("GRIDSPAN_SEED");
        command.current_dir(folder.path());

        let described = NodeProgram::of(&command).unwrap();
        let json = serde_json::to_string(&described).unwrap();
        let read: NodeProgram = serde_json::from_str(&json).unwrap();

        assert_eq!(read, described);
        let again = read.command();
        assert_eq!(again.get_program(), "/opt/my job");
        assert_eq!(again.get_args().collect::<Vec<_>>(), ["--name", "it's"]);
        assert_eq!(again.get_current_dir(), Some(folder.path()));
        let set: Vec<_> = again.get_envs().filter(|(_, value)| value.is_some()).collect();
        assert_eq!(set, [(OsStr::new("WHO"), Some(OsStr::new("a b")))]);
        drop(folder);
        assert_eq!(read.command().get_current_dir(), None, "the folder is only elsewhere");
    }
}
