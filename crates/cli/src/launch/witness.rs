//! The witness of a job: a place that all of its launchers reach, and that settles on one half of
//! the members of each run (see `quorum`).
//!
//! The first launcher leaves a mark there. A launcher that does not find it looks at another place,
//! such as a folder that is not mounted on its machine, and gets no answer from there.

use gridspan_runtime::driver::Witness;
use gridspan_topology::NodeId;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

/// The name of the mark.
const MARK: &str = "job";

/// The witness of one job.
#[derive(Clone, Debug)]
pub(crate) struct JobWitness {
    location: PathBuf,
    /// The job, under a name that no other has.
    job: String,
}

impl JobWitness {
    /// The witness at a location: a folder, or the address of a place in an object store.
    pub(crate) fn new(location: PathBuf, job: String) -> Self {
        Self { location, job }
    }

    /// Leaves the mark of the job.
    ///
    /// # Errors
    ///
    /// That of the system, if the place cannot be used.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let place = Witness::create(&self.location)?;
        place.settle(&self.name(MARK), self.job.as_bytes()).map(drop)
    }

    /// Settles on this half of the members of the run at a position, unless it has settled on
    /// another. Returns that on which it has settled.
    ///
    /// # Errors
    ///
    /// Why it is not known on which.
    pub(super) fn settle(
        &self,
        run: usize,
        half: &BTreeSet<NodeId>,
    ) -> Result<BTreeSet<NodeId>, String> {
        let half = serde_json::to_vec(half).map_err(|error| error.to_string())?;
        let settled = self.place().and_then(|place| place.settle(&self.name_of(run), &half));
        read(&settled.map_err(|error| error.to_string())?)
    }

    /// The half of the members of the run at a position on which it has settled, if it has.
    ///
    /// # Errors
    ///
    /// Why that is not known.
    pub(super) fn settled(&self, run: usize) -> Result<Option<BTreeSet<NodeId>>, String> {
        let settled = self.place().and_then(|place| place.settled(&self.name_of(run)));
        settled.map_err(|error| error.to_string())?.map(|half| read(&half)).transpose()
    }

    fn place(&self) -> io::Result<Witness> {
        let place = Witness::open(&self.location)?;
        match place.settled(&self.name(MARK))? {
            Some(_) => Ok(place),
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

fn read(half: &[u8]) -> Result<BTreeSet<NodeId>, String> {
    serde_json::from_slice(half).map_err(|error| format!("it cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn half(nodes: [u32; 2]) -> BTreeSet<NodeId> {
        nodes.map(NodeId).into()
    }

    #[test]
    fn the_first_half_of_a_run_holds_for_all_launchers() {
        let folder = tempfile::tempdir().unwrap();
        let witness = || JobWitness::new(folder.path().join("witness"), "ring-7.a.1".to_owned());
        witness().begin().unwrap();
        assert_eq!(witness().settled(0), Ok(None));
        assert_eq!(witness().settle(0, &half([2, 3])), Ok(half([2, 3])));
        assert_eq!(witness().settle(0, &half([0, 1])), Ok(half([2, 3])));
        assert_eq!(witness().settled(0), Ok(Some(half([2, 3]))));
        assert_eq!(witness().settle(1, &half([0, 1])), Ok(half([0, 1])), "another run");
    }

    #[test]
    fn a_folder_without_the_mark_of_the_job_settles_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let witness = JobWitness::new(folder.path().to_owned(), "ring-7.a.1".to_owned());
        let reason = witness.settle(0, &half([0, 1])).unwrap_err();
        assert!(reason.contains("does not know the job"), "{reason}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let missing = JobWitness::new(folder.path().join("missing"), "ring-7.a.1".to_owned());
        assert!(missing.settled(0).is_err());
    }
}
