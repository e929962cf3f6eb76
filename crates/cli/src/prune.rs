//! `gridctl prune`: removes the folders of detached jobs that have ended.

use crate::args::PruneArgs;
use crate::error::CliError;
use crate::job_folder::JobFolder;
use crate::job_state::JobState;
use crate::output;
use crate::quantity::{bytes, count};
use serde::Serialize;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// A removed folder.
#[derive(Serialize)]
struct Removed {
    job: String,
    /// Space on the disk that was freed.
    bytes: u64,
}

/// Removes folders, and prints what was freed.
pub(crate) fn run(args: &PruneArgs) -> Result<ExitCode, CliError> {
    let folders = JobFolder::all().map_err(CliError::system("look for detached jobs"))?;
    let (mut removed, mut failed) = (vec![], None);
    for folder in folders {
        match remove(&folder, args.older_than.unwrap_or_default()) {
            Ok(Some(bytes)) => removed.push(Removed { job: folder.id, bytes }),
            Ok(None) => {}
            Err(error) => {
                let path = folder.path().to_owned();
                failed.get_or_insert(CliError::Remove { path, error });
            }
        }
    }
    let text = match args.json {
        true => serde_json::to_string(&removed)
            .map(|text| text + "\n")
            .map_err(io::Error::from)
            .map_err(CliError::system("print what was freed"))?,
        false => text(&removed),
    };
    let code = output::print(&text, "print what was freed")?;
    failed.map_or(Ok(code), Err)
}

/// Removes the folder of a job that has ended at least this long ago. Returns the number of freed
/// bytes; `None` if the folder stays.
fn remove(folder: &JobFolder, age: Duration) -> io::Result<Option<u64>> {
    let is_old = |ended: SystemTime| ended.elapsed().unwrap_or_default() >= age;
    // Another version of gridctl may attend to a job whose state cannot be read.
    let is_over = JobState::of(folder).is_ok_and(JobState::is_over);
    if !is_over || !folder.ended().is_ok_and(is_old) {
        return Ok(None);
    }
    // With the lock taken, no launcher can attend to the job while its folder is removed.
    match folder.lock()? {
        Some(_lock) => folder.remove().map(Some),
        None => Ok(None),
    }
}

fn text(removed: &[Removed]) -> String {
    let line = |it: &Removed| format!("{}: {}\n", it.job, bytes(it.bytes));
    let lines: String = removed.iter().map(line).collect();
    let all = removed.iter().map(|it| it.bytes).sum();
    format!("{lines}{} removed, {} freed\n", count(removed.len(), "folder"), bytes(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_freed_space_is_added_up() {
        assert_eq!(text(&[]), "0 folders removed, 0 B freed\n");
        let removed = |job: &str, bytes| Removed { job: job.to_owned(), bytes };
        assert_eq!(
            text(&[removed("ring-1", 1_000_000), removed("uts-2", 500_000)]),
            "ring-1: 1.00 MB\nuts-2: 500 kB\n2 folders removed, 1.50 MB freed\n"
        );
    }
}
