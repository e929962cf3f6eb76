//! Actors that are written as one async method, which awaits messages, in place of a handler.
//!
//! The method runs inside handlers: the actor puts each message into the inbox, and polls the
//! future of the method if the message has woken it. The actor carries out the method's sends after
//! the poll, since the context of a handler cannot be kept across an `await`.

mod unread;

use crate::executor::Wakeup;
use gridspan_runtime::{
    Actor, ActorIndex, ActorRef, CollectionRef, Context, Op, Reducible, Reduction, Time, To,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use unread::Unread;

/// An actor that is one async method: it awaits messages in the order of its steps, whatever order
/// they arrive in. [`Sequential<Self>`](Sequential) is the actor type that a job registers.
///
/// Charm++ has such actors, with structured dagger and threaded entry methods (Kalé and
/// Bhandarkar, "Structured Dagger: A Coordination Language for Message-Driven Programming", 1996).
///
/// [`run`](Self::run) takes the state, and returns it where the actor may move. Nothing else of the
/// method survives a move or a checkpoint; see [migration](crate#migration) for the reason.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::ranks::{Inbox, Resume, Sequential, SequentialActor};
///
/// /// Adds the numbers of both neighbours on a ring, three times.
/// #[derive(Serialize, Deserialize)]
/// struct Cell(u64);
///
/// #[derive(Clone, Serialize, Deserialize)]
/// enum Message { Start, Neighbour { step: u32, number: u64 } }
///
/// impl SequentialActor for Cell {
///     type Index = Ix1;
///     type Init = ();
///     type Message = Message;
///
///     fn create((): (), _cx: &mut Context<Sequential<Self>>) -> Self { Cell(1) }
///
///     async fn run(mut self, inbox: Inbox<Self>) -> Resume<Self> {
///         inbox.next_where(|message| matches!(message, Message::Start)).await;
///         for step in 0..3 {
///             for neighbour in [1, 7] {
///                 let neighbour = Ix1((inbox.index().0 + neighbour) % 8);
///                 let message = Message::Neighbour { step, number: self.0 };
///                 inbox.send(&inbox.collection().at(neighbour), message);
///             }
///             for _ in 0..2 {
///                 // Messages of the next step stay in the inbox.
///                 self.0 += inbox.next_as(|message| match message {
///                     Message::Neighbour { step: of, number } if of == step => Ok(number),
///                     other => Err(other),
///                 }).await;
///             }
///         }
///         inbox.contribute(Sum, self.0, To::main());
///         Resume::OnMessage(self)
///     }
/// }
///
/// let job = Job::new("cells").actor::<Sequential<Cell>>().main(async |grid: Grid| {
///     let cells = grid.create::<Sequential<Cell>>(Ix1::range(8), |_| ()).await?;
///     cells.broadcast(Message::Start);
///     // Each step triples the numbers.
///     assert_eq!(cells.reduction::<u64>(Sum).await?, 8 * 27);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a sequential actor",
    label = "this type does not implement `SequentialActor`",
    note = "write `impl SequentialActor for {Self}` with the types `Index`, `Init` and `Message` and the functions `create` and `run`; an actor of handlers needs no `Sequential`"
)]
pub trait SequentialActor: Serialize + DeserializeOwned + Send + 'static {
    /// The index that names a member of a collection.
    type Index: ActorIndex;
    /// The value from which a member is built.
    type Init: Serialize + DeserializeOwned + Send + 'static;
    /// The message type.
    type Message: Serialize + DeserializeOwned + Clone + Send + 'static;

    /// Builds a member on the PE where it first lives.
    fn create(init: Self::Init, cx: &mut Context<'_, Sequential<Self>>) -> Self;

    /// Runs from the first message to a point where the actor may move, and from there to the next.
    ///
    /// It may await messages of the inbox, and combinations of such futures, and nothing else.
    fn run(self, inbox: Inbox<Self>) -> impl Future<Output = Resume<Self>> + Send;

    /// Turns the result of a reduction that targets this actor into a message; see
    /// [`Actor::reduced`].
    fn reduced(_reduction: Reduction) -> Option<Self::Message> {
        None
    }

    /// Bytes that a message owns on the heap; see [`Actor::heap_bytes`].
    fn heap_bytes(_message: &Self::Message) -> usize {
        0
    }
}

/// How a [`SequentialActor`] goes on.
///
/// ```
/// use gridspan::ranks::Resume;
///
/// /// Lets a strategy move actors after every tenth step.
/// fn after<A>(step: u32, state: A) -> Resume<A> {
///     if step % 10 == 0 { Resume::AtSync(state) } else { Resume::OnMessage(state) }
/// }
/// assert_eq!((after(3, ()), after(20, ())), (Resume::OnMessage(()), Resume::AtSync(())));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resume<A> {
    /// Run again with the next message: at once if some are left and this run has taken one,
    /// otherwise when one arrives. Until then the actor may move, and checkpoints can be made.
    OnMessage(A),
    /// Run again after a [sync point](gridspan_runtime::Context::at_sync) of the collection, at
    /// which the job's strategy may move members.
    AtSync(A),
    /// The actor ends, as by [`Context::destroy`](gridspan_runtime::Context::destroy).
    Never,
}

