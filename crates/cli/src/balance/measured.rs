//! Files of measurements for balancing: those of `--balance-dump` and those of DARMA/vt.

use crate::args::SnapshotFormat;
use crate::error::CliError;
use gridspan::bounded_file;
use gridspan_balance::{Snapshot, VtFile, from_vt, to_vt};
use serde::de::IgnoredAny;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Longest line of a dump, and largest file of DARMA/vt, that is read, in bytes: enough for a
/// snapshot of a few million actors.
const TEXT_BYTES_MAX: u64 = 1 << 30;

pub(super) fn refuse(path: &Path, reason: String) -> CliError {
    CliError::Snapshot { path: path.to_owned(), reason }
}

/// Reads and validates the snapshot of rebalance `number`, counted from 1, or the last snapshot if
/// `number` is `None`.
pub(super) fn read(
    path: &Path,
    format: SnapshotFormat,
    number: Option<NonZeroU32>,
) -> Result<Snapshot, CliError> {
    let snapshot = match format {
        SnapshotFormat::Dump => read_dump(path, number)?,
        SnapshotFormat::Vt => read_vt(path, number)?,
    };
    snapshot.validate().map_err(|error| refuse(path, error.to_string()))?;
    Ok(snapshot)
}

/// Writes the snapshot of one rebalance.
pub(super) fn write(
    snapshot: &Snapshot,
    path: &Path,
    format: SnapshotFormat,
) -> Result<(), CliError> {
    let put = |path: PathBuf, text: serde_json::Result<String>| {
        let written = text.map_err(Into::into).and_then(|text| fs::write(&path, text + "\n"));
        written.map_err(|error| CliError::Write { path, error })
    };
    match format {
        SnapshotFormat::Dump => put(path.to_owned(), serde_json::to_string(snapshot)),
        SnapshotFormat::Vt => to_vt(snapshot)
            .iter()
            .enumerate()
            .try_for_each(|(rank, file)| put(of_rank(path, rank), serde_json::to_string(file))),
    }
}

/// Reads a line with its end; `None` at the end of the file. Fails if it has more than `bytes_max`
/// bytes.
fn read_line(from: &mut impl BufRead, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.take(bytes_max + 1).read_until(b'\n', &mut line)?;
    match line.len() as u64 {
        0 => Ok(None),
        length if length > bytes_max => {
            let reason = format!("a line has more than {bytes_max} bytes");
            Err(io::Error::new(ErrorKind::InvalidData, reason))
        }
        _ => Ok(Some(line)),
    }
}

/// The error for a file that cannot be read, or whose content is not a dump.
fn unreadable(path: &Path, error: io::Error) -> CliError {
    match error.kind() {
        ErrorKind::InvalidData => refuse(path, error.to_string()),
        _ => CliError::Read { path: path.to_owned(), error },
    }
}

/// Whether a line ends in the middle of its value.
fn is_incomplete(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

fn read_dump(path: &Path, wanted: Option<NonZeroU32>) -> Result<Snapshot, CliError> {
    let failed = |error| unreadable(path, error);
    let mut lines = BufReader::new(File::open(path).map_err(failed)?);
    let wanted = wanted.map(|number| number.get());
    let (mut number, mut last) = (0, Vec::new());
    loop {
        let Some(line) = read_line(&mut lines, TEXT_BYTES_MAX).map_err(failed)? else { break };
        // A job that is killed leaves an incomplete line. A file may also lack its last line end.
        if !line.ends_with(b"\n") && is_incomplete(&line) {
            break;
        }
        (number, last) = (number + 1, line);
        if wanted == Some(number) {
            break;
        }
    }
    if number == 0 || wanted.is_some_and(|wanted| wanted != number) {
        return Err(refuse(path, format!("it has {number} rebalances")));
    }
    serde_json::from_slice(&last)
        .map_err(|error| refuse(path, format!("line {number}, column {}: {error}", error.column())))
}

/// Reads one phase from the files of ranks 0, 1 and so on, up to the first that does not exist.
fn read_vt(stem: &Path, wanted: Option<NonZeroU32>) -> Result<Snapshot, CliError> {
    let mut files: Vec<VtFile> = Vec::new();
    loop {
        let path = of_rank(stem, files.len());
        match bounded_file::read(&path, TEXT_BYTES_MAX) {
            Ok(text) => files.push(
                serde_json::from_slice(&text).map_err(|error| refuse(&path, error.to_string()))?,
            ),
            Err(error) if error.kind() == ErrorKind::NotFound && !files.is_empty() => break,
            Err(error) => return Err(CliError::Read { path, error }),
        }
    }
    let phases: Vec<u64> = files.iter().take(1).flat_map(VtFile::phases).collect();
    let phase = match wanted {
        Some(number) => phases.get(number.get() as usize - 1),
        None => phases.last(),
    };
    let missing = || refuse(stem, format!("it has {} phases", phases.len()));
    let snapshot = from_vt(&files, *phase.ok_or_else(missing)?);
    snapshot.map_err(|error| refuse(stem, error.to_string()))
}

fn of_rank(stem: &Path, rank: usize) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(format!(".{rank}.json"));
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_refused_and_not_divided() {
        let mut lines = &b"{}\n[1,2]\nend"[..];
        assert_eq!(read_line(&mut lines, 6).unwrap().as_deref(), Some(&b"{}\n"[..]));
        assert_eq!(read_line(&mut lines, 6).unwrap().as_deref(), Some(&b"[1,2]\n"[..]));
        assert_eq!(read_line(&mut lines, 6).unwrap().as_deref(), Some(&b"end"[..]));
        assert_eq!(read_line(&mut lines, 6).unwrap(), None);
        let error = read_line(&mut &b"[1,2,3]\n{}\n"[..], 6).unwrap_err();
        let error = unreadable(Path::new("dump"), error);
        assert_eq!(error.to_string(), "dump: a line has more than 6 bytes");
        let hint = error.hint().unwrap();
        assert!(hint.contains("--balance-dump"), "the path is correct: {hint}");
    }

    #[test]
    fn the_incomplete_line_of_a_killed_job_is_left_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            fs::write(file.path(), text).unwrap();
            let read = read_dump(file.path(), None);
            read.unwrap_err().to_string().replace(&file.path().display().to_string(), "dump")
        };

        // Neither line is a snapshot; the message names the one that is taken for the last.
        assert!(read("[1]\n[2,").starts_with("dump: line 1, "));
        assert!(read("[1]\n[2,\n").starts_with("dump: line 2, "));
        assert!(read("[1]\n[2]").starts_with("dump: line 2, "));
        assert_eq!(read("{\"tick"), "dump: it has 0 rebalances");
    }
}
