//! Enters a lab: checks the command line and the system, and becomes `unshare`, which becomes
//! gridctl again, in new namespaces.

use super::error::LabError;
use super::lab_host::LabHost;
use super::{namespaces, program, tun};
use crate::args::LabArgs;
use crate::error::CliError;
use crate::grid::{self, Described};
use crate::{private, status};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Enters the namespaces of a lab and runs the command there. Returns only if that fails.
pub(super) fn run(args: &LabArgs, verbose: u8) -> Result<ExitCode, CliError> {
    let described = described(args)?;
    LabHost::all_of(&described.spec)?;
    let unshare = program::unshare()?;
    program::ip()?;
    tun::check()?;
    let options = namespaces::available(&unshare)?;
    let folder = folder().map_err(CliError::system("create a folder for labs"))?;
    let own = std::env::current_exe().map_err(CliError::system("find gridctl"))?;
    let mut command = Command::new(&unshare);
    let arguments = arguments(args, described.as_json(), &folder, verbose);
    command.args(options).arg("--").arg(own).args(arguments);
    let error = command.exec();
    Err(CliError::Start { path: unshare, error })
}

/// Returns the grid of a lab.
pub(super) fn described(args: &LabArgs) -> Result<Described, CliError> {
    let described = grid::described(args.grid.as_deref(), args.emulate.as_deref())?;
    described.ok_or_else(|| LabError::NoGrid.into())
}

/// Returns a folder that stays empty: each lab mounts a file system there that only its processes
/// see.
fn folder() -> io::Result<PathBuf> {
    let folder = status::folder()?.join("lab");
    private::make_folder(&folder)?;
    std::path::absolute(folder)
}

/// Returns the arguments of gridctl inside of the namespaces. `json`: the grid, if it cannot be
/// read there; a variable would be in the way of those that the user sets for the command.
fn arguments(args: &LabArgs, json: Option<&OsStr>, folder: &Path, verbose: u8) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["-v".into(); usize::from(verbose)];
    words.extend([OsString::from("__lab"), "run".into(), folder.into()]);
    if let Some(json) = json {
        words.extend([OsString::from("--described"), json.into()]);
    } else if let Some(file) = &args.grid {
        words.extend([OsString::from("--grid"), file.into()]);
    } else if let Some(text) = &args.emulate {
        words.push(format!("--emulate={text}").into());
    }
    words.push(format!("--seed={}", args.seed).into());
    words.push("--".into());
    words.extend(args.command.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, LabPart, LabRunArgs, Verb};
    use clap::Parser;

    fn lab(line: &[&str]) -> LabArgs {
        match Cli::try_parse_from([&["gridctl", "lab"][..], line].concat()).unwrap().verb {
            Verb::Lab(args) => args,
            other => panic!("{other:?}"),
        }
    }

    /// How gridctl inside of the namespaces parses its arguments.
    fn reparsed(words: &[OsString]) -> (u8, LabRunArgs) {
        let line = std::iter::once(OsString::from("gridctl")).chain(words.iter().cloned());
        let Cli { verbose, verb } = Cli::try_parse_from(line).unwrap();
        match verb {
            Verb::LabPart(LabPart::Run(args)) => (verbose, args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_grid_from_a_pipe_reaches_gridctl_inside_by_its_content() {
        let args = lab(&["--grid", "/dev/fd/63", "--", "true"]);
        let json = OsStr::new("{\"sites\": []}");
        let (_, inside) = reparsed(&arguments(&args, Some(json), Path::new("/run/lab"), 0));
        assert_eq!(inside.described.as_deref().map(OsStr::new), Some(json));
        assert_eq!(inside.lab, LabArgs { grid: None, ..args });
    }

    #[test]
    fn what_the_user_asks_for_reaches_gridctl_inside_of_the_namespaces() {
        let command = ["mpirun", "-n", "4", "--", "-v", "./a b"];
        let places: [&[&str]; 2] = [&["-e", "2x2,wan=20ms"], &["--grid", "grid.toml"]];
        for place in places {
            let args = lab(&[place, &["--seed", "7", "--"], &command].concat());
            assert_eq!(args.command, command);
            let (verbose, inside) = reparsed(&arguments(&args, None, Path::new("/run/lab"), 2));
            assert_eq!((verbose, inside.described), (2, None));
            assert_eq!((inside.folder.as_path(), inside.lab), (Path::new("/run/lab"), args));
        }
    }

    #[test]
    fn options_after_the_command_belong_to_the_command() {
        let args = lab(&["-e", "2x1", "ping", "-c", "3", "-v", "b1"]);
        assert_eq!(args.command, ["ping", "-c", "3", "-v", "b1"]);
        assert_eq!(args.seed, 0);
        assert!(Cli::try_parse_from(["gridctl", "lab", "-e", "2x1"]).is_err(), "no command");
        let two = ["gridctl", "lab", "-e", "2x1", "-g", "grid.toml", "--", "true"];
        assert!(Cli::try_parse_from(two).is_err());
    }
}
