//! The first bytes of a connection, and probes, are read or rejected.
#![no_main]

use gridspan_runtime::net::fuzzing::{hello, probe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hello(data);
    probe(data);
});
