//! A PE's part in what involves many PEs at once; the coordinator has the rest.

mod broadcast;
mod create;
mod direct;
mod lead;
mod quiescence;
mod reduction;
mod sequencer;
mod sync;
mod unordered;

pub(in crate::pe) use unordered::{Streams, is_stream};
