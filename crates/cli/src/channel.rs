//! The channel from a launcher to a node process: a separate pipe, so that a program that prints
//! its standard input prints no keys.

use gridspan::variables::LAUNCHER;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::{File, OpenOptions};
use std::io::{self, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

/// The node's end of the pipe, to be dropped once its process has started.
pub(crate) enum NodeEnd {
    /// The process inherits the pipe.
    Inherited { _pipe: OwnedFd },
    /// The pipe is the standard input of the process, because `ssh` forwards nothing else.
    Stdin,
}

/// Opens a pipe from which the process started by `command` reads. No other process may be started
/// from this one until the node's end is dropped, since that process would inherit it too.
pub(crate) fn open(command: &mut Command, is_remote: bool) -> io::Result<(NodeEnd, File)> {
    let (reader, writer) = pipe()?;
    let end = pass(command, is_remote, reader.into())?;
    Ok((end, OwnedFd::from(writer).into()))
}

/// Opens a named pipe, as [`open`] does, which is created if it does not exist. The process can
/// write to it, too, so that it never ends, and another launcher may open it later.
pub(crate) fn open_named(
    command: &mut Command,
    is_remote: bool,
    path: &Path,
) -> io::Result<(NodeEnd, File)> {
    match create_named(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let reader = OpenOptions::new().read(true).write(true).open(path)?;
    let end = pass(command, is_remote, reader.into())?;
    Ok((end, open_to_write(path)?))
}

/// Opens a named pipe to write to a process that has it open.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    // It would wait for a reader if this could not read.
    OpenOptions::new().read(true).write(true).open(path)
}

#[cfg(target_os = "linux")]
fn create_named(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

#[cfg(not(target_os = "linux"))]
fn create_named(_path: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "detached jobs need Linux"))
}

/// Gives the reading end to the process started by `command`.
fn pass(command: &mut Command, is_remote: bool, reader: OwnedFd) -> io::Result<NodeEnd> {
    if is_remote {
        command.stdin(reader);
        return Ok(NodeEnd::Stdin);
    }
    fcntl_setfd(&reader, FdFlags::empty())?;
    command.stdin(Stdio::null()).env(LAUNCHER, reader.as_raw_fd().to_string());
    Ok(NodeEnd::Inherited { _pipe: reader })
}
