//! The verbs of GridRPC and their errors, case by case, in virtual time; and some of them on
//! threads.
#![allow(missing_docs, clippy::unwrap_used)]

mod cancelling;
mod drivers;
mod errors;
mod fixture;
mod handles;
mod lifetime;
mod probing;
mod retrying;
mod waiting;
