//! `gridctl completions`: what shells need to complete the command line.

use crate::args::{Cli, CompletionsArgs};
use crate::error::CliError;
use crate::output;
use clap::{Command, CommandFactory};
use std::process::ExitCode;

const NAME: &str = "gridctl";

/// Prints the completions.
pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let mut command = visible(&Cli::command()).version(env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, NAME, &mut text);
    output::print(&String::from_utf8_lossy(&text), "print the completions")
}

/// Returns the command without its hidden verbs and flags, which shells would offer too.
fn visible(command: &Command) -> Command {
    let flags = command.get_arguments().filter(|flag| !flag.is_hide_set()).cloned();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(visible);
    let shown = Command::new(command.get_name().to_owned()).args(flags).subcommands(verbs);
    match command.get_about() {
        Some(about) => shown.about(about.clone()),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_verbs_and_flags_are_not_completed() {
        let mut command = visible(&Cli::command());
        command.build();
        assert!(command.find_subcommand("__job").is_none());
        let run = command.find_subcommand("run").unwrap();
        let has = |name: &str| run.get_arguments().any(|flag| flag.get_long() == Some(name));
        assert!(has("detach") && !has("background"));
    }
}
