//! A PE's part in what involves many PEs at once; the coordinator has the rest.

pub(in crate::pe) mod accumulator;
mod broadcast;
pub(in crate::pe) mod collections;
mod create;
mod direct;
mod lead;
pub(in crate::pe) mod leading;
mod quiescence;
mod reduction;
pub(in crate::pe) mod rights;
mod sequencer;
mod sync;
mod unordered;

pub(in crate::pe) use unordered::{Streams, is_stream};
