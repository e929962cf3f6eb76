//! The progress of a worker on a node that leaves, and events of membership for workers.

use super::frame::FrameId;
use super::message::{WorkerActor, WorkerMessage, at, is_of};
use crate::address::id::{ActorId, CollectionId, Sender};
use crate::address::index::ActorIndex;
use crate::message::envelope::{AnyEnvelope, Envelope};
use crate::pe::{Core, PoolEvent};
use gridspan_topology::{Layout, NodeId, PeId};
use std::collections::{BTreeMap, BTreeSet};

/// The progress of a worker on a node that leaves.
#[derive(Debug, Default)]
pub(super) struct Draining {
    /// Whether the worker has reported that no frame waits for its results.
    pub(super) is_done: bool,
    /// On the first PE of the node: the other PEs that have reported this.
    pub(super) done: BTreeSet<PeId>,
    /// The bytes of tasks that this PE has given away and whose outputs have not come, by the frame
    /// and the child number that they work for.
    given_away: BTreeMap<(FrameId, u32), usize>,
}

impl Draining {
    /// Notes that a task for this frame and child number was given away.
    pub(super) fn note_given_away(&mut self, at: (FrameId, u32), bytes: usize) {
        *self.given_away.entry(at).or_default() += bytes;
    }

    /// Notes that the output for this frame and child number has come. Returns the bytes of the
    /// tasks that were given away for it.
    pub(super) fn note_output(&mut self, at: (FrameId, u32)) -> usize {
        self.given_away.remove(&at).unwrap_or_default()
    }
}

/// Sends an event to the worker of a pool on a PE.
pub(super) fn notify<A: WorkerActor>(core: &mut Core, collection: CollectionId, event: PoolEvent) {
    let id = ActorId { collection, key: at(core.me).key() };
    core.send::<A>(Sender::Pe, id, 0, WorkerMessage::PoolEvent(event));
}

/// Whether node `from` may send this worker message. It may send results of its PEs and tasks that
/// they hand back; a founder may also close the pool.
pub(super) fn is_allowed(layout: &Layout, from: NodeId, envelope: &dyn AnyEnvelope) -> bool {
    let Some(envelope) = envelope.as_any().downcast_ref::<Envelope<WorkerMessage>>() else {
        return false;
    };
    match &envelope.message {
        WorkerMessage::Done { by, .. } | WorkerMessage::GivenUp { by, .. } => {
            is_of(layout, *by, from)
        }
        WorkerMessage::Return { loan, .. } => loan.is_of(layout, from),
        WorkerMessage::Close => !layout.is_guest(from),
        _ => false,
    }
}
