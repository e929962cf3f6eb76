//! `gridctl run --detach`: jobs that outlive the terminal, and their launcher.
//!
//! gridctl starts itself again in the background, in another session, with the same arguments. This
//! launcher locks the folder of the job while it lives (see `job_folder`). If it ends before the
//! job, `gridctl attach` starts another one in the same way, which adopts the processes.

use crate::error::CliError;
use crate::job_folder::{JobFolder, Saved, Stage, Start};
use crate::launch::{self, Launch};
use gridspan::EXIT_FAILED;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// Interval between looks at the files of a job.
const LOOK: Duration = Duration::from_millis(20);
/// Beginnings of the variables that another launcher must have, too.
const OWN_VARIABLES: [&str; 2] = ["GRIDSPAN_", "GRIDCTL_"];

/// Starts the launcher of a job in the background, and waits until the job has begun.
pub(crate) fn start(id: &str) -> Result<ExitCode, CliError> {
    let is_own = |name: &OsString| {
        let name = name.to_string_lossy();
        OWN_VARIABLES.iter().any(|begin| name.starts_with(begin))
    };
    let start = Start {
        arguments: std::env::args_os().skip(1).collect(),
        folder: std::env::current_dir().map_err(CliError::system("find this folder"))?,
        variables: std::env::vars_os().filter(|(name, _)| is_own(name)).collect(),
    };
    let folder = JobFolder::create(id, &start)
        .map_err(CliError::system("create the folder of the detached job"))?;
    let mut launcher = spawn(&folder, &start)?;
    let failed = CliError::system("wait for the start of the job");
    loop {
        if let Some(status) = launcher.try_wait().map_err(&failed)?
            && !has_begun(&folder)
        {
            let output = std::fs::read(folder.output()).unwrap_or_default();
            // The reader may have gone.
            let _ = io::stderr().write_all(&output);
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(ExitCode::from(code.unwrap_or(EXIT_FAILED)));
        }
        if has_begun(&folder) {
            break;
        }
        thread::sleep(LOOK);
    }
    let path = folder.path().display();
    let text =
        format!("{id} runs detached; its output is in {path}\n`gridctl attach {id}` shows it");
    writeln!(io::stdout(), "{text}").map_err(CliError::system("print the name of the job"))?;
    Ok(ExitCode::SUCCESS)
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
    Command::new(program)
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
    // It fails only if this process leads a session already.
    let _ = rustix::process::setsid();
    let saved: Option<Saved> = folder.saved().map_err(&failed)?;
    (launch.id, launch.detached) = (id.to_owned(), Some((folder.clone(), saved)));
    let ended = launch::run(launch);
    if let Err(error) = &ended {
        error.report();
    }
    let code = ended.map_or(EXIT_FAILED, |ended| ended.code);
    folder.end(code).map_err(failed)?;
    Ok(ExitCode::from(code))
}
