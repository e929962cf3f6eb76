//! The program to run: a built-in job, or a program of the user.

use crate::args::{Cli, Command};
use crate::error::CliError;
use crate::probe::PROBE;
use crate::programs;
use crate::surroundings::Surroundings;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use gridspan_jobs::Entry;
use gridspan_runtime::Job;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

/// A program with its arguments.
pub(crate) enum Program {
    /// A job that gridctl contains.
    BuiltIn {
        /// The job.
        entry: &'static Entry,
        /// Arguments after its name.
        arguments: Vec<String>,
    },
    /// A program that is linked with the `gridspan` crate.
    File {
        path: PathBuf,
        /// Arguments after its path.
        arguments: Vec<OsString>,
    },
}

impl Program {
    /// Interprets the words of a command. A first word with a `/` is a path; any other is the name
    /// of a built-in job, whose arguments are checked.
    pub(crate) fn resolve(command: Option<&Command>) -> Result<Self, CliError> {
        let Some((first, rest)) = command.and_then(|command| command.words().split_first()) else {
            return Err(CliError::NoProgram);
        };
        if first.as_encoded_bytes().contains(&b'/') {
            return Ok(Self::File { path: first.into(), arguments: rest.to_vec() });
        }
        let name = first.to_string_lossy();
        let hidden = || (name == PROBE.name).then_some(&PROBE);
        let Some(entry) = gridspan_jobs::find(&name).or_else(hidden) else {
            let is_file = Path::new(first).is_file();
            let near = programs::near(&name);
            return Err(CliError::UnknownJob { name: name.into_owned(), near, is_file });
        };
        let text = |word: &OsString| word.to_str().map(str::to_owned).ok_or(CliError::NotText);
        let arguments = rest.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        (entry.build)(&arguments).map_err(|error| misplaced(&name, error))?;
        Ok(Self::BuiltIn { entry, arguments })
    }

    /// Returns the job that measures links.
    pub(crate) fn probe() -> Self {
        Self::BuiltIn { entry: &PROBE, arguments: vec![] }
    }

    /// Whether the program is a job that gridctl contains.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self, Self::BuiltIn { .. })
    }

    /// Returns the program's name, without its path.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::BuiltIn { entry, .. } => entry.name.to_owned(),
            Self::File { path, .. } => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
        }
    }

    /// Returns the job, if it is built in.
    pub(crate) fn job(&self) -> Result<Option<Job>, CliError> {
        match self {
            Self::BuiltIn { entry, arguments } => Ok(Some((entry.build)(arguments)?)),
            Self::File { .. } => Ok(None),
        }
    }

    /// Returns the file to execute: the program's, or gridctl's own.
    pub(crate) fn path(&self) -> Result<PathBuf, CliError> {
        match self {
            Self::BuiltIn { .. } => {
                std::env::current_exe().map_err(CliError::system("find gridctl's own path"))
            }
            Self::File { path, .. } => Ok(path.clone()),
        }
    }

    /// Returns the command of a process that runs the program. Of the Gridspan variables, the
    /// process gets only `variables`.
    pub(crate) fn command(
        &self,
        variables: &[(&'static str, OsString)],
        surroundings: &Surroundings,
    ) -> Result<process::Command, CliError> {
        // The path is relative to the current folder, wherever the process runs.
        let path = std::path::absolute(self.path()?)
            .map_err(CliError::system("find the program's path"))?;
        let mut command = process::Command::new(path);
        match self {
            Self::BuiltIn { entry, arguments } => {
                command.arg("__job").arg(entry.name).args(arguments);
            }
            Self::File { arguments, .. } => {
                command.args(arguments);
            }
        }
        for name in gridspan::variables::ALL {
            command.env_remove(name);
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        surroundings.apply(&mut command);
        Ok(command)
    }

    /// Runs a built-in job in this process, by `run`, or replaces this process by the user's
    /// program.
    pub(crate) fn run_or_become(
        &self,
        run: impl FnOnce(Job) -> ExitCode,
        variables: &[(&'static str, OsString)],
        surroundings: &Surroundings,
    ) -> Result<ExitCode, CliError> {
        if let Some(job) = self.job()? {
            if let Some(folder) = &surroundings.folder {
                let error = |error| CliError::Folder { path: folder.clone(), error };
                std::env::set_current_dir(folder).map_err(error)?;
            }
            return Ok(run(job));
        }
        let error = self.command(variables, surroundings)?.exec();
        Err(CliError::Start { path: self.path()?, error })
    }
}

/// Converts an error in a job's arguments; an option of gridctl among them is reported as
/// misplaced.
fn misplaced(job: &str, error: clap::Error) -> CliError {
    let option = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => option.clone(),
        _ => return error.into(),
    };
    let cli = Cli::command();
    let is_option = |argument: &clap::Arg| {
        let long = argument.get_long().map(|long| format!("--{long}"));
        let short = argument.get_short().map(|short| format!("-{short}"));
        [long, short].into_iter().flatten().any(|known| known == option)
    };
    let has_option = |verb: &&str| {
        cli.find_subcommand(verb).is_some_and(|verb| verb.get_arguments().any(is_option))
    };
    match ["run", "sim"].into_iter().find(has_option) {
        Some(verb) => CliError::Misplaced { option, verb, job: job.to_owned() },
        None => error.into(),
    }
}

/// Runs a built-in job configured by environment variables.
pub(crate) fn run_here(command: &Command) -> Result<ExitCode, CliError> {
    match Program::resolve(Some(command))?.job()? {
        Some(job) => Ok(gridspan::main(job)),
        None => Err(CliError::NoProgram),
    }
}
