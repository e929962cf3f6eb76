//! The log of a run, with which two runs can be compared.

use gridspan_topology::{NodeId, PeId, Time};

/// One packet, as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// Time of arrival.
    pub time: Time,
    /// The PE that sent it.
    pub from: PeId,
    /// The receiving PE.
    pub to: PeId,
    /// The first two bytes of its content on the network, which give the kind of the packet. Zero
    /// for packets that move as values inside a node.
    pub kind: u16,
    /// A hash of its bytes on the network. Zero for packets that move as values inside a node.
    pub bytes: u64,
}

/// Computes the hash of all packets and datagrams, and keeps an entry for each packet if asked to.
pub(crate) struct Log {
    entries: Option<Vec<LogEntry>>,
    hash: u64,
}

impl Log {
    pub(crate) fn new(keep: bool) -> Self {
        Self { entries: keep.then(Vec::new), hash: FNV_OFFSET }
    }

    /// Adds a packet; `frame` is its form on the network, if any.
    pub(crate) fn add(&mut self, time: Time, from: PeId, to: PeId, frame: Option<&[u8]>) {
        // The first eight bytes of a frame are its sender and receiver.
        let content = frame.and_then(|frame| frame.get(8..)).unwrap_or_default();
        let kind = match content {
            [tag, what, ..] => u16::from_be_bytes([*tag, *what]),
            _ => 0,
        };
        let bytes = frame.map_or(0, hash);
        let entry = LogEntry { time, from, to, kind, bytes };
        let ends = u64::from(from.0) << 32 | u64::from(to.0);
        self.hash = [time.0, ends, u64::from(kind), bytes].into_iter().fold(self.hash, mix);
        if let Some(entries) = &mut self.entries {
            entries.push(entry);
        }
    }

    /// Adds a datagram: its time of arrival, ends and length. Its bytes are not hashed, because
    /// they are encrypted with keys that do not depend on the seed.
    pub(crate) fn add_datagram(&mut self, time: Time, (from, to): (NodeId, NodeId), bytes: usize) {
        let ends = u64::from(from.0) << 32 | u64::from(to.0);
        self.hash = [time.0, ends, bytes as u64].into_iter().fold(self.hash, mix);
    }

    /// Returns the hash, and the entries if they were kept.
    pub(crate) fn finish(self) -> (u64, Vec<LogEntry>) {
        (self.hash, self.entries.unwrap_or_default())
    }
}

/// Offset of FNV-1a. This variant of the hash takes eight bytes at a time.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    mixed ^ (mixed >> 29)
}

/// Hashes eight bytes at a time; zeros complete the last word.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let hash = words.iter().fold(FNV_OFFSET, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return hash;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(frames: &[(u64, &[u8])]) -> u64 {
        let mut log = Log::new(false);
        for &(time, frame) in frames {
            log.add(Time(time), PeId(0), PeId(1), Some(frame));
        }
        log.finish().0
    }

    #[test]
    fn any_difference_in_time_bytes_or_order_changes_the_hash() {
        let (a, b) = (&b"01234567ab"[..], &b"01234567ac"[..]);
        let all = [&[(1, a), (2, b)], &[(1, b), (2, a)], &[(1, a), (3, b)], &[(1, a), (2, a)]];
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                assert_eq!(hash_of(*one) == hash_of(*other), i == j);
            }
        }
    }
}
