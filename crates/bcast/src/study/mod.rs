//! What broadcasting is judged with: networks, exact optima, bounds and the paper's experiment.

mod bound;
mod contenders;
mod exact;
mod experiment;
mod instances;
mod packets;
mod teragrid;

pub use bound::bound_s;
pub use contenders::{CONTENDERS, Contender};
pub use exact::exact_optimum_s;
pub use experiment::{BroadcastExperiment, Judge, Times, Trial};
pub use instances::{grid_links, uniform_links};
pub use packets::simulate_packets;
pub use teragrid::TeraGrid;
