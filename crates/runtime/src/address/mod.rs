//! How actors, collections and places on a PE are named, and where members are placed at first.

pub(crate) mod collection;
pub(crate) mod id;
pub(crate) mod index;
pub(crate) mod load_keys;
