//! Commands of PEs to drivers, besides the packets of a turn.

use crate::message::probe::ProbeOrder;
use crate::message::{CheckpointSegment, CoordinatorPlace};
use bytes::Bytes;
use gridspan_topology::NodeId;

/// An action that a PE requests from its driver.
pub enum PeCommand {
    /// Measure connections of this node. The driver reports with [`Core::probed`](super::Core).
    Probe(ProbeOrder),
    /// Note the contact of a guest, as the guest gave it to [`Core::join`](super::Core).
    Meet {
        /// The guest.
        guest: NodeId,
        /// Its contact.
        contact: String,
    },
    /// The coordinator runs at this place now.
    CoordinatorAt(CoordinatorPlace),
    /// The coordinator asks for the state of this PE, which is idle now. The driver answers with
    /// [`Core::looked`](super::Core).
    Look {
        /// The coordinator's round.
        round: u64,
    },
    /// The coordinator asks main's PE what waits. The driver answers with
    /// [`Core::diagnosed`](super::Core).
    Diagnose,
    /// Keep a segment of a part of a checkpoint. The driver confirms each complete part with
    /// [`Core::checkpoint_kept`](super::Core).
    Keep(CheckpointSegment),
    /// A checkpoint is complete; the driver keeps its manifest and drops earlier checkpoints.
    CheckpointComplete {
        /// The encoded manifest.
        manifest: Bytes,
        /// Whether the job stays stopped.
        is_paused: bool,
    },
}
