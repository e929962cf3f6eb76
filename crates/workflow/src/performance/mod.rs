//! How long a call computes: by a formula of its scalar arguments, or as learned from calls before.

mod formula;
mod history;

pub use formula::{Formula, FormulaError};
pub use history::History;
