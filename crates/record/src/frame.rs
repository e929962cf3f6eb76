//! The records of one node as bytes.
//!
//! Each record has its length and its CRC-32 (IEEE) before it, both as 32 bits in little-endian
//! order, and is a [`PeRecord`] in the format of `postcard`.

use crate::pe_record::PeRecord;
use thiserror::Error;

/// Error of the bytes of a node. Nothing was decoded; record the job again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes end within a record.
    #[error("the bytes end within the record at byte {at}")]
    Truncated {
        /// Where the record begins.
        at: usize,
    },
    /// The checksum of a record is wrong.
    #[error("the record at byte {at} has a wrong checksum")]
    Checksum {
        /// Where the record begins.
        at: usize,
    },
    /// A record cannot be decoded.
    #[error("the record at byte {at} cannot be decoded: {problem}")]
    Malformed {
        /// Where the record begins.
        at: usize,
        /// What is wrong.
        problem: String,
    },
}

/// Returns the records of one node as the bytes of its file.
pub fn encode_records(records: &[PeRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        // Encoding into memory fails for no value of this type.
        let Ok(encoded) = postcard::to_allocvec(record) else { continue };
        // A record above 4 GiB does not fit the length; its PE counts as missing.
        let Ok(length) = u32::try_from(encoded.len()) else { continue };
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&encoded).to_le_bytes());
        bytes.extend_from_slice(&encoded);
    }
    bytes
}

/// Decodes the records of one node. They take at most 30 times the memory of the bytes, and that of
/// the names of types, of which a record has at most 65,534.
pub fn decode_records(bytes: &[u8]) -> Result<Vec<PeRecord>, FrameError> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let truncated = FrameError::Truncated { at };
        let Some((length, after)) = rest.split_first_chunk() else { return Err(truncated) };
        let Some((crc, after)) = after.split_first_chunk() else { return Err(truncated) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((body, after)) = after.split_at_checked(length) else { return Err(truncated) };
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return Err(FrameError::Checksum { at });
        }
        let malformed = |problem| FrameError::Malformed { at, problem };
        let (record, unread) =
            postcard::take_from_bytes(body).map_err(|error| malformed(error.to_string()))?;
        if !unread.is_empty() {
            return Err(malformed(format!("{} bytes are too many", unread.len())));
        }
        records.push(record);
        rest = after;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::{FrameError, decode_records, encode_records};
    use crate::pe_record::{BINS_MAX, Bin, PeRecord, Span, TASK};

    fn records() -> Vec<PeRecord> {
        let span = Span { begin_ns: 7, duration_ns: 2, step: Some(1), ..Span::default() };
        let one = PeRecord { types: vec!["A".to_owned()], spans: vec![span], ..Default::default() };
        vec![one, PeRecord { pe: 1, ..PeRecord::default() }]
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        assert_eq!(decode_records(&encode_records(&records())), Ok(records()));
        assert_eq!(decode_records(&[]), Ok(vec![]));
    }

    #[test]
    fn every_cut_within_a_record_is_found() {
        let bytes = encode_records(&records());
        let first = encode_records(&records()[..1]).len();
        for length in (1..bytes.len()).filter(|length| *length != first) {
            let at = if length < first { 0 } else { first };
            let found = decode_records(&bytes[..length]);
            assert_eq!(found, Err(FrameError::Truncated { at }), "{length}");
        }
    }

    #[test]
    fn more_types_or_bins_than_a_record_may_have_are_not_decoded() {
        let types = vec![String::new(); usize::from(TASK) + 1];
        let bins = vec![Bin::default(); BINS_MAX + 1];
        let many =
            [PeRecord { types, ..PeRecord::default() }, PeRecord { bins, ..PeRecord::default() }];
        for record in many {
            let found = decode_records(&encode_records(&[record]));
            assert!(matches!(found, Err(FrameError::Malformed { at: 0, .. })), "{found:?}");
        }
    }

    #[test]
    fn a_flipped_bit_of_a_record_is_found() {
        let bytes = encode_records(&records());
        for at in 8..encode_records(&records()[..1]).len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let found = decode_records(&damaged);
            assert_eq!(found, Err(FrameError::Checksum { at: 0 }), "byte {at}");
        }
    }
}
