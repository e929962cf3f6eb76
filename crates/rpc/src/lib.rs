//! Remote procedure calls and their collective mapping, written as actors.
//!
//! Nothing is here yet; the crate keeps the place in the layers that `tests/layout` checks.
