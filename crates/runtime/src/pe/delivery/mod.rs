//! Delivery: the path of a message from its sender into the mailbox of its receiver.
//!
//! **On one PE.** Most messages stay on their PE, between actors that have never sent each other
//! messages across PEs. `send` finds the receiver, `mailbox` takes the message, and the `queue` of
//! its type keeps it.
//!
//! **Across PEs.** `send` gives the message the next number of its pair (`channels`), gets the
//! receiver's PE from `routes`, and puts the message into the outbox. On that PE, `receive` calls
//! `verdict`: deliver, hold, drop or forward. A message whose turn has come passes into the
//! mailbox, with the messages that wait for it (`order`). A message whose receiver is not here
//! waits (`state`), follows the receiver (`directory`), creates it (`demands`), or ends at a
//! tombstone (`tombstones`).
//!
//! **Memory.** All waiting messages count in a memory budget (`budget`). If they exceed it, the job
//! ends before it fills the machine (`memory`).
//!
//! [`Delivery`] is the state of a PE for all this, apart from its members: each member has its own
//! [`Channels`].

mod batches;
mod budget;
mod channels;
mod counters;
mod demands;
mod directory;
mod endings;
mod mailbox;
mod memory;
mod on_demand;
mod order;
mod queue;
mod receive;
mod routes;
mod send;
mod sent_broadcasts;
mod state;
mod tombstones;
mod verdict;

pub(crate) use budget::{Accounted, AccountedBroadcast, AccountedEnvelope, Budget};
pub(crate) use channels::broadcasts_of;
pub(super) use channels::{Channels, channel};
pub(super) use counters::{Counters, Way};
pub(super) use directory::{Place, Route};
pub(crate) use mailbox::message_bytes;
pub(crate) use on_demand::OnDemand;
pub(crate) use queue::{Lanes, Queue, TypedQueue};
pub(super) use sent_broadcasts::SentBroadcasts;
pub(super) use state::UNKNOWN_MEMBER_HOLD;
pub(crate) use state::{Delivery, Early};
pub(super) use verdict::{Reason, Until, Verdict};
