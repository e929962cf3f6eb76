//! Communication between processes: requests and responses as JSON, and data as bytes, each on a
//! separate stream; and the tokens with which processes find and trust each other.

pub(crate) mod budget;
pub(crate) mod lists;
pub(crate) mod messages;
pub(crate) mod requests;
pub(crate) mod token;
pub(crate) mod traceparent;
pub(crate) mod transfer;
