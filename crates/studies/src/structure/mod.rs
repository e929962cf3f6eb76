//! Reads the source code of the workspace and measures its structure.
//!
//! It sees syntax and no types. So a call of a method is taken for one of every method of that name
//! that the caller could mean; what this leads to is said where it matters.

mod circles;
mod fields;
mod guards;
mod instrument;
mod lines;
mod names;
mod paths;
mod source;

pub use circles::{Circle, circles};
pub use fields::fields;
pub use guards::{Guards, guards};
pub use instrument::instrument;
pub use lines::{CodeLines, code_lines};
pub use names::{SharedName, shared_names};
pub use paths::{Named, named_paths};
pub use source::{Source, SourceError, read};
