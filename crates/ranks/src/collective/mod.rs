//! Collective operations: all ranks of a communicator call them, in the same order.

mod blocking;
mod collected;
mod exchange;
mod immediate;
pub(crate) mod operation;
mod reduce;
mod reduce_scatter;
mod segments;
