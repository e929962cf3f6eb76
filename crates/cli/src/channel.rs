//! The channel from a launcher to a node process: a separate pipe, so that a program that prints
//! its standard input prints no keys.

use gridspan::variables::LAUNCHER;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::{self, File, OpenOptions};
use std::io::{self, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The node's end of the pipe, to be dropped once its process has started.
pub(crate) enum NodeEnd {
    /// The process inherits the pipe.
    Inherited { _pipe: OwnedFd },
    /// The pipe is the standard input of `ssh`, which forwards nothing else.
    Stdin,
}

/// Opens a pipe from which the process started by `command` reads. Until the node's end is dropped,
/// this process may start no other, since that one would inherit the pipe too.
pub(crate) fn open(command: &mut Command, is_remote: bool) -> io::Result<(NodeEnd, File)> {
    let (reader, writer) = pipe()?;
    let end = pass(command, is_remote, reader.into())?;
    Ok((end, OwnedFd::from(writer).into()))
}

/// Like [`open`], but opens a named pipe, in place of one that may exist. The process has the pipe
/// open for writing, too, so that its input never ends, and another launcher may open it later.
pub(crate) fn open_named(
    command: &mut Command,
    is_remote: bool,
    path: &Path,
) -> io::Result<(NodeEnd, File)> {
    // An earlier process may have left bytes in the old pipe.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_named(path)?;
    let reader = OpenOptions::new().read(true).write(true).open(path)?;
    let writer = open_to_write(path)?;
    Ok((pass(command, is_remote, reader.into())?, writer))
}

/// Opens a named pipe to write to a process that has it open. Fails if no process has.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    let wait = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(wait).open(path)?;
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_named_pipe_outlives_its_writer_and_is_new_for_each_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-0.in");
        assert!(open_to_write(&path).is_err());
        let mut command = Command::new("true");
        let (first, mut writer) = open_named(&mut command, true, &path).unwrap();
        writer.write_all(b"left").unwrap();
        let mut other = Command::new("true");
        let (second, mut writer) = open_named(&mut other, true, &path).unwrap();
        writer.write_all(b"one\n").unwrap();
        drop((first, second, writer));

        // The process of the second one has it as its standard input.
        open_to_write(&path).unwrap().write_all(b"two\n").unwrap();

        let mut both = [0; 8];
        File::open(&path).unwrap().read_exact(&mut both).unwrap();
        assert_eq!(&both, b"one\ntwo\n");
    }
}
