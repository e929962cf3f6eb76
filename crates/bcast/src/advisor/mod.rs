//! Which plan the next broadcast uses, and what to do until then.
//!
//! **In steady state** every broadcast is told to the [`Advisor`]: how long it took, and what its
//! edges showed. The history of sizes and gaps of each root predicts the next (`root.rs`,
//! `predict.rs`, `period.rs`), and [`Advisor::tick`], called in idle time, makes plans for it and
//! publishes them under new identifiers before they are needed. For each size, plans compete with
//! each other and with the default plan (`contest.rs`): predictions say what is worth a
//! trial, and what broadcasts took decides.
//!
//! **When broadcasts take longer or shorter than predicted**, either something else is shared
//! between sites than was believed (`explanation.rs`), or links have changed: edges that were
//! slower or faster than predicted correct the estimate about their pair at once, probes of the
//! clusters at both ends are wished for (`feedback.rs`), and plans are made again. Pairs that are
//! believed to be worse than they once were are probed now and then, since nothing flows over them
//! that could show they have recovered.
//!
//! **Without a plan** a broadcast does not wait: it takes the default plan, and
//! [`Advisor::plan`] answers at once.

mod advice;
mod command;
mod contest;
mod explanation;
mod feedback;
mod period;
mod predict;
mod root;

pub use advice::{Advisor, AdvisorConfig, Broadcast};
pub use command::AdvisorCommand;
pub use feedback::ProbeRequest;
pub use predict::{Forecast, Predictor};
