//! Finds a policy by its name.

use super::cluster_aware::ClusterAware;
use super::directory::Directory;
use super::history::HistoryPolicy;
use super::lifeline::Lifeline;
use super::policy::{MakeStealingPolicy, StealingPolicy};
use super::random::RandomStealing;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Names of all policies; the first is the recommended one.
pub const STEALING_POLICIES: &[&str] = &[
    "directory",
    "random",
    "random-half",
    "shis",
    "transitive",
    "cluster-aware",
    "cluster-aware-half",
    "lifeline",
];

/// There is no policy of this name. Nothing was made; write one of the names listed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no stealing policy `{}`; write one of {}", .name.escape_debug(), STEALING_POLICIES.join(", "))]
#[non_exhaustive]
pub struct UnknownStealingPolicy {
    /// The unknown name.
    pub name: String,
}

/// Creates the policy of this name for one node.
///
/// # Errors
///
/// [`UnknownStealingPolicy`] for a name that is not in [`STEALING_POLICIES`].
pub fn stealing_policy(name: &str) -> Result<Box<dyn StealingPolicy>, UnknownStealingPolicy> {
    name.parse::<StealingPolicyName>().map(|name| name.make())
}

/// The name of a stealing policy, one of [`STEALING_POLICIES`], for programs whose users select it
/// by a flag or a variable.
///
/// ```
/// use gridspan_balance::stealing::StealingPolicyName;
///
/// assert!("directory".parse::<StealingPolicyName>().is_ok());
/// let error = "directori".parse::<StealingPolicyName>().unwrap_err();
/// assert!(error.to_string().contains("directory")); // it lists the names
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StealingPolicyName(&'static str);

impl MakeStealingPolicy for StealingPolicyName {
    fn make(&self) -> Box<dyn StealingPolicy> {
        named(self.0).expect("every listed name has a policy")
    }
}

impl FromStr for StealingPolicyName {
    type Err = UnknownStealingPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownStealingPolicy> {
        let known = STEALING_POLICIES.iter().find(|known| **known == name);
        let unknown = || UnknownStealingPolicy { name: name.to_owned() };
        known.map(|known| Self(known)).ok_or_else(unknown)
    }
}

impl Serialize for StealingPolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for StealingPolicyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl From<StealingPolicyName> for &'static str {
    fn from(name: StealingPolicyName) -> Self {
        name.0
    }
}

impl fmt::Display for StealingPolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

fn named(name: &str) -> Option<Box<dyn StealingPolicy>> {
    Some(match name {
        "random" => Box::new(RandomStealing::one()),
        "random-half" => Box::new(RandomStealing::half()),
        "shis" => Box::new(HistoryPolicy::shis()),
        "transitive" => Box::new(HistoryPolicy::transitive()),
        "cluster-aware" => Box::new(ClusterAware::one()),
        "cluster-aware-half" => Box::new(ClusterAware::half()),
        "lifeline" => Box::new(Lifeline::default()),
        "directory" => Box::new(Directory::default()),
        _ => return None,
    })
}
