//! Keeps the checkpoints of a node: in memory, and in a folder or object store if the job has one.
//!
//! A [`CheckpointKeeper`] outlives the run of a job, so that another run in the same process can
//! continue from what it keeps.

mod archive;
mod folder;
#[cfg(feature = "object-store")]
mod object_storage;
mod room;
mod storage;
mod witness;
mod writer;

use super::memory::Memory;
use crate::Job;
#[cfg(feature = "net")]
use crate::error::CheckpointError;
use crate::error::{StartError, Warning};
use crate::job::program::Program;
use crate::message::CheckpointSegment;
#[cfg(feature = "net")]
use crate::message::Image;
use crate::message::{CheckpointStore, Holding, RestorePlan};
use crate::pe::watch::OnWarning;
use crate::pe::{Action, Core};
use bytes::Bytes;
use gridspan_topology::{Layout, NodeId, PeId};
use room::RoomCheck;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
#[cfg(feature = "net")]
use std::sync::OnceLock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "net")]
use std::time::{Duration, Instant};
use writer::{Done, MANIFEST_MAX, Order, Writer, within};

pub use archive::CheckpointArchive;
pub use witness::Witness;

/// Where a node keeps its parts of checkpoints. Clones share what they keep.
#[derive(Clone, Default)]
pub struct CheckpointKeeper {
    store: Arc<Mutex<CheckpointStore>>,
    archive: Option<CheckpointArchive>,
    writer: Option<Writer>,
    on_pause: Option<OnPause>,
    /// The job's listeners for warnings.
    on_warning: Vec<OnWarning>,
    /// The check whether the machine has room for another checkpoint.
    room: Option<Arc<RoomCheck>>,
    /// When the first run of the job in this process began.
    #[cfg(feature = "net")]
    began: Arc<OnceLock<Instant>>,
}

/// Called with the number of the checkpoint after which the job stays stopped, and with the error
/// if it could not be stored.
type OnPause = Arc<dyn Fn(u64, Option<String>) + Send + Sync>;

impl CheckpointKeeper {
    /// Keeps the checkpoints of a job in memory, and in its folder or object store, where each node
    /// writes the parts of its PEs, and node 0 the manifest.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the folder or object store cannot be used, and
    /// [`StartError::Thread`] if the system refuses a thread. [`StartError::CheckpointsBefore`] if
    /// the folder has checkpoints of an earlier run of a job and the job does not continue from
    /// them, by its settings or because the launcher says so (`continues`).
    pub fn new(job: &Job, continues: bool) -> Result<Self, StartError> {
        let Some(path) = job.folder() else { return Ok(Self::default()) };
        let archive = CheckpointArchive::create(path)?;
        if let Some(&number) = archive.complete()?.last()
            && !continues
            && job.restart_from() != Some(path)
        {
            return Err(StartError::CheckpointsBefore { folder: path.to_path_buf(), number });
        }
        let writer = Writer::start(archive.clone())?;
        let keeper = Self { archive: Some(archive), writer: Some(writer), ..Self::default() };
        Ok(keeper.warning(job))
    }

    /// Makes the keeper warn the listeners of the job of the next run.
    pub(super) fn warning(mut self, job: &Job) -> Self {
        self.on_warning = job.watch().on_warning.clone();
        self
    }

    /// Begins a run of the job, in which `node` keeps its parts here. Returns the highest number of
    /// a checkpoint in the folder or object store, even of an incomplete one; 0 if there is none.
    pub(super) fn begin(&self, node: NodeId, run: u64) -> Result<u64, StartError> {
        if let Some(writer) = &self.writer {
            writer.begin(node == NodeId(0), run);
        }
        let last = self.archive.as_ref().map_or(Ok(None), CheckpointArchive::highest)?;
        Ok(last.unwrap_or(0))
    }

