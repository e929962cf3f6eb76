//! One node of a job that a launcher started: it learns who it is, takes part, and ends with it.
//!
//! # Failure
//!
//! A node never outlives its launcher. The end of standard input ends the process; should it be
//! stuck, the kernel kills it when the launcher's main thread is gone.

use crate::control;
use crate::outcome::{EXIT_FAILED, EXIT_USAGE, complain, conclude};
use crate::settings::Settings;
use gridspan_runtime::driver::cluster::{self, Leaver};
use gridspan_runtime::net::bootstrap;
use gridspan_runtime::{Job, JobError};
use serde::Deserialize;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// Runs this process's part of the job.
pub(crate) fn run(job: Job) -> ExitCode {
    die_with_launcher();
    let joined = match bootstrap::join(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(joined) => joined,
        Err(error) => {
            complain(
                &error.to_string(),
                "`gridctl run` starts nodes; unset GRIDSPAN_DRIVER otherwise",
            );
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let layout = joined.bundle.spec.layout().clone();
    let leaver = Arc::<OnceLock<Leaver>>::default();
    let outcome = match (watch(leaver.clone()), settings(&joined.bundle.settings)) {
        (Ok(()), Ok(settings)) => {
            let job = control::telling(settings.apply(job));
            cluster::run_with(job, joined, |begun| {
                // Set once, here.
                let _ = leaver.set(begun);
            })
        }
        (Err(error), _) => Err(JobError::Failed(format!("cannot watch the launcher: {error}"))),
        (_, Err(error)) => Err(JobError::Protocol(format!(
            "the launcher sent settings that make no sense: {error}"
        ))),
    };
    conclude(outcome, &layout, true)
}

/// Has the kernel kill this process should its launcher be gone.
pub(crate) fn die_with_launcher() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // Without it, the end of standard input still ends the process.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}

/// Ends this process when standard input ends, and lets it leave the job when that says so.
fn watch(leaver: Arc<OnceLock<Leaver>>) -> io::Result<()> {
    let leave = move || leaver.get().into_iter().for_each(Leaver::leave);
    bootstrap::watch_launcher(io::stdin(), leave, || {
        let _ = writeln!(io::stderr(), "the launcher is gone, this node ends too");
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
