//! One node of a job that a launcher started: it receives its identity, takes part in the job, and
//! ends with it.
//!
//! # Failure
//!
//! A node never outlives its launcher. The end of the pipe from the launcher ends the process. If
//! the process hangs, the kernel kills it on Linux when the launcher's thread that started it ends.

use crate::build::{build, host};
use crate::control::{self, Control, Failure};
use crate::outcome::{EXIT_FAILED, EXIT_USAGE, complain, conclude};
use crate::settings::Settings;
use crate::variables::LAUNCHER;
use gridspan_runtime::driver::{NodeHandle, cluster};
use gridspan_runtime::net::bootstrap::{self, BootstrapError};
use gridspan_runtime::{Job, JobError, StartError};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Whether this process is or was a node of a job.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Advice for a process that cannot be a node.
const NO_NODE: &str = "`gridctl run` starts nodes; unset GRIDSPAN_DRIVER otherwise";

/// Runs this process's part of the job.
pub(crate) fn run(job: Job) -> ExitCode {
    if HAS_BEGUN.swap(true, Ordering::SeqCst) {
        // The launcher has introduced this process to one job, and sends nothing about others.
        complain(
            "this process is a node of one job, and cannot run a second one",
            "call `gridspan::main` once, or run further jobs with `gridspan::run` and `Driver::Embedded`",
        );
        return ExitCode::from(EXIT_FAILED);
    }
    die_with_launcher();
    let mut launcher = match launcher() {
        Ok(launcher) => BufReader::new(launcher),
        Err(error) => {
            complain(&format!("cannot read from the launcher: {error}"), NO_NODE);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let joined = match bootstrap::join(&mut launcher, &mut io::stdout().lock()) {
        Ok(joined) => joined,
        Err(BootstrapError::Port(error)) => {
            let hint = "the `port` of the site in the grid file says where";
            let mut failure = Failure::new(&error.to_string(), Some(hint), None);
            failure.is_port_taken = error.source.kind() == io::ErrorKind::AddrInUse;
            Control::Failed(failure).tell();
            return ExitCode::from(EXIT_FAILED);
        }
        Err(error) => {
            complain(&error.to_string(), NO_NODE);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let layout = joined.bundle.spec.layout().clone();
    let handle = Arc::<OnceLock<NodeHandle>>::default();
    let outcome = match (watch(launcher, handle.clone()), settings(&joined.bundle.settings)) {
        (Ok(()), Ok(settings)) => {
            let places = layout.clone();
            let job = settings.apply(job).origin(build(), host());
            let job = control::telling(job).on_failure(move |error| {
                Control::Failed(Failure::of(error, &places)).tell();
            });
            cluster::run_with(job, joined, |begun| {
                // No other place sets the handle.
                let _ = handle.set(begun);
            })
        }
        (Err(error), _) => Err(StartError::Launcher { reason: error.to_string() }.into()),
        (_, Err(error)) => {
            Err(JobError::Protocol(format!("the launcher sent invalid settings: {error}")))
        }
    };
    conclude(outcome, &layout, true)
}

/// On Linux, makes the kernel kill this process when the thread that started it has ended.
pub(crate) fn die_with_launcher() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // If that fails, the end of the launcher's input still ends the process.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}

/// Opens the input from the launcher.
fn launcher() -> io::Result<Box<dyn Read + Send>> {
    let Some(descriptor) = std::env::var_os(LAUNCHER) else { return Ok(Box::new(io::stdin())) };
    let number = descriptor.to_str().and_then(|text| text.parse::<u16>().ok());
    let number = number.ok_or_else(|| io::Error::other(format!("{LAUNCHER} is not a number")))?;
    Ok(Box::new(File::open(format!("/dev/fd/{number}"))?))
}

/// Ends this process when the input from the launcher ends, and leaves the job when the launcher
/// requests it.
fn watch(
    launcher: impl Read + Send + 'static,
    handle: Arc<OnceLock<NodeHandle>>,
) -> io::Result<()> {
    let leave = move || handle.get().into_iter().for_each(NodeHandle::leave);
    bootstrap::watch_launcher(launcher, leave, || {
        let _ = writeln!(io::stderr(), "the launcher has ended; this node ends too");
        std::process::exit(i32::from(EXIT_FAILED));
    })?;
    Ok(())
}

fn settings(value: &serde_json::Value) -> Result<Settings, serde_json::Error> {
    if value.is_null() {
        return Ok(Settings::default());
    }
    Settings::deserialize(value)
}