    /// The time since the first run of the job in this process, which begins with the first call.
    #[cfg(feature = "net")]
    pub(super) fn time_used(&self) -> Duration {
        self.began.get_or_init(Instant::now).elapsed()
    }

    /// The program of a job that continues from a checkpoint whose parts the nodes have, or can
    /// read from the place where the job stores its checkpoints.
    #[cfg(feature = "net")]
    pub(super) fn recover(
        &self,
        job: Job,
        (layout, node): (Layout, NodeId),
        order: &crate::net::bootstrap::RestoreOrder,
    ) -> Result<Program, StartError> {
        let manifest = order.manifest.0.clone();
        let mut image = self.store().image(&manifest)?;
        // The checkpoint is complete, even if this node has not learned that yet.
        self.store().complete(manifest)?;
        self.store_manifest(&image);
        let pes = layout.place(node).pes.clone();
        let parts = image.layout().pes().zip(&order.plan.readers);
        let parts = parts.filter(|(_, reader)| pes.contains(&reader.0));
        let parts: Vec<PeId> = parts.map(|(part, _)| part).collect();
        self.read_missing(&job, &mut image, &parts)?;
        Program::restored(job, layout, image, order.plan.clone())
    }

    /// Stores the manifest of a checkpoint to which the job goes back, if this node writes
    /// manifests: the node that wrote them before may have been lost before it stored this one.
    /// Without the manifest, the parts would be removed as those of an incomplete checkpoint.
    #[cfg(feature = "net")]
    fn store_manifest(&self, image: &Image) {
        let writer = self.writer.as_ref().filter(|writer| writer.present().0);
        let (Some(writer), Some(archive)) = (writer, &self.archive) else { return };
        // A checkpoint with which the job began may be in another place.
        if archive.has_part(image, PeId(0)) {
            let stored = self.warning_unless_stored(image.number(), None);
            writer.order(Order::Manifest(image.manifest().clone(), Some(stored)));
        }
    }

