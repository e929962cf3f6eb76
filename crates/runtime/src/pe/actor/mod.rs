//! What a user writes: an actor and its messages.

pub(crate) mod abilities;
pub(crate) mod context;
pub(crate) mod published;
pub(crate) mod reference;
pub(crate) mod registry;

use crate::Context;
use crate::address::index::ActorIndex;
use crate::reduce::Reduction;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A migratable object with private state and synchronous message handlers.
///
/// An actor is handled by one thread at a time, and a handler runs to completion; waiting is
/// expressed by returning. State, messages and [`Init`](Self::Init) cross the network by `serde`.
pub trait Actor: Serialize + DeserializeOwned + Send + 'static {
    /// Names members of a collection of these actors.
    type Index: ActorIndex;
    /// What a new member is built from.
    type Init: Serialize + DeserializeOwned + Send + 'static;
    /// What it handles. Cloning happens for multicasts and broadcasts only; keep large data in a
    /// [`Numbers`](crate::Numbers), whose clones share it.
    type Message: Serialize + DeserializeOwned + Clone + Send + 'static;

    /// Builds a member at the place where it will first live.
    fn create(init: Self::Init, cx: &mut Context<'_, Self>) -> Self;

    /// Handles one message.
    fn handle(&mut self, message: Self::Message, cx: &mut Context<'_, Self>);

    /// Turns the result of a reduction that was sent to this actor into a message. `None`, the
    /// default, fails the job: the contributors named a target that takes no results.
    fn reduced(_reduction: Reduction) -> Option<Self::Message> {
        None
    }

    /// Called when the actor may go on from its sync point; see [`Context::at_sync`].
    fn resume(&mut self, _cx: &mut Context<'_, Self>) {}

    /// Called after the actor has arrived on another PE.
    fn arrived(&mut self, _cx: &mut Context<'_, Self>) {}

    /// Bytes that `message` owns on the heap, for the memory budget of the mailboxes. The default
    /// counts none, so override it where messages carry data.
    fn heap_bytes(_message: &Self::Message) -> usize {
        0
    }
}
