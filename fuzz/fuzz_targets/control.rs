//! Text between a launcher and its nodes (control lines, node bundles, addresses) is parsed or
//! rejected.
#![no_main]

use gridspan::control::Control;
use gridspan_runtime::net::bootstrap::{Addresses, NodeBundle};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(Control::parse(data));
    drop(serde_json::from_slice::<NodeBundle>(data));
    drop(serde_json::from_slice::<Addresses>(data));
});
