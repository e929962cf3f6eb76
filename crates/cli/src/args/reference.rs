//! The command lines of commands about gridctl itself: programs, completions, manual pages.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Arguments of `gridctl programs`.
#[derive(Debug, Args)]
pub(crate) struct ProgramsArgs {
    /// Print one JSON array, with an object for each job.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

const COMPLETIONS_HELP: &str = "\
Examples:
  source <(gridctl completions bash)       in ~/.bashrc
  gridctl completions zsh > _gridctl       in a folder of $fpath
  gridctl completions fish > ~/.config/fish/completions/gridctl.fish";

/// Arguments of `gridctl man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_HELP)]
pub(crate) struct ManArgs {
    /// Write the pages into this folder, which is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

const MAN_HELP: &str = "\
Example:
  gridctl man ~/.local/share/man/man1 && man gridctl-run";
