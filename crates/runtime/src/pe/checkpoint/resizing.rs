//! How members of a type whose groups may change their size continue from a checkpoint.

use crate::address::id::Slot;
use crate::address::index::Key;
use crate::message::payload::Payload;
use std::any::Any;
use std::sync::Arc;

/// Merges a state into the actor in a slot. Both have the same type, which is not known here.
pub(crate) type Merge<C> =
    Arc<dyn Fn(&mut dyn Any, Box<dyn Any + Send>, &mut C, Slot) + Send + Sync>;

/// How the members of groups of a type continue from a checkpoint.
pub(crate) enum Resizing<C> {
    /// Members continue. Former members that get the same new index are merged. An index that no
    /// former member gets has a new member.
    Merge {
        /// Makes the initial value of a member from its index, as a `Vec<(Key, Init)>` with one
        /// element.
        init: Arc<dyn Fn(Key) -> Payload + Send + Sync>,
        merge: Merge<C>,
    },
    /// Members keep their indices, whatever the number of PEs or nodes. Each continues where the
    /// restoration moves the part of its former PE.
    Keep,
    /// Checkpoints leave out all members of the type, in groups and in other collections.
    End,
}

impl<C> Clone for Resizing<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Merge { init, merge } => {
                Self::Merge { init: Arc::clone(init), merge: Arc::clone(merge) }
            }
            Self::Keep => Self::Keep,
            Self::End => Self::End,
        }
    }
}
