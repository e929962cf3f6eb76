//! Matrices of round trips are read or rejected with a message, and never larger than their text.
#![no_main]

use gridspan_topology::{RttMatrix, RttUnit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for unit in [RttUnit::Milliseconds, RttUnit::Microseconds] {
        for result in [RttMatrix::from_csv(text, unit), RttMatrix::from_rows(text, unit)] {
            match result {
                Ok(matrix) => assert!(matrix.nodes() <= text.len()),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
});
