//! The trait that a user implements: an actor and its messages.

pub(crate) mod abilities;
pub(crate) mod context;
pub(crate) mod options;
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
/// Only one thread at a time runs an actor, and a handler runs to completion; an actor waits by
/// returning. State, messages and [`Init`](Self::Init) cross the network in `serde` encoding.
///
/// ```
/// use gridspan::prelude::*;
///
/// /// Keeps the largest number that it has received.
/// #[derive(Serialize, Deserialize)]
/// struct Largest(u64);
///
/// impl Actor for Largest {
///     type Index = Ix1;
///     type Init = u64;
///     type Message = u64;
///
///     fn create(least: u64, _cx: &mut Context<Self>) -> Self { Largest(least) }
///
///     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
///         self.0 = self.0.max(number);
///         cx.contribute(Max, self.0, To::main());
///     }
/// }
/// # let job = Job::new("largest").actor::<Largest>().main(async |grid: Grid| {
/// #     let all = grid.create::<Largest>(Ix1::range(4), |index| index.0 as u64).await?;
/// #     all.broadcast(2);
/// #     assert_eq!(all.reduction::<u64>(Max).await?, 3);
/// #     Ok(())
/// # });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an actor",
    label = "this type does not implement `Actor`",
    note = "write `impl Actor for {Self}` with the types `Index`, `Init` and `Message` and the functions `create` and `handle`; where an actor is asked for, name its type, not that of its messages"
)]
pub trait Actor: Serialize + DeserializeOwned + Send + 'static {
    /// The index that names a member of a collection of these actors.
    type Index: ActorIndex;
    /// The value from which a new member is built.
    type Init: Serialize + DeserializeOwned + Send + 'static;
    /// The message type. Messages are cloned only for multicasts, broadcasts and replicas; keep
    /// large data in a [`Numbers`](crate::Numbers), whose clones share it.
    type Message: Serialize + DeserializeOwned + Clone + Send + 'static;

    /// Builds a member on the PE where it will first live.
    fn create(init: Self::Init, cx: &mut Context<'_, Self>) -> Self;

    /// Handles one message.
    fn handle(&mut self, message: Self::Message, cx: &mut Context<'_, Self>);

    /// Turns the result of a reduction that targets this actor into a message. `None`, the default,
    /// fails the job: the contributors named a target that takes no results.
    fn reduced(_reduction: Reduction) -> Option<Self::Message> {
        None
    }

    /// Called when the actor may continue from its sync point; see [`Context::at_sync`].
    fn resume(&mut self, _cx: &mut Context<'_, Self>) {}

    /// Called after the actor has arrived on another PE.
    fn arrived(&mut self, _cx: &mut Context<'_, Self>) {}

    /// Bytes that `message` owns on the heap, for the memory budget of the mailboxes. The default
    /// is zero; override it if messages carry data.
    fn heap_bytes(_message: &Self::Message) -> usize {
        0
    }
}
