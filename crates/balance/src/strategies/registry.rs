//! Finds a strategy by its name.

use crate::leaders::LeaderCut;
use crate::strategies::auto::Auto;
use crate::strategies::border::Border;
use crate::strategies::greedy::Greedy;
use crate::strategies::grid_cut::GridCut;
use crate::strategies::none::NoMoves;
use crate::strategies::random::Random;
use crate::strategies::refine::Refine;
use crate::strategies::replicate::Replicate;
use crate::strategies::rotate::Rotate;
use crate::strategies::strategy::{MakeStrategy, Strategy};
use crate::strategies::vacate::Vacate;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Names of all strategies.
pub const NAMES: &[&str] = &[
    "none",
    "rotate",
    "random",
    "greedy",
    "refine",
    "flat-cut",
    "grid-cut",
    "leader-cut",
    "replicate",
    "border",
    "vacate",
    "auto",
];

/// There is no strategy of this name. Nothing was made; write one of the names listed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no strategy `{}`; write one of {}", .name.escape_debug(), NAMES.join(", "))]
#[non_exhaustive]
pub struct UnknownStrategy {
    /// The unknown name.
    pub name: String,
}

/// Creates the strategy of this name. Strategies with dice seed them with `seed`. Fails for a name
/// that is not in [`NAMES`].
pub fn by_name(name: &str, seed: u64) -> Result<Box<dyn Strategy>, UnknownStrategy> {
    name.parse::<StrategyName>().map(|name| name.make(seed))
}

/// The name of a strategy, one of [`NAMES`], for programs whose users select it by a flag or a
/// variable.
///
/// ```
/// use gridspan_balance::StrategyName;
///
/// assert!("greedy".parse::<StrategyName>().is_ok());
/// let error = "greedi".parse::<StrategyName>().unwrap_err();
/// assert!(error.to_string().contains("greedy")); // it lists the names
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StrategyName(&'static str);

impl MakeStrategy for StrategyName {
    fn make(&self, seed: u64) -> Box<dyn Strategy> {
        named(self.0, seed).expect("every listed name has a strategy")
    }
}

impl FromStr for StrategyName {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        let known = NAMES.iter().find(|known| **known == name);
        known.map(|known| Self(known)).ok_or_else(|| UnknownStrategy { name: name.to_owned() })
    }
}

impl Serialize for StrategyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for StrategyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl From<StrategyName> for &'static str {
    fn from(name: StrategyName) -> Self {
        name.0
    }
}

impl fmt::Display for StrategyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

fn named(name: &str, seed: u64) -> Option<Box<dyn Strategy>> {
    Some(match name {
        "none" => Box::new(NoMoves),
        "rotate" => Box::new(Rotate),
        "random" => Box::new(Random::new(seed)),
        "greedy" => Box::new(Greedy),
        "refine" => Box::new(Refine),
        "flat-cut" => Box::new(GridCut::new(seed).flat()),
        "grid-cut" => Box::new(GridCut::new(seed)),
        "leader-cut" => Box::new(LeaderCut::new(seed)),
        "replicate" => Box::new(Replicate::new(seed)),
        "border" => Box::new(Border),
        "vacate" => Box::new(Vacate::default()),
        "auto" => Box::new(Auto::new(seed)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;
    use proptest::prelude::*;

    #[test]
    fn every_listed_name_finds_its_strategy() {
        for &name in NAMES {
            assert_eq!(by_name(name, 0).unwrap().name(), name);
        }
    }

    #[test]
    fn a_name_is_stored_as_text_and_read_back() {
        for &name in NAMES {
            let known: StrategyName = name.parse().unwrap();
            let text = serde_json::to_string(&known).unwrap();
            assert_eq!(text, format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<StrategyName>(&text).unwrap(), known);
        }
        assert!(serde_json::from_str::<StrategyName>("\"magic\"").is_err());
    }

    #[test]
    fn a_value_plans_as_the_strategy_of_its_name_with_the_same_seed() {
        let values: [&dyn MakeStrategy; 12] = [
            &NoMoves,
            &Rotate,
            &Random::default(),
            &Greedy,
            &Refine,
            &GridCut::default().flat(),
            &GridCut::default(),
            &LeaderCut::default(),
            &Replicate::default(),
            &Border,
            &Vacate::default(),
            &Auto::default(),
        ];
        let pes: Vec<u32> = (0..40).map(|actor| actor * actor % 4).collect();
        let snapshot = snapshot(&pes);
        for (value, name) in values.into_iter().zip(NAMES) {
            let (mut value, mut named) = (value.make(7), by_name(name, 7).unwrap());
            assert_eq!(value.name(), *name);
            for _ in 0..2 {
                assert_eq!(value.plan(&snapshot), named.plan(&snapshot), "{name}");
            }
        }
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_known_names() {
        let message = by_name("magic", 0).err().unwrap().to_string();

        assert!(message.starts_with("there is no strategy `magic`; write one of none, rotate, "));
    }

    proptest! {
        #[test]
        fn every_strategy_makes_valid_and_reproducible_plans(
            pes in prop::collection::vec(0..4_u32, 0..20),
            seed: u64,
        ) {
            let snapshot = snapshot(&pes);
            for name in NAMES {
                let mut one = by_name(name, seed).unwrap();
                let mut other = by_name(name, seed).unwrap();
                for _ in 0..3 {
                    let plan = one.plan(&snapshot);
                    prop_assert_eq!(plan.validate(&snapshot), Ok(()));
                    prop_assert_eq!(plan, other.plan(&snapshot));
                }
            }
        }
    }
}
