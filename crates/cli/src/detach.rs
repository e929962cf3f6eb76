//! `gridctl run --detach`: jobs that outlive the terminal, and their launcher.
//!
//! gridctl starts itself again in the background, in another session, with the same arguments. This
//! launcher locks the folder of the job while it lives (see `job_folder`). If it ends before the
//! job, `gridctl attach` starts another one in the same way, which adopts the processes. If a job
//! runs on several hosts, keepers keep its nodes there (see `gridspan::keeper`), so that another
//! launcher can run on another machine.

use crate::error::{CliError, RunFlagError};
use crate::grid::Place;
use crate::hosts::{all_here, is_loopback};
use crate::job_folder::{JobFolder, Refusal, Saved, Stage, Start, boot, machine};
use crate::launch::{self, JobWitness, Kept, Launch, listed_job_name};
use crate::nodes::named;
use crate::program::Program;
use crate::surroundings::Surroundings;
use crate::witness::WitnessLocation;
use gridspan::EXIT_FAILED;
use gridspan_topology::GridSpec;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval between checks of the files of a job.
const LOOK: Duration = Duration::from_millis(20);
/// Prefixes of the variables that each later launcher needs, too.
const OWN_VARIABLES: [&str; 2] = ["GRIDSPAN_", "GRIDCTL_"];

