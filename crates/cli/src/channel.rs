//! What a launcher says to a node process: a pipe of its own, so that a program that prints its
//! input prints no keys.

use gridspan::variables::LAUNCHER;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// The end that the node reads, to be dropped once its process has started.
pub(crate) enum NodeEnd {
    /// The process inherits it.
    Inherited { _pipe: PipeReader },
    /// It is the standard input of the process: `ssh` passes nothing else on.
    Stdin,
}

/// Gives the process that `command` starts a pipe to read from. No other process may be started
/// from this one until the end of the node is dropped, for that would inherit it, too.
pub(crate) fn open(command: &mut Command, is_remote: bool) -> io::Result<(NodeEnd, PipeWriter)> {
    let (reader, writer) = pipe()?;
    if is_remote {
        command.stdin(reader);
        return Ok((NodeEnd::Stdin, writer));
    }
    fcntl_setfd(&reader, FdFlags::empty())?;
    command.stdin(Stdio::null()).env(LAUNCHER, reader.as_raw_fd().to_string());
    Ok((NodeEnd::Inherited { _pipe: reader }, writer))
}
