//! Parses arbitrary grid files and emulation specs: each is accepted, or rejected with a message.
#![no_main]

use gridspan_topology::GridSpec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = GridSpec::from_toml(text) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = GridSpec::from_emulate(text) {
        assert!(!error.to_string().is_empty());
    }
});
