//! What becomes of the members of a type if the job continues from a checkpoint, beyond what is in
//! it: groups may get another size.

use crate::address::id::Slot;
use crate::address::index::Key;
use crate::message::payload::Payload;
use std::any::Any;
use std::sync::Arc;

/// Merges a state into that of the actor in a slot. Both are of one type, which is not known here.
pub(crate) type Merge<C> =
    Arc<dyn Fn(&mut dyn Any, Box<dyn Any + Send>, &mut C, Slot) + Send + Sync>;

/// What becomes of the members of a group of a type.
pub(crate) enum Resizing<C> {
    /// Members continue; several that come to one place are merged there, and where none comes, one
    /// is created.
    Merge {
        /// Makes the initial value of a member from its index, as a `Vec<(Key, Init)>` with one
        /// element.
        init: Arc<dyn Fn(Key) -> Payload + Send + Sync>,
        merge: Merge<C>,
    },
    /// Members keep their indices, whatever the number of PEs or nodes, and each goes with its PE.
    Keep,
    /// Checkpoints leave the members out, also those of collections that are no groups.
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
