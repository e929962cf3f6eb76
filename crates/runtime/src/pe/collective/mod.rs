//! A PE's part in operations that involve many PEs; the other part is the coordinator's.

pub(in crate::pe) mod accumulator;
mod broadcast;
pub(in crate::pe) mod collections;
mod create;
mod direct;
mod lead;
pub(in crate::pe) mod leading;
mod phases;
mod quiescence;
mod reduction;
pub(in crate::pe) mod rights;
mod sequencer;
mod sync;
mod unordered;

pub(in crate::pe) use unordered::{Streams, is_stream};