    /// Reads those of `parts` that the image lacks: from the place where the job stores its
    /// checkpoints, or from the place of the checkpoint with which the job began. This node sends
    /// nothing meanwhile, but the other nodes cannot begin without these parts either. The parts
    /// stay in memory for the next loss. A node that was started later, in a job that stores no
    /// checkpoints itself, also [reports](Self::holdings) from then on that the checkpoint is
    /// stored.
    #[cfg(feature = "net")]
    fn read_missing(&self, job: &Job, image: &mut Image, parts: &[PeId]) -> Result<(), StartError> {
        let here = image.parts();
        let missing: Vec<PeId> = parts.iter().copied().filter(|it| !here.contains(it)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut places: Vec<CheckpointArchive> = self.archive.iter().cloned().collect();
        if let Some(path) = job.restart_from().filter(|&path| job.folder() != Some(path)) {
            places.push(CheckpointArchive::open(path)?);
        }
        for part in missing {
            let mut problem = None;
            let mut reads = places.iter().map(|place| place.read_part(image, part));
            let is_read = reads.any(|read| match read {
                Ok(()) => true,
                Err(error) => {
                    problem.get_or_insert(error);
                    false
                }
            });
            if !is_read {
                return Err(problem.unwrap_or_else(|| lacking(image, part)));
            }
        }
        self.store().adopt(image.clone());
        Ok(())
    }

    /// Numbers and parts of the last checkpoints that this node has. If the job has a folder or
    /// object store, each complete checkpoint is reported as stored, since it is complete only once
    /// all its parts are stored there.
    pub fn holdings(&self) -> Vec<Holding> {
        let mut holdings = self.store().holdings();
        let complete = holdings.iter_mut().filter(|holding| holding.manifest.is_some());
        complete.for_each(|holding| holding.is_stored |= self.archive.is_some());
        holdings
    }

    /// Drops the parts of a checkpoint that was not completed, because the job has ended.
    pub fn drop_incomplete(&self) {
        self.store().drop_incomplete();
    }

    fn store(&self) -> MutexGuard<'_, CheckpointStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a segment. Makes the PE run an action when the part is complete and stored, or when it
    /// cannot be kept because memory is scarce.
    pub(super) fn keep(
        &self,
        segment: &CheckpointSegment,
        run: impl FnOnce(Action) + Send + 'static,
    ) {
        let (checkpoint, is_copy) = (segment.checkpoint(), segment.is_copy());
        let mut store = self.store();
        if let Some(reason) = Memory::of_machine().and_then(Memory::scarcity) {
            if store.give_up(checkpoint) {
                run(Box::new(move |core| core.checkpoint_not_kept(checkpoint, reason)));
            }
            return;
        }
        let Some(part) = store.keep(segment) else { return };
        let confirm = move |core: &mut Core| core.checkpoint_kept(checkpoint, part);
        let Some(writer) = self.writer.as_ref().filter(|_| !is_copy) else {
            drop(store);
            return run(Box::new(confirm));
        };
        let segments = store.segments(checkpoint, part);
        drop(store);
        let done: Done = Box::new(move |error| match error {
            None => run(Box::new(confirm)),
            Some(reason) => {
                run(Box::new(move |core: &mut Core| core.checkpoint_not_kept(checkpoint, reason)));
            }
        });
        let (_, run) = writer.present();
        writer.order(Order::Part { run, checkpoint, part, segments, done });
    }

    /// Calls `tell` when the job has [stopped](super::NodeHandle::pause) after a checkpoint and
    /// this node has kept its manifest: with the number of the checkpoint, and with the error if it
    /// could not be written to the folder of the job.
    #[must_use]
    pub fn on_pause(mut self, tell: impl Fn(u64, Option<String>) + Send + Sync + 'static) -> Self {
        self.on_pause = Some(Arc::new(tell));
        self
    }

    /// Makes the keeper check, when the first checkpoint of this run is complete, whether the
    /// machine has memory for another one, and warn if not. `nodes`: the nodes on this machine, the
    /// first of which warns.
    pub(super) fn checking_room(
        mut self,
        program: &Program,
        node: NodeId,
        nodes: Vec<NodeId>,
    ) -> Self {
        let is_first = nodes.first() == Some(&node);
        self.room = is_first.then(|| Arc::new(RoomCheck::new(program, nodes)));
        self
    }

    /// Keeps the manifest of a complete checkpoint. `is_paused`: the job stays stopped.
    pub(super) fn complete(&self, manifest: Bytes, is_paused: bool) {
        let (mut checkpoint, mut stored): (_, Option<Done>) = (None, None);
        let room = self.room.as_ref().filter(|_| !is_paused);
        let mut kept = None;
        match self.store().complete(manifest.clone()) {
            Err(error) => tracing::warn!(%error, "a complete checkpoint"),
            Ok(image) => {
                let number = image.number();
                checkpoint = Some(number);
                let tell = self.on_pause.clone().filter(|_| is_paused);
                stored = tell.map(|tell| -> Done { Box::new(move |error| tell(number, error)) });
                kept = room.and_then(|room| room.kept_of_first(image));
            }
        }
        if let Some((room, kept)) = room.zip(kept) {
            room.warn_of_shortage(kept);
        }
        match self.writer.as_ref().filter(|writer| writer.present().0) {
            Some(writer) => {
                let stored = stored.map(|stored| within(MANIFEST_MAX, stored));
                let done = checkpoint.map(|number| self.warning_unless_stored(number, stored));
                writer.order(Order::Manifest(manifest, done));
            }
            None => stored.into_iter().for_each(|stored| stored(None)),
        }
    }

    /// What the thread that stores a manifest calls: warns if there was an error, and then calls
    /// `stored`.
    fn warning_unless_stored(&self, checkpoint: u64, stored: Option<Done>) -> Done {
        let on_warning = self.on_warning.clone();
        Box::new(move |error| {
            if let Some(reason) = error.clone() {
                let warning = Warning::ManifestNotStored { checkpoint, reason };
                let warn = || on_warning.iter().for_each(|tell| tell(&warning));
                // The thread still has to store the parts of later checkpoints.
                if catch_unwind(AssertUnwindSafe(warn)).is_err() {
                    tracing::error!("a listener for warnings has panicked");
                }
            }
            if let Some(stored) = stored {
                stored(error);
            }
        })
    }
}

/// Makes the program of a job on a layout. If the job continues from a checkpoint in a folder,
/// reads the parts that PEs of `node` restore, or all parts if `node` is `None`, and passes them to
/// the keeper, too.
pub(super) fn program(
    job: Job,
    layout: Layout,
    node: Option<NodeId>,
    keeper: &CheckpointKeeper,
) -> Result<Program, StartError> {
    let Some(path) = job.restart_from().map(PathBuf::from) else {
        return Program::new(job, layout);
    };
    let archive = CheckpointArchive::open(&path)?;
    let mut image = archive.last()?;
    let plan = RestorePlan::restart(image.layout(), &layout);
    let is_here = |reader: &PeId| node.is_none_or(|node| layout.node_of(*reader) == node);
    let parts = image.layout().pes().zip(&plan.readers).filter(|(_, reader)| is_here(reader));
    let parts: Vec<PeId> = parts.map(|(part, _)| part).collect();
    for part in parts {
        archive.read_part(&mut image, part)?;
    }
    keeper.store().adopt(image.clone());
    Program::restored(job, layout, image, plan)
}

#[cfg(feature = "net")]
fn lacking(image: &Image, part: PeId) -> StartError {
    CheckpointError::NoCopy { part, checkpoint: image.number() }.into()
}

/// A unique number for a run of a job in this process.
pub(super) fn new_run() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 ^ u64::from(std::process::id()) << 40
}

