//! The trait that a user implements: an actor and its messages.

pub(crate) mod abilities;
pub(crate) mod answer;
pub(crate) mod context;
pub(crate) mod options;
pub(crate) mod published;
pub(crate) mod reference;
pub(crate) mod registry;
pub(crate) mod resources;
pub(crate) mod to;
pub(crate) mod upgrade;

use crate::Context;
use crate::address::index::ActorIndex;
use crate::pe::actor::answer::TaggedAnswer;
use crate::pe::actor::upgrade::{OldState, UpgradeError};
use crate::reduce::Reduction;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A migratable object with private state and synchronous message handlers.
///
/// Only one thread at a time runs an actor, and a handler runs to completion; an actor waits by
/// returning. State, messages and [`Init`](Self::Init) cross the network in `serde` encoding. Only
/// its own handlers may change the state, since the runtime may encode it at any time between them.
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

    /// Version of the state's fields and of their meaning. A job continues from a checkpoint if the
    /// states and messages of its actors have the same structure as in the checkpoint. Raise the
    /// version when you change them, and write [`upgrade`](Self::upgrade). A checkpoint of a higher
    /// version is refused. Nodes of one job do not compare versions.
    const VERSION: u32 = 0;

    /// Whether actors of this type count their work with [`count_work`](Context::count_work). By
    /// default each message is a unit of work. The runtime estimates the speeds of PEs from the
    /// time per unit of actors before and after they move. Set this if the number of messages that
    /// an actor handles for the same work depends on where actors are.
    const COUNTS_WORK: bool = false;

    /// Builds a member on the PE where it will first live.
    fn create(init: Self::Init, cx: &mut Context<'_, Self>) -> Self;

    /// Handles one message.
    fn handle(&mut self, message: Self::Message, cx: &mut Context<'_, Self>);

    /// Turns the result of a reduction that targets this actor into a message. `None`, the default,
    /// fails the job: the contributors named a target that takes no results.
    fn reduced(_reduction: Reduction) -> Option<Self::Message> {
        None
    }

    /// Turns the answer to a question of [`Context::ask_tagged`] into a message to this actor.
    /// `None`, the default, fails the job: the actor asked a question and takes no answers.
    fn answered(_answer: TaggedAnswer) -> Option<Self::Message> {
        None
    }

    /// Called when the actor may continue from its sync point; see [`Context::at_sync`].
    fn resume(&mut self, _cx: &mut Context<'_, Self>) {}

    /// Whether the encoded state is the whole actor at present. While it is not, strategies leave
    /// the actor where it is, its own requests to [move](Context::migrate_to) are dropped, and
    /// checkpoints are postponed. The default is true.
    fn is_movable(&self) -> bool {
        true
    }

    /// Called after the actor has arrived on another PE.
    fn arrived(&mut self, _cx: &mut Context<'_, Self>) {}

    /// Makes a state from one that a program with a lower [`VERSION`](Self::VERSION) has left in a
    /// checkpoint. The default fails.
    ///
    /// Messages that waited at the checkpoint are not passed to this function. They are decoded as
    /// [`Message`](Self::Message), so a version that changes messages may add variants at the end
    /// of an `enum`, and change other variants only if no message of them waits. If one does not
    /// decode, the job ends with an error that names the type. The runtime does not notice bytes
    /// that happen to decode as another message.
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::{OldState, UpgradeError};
    ///
    /// /// Version 0 had the sum alone.
    /// #[derive(Deserialize)]
    /// struct Mean0 { sum: f64 }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mean { sum: f64, count: u64 }
    ///
    /// impl Actor for Mean {
    ///     type Index = Ix1;
    ///     type Init = ();
    ///     type Message = f64;
    ///
    ///     const VERSION: u32 = 1;
    ///
    ///     fn create((): (), _cx: &mut Context<Self>) -> Self { Mean { sum: 0.0, count: 0 } }
    ///
    ///     fn upgrade(old: OldState<'_>) -> Result<Self, UpgradeError> {
    ///         match old.version() {
    ///             0 => {
    ///                 let Mean0 { sum } = old.decode()?;
    ///                 Ok(Mean { sum, count: u64::from(sum != 0.0) })
    ///             }
    ///             _ => Err(old.unsupported()),
    ///         }
    ///     }
    ///
    ///     fn handle(&mut self, number: f64, cx: &mut Context<Self>) {
    ///         (self.sum, self.count) = (self.sum + number, self.count + 1);
    ///         cx.contribute(Sum, self.sum, To::main());
    ///     }
    /// }
    /// # let job = Job::new("mean").actor::<Mean>().main(async |grid: Grid| {
    /// #     let all = grid.create::<Mean>(Ix1::range(4), |_| ()).await?;
    /// #     all.broadcast(0.5);
    /// #     assert_eq!(all.reduction::<f64>(Sum).await?, 2.0);
    /// #     Ok(())
    /// # });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// If one state cannot be converted, the job does not start, and its error names the type and
    /// both versions.
    fn upgrade(old: OldState<'_>) -> Result<Self, UpgradeError> {
        Err(old.unsupported())
    }

    /// Bytes that `message` owns on the heap, for the memory budget of the mailboxes. The default
    /// is zero; override it if messages carry data.
    fn heap_bytes(_message: &Self::Message) -> usize {
        0
    }
}
