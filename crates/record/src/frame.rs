//! The records of one node as bytes.
//!
//! A record is a [`PeRecord`] in the format of `postcard`. Its length and its CRC-32 (IEEE) precede
//! it, each as 32 bits in little-endian order. If the record has answers to main or spans of
//! timers, the lists of both follow it; its length and its checksum include these lists.

use crate::answer::MainAnswer;
use crate::pe_record::{PeRecord, TimedSpan};
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
        let Ok(encoded) = encoded(record) else { continue };
        // A record above 4 GiB does not fit the length; its PE counts as missing.
        let Ok(length) = u32::try_from(encoded.len()) else { continue };
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&encoded).to_le_bytes());
        bytes.extend_from_slice(&encoded);
    }
    bytes
}

/// Decodes the records of one node. They take at most 30 times as much memory as the bytes, plus
/// the memory of the type names, of which a record has at most 65,534.
///
/// # Errors
///
/// [`FrameError`] at the first record that is cut off, has a wrong checksum, or cannot be decoded.
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
        let record = decoded(body).map_err(malformed)?;
        records.push(record);
        rest = after;
    }
    Ok(records)
}

/// Encodes a record, followed by the lists that version 3 has added.
fn encoded(record: &PeRecord) -> postcard::Result<Vec<u8>> {
    let mut encoded = postcard::to_allocvec(record)?;
    if !record.answers.is_empty() || !record.timed.is_empty() {
        encoded.extend_from_slice(&postcard::to_allocvec(&(&record.answers, &record.timed))?);
    }
    Ok(encoded)
}

/// Decodes the bytes that [`encoded`] returns; fails with the problem.
fn decoded(body: &[u8]) -> Result<PeRecord, String> {
    let text = |error: postcard::Error| error.to_string();
    let (mut record, rest): (PeRecord, &[u8]) = postcard::take_from_bytes(body).map_err(text)?;
    if rest.is_empty() {
        return Ok(record);
    }
    let (lists, unread): ((Vec<MainAnswer>, Vec<TimedSpan>), &[u8]) =
        postcard::take_from_bytes(rest).map_err(text)?;
    (record.answers, record.timed) = lists;
    if (record.answers.is_empty() && record.timed.is_empty()) || !unread.is_empty() {
        return Err(format!("{} bytes are too many", rest.len()));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::{FrameError, decode_records, encode_records};
    use crate::answer::{MainAnswer, MainWait};
    use crate::pe_record::{BINS_MAX, Bin, PeRecord, Span, TASK, TimedSpan};

    fn records() -> Vec<PeRecord> {
        let span = Span { begin_ns: 7, duration_ns: 2, step: Some(1), ..Span::default() };
        let one = PeRecord { types: vec!["A".to_owned()], spans: vec![span], ..Default::default() };
        vec![one, PeRecord { pe: 1, ..PeRecord::default() }]
    }

    /// Answers to main: one of all PEs, and one of an actor.
    fn answers() -> Vec<MainAnswer> {
        let created = MainAnswer {
            asked_ns: 10,
            answered_ns: 50,
            wait: MainWait::EachPe,
            ..MainAnswer::default()
        };
        let told =
            MainAnswer { asked_ns: 50, answered_ns: 90, wait: MainWait::Actor, span: Some((1, 7)) };
        vec![created, told]
    }

    #[test]
    fn answers_and_timers_follow_their_record_and_records_without_any_are_as_before() {
        let mut with = records();
        with[0].answers = answers();
        with[1].timed = vec![TimedSpan { number: 9, set_by: 2, delay_ns: 5 }];
        assert_eq!(decode_records(&encode_records(&with)), Ok(with.clone()));
        // An empty list is one byte, and a timer is three.
        let longer = encode_records(&with).len() - encode_records(&records()).len();
        assert_eq!(longer, postcard::to_allocvec(&answers()).unwrap().len() + 1 + 1 + 1 + 3);
    }

    #[test]
    fn other_bytes_behind_a_record_are_refused() {
        for behind in [&[0_u8][..], &[9], &[0, 0], &[0, 1, 1, 0, 5, 7]] {
            let mut body = postcard::to_allocvec(&records()[0]).unwrap();
            body.extend_from_slice(behind);
            let length = (body.len() as u32).to_le_bytes();
            let framed = [&length[..], &crc32fast::hash(&body).to_le_bytes(), &body[..]].concat();
            let found = decode_records(&framed);
            assert!(matches!(found, Err(FrameError::Malformed { at: 0, .. })), "{found:?}");
        }
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
