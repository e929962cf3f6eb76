//! Assembly of a value that is sent in parts.

use crate::message::Arrival;
use crate::message::codec::DecodeError;
use bytes::{Bytes, BytesMut};
use gridspan_topology::{NodeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parts received so far, in any order.
#[derive(Serialize, Deserialize)]
pub(crate) struct Assembly {
    total: u64,
    have: u64,
    parts: BTreeMap<u64, Bytes>,
    /// Arrival times and bytes, by index of the plan's tree.
    seen: BTreeMap<u32, Seen>,
}

#[derive(Serialize, Deserialize)]
struct Seen {
    from: NodeId,
    first: Time,
    last: Time,
    /// Number of bytes of frames received after the first segment.
    bytes: u64,
}

impl Assembly {
    pub(crate) fn new(total: u64) -> Self {
        Self { total, have: 0, parts: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// Adds a part. Refuses a part that is empty, overlaps another, exceeds the total length, or
    /// states another total length. `offset` and `total` are in bytes.
    pub(crate) fn add(
        &mut self,
        offset: u64,
        total: u64,
        payload: Bytes,
    ) -> Result<(), DecodeError> {
        let bytes = payload.len() as u64;
        let end = offset.checked_add(bytes).filter(|&end| end <= self.total);
        let before = self.parts.range(..=offset).next_back();
        let after = self.parts.range(offset..).next();
        let is_free = before.is_none_or(|(at, part)| at + part.len() as u64 <= offset)
            && after.is_none_or(|(&at, _)| end.is_some_and(|end| end <= at));
        if end.is_none() || total != self.total || bytes == 0 || !is_free {
            return Err(DecodeError::new(
                "a part",
                format_args!("{bytes} bytes at {offset} of {total} do not fit the others"),
            ));
        }
        self.have += bytes;
        self.parts.insert(offset, payload);
        Ok(())
    }

    /// Notes the arrival of a part from `from` over one of the plan's trees, in a frame of
    /// `frame_bytes` bytes.
    pub(crate) fn note(&mut self, now: Time, stripe: u32, from: NodeId, frame_bytes: u64) {
        let seen = self.seen.entry(stripe);
        seen.and_modify(|seen| (seen.last, seen.bytes) = (now, seen.bytes + frame_bytes))
            .or_insert(Seen { from, first: now, last: now, bytes: 0 });
    }

    /// Returns the observations of the edges to this node over which several parts arrived.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        let arrival = |(&stripe, seen): (&u32, &Seen)| {
            let flowing_s = seen.last.since(seen.first).as_secs_f64();
            (flowing_s > 0.0).then_some(Arrival {
                from: seen.from,
                stripe,
                bytes: seen.bytes,
                flowing_s,
            })
        };
        self.seen.iter().filter_map(arrival).collect()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.have == self.total
    }

    /// Returns the number of bytes received so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.have
    }

    /// Joins the parts in order.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        if self.parts.len() == 1
            && let Some((_, part)) = self.parts.pop_first()
        {
            return part;
        }
        let mut whole = BytesMut::with_capacity(self.have as usize);
        while let Some((_, part)) = self.parts.pop_first() {
            whole.extend_from_slice(&part);
        }
        whole.freeze()
    }
}

/// Values that arrive in parts, by a key that tells them apart.
#[derive(Serialize, Deserialize)]
pub(crate) struct Assemblies<K: Ord>(BTreeMap<K, Assembly>);

impl<K: Ord> Default for Assemblies<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Assemblies<K> {
    /// Takes a part: its offset and the total length in bytes, and its bytes. Returns the value
    /// once it is complete. Refuses a part that does not match the earlier ones, and one with which
    /// all incomplete values together would hold more than `bytes_max`.
    pub(crate) fn take(
        &mut self,
        key: K,
        (offset, total, bytes): (u64, u64, Bytes),
        bytes_max: usize,
    ) -> Result<Option<Bytes>, DecodeError> {
        let held = self.0.values().map(Assembly::bytes).fold(0, u64::saturating_add);
        if held.saturating_add(bytes.len() as u64) > bytes_max as u64 {
            let reason = format_args!("incomplete values hold more than {bytes_max} bytes");
            return Err(DecodeError::new("a part", reason));
        }
        let assembly = self.0.entry(key).or_insert_with(|| Assembly::new(total));
        assembly.add(offset, total, bytes)?;
        if !assembly.is_complete() {
            return Ok(None);
        }
        Ok(self.0.remove(&key).map(Assembly::into_bytes))
    }

    /// Keeps only the incomplete values whose key fulfils a condition.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&K) -> bool) {
        self.0.retain(|key, _| is_kept(key));
    }

    /// Number of incomplete values.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(assembly: &mut Assembly, offset: u64, text: &'static str) -> bool {
        assembly.add(offset, 10, Bytes::from_static(text.as_bytes())).is_ok()
    }

    #[test]
    fn parts_may_arrive_in_any_order() {
        let mut assembly = Assembly::new(10);
        for (offset, text) in [(7, "hij"), (0, "abc"), (3, "defg")] {
            assert!(!assembly.is_complete());
            assert!(add(&mut assembly, offset, text));
        }
        assert!(assembly.is_complete());
        assert_eq!(assembly.into_bytes(), "abcdefghij");
    }

    #[test]
    fn parts_that_do_not_fit_are_refused_and_change_nothing() {
        let mut assembly = Assembly::new(10);
        assert!(add(&mut assembly, 3, "def"));
        for (offset, text) in [(3, "d"), (1, "bcd"), (5, "f"), (8, "ijk"), (10, "k"), (0, "")] {
            assert!(!add(&mut assembly, offset, text), "{offset} {text}");
        }
        assert!(assembly.add(0, 11, Bytes::from_static(b"a")).is_err());
        assert!(assembly.add(u64::MAX, 10, Bytes::from_static(b"a")).is_err());
        assert_eq!(assembly.bytes(), 3);
        assert!(add(&mut assembly, 0, "abc") && add(&mut assembly, 6, "ghij"));
        assert_eq!(assembly.into_bytes(), "abcdefghij");
    }
}