/// What an actor waits for between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Pause {
    Message,
    Sync,
}

type Run<A> = Pin<Box<dyn Future<Output = Resume<A>> + Send>>;

/// The actor type that runs a [`SequentialActor`]; see there for an example. While its method
/// waits, the actor does not move, and checkpoints are postponed. Messages that the method has not
/// taken move with it.
pub struct Sequential<A: SequentialActor> {
    /// `None` while the method runs, since the method owns it then.
    state: Option<A>,
    pause: Pause,
    shared: Arc<Mutex<Shared<A>>>,
    run: Option<(Run<A>, Wakeup)>,
}

impl<A: SequentialActor> fmt::Debug for Sequential<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.run.is_some() { "running" } else { "between two runs" };
        write!(f, "Sequential({state})")
    }
}

impl<A: SequentialActor> Actor for Sequential<A> {
    type Index = A::Index;
    type Init = A::Init;
    type Message = A::Message;

    fn create(init: A::Init, cx: &mut Context<'_, Self>) -> Self {
        Self::new(Some(A::create(init, cx)), Pause::Message, VecDeque::new())
    }

    fn handle(&mut self, message: A::Message, cx: &mut Context<'_, Self>) {
        self.shared().unread.arrive(message);
        if self.run.is_some() || self.pause == Pause::Message {
            self.advance(cx);
        }
    }

    fn reduced(reduction: Reduction) -> Option<A::Message> {
        A::reduced(reduction)
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.pause = Pause::Message;
        self.advance(cx);
    }

    fn is_movable(&self) -> bool {
        self.run.is_none()
    }

    fn heap_bytes(message: &A::Message) -> usize {
        A::heap_bytes(message)
    }
}

impl<A: SequentialActor> Sequential<A> {
    fn new(state: Option<A>, pause: Pause, messages: VecDeque<A::Message>) -> Self {
        let unread = Unread::new(messages);
        let shared = Shared { unread, actions: Vec::new(), now: Time::ZERO };
        Self { state, pause, shared: Arc::new(Mutex::new(shared)), run: None }
    }

    fn shared(&self) -> MutexGuard<'_, Shared<A>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the method until it waits for a message that is not there, and carries out its actions.
    fn advance(&mut self, cx: &mut Context<'_, Self>) {
        loop {
            self.shared().now = cx.now();
            let (run, wakeup) = match (&mut self.run, self.state.take()) {
                (Some(run), _) => run,
                (run @ None, Some(state)) => {
                    let inbox = Inbox::new(self.shared.clone(), cx);
                    self.shared.lock().unwrap_or_else(PoisonError::into_inner).unread.begin_run();
                    run.insert((Box::pin(state.run(inbox)), Wakeup::new()))
                }
                (None, None) => return cx.fail("an actor was moved while its method ran"),
            };
            let polled = wakeup.poll(run.as_mut());
            self.carry_out_actions(cx);
            match polled {
                // Not woken: it waits for messages.
                None => return,
                Some(Poll::Pending) => {}
                Some(Poll::Ready(next)) => {
                    self.run = None;
                    let is_again = self.pause_until(next, cx);
                    if !is_again {
                        return;
                    }
                }
            }
        }
    }

    /// Carries out the actions of the method. The inbox is not locked meanwhile, since the method
    /// may share it with an action that uses it.
    fn carry_out_actions(&self, cx: &mut Context<'_, Self>) {
        loop {
            let actions = std::mem::take(&mut self.shared().actions);
            if actions.is_empty() {
                return;
            }
            for action in actions {
                action(cx);
            }
        }
    }

    /// Ends a run. Returns whether the next can begin at once.
    fn pause_until(&mut self, next: Resume<A>, cx: &mut Context<'_, Self>) -> bool {
        match next {
            Resume::OnMessage(state) => {
                self.state = Some(state);
                self.shared().unread.has_more()
            }
            Resume::AtSync(state) => {
                (self.state, self.pause) = (Some(state), Pause::Sync);
                cx.at_sync();
                false
            }
            Resume::Never => {
                cx.destroy();
                false
            }
        }
    }
}

/// The form in which an actor moves.
#[derive(Serialize, Deserialize)]
struct Image<S, M> {
    state: S,
    pause: Pause,
    messages: M,
}

impl<A: SequentialActor> Serialize for Sequential<A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shared = self.shared();
        Image { state: &self.state, pause: self.pause, messages: shared.unread.messages() }
            .serialize(serializer)
    }
}

impl<'de, A: SequentialActor> Deserialize<'de> for Sequential<A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Image { state, pause, messages } =
            Image::<Option<A>, VecDeque<A::Message>>::deserialize(deserializer)?;
        Ok(Self::new(state, pause, messages))
    }
}

