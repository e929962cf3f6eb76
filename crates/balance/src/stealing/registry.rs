//! Finds a policy by its name.

use super::cluster_aware::ClusterAware;
use super::directory::Directory;
use super::history::HistoryPolicy;
use super::lifeline::Lifeline;
use super::policy::StealingPolicy;
use super::random::RandomStealing;
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
pub struct UnknownStealingPolicy {
    /// The unknown name.
    pub name: String,
}

/// Creates the policy of this name for one node.
pub fn stealing_policy(name: &str) -> Result<Box<dyn StealingPolicy>, UnknownStealingPolicy> {
    match name {
        "random" => Ok(Box::new(RandomStealing::one())),
        "random-half" => Ok(Box::new(RandomStealing::half())),
        "shis" => Ok(Box::new(HistoryPolicy::shis())),
        "transitive" => Ok(Box::new(HistoryPolicy::transitive())),
        "cluster-aware" => Ok(Box::new(ClusterAware::one())),
        "cluster-aware-half" => Ok(Box::new(ClusterAware::half())),
        "lifeline" => Ok(Box::new(Lifeline::new(Lifeline::ATTEMPTS))),
        "directory" => Ok(Box::new(Directory::default())),
        _ => Err(UnknownStealingPolicy { name: name.to_owned() }),
    }
}
