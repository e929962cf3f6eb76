//! Packets between PEs, relays and the coordinator, and their form on the network.
//!
//! Within a process packets move as values. For another node the sending PE encodes them, and the
//! receiving PE decodes the messages; the thread that drives the network decodes control packets
//! and packets for the node's relay.

mod assembly;
mod broadcast;
mod capacities;
mod checkpoint;
pub(crate) mod codec;
mod control;
mod diagnosis;
mod earlier;
pub(crate) mod envelope;
pub(crate) mod frame;
pub(crate) mod header;
mod image;
pub(crate) mod limits;
mod list;
mod look;
mod membership;
mod migrant;
mod packet;
pub(crate) mod payload;
pub(crate) mod pending_work;
mod phase;
pub mod probe;
mod replicas;
mod restore_plan;
mod spread;
mod spread_frame;
pub(crate) mod steal_agent;
pub mod telemetry;
pub(crate) mod trace;
mod transfer;

pub(crate) use assembly::{Assemblies, Assembly};
pub(crate) use broadcast::{
    Asked, BroadcastOrder, FlowId, PlanNews, SequencerNews, SequencerRight, Travel, Wanted,
};
pub(crate) use checkpoint::{
    ActorType, AwaitedImage, CheckpointMessage, DelayedImage, DrainCounts, Manifest, MeasuredSpeed,
    MemberImage, NOT_STORED, PartImage, PartSummary, QuestionImage, RestoredPart, SectionsOfGone,
    Segment, StateBytes, drain_pause,
};
pub use checkpoint::{CheckpointSegment, RestoreTarget};
pub(crate) use control::{
    Accepted, Arrival, Contribution, Control, Edge, Follower, Insertion, Loads, MainRequest, Moves,
    Multicast, MulticastMember, MulticastTarget, Piece, ReductionGroup, Tombstone,
};
pub use diagnosis::{Diagnosis, Wait, WaitKind, Waits};
pub(crate) use diagnosis::{Findings, Rounds};
pub(crate) use earlier::Earlier;
pub(crate) use image::CHECKPOINT_MAX;
pub use image::{CheckpointStore, EncodedManifest, Holding, Image};
pub use list::List;
pub(crate) use look::Looked;
pub use look::MainStatus;
pub(crate) use membership::{MembershipEvent, MembershipMessage, Need, Stage};
pub(crate) use migrant::{MemberRecord, Migrant};
pub use packet::Packet;
#[cfg(feature = "net")]
pub(crate) use packet::messages_in;
pub(crate) use packet::{Content, EncodedBatch, MessageFrame};
pub(crate) use phase::PhaseCounts;
pub(crate) use replicas::{Frontier, ReplicaControl, ReplicaOrder};
pub use restore_plan::RestorePlan;
pub(crate) use spread::{
    IncomingControl, OutgoingControl, REPORTED_BYTES_MIN, SEGMENT_BYTES, Spread, default_plan,
};
pub(crate) use spread_frame::{
    AgentMessageHead, CarriedHead, MulticastSegment, PlanHead, SegmentHead, SpreadFrame,
};
pub use spread_frame::{is_agent_message, is_for_relay};
pub use transfer::CoordinatorPlace;
pub(crate) use transfer::TransferMessage;