/// Something that the handler does once it has polled the method.
type Action<A> = Box<dyn FnOnce(&mut Context<'_, Sequential<A>>) + Send>;

/// What the actor and its method share.
struct Shared<A: SequentialActor> {
    unread: Unread<A::Message>,
    actions: Vec<Action<A>>,
    now: Time,
}

/// Gives a [`SequentialActor`] its messages, and lets it send messages and carry out other actions.
/// A future of the inbox that is dropped takes no message.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::ranks::{Inbox, Resume, Sequential, SequentialActor};
///
/// /// Answers questions once it has got a secret, which may arrive later than they do.
/// #[derive(Serialize, Deserialize)]
/// struct Oracle;
///
/// #[derive(Clone, Serialize, Deserialize)]
/// enum Message { Secret(u64), Question(Reply<u64>) }
///
/// impl SequentialActor for Oracle {
///     type Index = Ix1;
///     type Init = ();
///     type Message = Message;
///
///     fn create((): (), _cx: &mut Context<Sequential<Self>>) -> Self { Oracle }
///
///     async fn run(self, inbox: Inbox<Self>) -> Resume<Self> {
///         let secret = inbox.next_as(|message| match message {
///             Message::Secret(secret) => Ok(secret),
///             other => Err(other),
///         }).await;
///         while let Message::Question(reply) = inbox.next().await {
///             inbox.act(move |cx| cx.reply(reply, secret));
///         }
///         Resume::Never
///     }
/// }
///
/// let job = Job::new("oracle").actor::<Sequential<Oracle>>().main(async |grid: Grid| {
///     let oracle = grid.create::<Sequential<Oracle>>(Ix1::range(1), |_| ()).await?;
///     oracle.broadcast(Message::Secret(42));
///     let wait = Duration::from_secs(10);
///     assert_eq!(oracle.member(Ix1(0)).ask(wait, Message::Question).await?, 42);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct Inbox<A: SequentialActor> {
    shared: Arc<Mutex<Shared<A>>>,
    index: A::Index,
    collection: CollectionRef<Sequential<A>>,
}

impl<A: SequentialActor> fmt::Debug for Inbox<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = self.with(|shared| shared.unread.messages().len());
        write!(f, "Inbox {{ messages: {messages} }}")
    }
}

impl<A: SequentialActor> Inbox<A> {
    fn new(shared: Arc<Mutex<Shared<A>>>, cx: &Context<'_, Sequential<A>>) -> Self {
        Self { shared, index: cx.index(), collection: cx.collection() }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Shared<A>) -> T) -> T {
        look(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The index of this actor.
    pub fn index(&self) -> A::Index {
        self.index
    }

    /// The collection of this actor.
    pub fn collection(&self) -> CollectionRef<Sequential<A>> {
        self.collection
    }

    /// A reference to this actor.
    pub fn me(&self) -> ActorRef<Sequential<A>> {
        self.collection.at(self.index)
    }

    /// The time since the job began, as of the beginning of the PE's current turn.
    pub fn now(&self) -> Time {
        self.with(|shared| shared.now)
    }

    /// Takes the first message; waits for one if there is none.
    pub async fn next(&self) -> A::Message {
        self.next_as(Ok).await
    }

    /// Takes the first message that satisfies a predicate; the others stay, in their order.
    pub async fn next_where(&self, mut accepts: impl FnMut(&A::Message) -> bool) -> A::Message {
        self.next_as(|message| if accepts(&message) { Ok(message) } else { Err(message) }).await
    }

    /// Takes the first message from which `take` makes a value. `take` gives the others back, and
    /// they stay, in their order.
    pub async fn next_as<T>(&self, mut take: impl FnMut(A::Message) -> Result<T, A::Message>) -> T {
        poll_fn(|cx| {
            // The inbox is not locked while the program's code runs, which may use it.
            let mut messages = self.with(|shared| shared.unread.lend());
            let found = unread::take_first(&mut messages, &mut take);
            self.with(|shared| {
                shared.unread.give_back(messages, found.is_some());
                if found.is_none() {
                    shared.unread.wake_on_arrival(cx.waker());
                }
            });
            found.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Sends a message; see [`Context::send`]. It leaves when the method next awaits a message that
    /// is not there, or ends.
    pub fn send<B: Actor>(&self, to: &ActorRef<B>, message: B::Message) {
        let to = *to;
        self.act(move |cx| cx.send(&to, message));
    }

    /// Contributes to a reduction; see [`Context::contribute`].
    pub fn contribute(&self, op: impl Into<Op>, value: impl Reducible + Send + 'static, to: To) {
        let op = op.into();
        self.act(move |cx| cx.contribute(op, value, to));
    }

    /// Charges compute time, for virtual time; see [`Context::charge`].
    pub fn charge(&self, time: Duration) {
        self.act(move |cx| cx.charge(time));
    }

    /// Carries out an action with the context of a handler, once the method next awaits a message
    /// that is not there, or ends. Actions are carried out in their order.
    pub fn act(&self, action: impl FnOnce(&mut Context<'_, Sequential<A>>) + Send + 'static) {
        self.with(|shared| shared.actions.push(Box::new(action)));
    }
}
