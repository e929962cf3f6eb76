//! Processes of nodes and bridges, which may have been started by others.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Identifies a process, also to other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessMark {
    pid: u32,
    /// When it began, in the clock ticks of proc_pid_stat(5), since the system reuses numbers.
    began: u64,
}

impl ProcessMark {
    /// The process that has this number now; `None` if there is none.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, began: began(pid)? })
    }

    /// This process.
    pub(super) fn own() -> io::Result<Self> {
        let own = Self::of(std::process::id());
        own.ok_or_else(|| io::Error::other("/proc does not say when this process began"))
    }

    /// The number of the process.
    pub(super) fn pid(self) -> u32 {
        self.pid
    }

    /// Whether the process has not ended.
    pub(super) fn is_running(self) -> bool {
        match self.open() {
            Ok(Some(process)) => !has_ended_within(&process, Duration::ZERO),
            _ => false,
        }
    }

    /// Opens the process; `None` if it has ended.
    fn open(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = number(self.pid) else { return Ok(None) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            opened => opened?,
        };
        // Another process may have had the number already when it was opened.
        Ok((began(self.pid) == Some(self.began)).then_some(process))
    }

    /// Sends a signal to the process, which leads a group, and to its group.
    pub(super) fn signal_group(self, signal: Signal) {
        let Ok(Some(process)) = self.open() else { return };
        if number(self.pid).is_none_or(|pid| kill_process_group(pid, signal).is_err()) {
            // It leads no group yet, or has just ended.
            let _ = pidfd_send_signal(process, signal);
        }
    }

    /// Kills the process alone. Returns whether it has ended within `patience`.
    pub(super) fn kill(self, patience: Duration) -> bool {
        let Ok(Some(process)) = self.open() else { return true };
        // It may have just ended.
        let _ = pidfd_send_signal(&process, Signal::KILL);
        has_ended_within(&process, patience)
    }

    /// Kills the process and its group. Returns whether the process has ended within `patience`.
    pub(super) fn kill_group(self, patience: Duration) -> bool {
        let Ok(Some(process)) = self.open() else { return true };
        self.signal_group(Signal::KILL);
        has_ended_within(&process, patience)
    }

    /// Waits for the end of the process.
    pub(super) fn await_end(self) {
        while let Ok(Some(process)) = self.open() {
            if has_ended_within(&process, Duration::from_secs(3600)) {
                return;
            }
        }
    }
}

/// Waits for the end of a process. Returns whether it has ended within `patience`.
fn has_ended_within(process: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    let mut ends = [PollFd::new(process, PollFlags::IN)];
    loop {
        match poll(&mut ends, Some(&patience)) {
            Err(rustix::io::Errno::INTR) => {}
            polled => return polled.is_ok_and(|ready| ready > 0),
        }
    }
}

fn number(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// When a process began, in clock ticks: field 22 of proc_pid_stat(5). The second one, a name in
/// parentheses, can contain blanks.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_process_is_known_by_its_beginning_and_killed_with_its_group() {
        let mut started = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let mark = ProcessMark::of(started.id()).unwrap();
        let other = ProcessMark { began: mark.began + 1, ..mark };
        assert!(mark.is_running() && !other.is_running());
        assert!(other.kill(Duration::ZERO), "it has ended long ago");
        assert!(mark.is_running(), "the number is that of another process");

        assert!(mark.kill_group(Duration::from_secs(10)));

        assert!(!mark.is_running());
        mark.await_end();
        started.wait().unwrap();
        assert!(ProcessMark::own().unwrap().is_running());
    }
}
