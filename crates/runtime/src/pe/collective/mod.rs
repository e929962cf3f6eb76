//! What involves many PEs at once. PE 0 is the root of all of it.

mod broadcast;
mod create;
mod direct;
mod lead;
mod progress;
mod quiescence;
mod reduction;
mod sequencer;
mod sync;
mod unordered;

pub(in crate::pe) use unordered::{Streams, is_stream};
