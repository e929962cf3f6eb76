//! Chooses the plan of the next broadcast, and plans ahead in idle time.
//!
//! **In steady state** the caller reports every broadcast to the [`Advisor`]: its time and the
//! timings of its edges. The history of sizes and gaps of each root predicts its next broadcast
//! (`root.rs`, `predict.rs`, `period.rs`). [`Advisor::tick`], called in idle time, makes plans for
//! it and publishes them under new identifiers. For each size, plans compete with
//! each other and with the default plan (`contest.rs`): predictions choose the plans to try, and
//! measured times decide.
//!
//! **When broadcasts take longer or shorter than predicted**, either sites share other capacities
//! than assumed (`explanation.rs`), or links have changed. If links have changed, the advisor at
//! once corrects the estimates of the pairs of clusters with slower or faster edges, requests
//! probes of the clusters at both ends (`feedback.rs`), and plans again. It requests a probe of a
//! pair now and then if its estimate has become worse, since no traffic would show a recovery.
//!
//! **Without a plan** a broadcast does not wait: it takes the default plan, and [`Advisor::plan`]
//! answers at once.

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
