//! Probes on the network: packets of the job's own socket that are not QUIC.
//!
//! The two highest bits of the first byte are zero. Every QUIC packet has at least one of them set
//! while neither side greases the fixed bit (`config.rs` disables that), so that probes and QUIC
//! packets cannot be confused. Each packet ends with a keyed hash over all of it, so that an
//! unknown peer can neither provoke an answer nor forge one. An answer is never longer than the
//! packet that it answers, and goes to the known address of the node that the packet names,
//! regardless of the address that sent it.

use crate::message::probe::ProbeKind;
use gridspan_topology::NodeId;
use ring::hmac;

/// The first byte of a probe.
const MAGIC: u8 = 0x1f;
/// Size of the fields before the padding, in bytes.
const HEADER_BYTES: usize = 46;
/// Size in bytes of the keyed hash, which is truncated to 128 bits.
pub(super) const TAG_BYTES: usize = 16;
/// Size in bytes of the packets that measure a round trip.
pub(super) const PING_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// Size in bytes of the packets of a train.
pub(super) const TRAIN_BYTES: usize = ProbeKind::TRAIN_BYTES as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ping,
    Pong,
    Train,
    /// The last packet of a train has arrived.
    Arrived,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Ping, Self::Pong, Self::Train, Self::Arrived];
}

/// A probe, without padding and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbePacket {
    pub(super) kind: Kind,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) order: u64,
    /// Position in a train, from zero, or round of a ping, from one.
    pub(super) index: u16,
    /// Number of packets of a train; 1 for a ping.
    pub(super) count: u16,
    /// Time at which a ping or a train's packet was sent, in nanoseconds of its sender's clock; the
    /// answer returns it.
    pub(super) stamp: u64,
    /// Time from the first to the last arrival of a train, in nanoseconds of the receiver's clock.
    pub(super) span: u64,
    /// Bytes of the train that arrived after its first packet.
    pub(super) bytes: u64,
}

/// Whether a packet is a probe, well-formed or not.
pub(super) fn is_probe(data: &[u8]) -> bool {
    data.first() == Some(&MAGIC)
}

impl ProbePacket {
    /// Encodes the packet in `len` bytes, at least [`PING_BYTES`].
    pub(super) fn encode(&self, len: usize, key: &hmac::Key) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        bytes.push(MAGIC);
        bytes.push(self.kind as u8);
        bytes.extend_from_slice(&self.from.0.to_le_bytes());
        bytes.extend_from_slice(&self.to.0.to_le_bytes());
        bytes.extend_from_slice(&self.order.to_le_bytes());
        bytes.extend_from_slice(&self.index.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        for number in [self.stamp, self.span, self.bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(len.max(PING_BYTES) - TAG_BYTES, 0);
        let tag = hmac::sign(key, &bytes);
        bytes.extend_from_slice(&tag.as_ref()[..TAG_BYTES]);
        bytes
    }

    /// Decodes a packet; returns `None` if it is not of this job.
    pub(super) fn decode(data: &[u8], key: &hmac::Key) -> Option<Self> {
        let (signed, tag) = data.split_last_chunk::<TAG_BYTES>()?;
        if signed.len() < HEADER_BYTES || data.len() > TRAIN_BYTES || !is_probe(data) {
            return None;
        }
        // The comparison takes constant time, or an attacker could find the hash byte by byte.
        let expected = hmac::sign(key, signed);
        let differs = expected.as_ref().iter().zip(tag).fold(0, |or, (a, b)| or | (a ^ b));
        if differs != 0 {
            return None;
        }
        let mut at = 2;
        let mut take = |len: usize| {
            let mut number = [0; 8];
            number[..len].copy_from_slice(&signed[at..at + len]);
            at += len;
            u64::from_le_bytes(number)
        };
        Some(Self {
            kind: *Kind::ALL.get(usize::from(signed[1]))?,
            from: NodeId(take(4) as u32),
            to: NodeId(take(4) as u32),
            order: take(8),
            index: take(2) as u16,
            count: take(2) as u16,
            stamp: take(8),
            span: take(8),
            bytes: take(8),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(secret: u8) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &[secret; 32])
    }

    fn packet() -> ProbePacket {
        ProbePacket {
            kind: Kind::Arrived,
            from: NodeId(3),
            to: NodeId(70_000),
            order: u64::MAX - 1,
            index: 7,
            count: 16,
            stamp: 1,
            span: 2,
            bytes: 3,
        }
    }

    #[test]
    fn a_decoded_packet_equals_the_encoded_one() {
        for len in [0, PING_BYTES, TRAIN_BYTES] {
            let bytes = packet().encode(len, &key(1));
            assert_eq!(bytes.len(), len.max(PING_BYTES));
            assert!(is_probe(&bytes) && bytes[0] & 0xc0 == 0, "it looks like a QUIC packet");
            assert_eq!(ProbePacket::decode(&bytes, &key(1)), Some(packet()));
        }
    }

    #[test]
    fn a_packet_with_another_key_or_a_changed_byte_is_refused() {
        let bytes = packet().encode(PING_BYTES, &key(1));
        assert_eq!(ProbePacket::decode(&bytes, &key(2)), None);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(ProbePacket::decode(&changed, &key(1)), None, "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..1300)) {
            prop_assert_eq!(ProbePacket::decode(&bytes, &key(1)), None);
        }
    }
}
