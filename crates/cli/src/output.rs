//! Where results go: standard output, and files of pictures.

use crate::error::CliError;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A picture goes to standard output by this name.
const STDOUT: &str = "-";

/// Prints to standard output, whose reader may have had enough. `what` says what for, should that fail.
pub(crate) fn print(text: &str, what: &'static str) -> Result<ExitCode, CliError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::System { what, error })
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Writes a picture to its file and then prints the text; the picture alone if it goes to standard output.
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
