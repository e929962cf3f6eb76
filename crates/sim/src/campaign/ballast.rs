//! Bytes that make an actor large, and a door at which it may be refused.

use super::ledger::{self, Ledger};
use serde::{Deserialize, Deserializer, Serialize};

/// The most bytes that an actor carries; enough for it to travel as bulk.
const BALLAST_MAX: u64 = 1500;

/// What an actor carries.
#[derive(Serialize)]
pub(super) struct Ballast(Vec<u8>);

impl Ballast {
    /// Some.
    pub(super) fn of(ledger: &mut Ledger) -> Self {
        Self(vec![7; ledger.dice.below(BALLAST_MAX) as usize])
    }
}

impl<'de> Deserialize<'de> for Ballast {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ballast = Self(Vec::deserialize(deserializer)?);
        let refused = ledger::with(|ledger| {
            let refused = ledger.refusal > 0.0 && ledger.dice.chance(ledger.refusal);
            ledger.doings.refusals += u64::from(refused);
            refused
        });
        match refused {
            true => Err(serde::de::Error::custom("the campaign refuses it")),
            false => Ok(ballast),
        }
    }
}
