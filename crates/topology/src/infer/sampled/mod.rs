//! Inference that requests the measurements it needs.
//!
//! Up to [`Inference::MAX_FULL`] nodes these are all pairs. Beyond, the inference divides a
//! *region*, at first the whole, in three steps: it measures all pairs within a sample of the
//! region and finds the groups as in a full matrix; every other node finds its group by probes to
//! single members of the groups; then each group becomes a region. Regions that are a single group
//! are leaves. At the end the inference determines the levels again over all leaves, because a
//! region has only its own distances.
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
