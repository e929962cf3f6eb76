//! Ranks on threads, over QUIC and emulated links, and in virtual time.
#![allow(missing_docs, clippy::unwrap_used)]

mod alltoall;
mod collective;
mod common;
mod comms;
mod computing;
mod connect;
mod deadlock;
mod deadlock_late;
mod failures;
mod leaving;
mod long_vectors;
mod migration;
mod neighbours;
mod one_site;
mod p2p;
mod recovery;
mod sequential;
mod spawn;
mod traffic;
mod windows;
