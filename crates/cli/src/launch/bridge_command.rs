//! The command that starts a bridge to a kept node, and the first answer of the bridge.

use super::plan::Launch;
use crate::error::CliError;
use crate::hosts::Shared;
use gridspan::keeper::{BRIDGE_BEGINS, BRIDGE_VERSION, BridgeOrder, BridgeTask, LauncherId};
use gridspan_topology::NodeId;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, BufRead, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Number of bytes that a program or a shell may print before a bridge answers.
const BEFORE_BYTES_MAX: u64 = 64 << 10;

/// Starts bridges to a node, any number of times.
pub(super) struct BridgeCommand {
    command: Command,
    /// The host or gateway to which a connection is opened; `None` for a node of this machine.
    pub(super) entry: Option<String>,
    /// The order for the next bridge.
    pub(super) order: BridgeOrder,
}

impl BridgeCommand {
    /// The command for a node of a kept job.
    pub(super) fn new(
        launch: &Launch<'_>,
        node: NodeId,
        task: BridgeTask,
        shared: &Shared,
    ) -> Result<Self, CliError> {
        let Some(kept) = &launch.kept else {
            let error = io::Error::from(io::ErrorKind::Unsupported);
            return Err(CliError::System { what: "keep the nodes of this job", error });
        };
        let mut command = launch.command(node, shared)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // In a separate process group, Ctrl-C does not reach the bridge, and `kill` also ends the
        // processes that a shell has started.
        command.process_group(0);
        let name = launch.roster.name(node);
        let order = order(&kept.folder, &kept.launcher, &name, launch.log_limit, task);
        Ok(Self { command, entry: launch.entry(node), order })
    }

    /// Discards the messages of `ssh`.
    pub(super) fn without_notes(mut self) -> Self {
        self.command.stderr(Stdio::null());
        self
    }

    /// The program that starts the bridge: `ssh`, or the program of the job.
    pub(super) fn program(&self) -> PathBuf {
        self.command.get_program().into()
    }

    /// Starts a bridge.
    pub(super) fn open(&mut self) -> io::Result<Child> {
        self.command.spawn()
    }
}

/// The order for a bridge to a node with this name, such as `a/0`.
fn order(
    job: &str,
    launcher: &LauncherId,
    node: &str,
    log_limit: u64,
    task: BridgeTask,
) -> BridgeOrder {
    BridgeOrder {
        version: BRIDGE_VERSION,
        launcher: launcher.clone(),
        job: job.to_owned(),
        node: node.replace('/', "-"),
        log_limit,
        task,
    }
}

/// Reads until the frames of a bridge begin. If they do not, returns the output that came instead.
pub(super) fn await_frames(from: &mut impl BufRead) -> io::Result<Result<(), Vec<u8>>> {
    let mut before = Vec::new();
    let mut from = from.take(BEFORE_BYTES_MAX);
    loop {
        let read = from.read_until(b'\n', &mut before)?;
        // A program may not have ended its last line.
        if before.ends_with(BRIDGE_BEGINS.as_bytes()) {
            return Ok(Ok(()));
        }
        if read == 0 {
            return Ok(Err(before));
        }
    }
}

/// Kills `ssh`, or the bridge itself, with all processes of its group.
pub(super) fn kill(child: &Child) {
    // It may have just ended.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_begin_after_what_a_shell_and_a_program_print() {
        let text = format!("welcome\nno end{BRIDGE_BEGINS}frames");
        let mut from = text.as_bytes();
        assert_eq!(await_frames(&mut from).unwrap(), Ok(()));
        assert_eq!(from, b"frames");
        assert_eq!(await_frames(&mut &b"a\nb"[..]).unwrap(), Err(b"a\nb".to_vec()));
        let endless = &vec![b'x'; 1 << 20][..];
        assert_eq!(await_frames(&mut &*endless).unwrap().unwrap_err().len(), 64 << 10);
    }

    #[test]
    fn the_name_of_a_node_is_that_of_a_folder() {
        let launcher = LauncherId { epoch: 1, name: "1@x".to_owned() };
        let order = order("ring-1.x.5", &launcher, "b/2", 4096, BridgeTask::Start);
        assert_eq!(order.node, "b-2");
        assert!(order.check().is_ok());
    }
}
