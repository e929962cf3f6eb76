//! Encoded data in segments, each of which fits in one message.
//!
//! A node accepts frames of up to 64 MiB. Larger data is cut into segments once, where it is
//! created. From then on the segments are shared, and joined only where a function reads them.

use gridspan_runtime::Numbers;
use postcard::ser_flavors::Size;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Largest segment, in bytes, of the arguments and results of single calls. This is less than the
/// largest frame, because a frame also holds headers.
pub(crate) const CALL_SEGMENT_BYTES: usize = 32 << 20;
/// Segment size for the data of groups: small, so that a server that passes data on sends most of
/// it while the rest arrives.
pub(crate) const DATA_SEGMENT_BYTES: usize = 4 << 20;
/// Largest block, in bytes. Larger ones are refused, because a block waits in the receiver's
/// mailbox, which holds at most 2 GiB.
pub(crate) const BYTES_MAX: usize = 1 << 30;

/// Largest number of segments of a valid block: that of a block of `BYTES_MAX` bytes for groups.
pub(crate) const SEGMENTS_MAX: usize = BYTES_MAX / DATA_SEGMENT_BYTES;

/// Bytes in one or more segments. Clones share them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncodedBlock(Vec<Numbers<u8>>);

impl EncodedBlock {
    /// Encodes a value in segments of `segment_bytes` (the last may be smaller). `what` names the
    /// value in errors. The size is checked before the value is encoded.
    pub(crate) fn encode<T: Serialize + ?Sized>(
        what: &str,
        value: &T,
        segment_bytes: usize,
    ) -> Result<Self, String> {
        let why = |error: postcard::Error| format!("{what} cannot be encoded: {error}");
        let bytes = postcard::serialize_with_flavor(value, Size::default()).map_err(why)?;
        check(what, bytes)?;
        let encoded = postcard::to_extend(value, Vec::with_capacity(bytes)).map_err(why)?;
        Self::cut(what, encoded, segment_bytes)
    }

    /// Cuts bytes into segments of this size (the last may be smaller). `what` names them in the
    /// error if there are too many.
    pub(crate) fn cut(what: &str, bytes: Vec<u8>, segment_bytes: usize) -> Result<Self, String> {
        check(what, bytes.len())?;
        Ok(match bytes.len() <= segment_bytes {
            true => Self(vec![bytes.into()]),
            false => Self(bytes.chunks(segment_bytes).map(Numbers::from).collect()),
        })
    }

    /// Creates a block of segments that were cut elsewhere.
    pub(crate) fn of(segments: Vec<Numbers<u8>>) -> Self {
        match segments.is_empty() {
            true => Self(vec![Numbers::default()]),
            false => Self(segments),
        }
    }

    pub(crate) fn segments(&self) -> &[Numbers<u8>] {
        &self.0
    }

    pub(crate) fn into_segments(self) -> Vec<Numbers<u8>> {
        self.0
    }

    /// Number of bytes in all segments.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|segment| segment.len()).sum()
    }

    /// All bytes in one slice; copied only if there are several segments.
    pub(crate) fn contiguous(&self) -> Cow<'_, [u8]> {
        match &self.0[..] {
            [only] => Cow::Borrowed(only),
            segments => {
                let mut bytes = Vec::with_capacity(self.len());
                segments.iter().for_each(|segment| bytes.extend_from_slice(segment));
                Cow::Owned(bytes)
            }
        }
    }
}

fn check(what: &str, bytes: usize) -> Result<(), String> {
    match bytes <= BYTES_MAX {
        true => Ok(()),
        false => {
            Err(format!("{what} has {bytes} bytes, and at most {BYTES_MAX} are sent; divide it"))
        }
    }
}

/// Segments that arrive in any order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arriving {
    segments: Vec<Option<Numbers<u8>>>,
    missing: usize,
}

impl Arriving {
    /// Expects `count` segments. `None` for a count that no block has: 0, or more than
    /// [`SEGMENTS_MAX`].
    pub(crate) fn new(count: u32) -> Option<Self> {
        let count = count as usize;
        let is_valid = (1..=SEGMENTS_MAX).contains(&count);
        is_valid.then(|| Self { segments: vec![None; count], missing: count })
    }

    /// Adds a segment. Returns the block once it is complete; drops a segment whose index is out of
    /// range.
    pub(crate) fn arrive(&mut self, index: usize, segment: Numbers<u8>) -> Option<EncodedBlock> {
        let place = self.segments.get_mut(index)?;
        self.missing -= usize::from(place.is_none());
        *place = Some(segment);
        (self.missing == 0).then(|| EncodedBlock::of(self.segments.drain(..).flatten().collect()))
    }

    /// Removes a segment that has arrived, which the block then lacks again. Returns its index, the
    /// total number of segments, and the segment.
    pub(crate) fn give(&mut self) -> Option<(u32, u32, Numbers<u8>)> {
        let count = self.segments.len() as u32;
        let mut numbered = (0..).zip(&mut self.segments);
        let given = numbered.find_map(|(index, segment)| Some((index, count, segment.take()?)))?;
        self.missing += 1;
        Some(given)
    }

    /// Number of bytes that have arrived.
    pub(crate) fn len(&self) -> usize {
        self.segments.iter().flatten().map(|segment| segment.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_whose_segments_arrive_in_any_order_is_unchanged() {
        let bytes: Vec<u8> = (0..25).collect();
        let block = EncodedBlock::cut("it", bytes.clone(), 10).unwrap();
        let mut arriving = Arriving::new(3).unwrap();

        assert_eq!(block.segments().len(), 3);
        for index in [2, 0, 2] {
            assert_eq!(arriving.arrive(index, block.segments()[index].clone()), None);
        }
        assert_eq!(arriving.arrive(7, Numbers::default()), None);
        let whole = arriving.arrive(1, block.segments()[1].clone()).unwrap();

        assert_eq!((whole.contiguous().into_owned(), whole.len()), (bytes, 25));
    }

    #[test]
    fn a_block_is_not_complete_without_a_segment_that_was_given_away() {
        let block = EncodedBlock::cut("it", (0..15).collect(), 10).unwrap();
        let [first, last] = [0, 1].map(|index| block.segments()[index].clone());
        let mut arriving = Arriving::new(2).unwrap();
        assert_eq!(arriving.arrive(0, first.clone()), None);

        assert_eq!(arriving.give(), Some((0, 2, first.clone())));

        assert_eq!(arriving.arrive(1, last), None);
        assert_eq!(arriving.arrive(0, first), Some(block));
    }

    #[test]
    fn no_block_has_no_segments_or_more_than_the_largest() {
        let largest = SEGMENTS_MAX as u32;
        let is_valid = [0, 1, largest, largest + 1, u32::MAX].map(|n| Arriving::new(n).is_some());

        assert_eq!(is_valid, [false, true, true, false, false]);
    }

    #[test]
    fn an_empty_block_has_one_empty_segment() {
        let block = EncodedBlock::cut("it", Vec::new(), 10).unwrap();

        assert_eq!((block.segments().len(), block.len()), (1, 0));
    }
}
