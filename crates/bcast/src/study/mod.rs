//! What broadcasting is judged with: networks, exact optima, bounds and the paper's experiment.

mod contenders;
mod experiment;
mod instances;
mod packets;
mod teragrid;

pub use contenders::{CONTENDERS, Contender};
pub use experiment::{BroadcastExperiment, Judge, Times, Trial};
pub use instances::{grid_links, uniform_links};
pub use packets::simulate_packets;
pub use teragrid::TeraGrid;
