//! The nodes of a detached job on several hosts, which outlive the launcher's machine.
//!
//! # Start
//!
//! `ssh` does not run such a node itself. It runs the program of the node as a *bridge*: the
//! variable [`DETACHED`](crate::variables::DETACHED) has the value [`BRIDGE`]. The launcher sends a
//! [`BridgeOrder`] to it. To [start](BridgeTask::Start) a node, the bridge runs its own program
//! again with the same arguments: a process in another session, which reads from a named pipe, and
//! prints to files. So the host needs nothing but the program. A bridge also runs the code that the
//! program has before `gridspan::main`.
//!
//! The *keeper* of a node is its record on the host, which all bridges obey. It consists of the
//! pipe and the files in the keeper's folder: `JOB/NODE` in the `state_folder` of the host.
//!
//! | file | content |
//! | --- | --- |
//! | `in` | the named pipe |
//! | `out`, `err` | the output of the node, with control lines; a long file begins with a hole |
//! | `node`, `bridge` | the processes of the node and of its last bridge |
//! | `taken` | number of lines that the node has received |
//! | `read` | how much of `out` and `err` a launcher has read; rewritten while one attends |
//! | `launcher` | the launcher that the keeper has accepted: a [`LauncherId`] |
//! | `start.json`, `state.json` | what another launcher needs; opaque here |
//! | `lock`, `lines` | locked while files are changed, and while a line is written |
//!
//! The launcher's copies of `out` and `err` are beside the folder of the node, not in it, since
//! hosts may share a home.
//!
//! # Steady state
//!
//! Launcher and bridge exchange [frames](write_frame) over the standard input and output of the
//! bridge: lines for the node, one at a time ([`ToBridge`]); the output of the node, and its end
//! ([`FromBridge`]). A bridge passes on the output from given positions on, so that another bridge
//! can go on where it stopped.
//!
//! # Failure
//!
//! When `ssh` or the launcher's machine ends, so does the bridge; the node goes on. Any launcher
//! can [attend](BridgeTask::Attend) to the node by another bridge, if the keeper
//! [accepts](BridgeTask::Accept) it. The keeper refuses each launcher but the accepted one and
//! those with a larger epoch. The new bridge kills the old one before it writes a line.
//! [`CANCEL`](gridspan_runtime::net::bootstrap::CANCEL) cancels the beginning of a line that an old
//! bridge has left in the pipe.
//!
//! Until a node has read its first line, it ends with the bridge that started it. Later it ends if
//! no launcher attends to it for an hour while it needs one.

#[cfg(target_os = "linux")]
mod bridge;
#[cfg(target_os = "linux")]
mod folder;
#[cfg(target_os = "linux")]
mod followed;
mod frames;
mod launcher_id;
#[cfg(target_os = "linux")]
mod limit;
mod process_id;
mod state_folder;

pub use frames::{
    Attendance, BRIDGE_BEGINS, BRIDGE_VERSION, BridgeOrder, BridgeRefusal, BridgeTask, FromBridge,
    KeptNode, NodeExit, NodeSignal, ToBridge, read_frame, write_frame,
};
pub use launcher_id::LauncherId;
pub use process_id::ProcessId;
pub use state_folder::{private_folder, state_folder};

#[cfg(target_os = "linux")]
pub(crate) use bridge::run;

/// The value of [`DETACHED`](crate::variables::DETACHED) that makes a process a bridge.
pub const BRIDGE: &str = "bridge";

/// Fails, since a bridge needs Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_launcher: impl std::io::Read) -> std::process::ExitCode {
    crate::outcome::complain("the hosts of detached jobs need Linux", None::<&str>);
    std::process::ExitCode::from(crate::outcome::EXIT_FAILED)
}
