//! Identifies processes, although the system reuses their numbers.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// Interval between looks at a process where the system has no process descriptors (pidfd).
const LOOK: Duration = Duration::from_millis(20);

/// Identifies a process, also to other processes. The start time is from `/proc` of Linux; on other
/// systems [`ProcessId::of`] returns `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it began, in clock ticks (field 22 of proc_pid_stat(5)). Tells apart processes that had
    /// the same number.
    pub began: u64,
}

/// What the system says of a process.
#[derive(Debug, PartialEq)]
struct Stat {
    state: char,
    parent: u32,
    began: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` if there is none, or the system does not say.
    pub fn of(pid: u32) -> Option<Self> {
        let began = Stat::read(pid)?.began;
        Some(Self { pid, began })
    }

    /// This process.
    ///
    /// # Errors
    ///
    /// If the system does not say when it began.
    pub fn own() -> io::Result<Self> {
        let own = Self::of(std::process::id());
        own.ok_or_else(|| io::Error::other("/proc does not say when this process began"))
    }

    /// Whether the process runs.
    pub fn is_running(self) -> bool {
        !self.has_ended_within(Duration::ZERO)
    }

    /// Returns the processes that it has started and that have not ended.
    pub fn children(self) -> Vec<Self> {
        let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let pids = fs::read_dir("/proc").into_iter().flatten();
        let pids = pids.filter_map(|entry| pid(entry.ok()?));
        let child = |pid| {
            let stat = Stat::read(pid).filter(|stat| stat.parent == self.pid)?;
            Some(Self { pid, began: stat.began })
        };
        // The number may be that of another process by now.
        if self.is_running() { pids.filter_map(child).collect() } else { vec![] }
    }

    /// Kills the process alone. Returns whether it has ended within `patience`.
    pub fn kill(self, patience: Duration) -> bool {
        self.signal(Signal::KILL);
        self.has_ended_within(patience)
    }

    /// Kills the process and its group. Returns whether the process has ended within `patience`.
    pub fn kill_group(self, patience: Duration) -> bool {
        self.signal_group(Signal::KILL);
        self.has_ended_within(patience)
    }

    /// Sends a signal to the process, which leads a group, and to its group.
    pub(super) fn signal_group(self, signal: Signal) {
        let is_sent = |pid| self.is_running() && kill_process_group(pid, signal).is_ok();
        if !number(self.pid).is_some_and(is_sent) {
            // It leads no group yet, or has just ended.
            self.signal(signal);
        }
    }

    /// Waits for the end of the process.
    #[cfg(target_os = "linux")]
    pub(super) fn await_end(self) {
        while !self.has_ended_within(Duration::from_secs(3600)) {}
    }

    /// Sends a signal to the process. That fails only if it has just ended.
    fn signal(self, signal: Signal) {
        match self.open() {
            Ok(Some(process)) => send(&process, signal),
            Ok(None) => {}
            Err(_) => {
                if let Some(pid) = number(self.pid).filter(|_| self.is_running()) {
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }

    /// Returns whether the process has ended within `patience`.
    fn has_ended_within(self, patience: Duration) -> bool {
        match self.open() {
            Ok(Some(process)) => ends_within(&process, patience),
            Ok(None) => true,
            Err(_) => self.is_seen_to_end_within(patience),
        }
    }

    /// Returns whether the process has ended within `patience`, where the system has no process
    /// descriptors.
    fn is_seen_to_end_within(self, patience: Duration) -> bool {
        let mut left = patience;
        loop {
            let stat = Stat::read(self.pid).filter(|stat| stat.began == self.began);
            if stat.is_none_or(|stat| stat.has_ended()) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            let pause = left.min(LOOK);
            thread::sleep(pause);
            left -= pause;
        }
    }

    /// Opens a descriptor of the process; `None` if it has ended.
    ///
    /// # Errors
    ///
    /// If the system has no process descriptors.
    #[cfg(target_os = "linux")]
    fn open(self) -> io::Result<Option<OwnedFd>> {
        use rustix::process::{PidfdFlags, pidfd_open};

        let Some(pid) = number(self.pid) else { return Ok(None) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            opened => opened?,
        };
        // Another process may have had the number already when it was opened.
        let is_same = Stat::read(self.pid).is_some_and(|stat| stat.began == self.began);
        Ok(is_same.then_some(process))
    }

    #[cfg(not(target_os = "linux"))]
    fn open(self) -> io::Result<Option<OwnedFd>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads fields 3, 4 and 22 of proc_pid_stat(5). The second one, a name in parentheses, can
    /// contain blanks.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            began: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether the process is dead: a zombie (`Z`), whose parent has not read its exit status, or
    /// about to vanish (`X`).
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Waits for the end of a process. Returns whether it has ended within `patience`.
fn ends_within(process: &OwnedFd, patience: Duration) -> bool {
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

/// Sends a signal to a process, unless it has just ended.
#[cfg(target_os = "linux")]
fn send(process: &OwnedFd, signal: Signal) {
    let _ = rustix::process::pidfd_send_signal(process, signal);
}

#[cfg(not(target_os = "linux"))]
fn send(_: &OwnedFd, _: Signal) {}

fn number(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_process_are_read_behind_any_name() {
        let fields = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let expected = Stat { state: 'S', parent: 4, began: 22 };
        assert_eq!(Stat::parse(&format!("7 (a) b) S {fields}")), Some(expected));
        assert_eq!(Stat::parse("7 (a"), None);
        assert_eq!(Stat::parse("7 (a) S 1"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_known_by_its_beginning_and_killed_with_its_group() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;

        let own = ProcessId::own().unwrap();
        let mut started = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let child = ProcessId::of(started.id()).unwrap();
        let other = ProcessId { began: child.began + 1, ..child };
        assert!(own.is_running() && own.children().contains(&child));
        assert!(child.is_running() && !child.is_seen_to_end_within(Duration::ZERO));
        assert!(!other.is_running() && other.is_seen_to_end_within(Duration::ZERO));
        assert!(other.children().is_empty());
        assert!(other.kill(Duration::ZERO), "it has ended long ago");
        assert!(other.kill_group(Duration::ZERO));
        assert!(child.is_running(), "the number is that of another process");

        assert!(child.kill_group(Duration::from_secs(10)));

        assert!(!child.is_running() && child.is_seen_to_end_within(Duration::ZERO));
        child.await_end();
        assert!(!started.wait().unwrap().success());
    }
}
