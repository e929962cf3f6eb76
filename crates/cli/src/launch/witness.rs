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
    /// That of the system, if the place cannot be used, or replaces what it has settled.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let (place, mark) = (Witness::create(&self.location)?, self.name(MARK));
        place.settle(&mark, self.job.as_bytes())?;
        place.check(&mark)
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
        members: &[NodeId],
        half: &BTreeSet<NodeId>,
    ) -> Result<BTreeSet<NodeId>, String> {
        let half = serde_json::to_vec(half).map_err(|error| error.to_string())?;
        let settled = self.place().and_then(|place| place.settle(&self.name_of(run), &half));
        read(&settled.map_err(|error| error.to_string())?, members)
    }

    /// The half of the members of the run at a position on which it has settled, if it has.
    ///
    /// # Errors
    ///
    /// Why that is not known.
    pub(super) fn settled(
        &self,
        run: usize,
        members: &[NodeId],
    ) -> Result<Option<BTreeSet<NodeId>>, String> {
        let settled = self.place().and_then(|place| place.settled(&self.name_of(run)));
        settled.map_err(|error| error.to_string())?.map(|half| read(&half, members)).transpose()
    }

    /// Opens the place, which may have lost its mark, or its way to keep it, since it was left.
    fn place(&self) -> io::Result<Witness> {
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

/// Reads a half of these members.
fn read(half: &[u8], members: &[NodeId]) -> Result<BTreeSet<NodeId>, String> {
    let half: BTreeSet<NodeId> =
        serde_json::from_slice(half).map_err(|error| format!("it cannot be read: {error}"))?;
    let members: BTreeSet<NodeId> = members.iter().copied().collect();
    match !half.is_empty() && half.is_subset(&members) {
        true => Ok(half),
        false => Err("it has settled on nodes that are no members of the run, for which another \
                      launcher may have asked"
            .to_owned()),
    }
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
        let members = [0, 1, 2, 3].map(NodeId);
        assert_eq!(witness().settled(0, &members), Ok(None));
        assert_eq!(witness().settle(0, &members, &half([2, 3])), Ok(half([2, 3])));
        assert_eq!(witness().settle(0, &members, &half([0, 1])), Ok(half([2, 3])));
        assert_eq!(witness().settled(0, &members), Ok(Some(half([2, 3]))));
        let of_another_run = witness().settle(1, &members, &half([0, 1]));
        assert_eq!(of_another_run, Ok(half([0, 1])));
    }

    #[test]
    fn a_half_that_no_launcher_of_the_run_has_asked_for_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let witness = JobWitness::new(folder.path().to_owned(), "ring-7.a.1".to_owned());
        witness.begin().unwrap();
        let members = [0, 1, 2, 3].map(NodeId);
        for (run, content) in ["[]", "[1,4000000000]", "{", "[0,1"].into_iter().enumerate() {
            fs::write(folder.path().join(witness.name_of(run)), content).unwrap();
            assert!(witness.settled(run, &members).is_err(), "{content}");
            assert!(witness.settle(run, &members, &half([0, 1])).is_err(), "{content}");
        }
    }

    #[test]
    fn a_folder_without_the_mark_of_the_job_settles_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let witness = JobWitness::new(folder.path().to_owned(), "ring-7.a.1".to_owned());
        let members = [0, 1, 2, 3].map(NodeId);
        let reason = witness.settle(0, &members, &half([0, 1])).unwrap_err();
        assert!(reason.contains("does not know the job"), "{reason}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let missing = JobWitness::new(folder.path().join("missing"), "ring-7.a.1".to_owned());
        assert!(missing.settled(0, &members).is_err());
    }
}
