//! Keeps the checkpoints of a node: in memory, and in a folder if the job has one.
//!
//! A [`CheckpointKeeper`] outlives the run of a job, so that another run in the same process can
//! continue from what it keeps. A thread of its own writes files, since that may take long.

mod folder;

use crate::Job;
use crate::error::StartError;
use crate::job::program::Program;
use crate::message::CheckpointSegment;
use crate::message::{CheckpointStore, Holding, Image, RestorePlan};
use crate::pe::{Action, Core};
use bytes::Bytes;
use gridspan_topology::{Layout, NodeId, PeId};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

pub use folder::CheckpointFolder;

/// Where a node keeps its parts of checkpoints. Clones share what they keep.
#[derive(Clone, Default)]
pub struct CheckpointKeeper {
    store: Arc<Mutex<CheckpointStore>>,
    writer: Option<Writer>,
}

/// The thread that writes files.
#[derive(Clone)]
struct Writer {
    /// Whether this node writes the manifests.
    writes_manifest: bool,
    orders: Arc<Mutex<Sender<Order>>>,
}

/// An order to the thread that writes files.
enum Order {
    /// Write the part of a PE.
    Part { checkpoint: u64, part: PeId, segments: Vec<Bytes>, done: Done },
    /// Write the manifest of a complete checkpoint, and remove earlier checkpoints.
    Manifest(Bytes),
}

/// Called with the error if a part could not be written.
type Done = Box<dyn FnOnce(Option<String>) + Send>;

impl CheckpointKeeper {
    /// Keeps checkpoints in memory, and in a folder if one is given, where `node` writes the parts
    /// of its own PEs, and node 0 the manifest.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the folder cannot be used, and [`StartError::Thread`] if the
    /// system refuses a thread.
    pub fn new(folder: Option<&Path>, node: NodeId) -> Result<Self, StartError> {
        let writer = folder.map(|path| Writer::start(path, node)).transpose()?;
        Ok(Self { store: Arc::default(), writer })
    }

    /// The last complete checkpoint that this node knows, with the parts that it has.
    pub fn last(&self) -> Option<Image> {
        self.store().last().cloned()
    }

    /// The program of a job that continues from a checkpoint whose parts the nodes have.
    #[cfg(feature = "net")]
    pub(super) fn recover(
        &self,
        job: Job,
        layout: Layout,
        order: &crate::net::bootstrap::RestoreOrder,
    ) -> Result<Program, StartError> {
        let manifest = order.manifest.0.clone();
        let image = self.store().image(&manifest)?;
        // The checkpoint is complete, whether this node knows or not.
        self.store().complete(manifest)?;
        Program::restored(job, layout, image, order.plan.clone())
    }

    /// Numbers and parts of the last checkpoints that this node has.
    pub fn holdings(&self) -> Vec<Holding> {
        self.store().holdings()
    }

    /// Drops the parts of a checkpoint that was not completed, because the job has ended.
    pub fn drop_incomplete(&self) {
        self.store().drop_incomplete();
    }

    fn store(&self) -> MutexGuard<'_, CheckpointStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a segment. When its part is complete and stored, makes the PE run an action.
    pub(super) fn keep(
        &self,
        segment: &CheckpointSegment,
        run: impl FnOnce(Action) + Send + 'static,
    ) {
        let (checkpoint, is_copy) = (segment.checkpoint(), segment.is_copy());
        let mut store = self.store();
        let Some(part) = store.keep(segment) else { return };
        let confirm = move |core: &mut Core| core.checkpoint_kept(checkpoint, part, is_copy);
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
        writer.order(Order::Part { checkpoint, part, segments, done });
    }

    /// Keeps the manifest of a complete checkpoint.
    pub(super) fn complete(&self, manifest: Bytes) {
        if let Err(error) = self.store().complete(manifest.clone()) {
            tracing::warn!(%error, "a complete checkpoint");
        }
        if let Some(writer) = self.writer.as_ref().filter(|writer| writer.writes_manifest) {
            writer.order(Order::Manifest(manifest));
        }
    }
}

impl Writer {
    fn start(path: &Path, node: NodeId) -> Result<Self, StartError> {
        let folder = CheckpointFolder::create(path)?;
        let (orders, taken) = channel();
        let write = move || {
            for order in taken {
                match order {
                    Order::Part { checkpoint, part, segments, done } => {
                        let result = folder.write_part(checkpoint, part, &segments);
                        done(result.err().map(|error| error.to_string()));
                    }
                    Order::Manifest(manifest) => {
                        if let Err(error) = folder.write_manifest(&manifest) {
                            tracing::error!(%error, "a checkpoint is not stored");
                        }
                    }
                }
            }
        };
        let named = thread::Builder::new().name("checkpoints".to_owned());
        named.spawn(write).map_err(|error| StartError::Thread {
            thread: "the checkpoints".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { writes_manifest: node == NodeId(0), orders: Arc::new(Mutex::new(orders)) })
    }

    fn order(&self, order: Order) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        // The thread ends with the last sender only.
        let _ = orders.send(order);
    }
}

/// Makes the program of a job on a layout, which continues from a checkpoint in a folder if the job
/// is to. Reads the parts that PEs of `node` restore, or all parts if that is `None`.
pub(super) fn program(
    job: Job,
    layout: Layout,
    node: Option<NodeId>,
) -> Result<Program, StartError> {
    let Some(path) = job.restart_from().map(PathBuf::from) else {
        return Program::new(job, layout);
    };
    let folder = CheckpointFolder::open(&path)?;
    let mut image = folder.last()?;
    let plan = RestorePlan::anew(image.layout(), &layout);
    let is_here = |reader: &PeId| node.is_none_or(|node| layout.node_of(*reader) == node);
    let parts = image.layout().pes().zip(&plan.readers).filter(|(_, reader)| is_here(reader));
    let parts: Vec<PeId> = parts.map(|(part, _)| part).collect();
    for part in parts {
        folder.read_part(&mut image, part)?;
    }
    Program::restored(job, layout, image, plan)
}
