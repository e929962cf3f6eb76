//! The migration of an actor from PE to PE; see `protocol`.

mod protocol;
mod record;

pub(super) use protocol::{
    Tentatives, depart, handle_accept, handle_commit, handle_offer, handle_refuse,
};
pub(super) use record::{channels, held, held_in, member, record, write_counters};
