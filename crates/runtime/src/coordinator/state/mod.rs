//! The coordinator's state, part by part. No file here refers to the coordinator itself.

pub(super) mod advice;
pub(super) mod balance;
pub(super) mod broadcasts;
pub(super) mod checkpoint;
pub(super) mod clusters;
pub(super) mod collections;
pub(super) mod diagnosis;
pub(super) mod losses;
pub(super) mod membership;
pub(super) mod phases;
pub(super) mod publications;
pub(super) mod quiescence;
pub(super) mod reductions;
pub(super) mod sequencer;
pub(super) mod stall;
pub(super) mod survey;
pub(super) mod timers;
