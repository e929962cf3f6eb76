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
    /// Members continue. Several that come to one place are merged there. A place to which none
    /// comes gets a new member.
    Merge {
        /// Makes the initial value of a member from its index, as a `Vec<(Key, Init)>` with one
        /// element.
        init: Arc<dyn Fn(Key) -> Payload + Send + Sync>,
        merge: Merge<C>,
    },
    /// Members keep their indices, whatever the number of PEs or nodes, and each goes with its PE.
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
