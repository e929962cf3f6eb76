//! What processes say to each other: requests and responses as JSON, data as bytes, each on a
//! stream of its own; and the tokens by which they find and trust each other.

pub(crate) mod budget;
pub(crate) mod lists;
pub(crate) mod messages;
pub(crate) mod requests;
pub(crate) mod token;
pub(crate) mod transfer;
