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
        if let Err(error) = append(&path, snapshot, &is_begun)
            && !has_failed.swap(true, Ordering::Relaxed)
        {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "cannot write {}: {error}", path.display());
        }
    })
}

/// Writes a snapshot, in place of the file's content unless `is_begun`, which it sets.
fn append(path: &Path, snapshot: &Snapshot, is_begun: &AtomicBool) -> io::Result<()> {
    let mut line = serde_json::to_vec(snapshot)?;
    line.push(b'\n');
    let is_first = !is_begun.load(Ordering::Relaxed);
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(!is_first).truncate(is_first);
    let mut file = options.open(path)?;
    // Only now is the old content gone.
    is_begun.store(true, Ordering::Relaxed);
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::Layout;
    use std::fs;

    #[test]
    fn the_first_snapshot_that_is_written_replaces_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("later").join("dump");
        let is_begun = AtomicBool::new(false);
        let snapshot = Snapshot::new(vec![], vec![], vec![], Layout::single(1));
        append(&path, &snapshot, &is_begun).unwrap_err();
        fs::create_dir(folder.path().join("later")).unwrap();
        fs::write(&path, "of an earlier job\n").unwrap();

        append(&path, &snapshot, &is_begun).unwrap();
        append(&path, &snapshot, &is_begun).unwrap();

        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<Snapshot> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, [snapshot.clone(), snapshot]);
    }
}
