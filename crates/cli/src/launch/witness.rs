//! The witness of a job: a place that all of its launchers reach, and that settles on one half of
//! the members of each run (see `quorum`).

use crate::error::CliError;
use crate::witness::{MarkedPlace, RemoteWitness, WitnessLocation};
use gridspan_topology::NodeId;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::thread;
use std::time::Duration;

/// Number of attempts to tell the witness something, and the pause between them: a network that is
/// cut is often whole again within minutes.
const TELL_TRIES: u32 = 10;
const TELL_PAUSE: Duration = Duration::from_secs(30);

/// The witness of one job.
#[derive(Clone, Debug)]
pub(crate) enum JobWitness {
    /// A folder that this machine reaches, or a place in an object store.
    Reached(MarkedPlace),
    /// A folder on another host.
    Remote(RemoteWitness),
}

impl JobWitness {
    /// The witness of a job at a location. `job`: a name that no other job has. `ssh` is the
    /// command to run in place of `ssh`, with its first arguments.
    pub(crate) fn new(
        location: WitnessLocation,
        ssh: Vec<OsString>,
        job: String,
    ) -> Result<Self, CliError> {
        match location {
            WitnessLocation::Reached(location) => {
                Ok(Self::Reached(MarkedPlace::new(location, job)))
            }
            WitnessLocation::Host(host) => RemoteWitness::new(host, ssh, job)
                .map(Self::Remote)
                .map_err(CliError::system("find gridctl's own path")),
        }
    }

    /// The host of the witness, unless each machine reaches its place itself.
    pub(super) fn host(&self) -> Option<&str> {
        match self {
            Self::Reached(_) => None,
            Self::Remote(remote) => Some(&remote.host().name),
        }
    }

    /// Leaves the mark of the job.
    ///
    /// # Errors
    ///
    /// If the place or the host cannot be used, or if the place overwrites what was settled.
    pub(crate) fn begin(&self) -> Result<(), CliError> {
        match self {
            Self::Reached(place) => place.begin().map_err(CliError::Witness),
            Self::Remote(remote) => remote.begin().map_err(|reason| CliError::WitnessHost {
                host: remote.host().arguments(),
                reason,
            }),
        }
    }

    /// Lets the witness settle on this half of the members of a run, unless it has settled on
    /// another. `run`: the position of the run. Returns the half on which the witness has settled.
    ///
    /// # Errors
    ///
    /// The reason why that half is not known.
    pub(super) fn settle(
        &self,
        run: usize,
        members: &[NodeId],
        half: &BTreeSet<NodeId>,
    ) -> Result<BTreeSet<NodeId>, String> {
        let half = serde_json::to_string(half).map_err(|error| error.to_string())?;
        let settled = match self {
            Self::Reached(place) => place.settle(run, &half).map_err(|error| error.to_string()),
            Self::Remote(remote) => remote.settle(run, &half),
        };
        read(&settled?, members)
    }

    /// Lets the witness settle on a majority that goes on without asking it, so that it settles on
    /// no other nodes later. Tries for some minutes while the witness does not answer. Returns the
    /// nodes on which it had settled before, if none of them is in the majority.
    pub(super) fn tell(
        &self,
        run: usize,
        members: &[NodeId],
        majority: &BTreeSet<NodeId>,
    ) -> Option<BTreeSet<NodeId>> {
        for attempt in 0..TELL_TRIES {
            if attempt > 0 {
                thread::sleep(TELL_PAUSE);
            }
            match self.settle(run, members, majority) {
                Ok(settled) => return settled.is_disjoint(majority).then_some(settled),
                Err(reason) => tracing::warn!(run, %reason, "the witness does not answer"),
            }
        }
        None
    }

    /// The half of the members of a run on which the witness has settled, if it has. `run`: the
    /// position of the run.
    ///
    /// # Errors
    ///
    /// The reason why that half is not known.
    pub(super) fn settled(
        &self,
        run: usize,
        members: &[NodeId],
    ) -> Result<Option<BTreeSet<NodeId>>, String> {
        let settled = match self {
            Self::Reached(place) => place.settled(run).map_err(|error| error.to_string()),
            Self::Remote(remote) => remote.settled(run),
        };
        settled?.map(|half| read(&half, members)).transpose()
    }
}

/// Decodes a half, and checks that all its nodes are among these members.
fn read(half: &str, members: &[NodeId]) -> Result<BTreeSet<NodeId>, String> {
    let half: BTreeSet<NodeId> =
        serde_json::from_str(half).map_err(|error| format!("it cannot be read: {error}"))?;
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
    use std::path::Path;

    fn half(nodes: [u32; 2]) -> BTreeSet<NodeId> {
        nodes.map(NodeId).into()
    }

    fn witness(folder: &Path) -> JobWitness {
        let location = WitnessLocation::parse(folder).unwrap();
        JobWitness::new(location, vec![], "ring-7.a.1".to_owned()).unwrap()
    }

    #[test]
    fn the_first_half_of_a_run_holds_for_all_launchers() {
        let folder = tempfile::tempdir().unwrap();
        let witness = || witness(&folder.path().join("witness"));
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
    fn a_majority_that_goes_on_is_settled_unless_others_are() {
        let folder = tempfile::tempdir().unwrap();
        let witness = witness(folder.path());
        witness.begin().unwrap();
        let members = [0, 1, 2, 3, 4].map(NodeId);
        let majority = BTreeSet::from([1, 2, 3].map(NodeId));
        assert_eq!(witness.tell(0, &members, &majority), None);
        assert_eq!(witness.settle(0, &members, &half([0, 4])), Ok(majority.clone()));
        witness.settle(1, &members, &half([3, 4])).unwrap();
        assert_eq!(witness.tell(1, &members, &majority), None, "they have a member in common");
        witness.settle(2, &members, &half([0, 4])).unwrap();
        assert_eq!(witness.tell(2, &members, &majority), Some(half([0, 4])));
    }

    #[test]
    fn a_half_that_no_launcher_of_the_run_has_asked_for_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let witness = witness(folder.path());
        witness.begin().unwrap();
        let members = [0, 1, 2, 3].map(NodeId);
        let wrong = [&b"[]"[..], b"[1,4000000000]", b"{", b"[0,1", b"\xff"];
        for (run, content) in wrong.into_iter().enumerate() {
            let path = folder.path().join(format!("witness-ring-7.a.1/run-{run}"));
            fs::write(path, content).unwrap();
            assert!(witness.settled(run, &members).is_err(), "{content:?}");
            assert!(witness.settle(run, &members, &half([0, 1])).is_err(), "{content:?}");
        }
    }

    #[test]
    fn a_folder_without_the_mark_of_the_job_settles_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let members = [0, 1, 2, 3].map(NodeId);
        let reason = witness(folder.path()).settle(0, &members, &half([0, 1])).unwrap_err();
        assert!(reason.contains("does not know the job"), "{reason}");
        assert!(witness(&folder.path().join("missing")).settled(0, &members).is_err());
    }
}
