//! Nodes over QUIC, on loopback and in virtual time.
#![cfg(feature = "net")]
#![allow(missing_docs, clippy::unwrap_used)]

mod guests;
mod loopback;
mod security;
mod virtual_time;
mod world;
