//! The way of a message: from its sender to the PE where its receiver lives, and into its mailbox.

mod budget;
mod channels;
mod counters;
mod directory;
mod early;
mod endings;
mod hold;
mod keep;
mod order;
mod routes;
mod send;
mod sent_broadcasts;
mod tombstones;

pub(crate) use budget::{Accounted, Budget};
pub(super) use channels::{BROADCAST, Channels, Turn, broadcasts_of, channel, judge};
pub(super) use counters::{Counters, Way};
pub(super) use directory::{Directory, Place};
pub(super) use hold::{
    AccountedBroadcast, AccountedEnvelope, DETOUR_HOLD, Early, Held, UNKNOWN_MEMBER_HOLD,
};
pub(super) use sent_broadcasts::SentBroadcasts;
pub(super) use tombstones::Tombstones;