#[cfg(test)]
#[cfg(feature = "net")]
mod tests {
    use super::*;
    use crate::message::{EncodedManifest, Manifest, codec};

    /// The manifest of a checkpoint of two PEs, each with one segment of four bytes.
    fn manifest() -> Bytes {
        let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
        let encoded = EncodedManifest::without_actors(3, layout).0;
        let mut manifest: Manifest = codec::decode("a manifest", &encoded).unwrap();
        manifest.parts.iter_mut().for_each(|part| part.segments = vec![4]);
        codec::encode(&manifest).into()
    }

    /// The parts in an image after a node has read those that it lacks, or why it cannot.
    fn parts_read(keeper: &CheckpointKeeper, job: &Job) -> Result<Vec<PeId>, String> {
        let mut image = Image::new(manifest()).unwrap();
        let read = keeper.read_missing(job, &mut image, &[PeId(0), PeId(1)]);
        read.map_err(|error| error.to_string())?;
        Ok(image.parts().into_iter().collect())
    }

    #[test]
    fn missing_parts_are_read_where_the_job_stores_checkpoints_or_where_it_began() {
        let [own, before] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let store = |folder: &tempfile::TempDir, part| {
            let archive = CheckpointArchive::open(folder.path()).unwrap();
            archive.write_part((0, 3), part, &[Bytes::from_static(b"1234")], None).unwrap();
        };
        let job = || Job::new("job").checkpoint_folder(own.path());
        let keeper = CheckpointKeeper::new(&job(), false).unwrap();
        store(&own, PeId(0));

        let problem = parts_read(&keeper, &job()).unwrap_err();
        assert!(problem.contains("part-0000000000000000-000001"), "{problem}");
        let restarted = job().restart(before.path());
        let problem = parts_read(&keeper, &restarted).unwrap_err();
        assert!(problem.contains(own.path().to_str().unwrap()), "{problem}");
        store(&before, PeId(1));
        assert_eq!(parts_read(&keeper, &restarted), Ok(vec![PeId(0), PeId(1)]));

        // A node that was started again keeps what it has read, and reports that it is stored.
        let again = CheckpointKeeper::default();
        store(&before, PeId(0));
        let began_there = Job::new("job").restart(before.path());
        assert_eq!(parts_read(&again, &began_there), Ok(vec![PeId(0), PeId(1)]));
        let [held] = &again.holdings()[..] else { panic!() };
        assert_eq!((&held.parts[..], held.is_stored), (&[PeId(0), PeId(1)][..], true));

        let nowhere = parts_read(&CheckpointKeeper::default(), &Job::new("job")).unwrap_err();
        assert!(nowhere.contains("the job has no place from which"), "{nowhere}");
    }

