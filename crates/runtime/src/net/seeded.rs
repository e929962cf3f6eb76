//! Replacements in virtual time for quinn's system sources: seeded identifiers, and a clock that
//! stands still.

use gridspan_topology::dice::Dice;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, TimeSource};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Length of an identifier in bytes, equal to quinn's default.
const IDENTIFIER_BYTES: usize = 8;

/// Identifiers of connections, derived from the seed of a transport. The assignment of packets to
/// connections depends on them. They can be guessed, so they are not for real networks.
pub(super) struct SeededIdentifiers(Dice);

impl SeededIdentifiers {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&seed[..16]);
        Self(Dice::from_bytes(half))
    }
}

impl ConnectionIdGenerator for SeededIdentifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.next_u64().to_le_bytes())
    }

    fn cid_len(&self) -> usize {
        IDENTIFIER_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// A clock that stands still, so that tokens stay valid; quinn takes their age from the time of
/// day.
pub(super) struct StandingClock;

impl TimeSource for StandingClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_identifiers_and_others_do_not() {
        let identifiers = |seed| {
            let mut identifiers = SeededIdentifiers::new([seed; 32]);
            [identifiers.generate_cid(), identifiers.generate_cid()]
        };
        assert_eq!(identifiers(1), identifiers(1));
        assert_ne!(identifiers(1), identifiers(2));
        assert_ne!(identifiers(1)[0], identifiers(1)[1]);
        assert_eq!(identifiers(1)[0].len(), IDENTIFIER_BYTES);
    }
}
