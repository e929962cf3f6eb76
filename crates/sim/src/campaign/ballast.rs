//! Bytes that make an actor large, and whose decoding may fail on purpose.

use super::ledger::{self, Ledger};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};

/// The ballast of an actor has fewer bytes than this: enough for some actors to travel as bulk.
const BALLAST_MAX: u64 = 1500;

/// The ballast of an actor. Its decoding fails with the probability that the ledger states; the
/// PE then refuses the arriving actor.
#[derive(Serialize)]
pub(super) struct Ballast(Bytes);

impl Ballast {
    /// Ballast of a random size.
    pub(super) fn of(ledger: &mut Ledger) -> Self {
        Self(vec![7; ledger.dice.below(BALLAST_MAX) as usize].into())
    }
}

impl<'de> Deserialize<'de> for Ballast {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ballast = Self(Bytes::deserialize(deserializer)?);
        let refused = ledger::with(|ledger| {
            let refused = ledger.refusal > 0.0 && ledger.dice.chance(ledger.refusal);
            ledger.actions.refusals += u64::from(refused);
            refused
        });
        match refused {
            true => Err(serde::de::Error::custom("the campaign refuses it")),
            false => Ok(ballast),
        }
    }
}
