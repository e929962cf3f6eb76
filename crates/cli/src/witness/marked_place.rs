//! A witness at one place, which stores the mark of a job and the settled half of each of its runs.
//!
//! The first launcher of a job leaves the mark. A launcher that does not find the mark has opened
//! another place, such as the mount point of a folder that is not mounted on its machine, and gets
//! an error.

use gridspan_runtime::driver::Witness;
use std::io;
use std::path::PathBuf;

/// The name of the mark.
const MARK: &str = "job";

/// A folder, or a place in an object store, as the witness of one job.
#[derive(Clone, Debug)]
pub(crate) struct MarkedPlace {
    location: PathBuf,
    /// A name of the job that no other job has.
    job: String,
}

impl MarkedPlace {
    /// The witness at a folder, or at the address of a place in an object store.
    pub(crate) fn new(location: PathBuf, job: String) -> Self {
        Self { location, job }
    }

    /// Leaves the mark of the job.
    ///
    /// # Errors
    ///
    /// If the place cannot be used, or if it lets a settled value be replaced.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let (place, mark) = (Witness::create(&self.location)?, self.name(MARK));
        place.settle(&mark, self.job.as_bytes())?;
        place.check(&mark)
    }

    /// Settles on this half of run number `run`, unless another half is settled. Returns the
    /// settled half.
    ///
    /// # Errors
    ///
    /// If the place cannot be used, lacks the mark, or has a half that is not text. The settled
    /// half is then unknown.
    pub(crate) fn settle(&self, run: usize, half: &str) -> io::Result<String> {
        let place = self.open()?;
        text(&place.settle(&self.name_of(run), half.as_bytes())?)
    }

    /// Returns the settled half of run number `run`, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`settle`](Self::settle).
    pub(crate) fn settled(&self, run: usize) -> io::Result<Option<String>> {
        let settled = self.open()?.settled(&self.name_of(run))?;
        settled.map(|half| text(&half)).transpose()
    }

    /// Opens the place. Fails if it lacks the mark, or now lets settled values be replaced.
    fn open(&self) -> io::Result<Witness> {
        let (place, mark) = (Witness::open(&self.location)?, self.name(MARK));
        match place.settled(&mark)? {
            Some(_) => match place.check(&mark) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(error),
                // Settled halves can be read even where nothing can be written any more.
                _ => Ok(place),
            },
            None => Err(io::Error::other(format!(
                "{} does not know the job; it may be another place on this machine",
                self.location.display()
            ))),
        }
    }

    fn name_of(&self, run: usize) -> String {
        self.name(&format!("run-{run}"))
    }

    fn name(&self, of: &str) -> String {
        format!("witness-{}/{of}", self.job)
    }
}

fn text(half: &[u8]) -> io::Result<String> {
    let text = str::from_utf8(half).map(str::to_owned);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_half_of_a_run_is_settled_and_other_runs_are_separate() {
        let folder = tempfile::tempdir().unwrap();
        let place = || MarkedPlace::new(folder.path().join("new"), "ring-7.a.1".to_owned());
        place().begin().unwrap();
        place().begin().unwrap();
        assert_eq!(place().settled(0).unwrap(), None);
        assert_eq!(place().settle(0, "[2,3]").unwrap(), "[2,3]");
        assert_eq!(place().settle(0, "[0,1]").unwrap(), "[2,3]");
        assert_eq!(place().settled(0).unwrap().as_deref(), Some("[2,3]"));
        assert_eq!(place().settle(1, "[0,1]").unwrap(), "[0,1]");
    }

    #[test]
    fn a_place_without_the_mark_of_the_job_settles_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = MarkedPlace::new(folder.path().to_owned(), "ring-7.a.1".to_owned());
        let reason = place.settle(0, "[0,1]").unwrap_err().to_string();
        assert!(reason.contains("does not know the job"), "{reason}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let missing = MarkedPlace::new(folder.path().join("missing"), "ring-7.a.1".to_owned());
        assert!(missing.settled(0).is_err());
    }
}
