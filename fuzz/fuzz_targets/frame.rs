//! Arbitrary frames from a peer are either decoded and handled, or rejected.
#![no_main]

#[path = "../../crates/runtime/tests/arbitrary_frames/handle.rs"]
mod handle;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    handle::handle(data);
});
