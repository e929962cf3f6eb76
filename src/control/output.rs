//! Writes control lines to the standard output of this process, without taking its lock.
//!
//! A program may hold the lock of [`io::stdout`] for as long as it likes, for example inside a
//! handler that does not end. A control line must not wait for it: the launcher would get no answer
//! to its questions, and the threads that tell it of links, losses and checkpoints would stop. So
//! control lines go to a duplicate of the file descriptor, in pieces that no write of the program
//! divides (see `demux`). The part of a program's line that the standard library still buffers
//! stays whole, too.

use super::demux::pieces;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A duplicate of the descriptor of standard output, if the system gives one.
static OUTPUT: LazyLock<Option<File>> = LazyLock::new(|| duplicate().ok());

/// Held while a control line is written, so that another one does not come between its pieces.
static WRITING: Mutex<()> = Mutex::new(());

#[cfg(unix)]
fn duplicate() -> io::Result<File> {
    use std::os::fd::AsFd;

    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

#[cfg(not(unix))]
fn duplicate() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes a control line of this text. Fails if the output is closed.
pub(super) fn write(text: &[u8]) -> io::Result<()> {
    with_output(|to| pieces(text).try_for_each(|piece| to.write_all(&piece)))
}

/// Writes to standard output. No other control line comes between the writes.
fn with_output(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    match &*OUTPUT {
        Some(file) => {
            let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
            let mut file: &File = file;
            write(&mut file)
        }
        None => {
            let mut stdout = io::stdout().lock();
            write(&mut stdout)?;
            stdout.flush()
        }
    }
}

/// Standard output without its lock, for the line in which a node says where it listens. Each write
/// must be of one line, of at most 512 bytes.
#[cfg(feature = "net")]
pub(crate) struct ControlOutput;

#[cfg(feature = "net")]
impl Write for ControlOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        with_output(|to| to.write_all(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::demux::{MARK, OutputDemux, OutputItem};
    use super::*;
    use std::io::Read;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    /// Longest time of a write to an output that is read.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A line of a program, longer than what a pipe takes without dividing it.
    fn line(number: usize) -> Vec<u8> {
        format!("{}{number}", "p".repeat(9_000)).into_bytes()
    }

    /// A control line of several pieces.
    fn control(number: usize) -> Vec<u8> {
        format!("{}{number}", "c".repeat(20_000)).into_bytes()
    }

    #[test]
    fn a_control_line_does_not_wait_for_the_lock_of_standard_output() {
        let lock = io::stdout().lock();
        let (send, written) = channel();
        thread::spawn(move || send.send(write(b"\"recovers\"")).unwrap());

        let written = written.recv_timeout(LIMIT);

        assert!(written.is_ok_and(|written| written.is_ok()));
        drop(lock);
    }

    #[test]
    fn control_lines_and_lines_of_a_program_come_whole_through_one_pipe() {
        let (mut reader, mut of_program) = io::pipe().unwrap();
        let mut of_controls = of_program.try_clone().unwrap();
        let printing = thread::spawn(move || {
            for number in 0..200 {
                of_program.write_all(&[&line(number)[..], b"\n"].concat()).unwrap();
            }
        });
        let telling = thread::spawn(move || {
            for number in 0..100 {
                pieces(&control(number)).for_each(|piece| of_controls.write_all(&piece).unwrap());
            }
        });
        let mut stream = Vec::new();
        reader.read_to_end(&mut stream).unwrap();
        printing.join().unwrap();
        telling.join().unwrap();

        let (mut lines, mut controls) = (Vec::new(), Vec::new());
        let mut on_item = |item: OutputItem<'_>| match item {
            OutputItem::Line(line) => lines.push(line.to_vec()),
            OutputItem::Control(line) => controls.push(line[MARK.len()..].to_vec()),
        };
        let mut demux = OutputDemux::default();
        let whole = stream.strip_suffix(b"\n").unwrap();
        whole.split(|&byte| byte == b'\n').for_each(|line| demux.line(line, &mut on_item));

        assert!(lines == (0..200).map(line).collect::<Vec<_>>());
        assert!(controls == (0..100).map(control).collect::<Vec<_>>());
    }
}
