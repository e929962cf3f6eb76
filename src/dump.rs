//! Writes the measurements of each rebalance, for `gridctl balance replay` and other tools.

use gridspan_balance::Snapshot;
use gridspan_runtime::Job;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the job write its snapshots to a file, one line of JSON for each. The first replaces the
/// content of the file. If the file cannot be written, the job reports that once, and goes on.
pub(crate) fn balance(job: Job, path: &Path) -> Job {
    let (path, is_begun) = (PathBuf::from(path), AtomicBool::new(false));
    let has_failed = AtomicBool::new(false);
    job.on_snapshot(move |snapshot, _| {
        let is_first = !is_begun.swap(true, Ordering::Relaxed);
        if let Err(error) = append(&path, snapshot, is_first)
            && !has_failed.swap(true, Ordering::Relaxed)
        {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "cannot write {}: {error}", path.display());
        }
    })
}

fn append(path: &Path, snapshot: &Snapshot, is_first: bool) -> io::Result<()> {
    let mut line = serde_json::to_vec(snapshot)?;
    line.push(b'\n');
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(!is_first).truncate(is_first);
    options.open(path)?.write_all(&line)
}
