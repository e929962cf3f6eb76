//! The messages of an actor that its method has not taken, and what the method wants to be done.

use super::{Sequential, SequentialActor};
use gridspan_runtime::{Actor, ActorRef, CollectionRef, Context, Op, Reducible, Time, To};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Something that the handler does once it has polled the method.
type Action<A> = Box<dyn FnOnce(&mut Context<'_, Sequential<A>>) + Send>;

/// What the actor and its method share.
pub(super) struct Shared<A: SequentialActor> {
    messages: VecDeque<A::Message>,
    /// Whether this run has taken a message.
    has_taken: bool,
    wakers: Vec<Waker>,
    pub(super) actions: Vec<Action<A>>,
    pub(super) now: Time,
}

impl<A: SequentialActor> Shared<A> {
    pub(super) fn new(messages: VecDeque<A::Message>) -> Self {
        let (wakers, actions) = (Vec::new(), Vec::new());
        Self { messages, has_taken: false, wakers, actions, now: Time::ZERO }
    }

    pub(super) fn messages(&self) -> &VecDeque<A::Message> {
        &self.messages
    }

    /// Adds a message.
    pub(super) fn arrive(&mut self, message: A::Message) {
        self.messages.push_back(message);
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Begins a run.
    pub(super) fn begin(&mut self) {
        self.has_taken = false;
    }

    /// Whether messages are left, of which the last run has taken some.
    pub(super) fn has_more(&self) -> bool {
        self.has_taken && !self.messages.is_empty()
    }

    /// Takes the first message from which `take` makes a value.
    fn take<T>(&mut self, mut take: impl FnMut(A::Message) -> Result<T, A::Message>) -> Option<T> {
        for at in 0..self.messages.len() {
            let message = self.messages.remove(at)?;
            match take(message) {
                Ok(value) => {
                    self.has_taken = true;
                    return Some(value);
                }
                Err(message) => self.messages.insert(at, message),
            }
        }
        None
    }
}

/// The messages of a [`SequentialActor`], and its means to act. Dropping a future of it leaves the
/// messages where they are.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::ranks::{Inbox, Next, Sequential, SequentialActor};
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
///     async fn run(self, inbox: Inbox<Self>) -> Next<Self> {
///         let secret = inbox.next_as(|message| match message {
///             Message::Secret(secret) => Ok(secret),
///             other => Err(other),
///         }).await;
///         while let Message::Question(reply) = inbox.next().await {
///             inbox.act(move |cx| cx.reply(reply, secret));
///         }
///         Next::End
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
        let messages = self.with(|shared| shared.messages.len());
        write!(f, "Inbox {{ messages: {messages} }}")
    }
}

impl<A: SequentialActor> Inbox<A> {
    pub(super) fn new(shared: Arc<Mutex<Shared<A>>>, cx: &Context<'_, Sequential<A>>) -> Self {
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

    /// Takes the first message.
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
            self.with(|shared| match shared.take(&mut take) {
                Some(value) => Poll::Ready(value),
                None => {
                    shared.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Sends a message; see [`Context::send`]. It leaves when the method awaits next.
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

    /// Lets the actor do what only a handler can, when the method awaits next or ends. Actions are
    /// carried out in their order.
    pub fn act(&self, action: impl FnOnce(&mut Context<'_, Sequential<A>>) + Send + 'static) {
        self.with(|shared| shared.actions.push(Box::new(action)));
    }
}
