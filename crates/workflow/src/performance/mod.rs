//! The computing time of a call: by a formula of its scalar arguments, or learned from earlier
//! calls.

mod formula;
mod history;

pub use formula::{Formula, FormulaError};
pub use history::History;
