//! Finds a policy by the name that a user wrote.

use super::cluster_aware::ClusterAware;
use super::directory::Directory;
use super::history::HistoryPolicy;
use super::lifeline::Lifeline;
use super::policy::Victim;
use super::random::RandomVictim;
use thiserror::Error;

/// The names of all policies; the first is ours and the one to take.
pub const VICTIMS: &[&str] = &[
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
#[error("there is no victim policy `{}`; write one of {}", .name.escape_debug(), VICTIMS.join(", "))]
pub struct UnknownVictim {
    /// The name that was asked for.
    pub name: String,
}

/// Makes the policy of this name for one node.
pub fn victim_by_name(name: &str) -> Result<Box<dyn Victim>, UnknownVictim> {
    match name {
        "random" => Ok(Box::new(RandomVictim::one())),
        "random-half" => Ok(Box::new(RandomVictim::half())),
        "shis" => Ok(Box::new(HistoryPolicy::shis())),
        "transitive" => Ok(Box::new(HistoryPolicy::transitive())),
        "cluster-aware" => Ok(Box::new(ClusterAware::one())),
        "cluster-aware-half" => Ok(Box::new(ClusterAware::half())),
        "lifeline" => Ok(Box::new(Lifeline::new(Lifeline::ATTEMPTS))),
        "directory" => Ok(Box::new(Directory::default())),
        _ => Err(UnknownVictim { name: name.to_owned() }),
    }
}
