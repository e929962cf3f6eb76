//! `gridctl run --detach`: jobs that outlive the terminal, and their launcher.
//!
//! gridctl starts itself again in the background, in another session, with the same arguments. This
//! launcher locks the folder of the job while it lives (see `job_folder`). If it ends before the
//! job, `gridctl attach` starts another one in the same way, which adopts the processes.

use crate::error::CliError;
use crate::grid::Place;
use crate::job_folder::{JobFolder, Saved, Stage, Start, boot, machine};
use crate::launch::{self, Launch, job_name};
use crate::program::Program;
use crate::surroundings::Surroundings;
use gridspan::EXIT_FAILED;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// Interval between looks at the files of a job.
const LOOK: Duration = Duration::from_millis(20);
/// Beginnings of the variables that another launcher must have, too.
const OWN_VARIABLES: [&str; 2] = ["GRIDSPAN_", "GRIDCTL_"];

/// Starts the launcher of a job in the background, and waits until the job has begun.
pub(crate) fn start(
    program: &Program,
    place: Place,
    surroundings: &Surroundings,
    json: bool,
) -> Result<ExitCode, CliError> {
    let own = std::env::vars_os().filter(|(name, _)| is_own(name));
    let passed = surroundings.variables.iter();
    let passed = passed.map(|(name, value)| (OsString::from(name), value.clone()));
    let start = Start {
        arguments: std::env::args_os().skip(1).collect(),
        folder: std::env::current_dir().map_err(CliError::system("find this folder"))?,
        variables: own.chain(passed).collect(),
        grid: place.grid.spec,
        is_emulated: place.is_emulated,
        machine: machine(),
        program: program.name(),
        boot: boot(),
    };
    let folder = JobFolder::create(&job_name(program), &start)
        .map_err(CliError::system("create the folder of the detached job"))?;
    let mut launcher = spawn(&folder, &start)?;
    let failed = CliError::system("wait for the start of the job");
    while !has_begun(&folder) {
        if let Some(status) = launcher.try_wait().map_err(&failed)?
            && !has_begun(&folder)
        {
            let output = std::fs::read(folder.output()).unwrap_or_default();
            // The reader may have gone.
            let _ = io::stderr().write_all(&output);
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(ExitCode::from(code.filter(|&code| code > 0).unwrap_or(EXIT_FAILED)));
        }
        thread::sleep(LOOK);
    }
    let (id, path) = (&folder.id, folder.path().display());
    let text = match json {
        true => json!({ "version": 1, "event": "detached", "job": id, "folder": folder.path() })
            .to_string(),
        false => {
            format!("{id} runs detached; its output is in {path}\n`gridctl attach {id}` shows it")
        }
    };
    writeln!(io::stdout(), "{text}").map_err(CliError::system("print the name of the job"))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether another launcher must have this variable, too.
fn is_own(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    OWN_VARIABLES.iter().any(|begin| name.starts_with(begin))
}

/// The place of a detached job.
pub(crate) fn place(id: &str) -> Result<Place, CliError> {
    let start = JobFolder::open(id).and_then(|folder| folder.start());
    let start = start.map_err(CliError::system("use the folder of the detached job"))?;
    Ok(Place::of_processes(start.grid, start.is_emulated))
}

/// Whether the members of the first run have been introduced.
fn has_begun(folder: &JobFolder) -> bool {
    let stage = folder.saved().ok().flatten().map(|saved| saved.stage);
    matches!(stage, Some(Stage::Running | Stage::Changing)) || folder.exit_code() == Some(0)
}

/// Starts a launcher for the job of a folder.
pub(crate) fn spawn(folder: &JobFolder, start: &Start) -> Result<Child, CliError> {
    let failed = CliError::system("start a launcher for the job");
    let program = std::env::current_exe().map_err(&failed)?;
    let output = folder.output_to_append().map_err(&failed)?;
    let errors = output.try_clone().map_err(&failed)?;
    // Global flags, which have no values, may precede the verb.
    let verb = start.arguments.iter().position(|argument| argument == "run");
    let (flags, rest) = start.arguments.split_at(verb.map_or(0, |verb| verb + 1));
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_own(name)) {
        command.env_remove(name);
    }
    command
        .args(flags)
        .args(["--background", &folder.id])
        .args(rest)
        .current_dir(&start.folder)
        .envs(start.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(failed)
}

/// Attends to a detached job as its launcher, until it ends.
pub(crate) fn attend(id: &str, launch: &mut Launch<'_>) -> Result<ExitCode, CliError> {
    let failed = CliError::system("use the folder of the detached job");
    let folder = JobFolder::open(id).map_err(&failed)?;
    let Some(_lock) = folder.lock().map_err(&failed)? else {
        // Another launcher was faster.
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(code) = folder.exit_code() {
        return Ok(ExitCode::from(code));
    }
    // It fails only if this process leads a group already.
    let _ = rustix::process::setsid();
    let saved: Option<Saved> = folder.saved().map_err(&failed)?;
    (launch.id, launch.detached) = (id.to_owned(), Some((folder.clone(), saved)));
    let takes_over = launch.saved().is_some();
    let code = match launch::run(launch) {
        Ok(ended) => ended.code,
        // The processes go on, and another launcher may have more luck.
        Err(error) if takes_over => return Err(error),
        Err(error) => {
            error.report();
            EXIT_FAILED
        }
    };
    folder.end(code).map_err(failed)?;
    Ok(ExitCode::from(code))
}
