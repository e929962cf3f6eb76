//! Finds a heuristic by the name that the user gave.

use super::Heuristic;
use super::contention::HeftC;
use super::exhaustive::Exhaustive;
use super::greedy::MinCompletionTime;
use super::heft::Heft;
use super::portfolio::Portfolio;
use super::random::RandomMapping;
use super::ready::{ReadyList, Rule};
use thiserror::Error;

/// The names of all heuristics.
pub const NAMES: &[&str] = &[
    "greedy",
    "min-min",
    "max-min",
    "sufferage",
    "heft",
    "heft-c",
    "portfolio",
    "exhaustive",
    "random",
];

/// No heuristic has this name. The message lists the names.
///
/// ```
/// use gridspan_workflow::heuristics::{UnknownHeuristic, by_name};
///
/// let error: UnknownHeuristic = by_name("best", 1).err().unwrap();
/// assert!(error.to_string().starts_with("there is no heuristic `best`; write one of greedy,"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no heuristic `{}`; write one of {}", .name.escape_debug(), NAMES.join(", "))]
#[non_exhaustive]
pub struct UnknownHeuristic {
    /// The requested name.
    pub name: String,
}

/// Creates the heuristic of this name. Random heuristics use `seed`.
///
/// # Errors
///
/// [`UnknownHeuristic`] if the name is not one of [`NAMES`].
pub fn by_name(name: &str, seed: u64) -> Result<Box<dyn Heuristic>, UnknownHeuristic> {
    match name {
        "greedy" => Ok(Box::new(MinCompletionTime)),
        "min-min" => Ok(Box::new(ReadyList(Rule::MinMin))),
        "max-min" => Ok(Box::new(ReadyList(Rule::MaxMin))),
        "sufferage" => Ok(Box::new(ReadyList(Rule::Sufferage))),
        "heft" => Ok(Box::new(Heft)),
        "heft-c" => Ok(Box::new(HeftC::default())),
        "portfolio" => Ok(Box::new(Portfolio)),
        "exhaustive" => Ok(Box::new(Exhaustive)),
        "random" => Ok(Box::new(RandomMapping::new(seed))),
        _ => Err(UnknownHeuristic { name: name.to_owned() }),
    }
}
