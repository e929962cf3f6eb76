//! Reads or rejects the file of a node in a recording. Records that were read are written the same.
#![no_main]

use gridspan_record::{decode_records, encode_records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(decode_records(data));
    // Random bytes have no right checksum.
    let length = (data.len() as u32).to_le_bytes();
    let framed = [&length[..], &crc32fast::hash(data).to_le_bytes(), data].concat();
    if let Ok(records) = decode_records(&framed) {
        assert_eq!(decode_records(&encode_records(&records)).as_ref(), Ok(&records));
    }
});
