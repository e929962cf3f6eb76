//! Reads the source code of the workspace and measures its structure.
//!
//! It reads only the syntax and does not infer types, so it finds the callee of a method call by
//! names. Each module documents its rules.

mod circles;
mod examples;
mod failures;
mod fields;
mod guards;
mod instrument;
mod lines;
mod names;
mod paths;
mod source;

pub use circles::{Circle, circles};
pub use examples::{UnshownType, types_without_example};
pub use failures::{UnexplainedFailure, failures_without_reason};
pub use fields::fields;
pub use guards::{Guards, guards};
pub use instrument::instrument;
pub use lines::{CodeLines, code_lines};
pub use names::{SharedName, shared_names};
pub use paths::{Named, named_paths};
pub use source::{Source, SourceError, read};
