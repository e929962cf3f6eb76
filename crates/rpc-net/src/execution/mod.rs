//! The execution of a group on servers that may be slow, lost, or out of each other's reach.

pub(crate) mod driver;
pub(crate) mod emulated_run;
pub(crate) mod events;
pub(crate) mod order_spans;
pub(crate) mod validation;