/// Starts the launcher of a job in the background, and waits until the job has begun.
pub(crate) fn start(
    program: &Program,
    place: Place,
    surroundings: &Surroundings,
    (json, has_witness): (bool, bool),
) -> Result<ExitCode, CliError> {
    let own = std::env::vars_os().filter(|(name, _)| is_own(name));
    let passed = surroundings.variables.iter();
    let passed = passed.map(|(name, value)| (OsString::from(name), value.clone()));
    let name = listed_job_name(program);
    let is_kept = !place.is_emulated && !all_here(&place.grid.spec);
    if has_witness && !is_kept {
        return Err(RunFlagError::WitnessOfOneHost.into());
    }
    let start = Start {
        arguments: std::env::args_os().skip(1).collect(),
        folder: std::env::current_dir().map_err(CliError::system("find this folder"))?,
        variables: own.chain(passed).collect(),
        grid: if is_kept { of_anywhere(place.grid.spec) } else { place.grid.spec },
        is_emulated: place.is_emulated,
        machine: machine(),
        kept: is_kept.then(|| kept_name(&name)),
        program: program.name(),
        boot: boot(),
    };
    let folder = JobFolder::create(&name, &start)
        .map_err(CliError::system("create the folder of the detached job"))?;
    let mut launcher = spawn(&folder, &start, &[])?;
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

/// Returns the grid with names of hosts that mean the same on all machines.
fn of_anywhere(grid: GridSpec) -> GridSpec {
    let own = machine();
    grid.with_hosts_named(|host| match is_loopback(host) {
        true => own.clone(),
        false => host.to_owned(),
    })
}

/// Returns the name of the folder for the nodes of this job on each host. No other job has it.
fn kept_name(job: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let machine = machine().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let machine: String = machine.chars().take(64).collect();
    format!("{job}.{machine}.{now}")
}

/// Whether a later launcher needs this variable, too.
fn is_own(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    OWN_VARIABLES.iter().any(|begin| name.starts_with(begin))
}

/// The place of a detached job.
pub(crate) fn place(id: &str) -> Result<Place, CliError> {
    let failed = CliError::system("use the folder of the detached job");
    let folder = JobFolder::open(id).map_err(&failed)?;
    let start = folder.start().map_err(&failed)?;
    let is_taken_over = folder.saved().map_err(&failed)?.is_some();
    Ok(Place { is_taken_over, ..Place::of_processes(start.grid, start.is_emulated) })
}

/// Whether the launcher has sent the members of the first run each other's addresses.
fn has_begun(folder: &JobFolder) -> bool {
    let stage = folder.saved().ok().flatten().map(|saved| saved.stage);
    matches!(stage, Some(Stage::Running | Stage::Changing)) || folder.exit_code() == Some(0)
}

/// Starts a launcher for the job of a folder. The nodes, hosts or sites of `ended` have ended for
/// good, as the user says.
pub(crate) fn spawn(
    folder: &JobFolder,
    start: &Start,
    ended: &[String],
) -> Result<Child, CliError> {
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
        .args(ended.iter().flat_map(|node| ["--ended", node]))
        .args(rest)
        .current_dir(&start.folder)
        .envs(start.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(failed)
}

/// Locks the folder of a detached job for its launcher, until the result is dropped. `None` if
/// another launcher was faster. The launcher calls this first, because looking up hosts may take
/// longer than `gridctl attach` waits for a launcher.
pub(crate) fn lock(id: &str) -> Result<Option<File>, CliError> {
    let failed = CliError::system("use the folder of the detached job");
    let folder = JobFolder::open(id).map_err(&failed)?;
    folder.lock().map_err(failed)
}

/// Attends to a detached job, whose folder this process has [locked](lock), as its launcher until
/// the job ends. The nodes, hosts or sites of `ended` have ended for good, as the user says.
/// `witness` is the location of the witness of the job, which decides which of two halves of the
/// nodes goes on, and the command that reaches the location if it is on another host.
pub(crate) fn attend(
    id: &str,
    ended: &[String],
    witness: Option<(WitnessLocation, Vec<OsString>)>,
    mut launch: Launch<'_>,
) -> Result<ExitCode, CliError> {
    let failed = CliError::system("use the folder of the detached job");
    let folder = JobFolder::open(id).map_err(&failed)?;
    if let Some(code) = folder.exit_code() {
        return Ok(ExitCode::from(code));
    }
    folder.set_refusal(None).map_err(&failed)?;
    // This fails only if the process leads a group already.
    let _ = rustix::process::setsid();
    let saved: Option<Saved> = folder.saved().map_err(&failed)?;
    let nodes = launch.spec.layout().node_count();
    if saved.as_ref().is_some_and(|saved| !saved.fits(nodes)) {
        let text = "state.json names nodes that the job does not have";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, text)));
    }
    let added = saved.as_ref().map(|saved| saved.added.as_slice());
    launch.restore_added(added.unwrap_or_default())?;
    let ended = named(&launch.roster, ended)?;
    let kept = folder.start().map_err(&failed)?.kept;
    launch.kept = match kept {
        None => None,
        Some(name) => {
            let open = |(location, ssh)| JobWitness::new(location, ssh, name.clone());
            let witness = witness.map(open).transpose()?;
            Some(Kept::new(&folder, name, ended, witness))
        }
    };
    (launch.id, launch.detached) = (id.to_owned(), Some((folder.clone(), saved)));
    let takes_over = launch.saved().is_some();
    if let Some(witness) = launch.kept.as_ref().and_then(Kept::witness).filter(|_| !takes_over) {
        witness.begin()?;
    }
    if let Err(error) = launch::take_over(&mut launch) {
        folder.set_refusal(Some(&refusal(&error))).map_err(&failed)?;
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    let code = match launch::run(launch) {
        Ok(launch::Ended { abandoned: Some(error), .. }) => {
            folder.set_refusal(Some(&refusal(&error))).map_err(&failed)?;
            return Ok(ExitCode::from(EXIT_FAILED));
        }
        Ok(ended) => ended.code,
        // The processes go on, and another launcher may succeed.
        Err(error) if takes_over => return Err(error),
        Err(error) => {
            error.report();
            EXIT_FAILED
        }
    };
    folder.end(code).map_err(failed)?;
    Ok(ExitCode::from(code))
}

/// The reason why a launcher cannot attend to a job, which `gridctl attach` reports.
fn refusal(error: &CliError) -> Refusal {
    Refusal { reason: error.to_string(), hint: error.hint() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_of_a_kept_job_means_the_same_on_all_machines() {
        let text = "[site.a]\nhosts = [\"localhost\", \"b1\", \"127.0.0.1\"]";
        let grid = of_anywhere(GridSpec::from_toml(text).unwrap());
        let (own, hosts) = (machine(), grid.hosts().map(|(_, host)| host));
        assert_eq!(hosts.collect::<Vec<_>>(), [own.as_str(), "b1", own.as_str()]);
    }

    #[test]
    fn the_folder_of_kept_nodes_is_named_after_the_job() {
        let name = kept_name("ring-71");
        assert!(name.starts_with("ring-71."));
        assert_eq!(name.split('.').count(), 3, "{name}");
        assert_eq!(crate::fetch::job_of(&name), "ring-71");
    }
}
