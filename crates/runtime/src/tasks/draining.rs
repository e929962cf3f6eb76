//! The progress of a worker on a node that leaves, and events of membership for workers.

use super::message::{WorkerActor, WorkerMessage, at, is_of};
use crate::address::id::{ActorId, CollectionId, Sender};
use crate::address::index::ActorIndex;
use crate::message::envelope::{AnyEnvelope, Envelope};
use crate::pe::{Core, PoolEvent};
use gridspan_topology::{Layout, NodeId, PeId};
use std::collections::BTreeSet;

/// The progress of a worker on a node that leaves.
#[derive(Debug, Default)]
pub(super) struct Draining {
    /// Whether the worker has reported that no frame waits for its results.
    pub(super) is_done: bool,
    /// On the first PE of the node: the other PEs that have reported this.
    pub(super) done: BTreeSet<PeId>,
}

/// Sends an event to the worker of a pool on a PE.
pub(super) fn notify<A: WorkerActor>(core: &mut Core, collection: CollectionId, event: PoolEvent) {
    let id = ActorId { collection, key: at(core.me).key() };
    core.send::<A>(Sender::Pe, id, 0, WorkerMessage::PoolEvent(event));
}

/// Whether node `from` may send this worker message: results of its PEs, tasks of its loans and, if
/// it is a founder, the close of the pool.
pub(super) fn is_allowed(layout: &Layout, from: NodeId, envelope: &dyn AnyEnvelope) -> bool {
    let Some(envelope) = envelope.as_any().downcast_ref::<Envelope<WorkerMessage>>() else {
        return false;
    };
    match &envelope.message {
        WorkerMessage::Done { by, .. } => is_of(layout, *by, from),
        WorkerMessage::Return { loan, .. } => loan.is_of(layout, from),
        WorkerMessage::Close => !layout.is_guest(from),
        _ => false,
    }
}
