//! The process of a node: started or adopted by this launcher, reached by a bridge, or a task of
//! Slurm on another machine.
//!
//! The system reports how a process ended to its parent only. So the reason for the end of an
//! adopted process is unknown; its node says on standard output whether it was done. Bridges reach
//! the processes of kept nodes.

use super::bridge::Bridge;
use super::event::{Event, Exit};
use super::task::Task;
use gridspan::keeper::ProcessId;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// A process of a node.
pub(super) enum Process {
    /// Started by this launcher.
    Own { child: Child, id: Option<ProcessId> },
    /// Started by another launcher.
    Adopted { id: ProcessId, has_ended: Arc<AtomicBool> },
    /// Of a kept node.
    Kept(Bridge),
    /// Started by `srun`.
    Task(Arc<Task>),
}

impl Process {
    /// A process that this launcher has started.
    pub(super) fn own(child: Child) -> Self {
        let id = ProcessId::of(child.id());
        Self::Own { child, id }
    }

    /// Watches a process that another launcher has started.
    ///
    /// # Errors
    ///
    /// If the process cannot be watched. A process that has ended is no error.
    #[cfg(target_os = "linux")]
    pub(super) fn adopt(id: ProcessId, events: Sender<Event>) -> io::Result<Self> {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::process::{PidfdFlags, pidfd_open};

        let has_ended = Arc::new(AtomicBool::new(true));
        let opened = pid(id.pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let process = match opened {
            None | Some(Err(rustix::io::Errno::SRCH)) => None,
            Some(opened) => Some(opened?),
        };
        // Another process may have the number now. The identity, read after the descriptor was
        // opened, shows this.
        if let Some(process) = process.filter(|_| ProcessId::of(id.pid) == Some(id)) {
            has_ended.store(false, Ordering::Release);
            let ended = has_ended.clone();
            let wait = move || {
                loop {
                    let mut ends = [PollFd::new(&process, PollFlags::IN)];
                    match poll(&mut ends, None) {
                        Err(rustix::io::Errno::INTR) => {}
                        _ => break,
                    }
                }
                ended.store(true, Ordering::Release);
                // The launcher may have ended already.
                let _ = events.send(Event::ChildrenChanged);
            };
            std::thread::Builder::new().name("adopted".to_owned()).spawn(wait)?;
        }
        Ok(Self::Adopted { id, has_ended })
    }

    /// Watches a process that another launcher has started.
    ///
    /// # Errors
    ///
    /// Always: only Linux can watch such a process.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn adopt(_id: ProcessId, _events: Sender<Event>) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux can adopt processes"))
    }

    /// The process id; `None` if the process runs on another machine.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Own { child, .. } => Some(child.id()),
            Self::Adopted { id, .. } => Some(id.pid),
            Self::Kept(bridge) => bridge.pid(),
            Self::Task(_) => None,
        }
    }

    /// The identity by which another launcher recognises the process; `None` if the system does not
    /// report it.
    pub(super) fn id(&self) -> Option<ProcessId> {
        match self {
            Self::Own { id, .. } => *id,
            Self::Adopted { id, .. } => Some(*id),
            // The keeper of the node knows the identity.
            Self::Kept(_) => None,
            Self::Task(_) => None,
        }
    }

    /// How the process ended; `None` while it runs.
    pub(super) fn exit(&mut self) -> Option<Exit> {
        match self {
            Self::Own { child, .. } => child.try_wait().ok().flatten().map(Exit::from),
            Self::Adopted { has_ended, .. } => {
                has_ended.load(Ordering::Acquire).then_some(Exit::Unknown)
            }
            Self::Kept(bridge) => bridge.exit(),
            Self::Task(task) => task.exit(),
        }
    }

    /// Sends a signal to the group of the process.
    pub(super) fn signal(&self, signal: Signal) {
        let has_ended = match self {
            Self::Own { .. } => false,
            Self::Adopted { has_ended, .. } => has_ended.load(Ordering::Acquire),
            Self::Kept(bridge) if signal == Signal::KILL => return bridge.kill(),
            Self::Kept(bridge) if signal == Signal::TERM => return bridge.ask(),
            // Other signals are for jobs whose nodes all run on this machine.
            Self::Kept(_) => return,
            Self::Task(task) => return task.signal(signal),
        };
        if let Some(pid) = self.pid().and_then(pid).filter(|_| !has_ended)
            && kill_process_group(pid, signal).is_err()
        {
            // `kill_process` fails only if the process has just ended.
            let _ = kill_process(pid, signal);
        }
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc::channel;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_end_of_an_adopted_process_is_noticed() {
        let mut started = Command::new("sleep").arg("100").spawn().unwrap();
        let id = ProcessId::of(started.id()).unwrap();
        let (events, incoming) = channel();
        let mut adopted = Process::adopt(id, events.clone()).unwrap();
        let other = ProcessId { began: id.began + 1, ..id };
        let mut gone = Process::adopt(other, events).unwrap();
        assert_eq!(gone.exit(), Some(Exit::Unknown), "the number of another process");
        gone.signal(Signal::KILL);
        assert_eq!(adopted.exit(), None);

        adopted.signal(Signal::KILL);

        assert_eq!(incoming.recv().unwrap(), Event::ChildrenChanged);
        assert_eq!(adopted.exit(), Some(Exit::Unknown));
        started.wait().unwrap();
    }
}
