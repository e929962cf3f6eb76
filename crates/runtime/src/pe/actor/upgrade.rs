//! States of actors that an earlier version of their type has left in a checkpoint.

use crate::message::codec::{self, DecodeError};
use crate::schema::Schema;
use crate::schema::definition::Part;
use serde::de::DeserializeOwned;
use std::any::type_name;

/// The state of an actor in a checkpoint that a program with a lower
/// [`VERSION`](crate::Actor::VERSION) has made; [`Actor::upgrade`](crate::Actor::upgrade) has an
/// example.
///
/// ```
/// use gridspan::{OldState, UpgradeError};
///
/// /// The number that all versions before 3 kept as text.
/// fn number(old: OldState<'_>) -> Result<u64, UpgradeError> {
///     let text: String = old.decode()?;
///     text.parse().map_err(|_| UpgradeError::Failed(format!("`{text}` is no number")))
/// }
/// # let _ = number;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OldState<'a> {
    pub(crate) actor: &'static str,
    /// Version of the state, and of the present type.
    pub(crate) versions: (u32, u32),
    /// Structure of the states in the checkpoint.
    pub(crate) states: &'a Part,
    pub(crate) bytes: &'a [u8],
}

impl<'a> OldState<'a> {
    /// The [`VERSION`](crate::Actor::VERSION) of the program that made the checkpoint.
    pub fn version(&self) -> u32 {
        self.versions.0
    }

    /// The state in the encoding of [postcard](https://docs.rs/postcard).
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Decodes the state as a `T`, which has the fields that the actor had in that version. The
    /// name of the type does not matter; those of its fields do.
    ///
    /// # Errors
    ///
    /// [`UpgradeError::OtherStructure`] if the states of the checkpoint have another structure, and
    /// [`UpgradeError::Malformed`] if the bytes do not decode.
    pub fn decode<T: DeserializeOwned + 'static>(&self) -> Result<T, UpgradeError> {
        let structure = Part::new(String::new(), &Schema::of::<T>());
        if structure.structure != self.states.structure {
            let (was, is) = (self.states.brief.clone(), structure.brief);
            let name = type_name::<T>().to_owned();
            return Err(UpgradeError::OtherStructure { was, name, is });
        }
        Ok(codec::decode(type_name::<T>(), self.bytes)?)
    }

    /// The error for a version whose states the actor does not take.
    pub fn unsupported(&self) -> UpgradeError {
        let (was, is) = self.versions;
        UpgradeError::Unsupported { actor: self.actor.to_owned(), was, is }
    }
}

/// Why the state of an actor in a checkpoint cannot become a state of the present type. The job
/// does not start; the checkpoint is as it was.
///
/// ```
/// use gridspan::UpgradeError;
///
/// let error = UpgradeError::Failed("the old grid had no cells".to_owned());
/// assert_eq!(error.to_string(), "the old grid had no cells");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The type does not take states of this version.
    #[error(
        "`{actor}` of version {is} takes no states of version {was}: let its `upgrade` convert them"
    )]
    Unsupported {
        /// The type of the actor.
        actor: String,
        /// Version of the state.
        was: u32,
        /// Version of the type.
        is: u32,
    },
    /// The states in the checkpoint have another structure than the type in a call of
    /// [`OldState::decode`]. Give that type the fields that the actor had, in their order.
    #[error("the states in the checkpoint are `{was}`, and `{name}` is `{is}`")]
    OtherStructure {
        /// Structure of the states in the checkpoint.
        was: String,
        /// The type in the call.
        name: String,
        /// Structure of that type.
        is: String,
    },
    /// The bytes do not decode.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The program has rejected the state, with this text.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Before {
        count: u64,
        name: String,
    }

    /// Has the fields of [`Before`] in another order.
    #[derive(Debug, Serialize, Deserialize)]
    struct Mistaken {
        name: String,
        count: u64,
    }

    fn states() -> Part {
        Part::new("states of app::Cell".to_owned(), &Schema::of::<Before>())
    }

    fn old<'a>(states: &'a Part, bytes: &'a [u8]) -> OldState<'a> {
        OldState { actor: "app::Cell", versions: (2, 3), states, bytes }
    }

    #[test]
    fn a_state_decodes_as_a_type_of_its_structure_alone() {
        let (states, bytes) = (states(), codec::encode(&Before { count: 7, name: "a".into() }));
        let old = old(&states, &bytes);
        let before: Before = old.decode().unwrap();
        assert_eq!((before.count, before.name.as_str(), old.version()), (7, "a", 2));

        let error = old.decode::<Mistaken>().unwrap_err();
        assert!(matches!(error, UpgradeError::OtherStructure { .. }), "{error}");
    }

    #[test]
    fn bytes_that_end_too_early_are_an_error() {
        let (states, bytes) = (states(), codec::encode(&7_u64));
        let error = old(&states, &bytes).decode::<Before>().err().unwrap();
        assert!(matches!(error, UpgradeError::Malformed(_)), "{error}");
    }
}
