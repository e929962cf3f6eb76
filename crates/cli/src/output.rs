//! Output of results: to standard output, and to files of pictures.

use crate::error::{CliError, EXIT_PIPE};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Path that stands for standard output.
pub(crate) const STDOUT: &str = "-";

/// Beginning of the message with which `print!` panics about standard output.
const CANNOT_PRINT: &str = "failed printing to stdout: ";
/// Time between two writes to an output that takes nothing now.
const PAUSE: Duration = Duration::from_millis(10);

/// Makes this process end silently when a job inside it prints and the reader has closed the
/// output, and with an error when printing fails for another reason. Jobs print with `println!`,
/// which panics.
pub(crate) fn end_without_reader() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        match panic
            .payload()
            .downcast_ref::<String>()
            .and_then(|text| text.strip_prefix(CANNOT_PRINT))
        {
            Some(reason) if reason.starts_with("Broken pipe") => {
                std::process::exit(i32::from(EXIT_PIPE));
            }
            Some(reason) => {
                let hint = "make room, or send the output elsewhere";
                // Standard error may still be writable.
                let _ = writeln!(
                    io::stderr(),
                    "error: cannot write the output: {reason}\nhint: {hint}"
                );
                std::process::exit(i32::from(gridspan::EXIT_FAILED));
            }
            None => others(panic),
        }
    }));
}

/// Prints to standard output. It is not an error if the reader has closed it. `what` names the
/// operation in an error.
pub(crate) fn print(text: &str, what: &'static str) -> Result<ExitCode, CliError> {
    match write_all(&mut io::stdout().lock(), text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::System { what, error })
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Writes and flushes a text, also to a non-blocking output: another process that shares the
/// output, such as `ssh`, may have made it so.
pub(crate) fn write_all(to: &mut impl Write, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match to.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => text = &text[written..],
            Err(error) => pause_after(error)?,
        }
    }
    while let Err(error) = to.flush() {
        pause_after(error)?;
    }
    Ok(())
}

/// Waits before another attempt, if the output takes nothing now. Returns any other error.
fn pause_after(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock => {
            thread::sleep(PAUSE);
            Ok(())
        }
        _ => Err(error),
    }
}

/// Says on standard error, which may be closed, that older output was dropped.
pub(crate) fn tell_dropped(bytes: u64) {
    let _ = writeln!(io::stderr(), "gridctl│ {bytes} bytes of older output were dropped");
}

/// Prints a warning to standard error, which may be closed.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {text}");
}

/// Writes a picture to its file and then prints the text. A picture for standard output is printed
/// without the text.
pub(crate) fn show(
    picture: Option<(&PathBuf, String)>,
    text: impl FnOnce() -> String,
    what: &'static str,
) -> Result<ExitCode, CliError> {
    if let Some((path, picture)) = picture {
        if path == Path::new(STDOUT) {
            return print(&picture, what);
        }
        fs::write(path, picture).map_err(|error| CliError::Write { path: path.clone(), error })?;
    }
    print(&text(), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A non-blocking output that takes up to three bytes at every second attempt.
    #[derive(Default)]
    struct Busy {
        taken: Vec<u8>,
        is_full: bool,
    }

    impl Busy {
        fn attempt(&mut self) -> io::Result<()> {
            self.is_full = !self.is_full;
            if self.is_full { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        }
    }

    impl Write for Busy {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.attempt()?;
            let taken = bytes.len().min(3);
            self.taken.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.attempt()
        }
    }

    #[test]
    fn an_output_that_takes_nothing_now_gets_all_later() {
        let mut busy = Busy::default();
        write_all(&mut busy, b"one\ntwo\n").unwrap();
        assert_eq!(busy.taken, b"one\ntwo\n");
        let full = write_all(&mut &mut [0_u8; 3][..], b"four").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WriteZero);
    }
}
