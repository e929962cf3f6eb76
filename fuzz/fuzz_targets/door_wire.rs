//! What is said through a door, and tokens: understood or refused.
#![no_main]

use gridspan_door::Token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    gridspan_door::fuzzing::wire(data);
    drop(serde_json::from_slice::<Token>(data));
});
