//! Delivery: the way of a message, from its sender into the mailbox of its receiver.
//!
//! **The simple way.** Most messages stay on their PE, between actors that have never sent each
//! other anything across PEs. `send` finds the receiver and `mailbox` takes the message: three
//! files, with the `queue` of its type.
//!
//! **Across PEs.** `send` gives the message the next number of its pair (`channels`), asks `routes`
//! where the receiver lives, and puts it into the outbox. There, `receive` asks the one question
//! (`verdict`): deliver, hold, drop or forward? What is in turn passes into its mailbox, with what
//! waited for it (`order`). What has no receiver here waits (`state`), follows the receiver
//! (`directory`), or ends at a tombstone (`tombstones`).
//!
//! **Memory.** What waits anywhere counts (`budget`), and ends the job before it fills the machine
//! (`memory`).
//!
//! [`Delivery`] is what a PE keeps for all this besides its members, each of which has its own
//! [`Channels`].

mod batches;
mod budget;
mod channels;
mod counters;
mod directory;
mod endings;
mod mailbox;
mod memory;
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
pub(crate) use queue::{Lanes, Queue, TypedQueue};
pub(super) use sent_broadcasts::SentBroadcasts;
pub(crate) use state::{Delivery, Early};
