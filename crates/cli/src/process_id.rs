//! Processes that another one can recognise, although the system reuses their numbers.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use std::fs;

/// A process that another one can recognise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// Its number.
    pub(crate) pid: u32,
    /// When it began, in the clock ticks of proc_pid_stat(5), since numbers are reused.
    pub(crate) began: u64,
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
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let began = Stat::read(pid)?.began;
        Some(Self { pid, began })
    }

    /// Whether the process runs.
    pub(crate) fn is_running(self) -> bool {
        let has_ended = |stat: &Stat| matches!(stat.state, 'Z' | 'X');
        Stat::read(self.pid).is_some_and(|stat| stat.began == self.began && !has_ended(&stat))
    }

    /// Returns the processes that it has started and that have not ended.
    pub(crate) fn children(self) -> Vec<Self> {
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

    /// Kills the process.
    pub(crate) fn kill(self) {
        if let Some(pid) = self.running_pid() {
            // It fails only if the process has just ended.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Kills the process and the others of its group, which it leads.
    pub(crate) fn kill_group(self) {
        if let Some(pid) = self.running_pid() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    fn running_pid(self) -> Option<Pid> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        pid.filter(|_| self.is_running())
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
    fn a_process_is_found_among_the_children_of_its_parent_and_killed() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;

        let own = ProcessId::of(std::process::id()).unwrap();
        let mut sleep = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let child = ProcessId::of(sleep.id()).unwrap();
        assert!(child.is_running() && own.children().contains(&child));
        let other = ProcessId { began: child.began + 1, ..child };
        assert!(!other.is_running(), "the number of another process");
        other.kill();
        other.kill_group();
        assert!(child.is_running() && other.children().is_empty());

        child.kill_group();

        assert!(!sleep.wait().unwrap().success());
        assert!(!child.is_running());
    }
}
