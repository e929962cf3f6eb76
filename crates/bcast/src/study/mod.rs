//! What broadcasting is judged with: networks, exact optima, bounds and the paper's experiment.

mod exact;
mod instances;

pub use exact::exact_optimum_s;
pub use instances::{grid_links, uniform_links};
