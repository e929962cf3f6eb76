//! Collective operations: all ranks of a communicator call them, in the same order.

mod alltoall;
mod blocking;
mod collected;
mod exchange;
mod immediate;
mod in_rounds;
mod in_shares;
mod keys;
pub(crate) mod operation;
mod reduce;
mod reduce_scatter;
