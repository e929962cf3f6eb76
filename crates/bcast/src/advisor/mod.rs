//! Which plan the next broadcast uses, and what to do until then.
//!
//! **In steady state** every broadcast is told to the [`Advisor`] with what its edges showed. The history
//! of sizes and gaps of each root predicts the next (`predict.rs`, `period.rs`), and
//! [`Advisor::tick`], called in idle time, makes plans for it and publishes them under new
//! identifiers before they are needed.
//!
//! **When an edge was slower or faster than predicted** the belief about that pair is corrected at once,
//! probes of the clusters at both ends are wished for (`feedback.rs`), and plans are made anew. A
//! plan is replaced only if the other promises to be faster by more than a twentieth. Pairs that
//! are believed to be worse than they once were are probed now and then, since nothing flows
//! over them that could show they have recovered.
//!
//! **Without a plan** a broadcast does not wait: [`Advisor::plan`] answers at once, with a plan for
//! another size or one that needs no search.

mod advice;
mod feedback;
mod period;
mod predict;

pub use advice::{Advisor, AdvisorConfig, Broadcast, Command, Wish};
pub use predict::{Forecast, Predictor};
