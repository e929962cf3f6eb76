//! Inference that requests the measurements it needs.
//!
//! Up to [`Inference::MAX_FULL`] nodes these are all pairs. Beyond, a *region*, at first the whole,
//! is handled in three steps: all pairs within a sample of it are measured and treated as a full
//! matrix; every other node finds its group by probes to single members of the groups; then each
//! group becomes a region. Regions that are a single group are leaves, and at the end the levels
//! are determined again over all leaves, because a region has only its own distances.
//!
//! - `inference.rs`: the state machine.
//! - `region.rs`: the steps of one region.
//! - `placing.rs`: how a node finds its group.
//! - `log.rs`: all measurements.
//! - `assemble.rs`: one hierarchy from the leaves of all regions.

mod assemble;
mod inference;
mod log;
mod placing;
mod region;

pub use inference::{Inference, ProbeCount};
pub(super) use log::Log;
pub(super) use placing::{Groups, Next, Seeker};
