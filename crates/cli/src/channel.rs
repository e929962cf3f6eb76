//! The channel from a launcher to a node process: a separate pipe, so that a program that prints
//! its standard input prints no keys.

use gridspan::variables::LAUNCHER;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// The node's end of the pipe, to be dropped once its process has started.
pub(crate) enum NodeEnd {
    /// The process inherits the pipe.
    Inherited { _pipe: PipeReader },
    /// The pipe is the standard input of the process, because `ssh` forwards nothing else.
    Stdin,
}

/// Opens a pipe from which the process started by `command` reads. No other process may be started
/// from this one until the node's end is dropped, since that process would inherit it too.
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
