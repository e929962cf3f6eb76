//! Files of measurements for balancing: those of `--balance-dump` and those of DARMA/vt.

use crate::args::SnapshotFormat;
use crate::error::CliError;
use gridspan_balance::{Snapshot, VtFile, from_vt, to_vt};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Longest line that is read, in bytes: enough for a snapshot of a few million actors.
const LINE_BYTES_MAX: u64 = 1 << 30;

pub(super) fn refuse(path: &Path, reason: String) -> CliError {
    CliError::Snapshot { path: path.to_owned(), reason }
}

/// Reads and validates rebalance `number`, counted from 1, or the last one if `number` is `None`.
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

/// Writes one rebalance.
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

fn read_dump(path: &Path, wanted: Option<NonZeroU32>) -> Result<Snapshot, CliError> {
    let failed = |error| CliError::Read { path: path.to_owned(), error };
    let mut lines = BufReader::new(File::open(path).map_err(failed)?);
    let wanted = wanted.map(|number| number.get());
    let (mut number, mut last) = (0, Vec::new());
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(failed)? == 0 {
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
        match fs::read(&path) {
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
