//! Inference that asks for the measurements it needs.
//!
//! Up to [`Inference::MAX_FULL`] nodes these are all pairs. Beyond, a *region*, at first the whole,
//! is handled in three steps: all pairs among a sample of it are measured and read as a full matrix
//! is; every other node finds its group by probes to single members of the groups; then each group
//! is a region. Groups that hold together are leaves, and at the end the levels are found anew over
//! all leaves, because no region alone sees them all.
//!
//! - `inference.rs`: the state machine. - `region.rs`: one region's steps.
//! - `placing.rs`: how a node finds its group. - `log.rs`: all measurements. - `assemble.rs`: the
//!   end.

mod assemble;
mod inference;
mod log;
mod placing;
mod region;

pub use inference::{Inference, ProbeCount};
pub(super) use log::Log;
pub(super) use placing::{Groups, Next, Seeker};
