//! Commands on a host: gridctl moves to the namespaces of the host and becomes the command.

use super::files::process_of;
use super::namespaces::enter;
use super::ssh_line::SshLine;
use crate::args::{LabEnterArgs, LabSshArgs};
use crate::error::CliError;
use crate::hosts::SSH_FAILED;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// The shell for commands, and for users without `$SHELL`.
const SHELL: &str = "/bin/sh";

/// Becomes a command on a host. Returns only if that fails.
pub(super) fn run(args: &LabEnterArgs) -> Result<ExitCode, CliError> {
    enter(args.process)?;
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(CliError::NoProgram);
    };
    let mut command = Command::new(program);
    let error = command.args(arguments).current_dir(&args.folder).exec();
    Err(CliError::Start { path: program.into(), error })
}

/// Becomes the command that `ssh` would run on a host. Returns only if that fails.
pub(super) fn run_ssh(args: &LabSshArgs) -> Result<ExitCode, CliError> {
    let failed = |reason: String| {
        // With standard error closed, the reason cannot be reported.
        let _ = writeln!(io::stderr(), "ssh: {reason}");
        Ok(ExitCode::from(SSH_FAILED as u8))
    };
    let line = match SshLine::parse(&args.words) {
        Ok(line) => line,
        Err(error) => return failed(error.to_string()),
    };
    let table = match fs::read_to_string(&args.table) {
        Ok(table) => table,
        Err(error) => return failed(format!("{}: {error}", args.table.display())),
    };
    // The message of OpenSSH, by which programs recognise an unknown host.
    let Some(process) = process_of(&table, &line.host) else {
        return failed(format!(
            "Could not resolve hostname {}: Name or service not known",
            line.host.escape_debug()
        ));
    };
    if let Err(error) = enter(process) {
        return failed(error.to_string());
    }
    let error = shell(&line).exec();
    failed(format!("{SHELL}: {error}"))
}

/// Returns the shell for the command, in the home of the user as with `ssh`. It keeps the
/// environment variables.
fn shell(line: &SshLine) -> Command {
    let set = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let mut command = match &line.command {
        Some(words) => {
            let mut command = Command::new(SHELL);
            command.arg("-c").arg(words);
            command
        }
        None => Command::new(set("SHELL").unwrap_or_else(|| SHELL.into())),
    };
    if line.is_without_input {
        command.stdin(Stdio::null());
    }
    let home = set("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    command.current_dir(home.unwrap_or_else(|| "/".into()));
    command
}
