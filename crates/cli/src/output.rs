//! Output of results: to standard output, and to files of pictures.

use crate::error::{CliError, EXIT_PIPE};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Path that stands for standard output.
pub(crate) const STDOUT: &str = "-";

/// Beginning of the message with which `print!` panics about standard output.
const CANNOT_PRINT: &str = "failed printing to stdout: ";
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
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::System { what, error })
        }
        _ => Ok(ExitCode::SUCCESS),
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
