//! Identifiers of actors, collections and slots on a PE, and the initial placement of members.

pub(crate) mod collection;
pub(crate) mod id;
pub(crate) mod index;
pub(crate) mod load_keys;
