//! Sends the records of the PEs of a process to the launcher.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gridspan_record::{PeRecord, encode_records};
use gridspan_runtime::Job;
use gridspan_runtime::pe::{RecordSettings, Records};
use serde::{Deserialize, Serialize};

/// Bytes of a part. Its text in base64 fits into a control line of 64 KiB.
const PART_BYTES: usize = 36 << 10;

/// A part of the record of a PE. A process sends the parts of its PEs in order, one PE after the
/// other.
///
/// ```
/// use gridspan::control::{Control, RecordedPart};
///
/// let parts: Vec<RecordedPart> = RecordedPart::divide(3, &[7; 50_000]).collect();
/// assert_eq!((parts.len(), parts[0].is_last, parts[1].is_last), (2, false, true));
/// assert_eq!(parts[0].bytes().unwrap()[..2], [7, 7]);
/// Control::Recorded(parts[0].clone()).tell(); // to the launcher that reads standard output
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPart {
    /// Number of the PE in the recording.
    pub pe: u32,
    /// Whether it is the last part of the PE.
    pub is_last: bool,
    /// The bytes, in base64.
    pub text: String,
}

impl RecordedPart {
    /// Divides the bytes of a PE into parts, at least one.
    pub fn divide(pe: u32, bytes: &[u8]) -> impl Iterator<Item = Self> {
        Self::parts_of(pe, bytes)
    }

    /// The parts of a record, in the format of the file of its node. The iterator makes each part
    /// on demand, so that only the encoded record is in memory.
    pub(crate) fn of(record: PeRecord) -> impl Iterator<Item = Self> {
        let pe = record.pe;
        let bytes = encode_records(&[record]);
        Self::parts_of(pe, bytes)
    }

    fn parts_of(pe: u32, bytes: impl AsRef<[u8]>) -> impl Iterator<Item = Self> {
        let parts = bytes.as_ref().len().div_ceil(PART_BYTES).max(1);
        (0..parts).map(move |part| {
            let bytes = bytes.as_ref();
            let begin = part * PART_BYTES;
            let bytes = &bytes[begin..bytes.len().min(begin + PART_BYTES)];
            Self { pe, is_last: part + 1 == parts, text: STANDARD.encode(bytes) }
        })
    }

    /// The bytes; `None` if the text is not base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.text).ok()
    }
}

/// Records the job, if the launcher requests it.
pub(crate) fn recorded(job: Job, settings: Option<&RecordSettings>) -> (Job, Option<Records>) {
    match settings.cloned().map(Records::new) {
        None => (job, None),
        Some(records) => (job.recording(&records), Some(records)),
    }
}

#[cfg(test)]
mod tests {
    use super::{PART_BYTES, RecordedPart};

    #[test]
    fn parts_put_together_are_the_bytes_that_were_divided() {
        for length in [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES + 5] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let parts: Vec<_> = RecordedPart::divide(1, &bytes).collect();
            let together: Vec<u8> = parts.iter().flat_map(|part| part.bytes().unwrap()).collect();
            assert_eq!(together, bytes);
            let last: Vec<_> = parts.iter().filter(|part| part.is_last).collect();
            assert_eq!(last, [parts.last().unwrap()]);
        }
    }

    #[test]
    fn a_text_that_is_no_base64_has_no_bytes() {
        let part = RecordedPart { pe: 0, is_last: true, text: "no luck".to_owned() };
        assert_eq!(part.bytes(), None);
    }
}
