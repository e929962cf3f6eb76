//! A program and its arguments, and the arguments of hidden commands with which gridctl starts
//! itself.

use clap::{Args, Subcommand};
use std::ffi::OsString;

/// A program and its arguments.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// The program, followed by its arguments.
    #[command(external_subcommand)]
    Program(Vec<OsString>),
}

impl Command {
    /// The program and its arguments.
    pub(crate) fn words(&self) -> &[OsString] {
        let Self::Program(words) = self;
        words
    }
}

/// A built-in job and its arguments.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct JobArgs {
    /// The job and its arguments.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the agent of a task finds the launcher.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The port of the launcher, at which tasks enrol.
    pub(crate) port: u16,
    /// The host of the launcher.
    pub(crate) host: String,
}
