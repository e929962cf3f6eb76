//! The actor that runs one rank: delivers messages to it, and polls its futures.
//!
//! A handler delivers its message to the rank's state, polls the futures that this has woken, and
//! sends what they have left in the outbox, until nothing is woken. So a PE runs its other ranks
//! while one waits. Futures never move: an actor is encoded only between two runs.

use crate::comm::Comm;
use crate::error::RankError;
use crate::local::saved::SavedState;
use crate::local::{Local, Task};
use crate::packet::RankMessage;
use crate::places::Places;
use crate::program::{EagerLimit, RankProgram, Run, RunEnd};
use crate::scope::Scope;
use gridspan_runtime::{Actor, Context, Ix1, List, Op, To};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

/// What a rank is between two runs.
#[derive(Serialize, Deserialize)]
enum Life<I, S, V> {
    /// It has not begun.
    New(I),
    /// It goes on from a migration point.
    Between(S),
    /// It has ended.
    Ended(V),
    /// A run is under way.
    Running,
}

/// A flag that is set when a future is woken, and its waker.
struct Wakeup {
    flag: Arc<Flag>,
    waker: Waker,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Wakeup {
    fn new() -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        Self { waker: flag.clone().into(), flag }
    }

    /// Polls a future if it was woken; `None` if it was not.
    fn poll<F: Future + ?Sized>(&self, future: Pin<&mut F>) -> Option<Poll<F::Output>> {
        let is_woken = self.flag.0.swap(false, Ordering::Acquire);
        is_woken.then(|| future.poll(&mut std::task::Context::from_waker(&self.waker)))
    }
}

/// A run and the tasks that it has begun.
struct Body<P: RankProgram> {
    run: Option<Run<P>>,
    wakeup: Wakeup,
    tasks: Vec<(Task, Wakeup)>,
}

type End<P> = Result<
    RunEnd<<P as RankProgram>::State, <P as RankProgram>::Value>,
    RankError,
>;

impl<P: RankProgram> Body<P> {
    /// Polls what was woken. Returns whether anything was, and the end of the run.
    fn poll(&mut self) -> (bool, Option<End<P>>) {
        let (mut is_woken, mut end) = (false, None);
        if let Some(run) = &mut self.run
            && let Some(polled) = self.wakeup.poll(run.as_mut())
        {
            is_woken = true;
            if let Poll::Ready(ended) = polled {
                self.run = None;
                end = Some(ended);
            }
        }
        self.tasks.retain_mut(|(task, wakeup)| match wakeup.poll(task.as_mut()) {
            None => true,
            Some(polled) => {
                is_woken = true;
                polled.is_pending()
            }
        });
        (is_woken, end)
    }
}

/// The actor of one rank.
pub(crate) struct RankActor<P: RankProgram> {
    life: Life<P::Init, P::State, P::Value>,
    local: Arc<Local>,
    body: Option<Body<P>>,
}

impl<P: RankProgram> Actor for RankActor<P> {
    type Index = Ix1;
    type Init = P::Init;
    type Message = RankMessage;

    fn create(init: P::Init, cx: &mut Context<'_, Self>) -> Self {
        let local = Arc::new(Local::new(cx.index().0 as u32));
        Self { life: Life::New(init), local, body: None }
    }

    fn handle(&mut self, message: RankMessage, cx: &mut Context<'_, Self>) {
        match message {
            RankMessage::Report => {
                let pe = u64::from(cx.pe().0);
                cx.contribute(Op::Concat, vec![pe], To::main());
            }
            RankMessage::Begin(places) => self.begin(places, cx),
            RankMessage::Results => self.give_result(cx),
            message => self.local.with(|state| state.deliver(message)),
        }
        self.advance(cx);
    }

    fn heap_bytes(message: &RankMessage) -> usize {
        message.heap_bytes()
    }
}

impl<P: RankProgram> RankActor<P> {
    /// Begins a run; a rank that has ended has come to its next migration point at once.
    fn begin(&mut self, places: Arc<Places>, cx: &mut Context<'_, Self>) {
        let Some(program) = cx.resource::<P>() else {
            cx.fail("the job of these ranks lacks their program");
            return;
        };
        let limit = cx.resource::<EagerLimit>();
        self.local.with(|state| {
            state.now = cx.now();
            state.eager_bytes = limit.map_or(state.eager_bytes, |limit| limit.bytes);
        });
        let scope = Arc::new(Scope::world(places));
        let world = Comm::new(self.local.clone(), scope, 0, self.local.rank);
        let state = match std::mem::replace(&mut self.life, Life::Running) {
            Life::New(init) => P::create(init, &world),
            Life::Between(state) => state,
            ended => {
                self.life = ended;
                arrive(false, cx);
                return;
            }
        };
        let run = Some(program.begin(state, world));
        self.body = Some(Body { run, wakeup: Wakeup::new(), tasks: Vec::new() });
    }

