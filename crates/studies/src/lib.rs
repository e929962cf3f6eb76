//! What developers of Gridspan measure. Nothing here is part of what users build.
//!
//! - [`structure`]: code lines, calls in circles, fields and names, read from the source code:
//!   `cargo run -p gridspan-studies --example structure`

pub mod structure;
