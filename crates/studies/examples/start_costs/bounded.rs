//! Runs a command, ends it if it takes too long, and measures it.

use gridspan_studies::children_seconds;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::error::Error;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time after a request to end, after which processes are killed.
const GRACE: Duration = Duration::from_secs(10);
/// Number of lines of an error that are shown.
const LINES_MAX: usize = 8;

/// The cost of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Seconds from its start to its end.
    pub(crate) wall_s: f64,
    /// Processor seconds of the command and of all processes that it has waited for. A peer adds
    /// those of others ([`crate::peers::Peer::cost`]).
    pub(crate) processor_s: f64,
}

/// A command with a time limit.
pub(crate) struct Bounded<'a> {
    /// The program and its arguments.
    pub(crate) words: &'a [String],
    /// More variables of its environment.
    pub(crate) variables: &'a [(&'a str, &'a str)],
    /// Time after which the command is ended.
    pub(crate) limit: Duration,
    /// The file for its standard error.
    pub(crate) errors: &'a Path,
}

impl Bounded<'_> {
    /// Runs the command. Fails with its last lines if it fails or takes too long.
    pub(crate) fn run(&self) -> Result<Cost, Box<dyn Error>> {
        let (before, begin) = (children_seconds()?, Instant::now());
        let status = self.wait(begin)?;
        let wall_s = begin.elapsed().as_secs_f64();
        if status.success() {
            return Ok(Cost { wall_s, processor_s: children_seconds()? - before });
        }
        let printed = fs::read(self.errors).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let mut last: Vec<&str> = printed.lines().rev().take(LINES_MAX).collect();
        last.reverse();
        let (limit, command) = (self.limit, self.words.join(" "));
        let late =
            if begin.elapsed() < limit { String::new() } else { format!(" after {limit:?}") };
        Err(format!("{command}: {status}{late}\n{}", last.join("\n")).into())
    }

    fn wait(&self, begin: Instant) -> Result<ExitStatus, Box<dyn Error>> {
        let (program, arguments) = self.words.split_first().ok_or("a command is empty")?;
        let mut command = Command::new(program);
        command.args(arguments).envs(self.variables.iter().copied()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(self.errors)?);
        let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        let group = Pid::from_child(&child);
        let (ended, end) = channel::<()>();
        let deadline = begin + self.limit;
        let guard = thread::spawn(move || {
            for (due, signal) in [(deadline, Signal::TERM), (deadline + GRACE, Signal::KILL)] {
                let left = due.saturating_duration_since(Instant::now());
                if end.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                // The child is not reaped yet, so no other process has its number.
                let _ = kill_process_group(group, signal);
            }
        });
        let waited = waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        drop(ended);
        guard.join().map_err(|_| "the guard of a command has panicked")?;
        waited?;
        Ok(child.wait()?)
    }
}
