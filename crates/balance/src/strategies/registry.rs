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
use crate::strategies::strategy::Strategy;
use crate::strategies::vacate::Vacate;
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
pub struct UnknownStrategy {
    /// The unknown name.
    pub name: String,
}

/// Creates the strategy of this name. Strategies with dice seed them with `seed`. Fails for a name
/// that is not in [`NAMES`].
pub fn by_name(name: &str, seed: u64) -> Result<Box<dyn Strategy>, UnknownStrategy> {
    match name {
        "none" => Ok(Box::new(NoMoves)),
        "rotate" => Ok(Box::new(Rotate)),
        "random" => Ok(Box::new(Random::new(seed))),
        "greedy" => Ok(Box::new(Greedy)),
        "refine" => Ok(Box::new(Refine)),
        "flat-cut" => Ok(Box::new(GridCut::flat(seed))),
        "grid-cut" => Ok(Box::new(GridCut::new(seed))),
        "leader-cut" => Ok(Box::new(LeaderCut::new(seed))),
        "replicate" => Ok(Box::new(Replicate::new(seed))),
        "border" => Ok(Box::new(Border)),
        "vacate" => Ok(Box::new(Vacate::default())),
        "auto" => Ok(Box::new(Auto::new(seed))),
        _ => Err(UnknownStrategy { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;
    use proptest::prelude::*;

    #[test]
    fn every_listed_name_finds_the_strategy_that_bears_it() {
        for &name in NAMES {
            assert_eq!(by_name(name, 0).unwrap().name(), name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let message = by_name("magic", 0).err().unwrap().to_string();

        assert!(message.starts_with("there is no strategy `magic`; write one of none, rotate, "));
    }

    proptest! {
        #[test]
        fn every_strategy_makes_plans_that_fit_and_repeats_them(
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