    #[test]
    fn the_node_that_writes_manifests_stores_that_of_the_checkpoint_to_which_the_job_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let job = Job::new("job").checkpoint_folder(folder.path());
        let keeper = CheckpointKeeper::new(&job, false).unwrap();
        let archive = CheckpointArchive::open(folder.path()).unwrap();
        let image = Image::new(manifest()).unwrap();
        // The manifest is not stored where parts are missing, nor by other nodes.
        keeper.begin(NodeId(0), 7).unwrap();
        keeper.store_manifest(&image);
        for part in [0, 1].map(PeId) {
            archive.write_part((0, 3), part, &[Bytes::from_static(b"1234")], None).unwrap();
        }
        keeper.begin(NodeId(1), 7).unwrap();
        keeper.store_manifest(&image);
        assert!(archive.complete().unwrap().is_empty());

        keeper.begin(NodeId(0), 7).unwrap();
        keeper.store_manifest(&image);
        let (tell, stored) = std::sync::mpsc::channel();
        let again: Done = Box::new(move |error| tell.send(error).unwrap());
        keeper.writer.as_ref().unwrap().order(Order::Manifest(manifest(), Some(again)));

        assert_eq!(stored.recv().unwrap(), None, "the same manifest again");
        assert_eq!(archive.complete().unwrap(), [3]);
    }

    #[test]
    fn a_warning_names_a_complete_checkpoint_whose_manifest_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let (warn, warnings) = std::sync::mpsc::channel();
        let job = Job::new("job")
            .checkpoint_folder(folder.path())
            .on_warning(move |warning| warn.send(warning.clone()).unwrap())
            .on_warning(|_| panic!("as asked"));
        let keeper = CheckpointKeeper::new(&job, false).unwrap();
        keeper.begin(NodeId(0), 7).unwrap();
        // Another job has stored a checkpoint with the same number.
        let archive = CheckpointArchive::open(folder.path()).unwrap();
        let other = EncodedManifest::without_actors(3, Layout::single(1)).0;
        archive.write_manifest(&other, &mut None).unwrap();

        keeper.complete(manifest(), false);

        let warning = warnings.recv().unwrap();
        assert!(matches!(warning, Warning::ManifestNotStored { checkpoint: 3, .. }), "{warning:?}");
        let (tell, told) = std::sync::mpsc::channel();
        let again: Done = Box::new(move |error| tell.send(error).unwrap());
        keeper.writer.as_ref().unwrap().order(Order::Manifest(manifest(), Some(again)));
        let error = told.recv_timeout(Duration::from_secs(20)).expect("the thread goes on");
        assert!(error.is_some());
    }

    #[test]
    fn a_complete_checkpoint_of_a_job_with_a_folder_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let job = Job::new("job").checkpoint_folder(folder.path());
        for (keeper, is_stored) in [
            (CheckpointKeeper::new(&job, false).unwrap(), true),
            (CheckpointKeeper::default(), false),
        ] {
            keeper.store().complete(manifest()).unwrap();
            let stored: Vec<bool> = keeper.holdings().iter().map(|it| it.is_stored).collect();
            assert_eq!(stored, [is_stored]);
        }
    }
}
