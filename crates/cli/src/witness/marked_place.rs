//! The rule of a witness at one place: the mark of a job, and the halves of its runs that are
//! settled there.
//!
//! The first launcher of a job leaves the mark. A launcher that does not find it looks at another
//! place, such as a folder that is not mounted on its machine, and gets no answer from there.

use gridspan_runtime::driver::Witness;
use std::io;
use std::path::PathBuf;

/// The name of the mark.
const MARK: &str = "job";

/// A folder, or a place in an object store, as the witness of one job.
#[derive(Clone, Debug)]
pub(crate) struct MarkedPlace {
    location: PathBuf,
    /// The job, under a name that no other has.
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
    /// That of the system, if the place cannot be used, or replaces what it has settled.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let (place, mark) = (Witness::create(&self.location)?, self.name(MARK));
        place.settle(&mark, self.job.as_bytes())?;
        place.check(&mark)
    }

    /// Settles on this half of the run at a position, unless another is settled. Returns that which
    /// is.
    ///
    /// # Errors
    ///
    /// Why it is not known which.
    pub(crate) fn settle(&self, run: usize, half: &str) -> io::Result<String> {
        let place = self.open()?;
        text(&place.settle(&self.name_of(run), half.as_bytes())?)
    }

    /// The half of the run at a position that is settled, if one is.
    ///
    /// # Errors
    ///
    /// Why that is not known.
    pub(crate) fn settled(&self, run: usize) -> io::Result<Option<String>> {
        let settled = self.open()?.settled(&self.name_of(run))?;
        settled.map(|half| text(&half)).transpose()
    }

    /// Opens the place, which may have lost its mark, or its way to keep it, since it was left.
    fn open(&self) -> io::Result<Witness> {
        let (place, mark) = (Witness::open(&self.location)?, self.name(MARK));
        match place.settled(&mark)? {
            Some(_) => match place.check(&mark) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(error),
                // What is settled can be read where nothing more can be written.
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