    /// Polls the futures and sends their messages until nothing is left to do.
    fn advance(&mut self, cx: &mut Context<'_, Self>) {
        let Some(mut body) = self.body.take() else {
            self.flush(cx);
            return;
        };
        self.local.with(|state| state.now = cx.now());
        loop {
            let (is_woken, end) = body.poll();
            let tasks = self.local.with(|state| std::mem::take(&mut state.tasks));
            let has_new = !tasks.is_empty();
            body.tasks.extend(tasks.into_iter().map(|task| (task, Wakeup::new())));
            let has_delivered = self.flush(cx);
            if let Some(end) = end {
                self.end(end, cx);
                return;
            }
            if !is_woken && !has_new && !has_delivered {
                break;
            }
        }
        self.body = Some(body);
    }

    /// Sends the messages of the outbox, and delivers those to this rank itself. Returns whether
    /// there were any of the latter.
    fn flush(&mut self, cx: &mut Context<'_, Self>) -> bool {
        let (mut has_delivered, ranks) = (false, cx.collection());
        loop {
            let (outbox, charged) = self.local.with(|state| {
                let charged = std::mem::take(&mut state.charged);
                (std::mem::take(&mut state.outbox), charged)
            });
            if charged > Duration::ZERO {
                cx.charge(charged);
            }
            if outbox.is_empty() {
                return has_delivered;
            }
            for (to, message) in outbox {
                match message {
                    // It comes back once the PE has handled what waits now.
                    RankMessage::GoOn => cx.send(&cx.me(), RankMessage::GoOn),
                    message if to == self.local.rank => {
                        self.local.with(|state| state.deliver(message));
                        has_delivered = true;
                    }
                    message => cx.send(&ranks.at(Ix1(to as i32)), message),
                }
            }
        }
    }

    /// Ends a run, at a migration point or with a result.
    fn end(&mut self, end: End<P>, cx: &mut Context<'_, Self>) {
        let rank = self.local.rank;
        let pending = self.local.pending();
        let end = match end {
            Ok(_) if !pending.is_empty() => Err(RankError::PendingOperations { rank, pending }),
            end => end,
        };
        match end {
            Err(error) => cx.fail(format!("rank {rank}: {error}")),
            Ok(RunEnd::Moves(state)) => {
                self.life = Life::Between(state);
                arrive(true, cx);
            }
            Ok(RunEnd::Value(value)) => {
                self.life = Life::Ended(value);
                arrive(false, cx);
            }
        }
    }

    fn give_result(&mut self, cx: &mut Context<'_, Self>) {
        match std::mem::replace(&mut self.life, Life::Running) {
            Life::Ended(value) => cx.contribute(Op::Concat, List(vec![value]), To::main()),
            _ => cx.fail(format!("rank {} has no result", self.local.rank)),
        }
    }
}

/// Tells main that a rank has come to a migration point, or has ended.
fn arrive<P: RankProgram>(goes_on: bool, cx: &mut Context<'_, RankActor<P>>) {
    cx.contribute(Op::Sum, u64::from(goes_on), To::main());
}

/// The form in which a rank moves.
#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "L: DeserializeOwned"))]
struct Image<L> {
    life: L,
    local: SavedState,
}

impl<P: RankProgram> Serialize for RankActor<P> {
    /// Panics if a run is under way: its futures cannot move.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(
            self.body.is_none(),
            "rank {} was to move between two migration points, where it cannot; ranks move when \
             main balances them, so use neither a strategy that moves actors by itself, nor \
             `balance_every`",
            self.local.rank
        );
        Image { life: &self.life, local: SavedState::of(&self.local) }.serialize(serializer)
    }
}

impl<'de, P: RankProgram> Deserialize<'de> for RankActor<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let image: Image<Life<P::Init, P::State, P::Value>> = Image::deserialize(deserializer)?;
        Ok(Self { life: image.life, local: Arc::new(image.local.restored()), body: None })
    }
}
