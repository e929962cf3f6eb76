//! Ranks under the embedded driver and in virtual time.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
mod p2p;
mod collective;
mod comms;
mod migration;
