//! Finds a policy by the name that a user wrote.

use super::policy::Victim;
use super::random::RandomVictim;
use thiserror::Error;

/// The names of all policies.
pub const VICTIMS: &[&str] = &["random", "random-half"];

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
        _ => Err(UnknownVictim { name: name.to_owned() }),
    }
}
