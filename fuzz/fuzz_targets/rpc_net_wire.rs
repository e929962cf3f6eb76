//! Messages between processes of a registry, and tokens, are parsed or rejected.
#![no_main]

use gridspan_rpc_net::Token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    gridspan_rpc_net::fuzzing::wire(data);
    drop(serde_json::from_slice::<Token>(data));
});
