//! The actor that runs one rank: delivers messages to it, and polls its futures.
//!
//! A handler delivers its message to the rank's state, polls the futures that this has woken, and
//! sends what they have left in the outbox, until nothing is woken. So a PE runs its other ranks
//! while one waits.
//!
//! Futures cannot be encoded. So an actor of a job on several nodes is not movable during a run: a
//! strategy would otherwise plan moves that bring nothing, and take the size of a rank for that of
//! its place. In a job on one node a balancer may move it at any time. Then it leaves its futures
//! in the [`Parking`] of the node, carries their number, and takes them up again on the other PE.
//! If the job has got another node meanwhile and the actor was moved there, it keeps its messages
//! and asks to go back.

use crate::comm::Comm;
use crate::error::RankError;
use crate::executor::Wakeup;
use crate::local::saved::SavedState;
use crate::local::{Local, Task};
use crate::packet::RankMessage;
use crate::pieces::{self, Joiner, PIECE_BYTES};
use crate::places::Places;
use crate::program::{EagerLimit, RankProgram, Run, RunEnd};
use crate::scope::Scope;
use gridspan_runtime::{Actor, ActorRef, Context, Ix1, List, NodeId, Op, PeId, To};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// Largest number of ranks that a deadlock names.
const STUCK_NAMED_MAX: usize = 32;
/// Time after which a rank that was moved away from its futures asks again to go back.
const RETURN_AFTER: Duration = Duration::from_millis(50);

/// The stage of a rank's life.
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

/// A run and the tasks that it has begun.
struct Body<P: RankProgram> {
    run: Option<Run<P>>,
    wakeup: Wakeup,
    tasks: Vec<(Task, Wakeup)>,
}

type End<P> = Result<RunEnd<<P as RankProgram>::State, <P as RankProgram>::Value>, RankError>;

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

/// Where the futures of a run are parked: the node, the PE, and their key in the [`Parking`].
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Parked {
    node: NodeId,
    pe: PeId,
    number: u64,
}

/// The futures of actors that are on their way, and the state that the futures share with them. It
/// is a resource of the job.
pub(crate) struct Parking<P: RankProgram>(Mutex<ParkedBodies<P>>);

struct ParkedBodies<P: RankProgram> {
    last: u64,
    found: BTreeMap<u64, (Body<P>, Arc<Local>)>,
}

impl<P: RankProgram> Parking<P> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(ParkedBodies { last: 0, found: BTreeMap::new() }))
    }

    fn park(&self, body: Body<P>, local: Arc<Local>) -> u64 {
        let mut bodies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.last += 1;
        let number = bodies.last;
        bodies.found.insert(number, (body, local));
        number
    }

    fn take(&self, number: u64) -> Option<(Body<P>, Arc<Local>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).found.remove(&number)
    }
}

/// The actor of one rank.
pub(crate) struct RankActor<P: RankProgram> {
    life: Life<P::Init, P::State, P::Value>,
    local: Arc<Local>,
    body: Cell<Option<Body<P>>>,
    /// The node and the PE of this actor, and the parking of the node.
    place: Option<(NodeId, PeId, Arc<Parking<P>>)>,
    /// Where the body is, if it is not here.
    parked: Cell<Option<Parked>>,
    /// Messages that came while the body is elsewhere.
    held: Vec<RankMessage>,
    /// Whether it will ask again to go back to its body.
    is_returning: bool,
    /// Whether the job has one node, as far as this actor knows.
    has_one_node: bool,
    /// Number of ranks of the world, as of the last run.
    size: u32,
    /// Where the ranks live, as of the last run; empty after a move.
    places: Arc<Places>,
    joiner: Joiner,
    /// An empty outbox, whose memory is used again.
    spare_outbox: Vec<(u32, RankMessage)>,
    /// At rank 0: what ranks wait for, if nothing happens any more.
    stuck: BTreeMap<u32, Option<String>>,
}

impl<P: RankProgram> Actor for RankActor<P> {
    type Index = Ix1;
    type Init = P::Init;
    type Message = RankMessage;

    fn create(init: P::Init, cx: &mut Context<'_, Self>) -> Self {
        Self::new(Life::New(init), Local::new(cx.index().0 as u32))
    }

    fn is_movable(&self) -> bool {
        self.has_one_node || !matches!(self.life, Life::Running)
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        if self.is_complete(cx) {
            self.take_held(cx);
        }
    }

    fn handle(&mut self, message: RankMessage, cx: &mut Context<'_, Self>) {
        let is_return = matches!(message, RankMessage::Return);
        self.is_returning &= !is_return;
        if self.is_complete(cx) {
            self.take_held(cx);
            self.take(message, cx);
        } else if !is_return {
            self.held.push(message);
        }
    }

    fn heap_bytes(message: &RankMessage) -> usize {
        message.heap_bytes()
    }
}

impl<P: RankProgram> RankActor<P> {
    fn new(life: Life<P::Init, P::State, P::Value>, local: Local) -> Self {
        let (body, parked) = (Cell::default(), Cell::default());
        let (local, held, stuck) = (Arc::new(local), Vec::new(), BTreeMap::new());
        let (places, joiner) = (Arc::default(), Joiner::default());
        let (place, is_returning, size, spare_outbox) = (None, false, 0, Vec::new());
        let has_one_node = false;
        Self {
            life,
            local,
            body,
            place,
            parked,
            held,
            is_returning,
            has_one_node,
            size,
            places,
            joiner,
            spare_outbox,
            stuck,
        }
    }

    /// Whether the futures of a run that is under way are here. Takes them up or asks to go back
    /// where they are.
    fn is_complete(&mut self, cx: &mut Context<'_, Self>) -> bool {
        let (node, pe) = (cx.node(), cx.pe());
        self.has_one_node = cx.layout().node_count() == 1;
        if self.place.as_ref().is_none_or(|(_, known, _)| *known != pe) {
            self.place = cx.resource().map(|parking| (node, pe, parking));
        }
        let Some(parked) = self.parked.get() else { return true };
        if parked.node != node {
            cx.migrate_to(parked.pe);
            if !std::mem::replace(&mut self.is_returning, true) {
                // The PE may refuse it for want of room.
                cx.send_after(RETURN_AFTER, &cx.me(), RankMessage::Return);
            }
            return false;
        }
        let parking = self.place.as_ref().map(|(_, _, parking)| parking);
        match parking.and_then(|parking| parking.take(parked.number)) {
            Some((body, local)) => {
                self.body.set(Some(body));
                (self.local, self.life) = (local, Life::Running);
                self.parked.set(None);
                true
            }
            None => {
                cx.fail(format!(
                    "rank {} has lost its run: a checkpoint was made while ranks ran, not at a \
                     migration point",
                    self.local.rank
                ));
                false
            }
        }
    }

    /// Handles what came while the body was elsewhere.
    fn take_held(&mut self, cx: &mut Context<'_, Self>) {
        for message in std::mem::take(&mut self.held) {
            self.take(message, cx);
        }
    }

    fn take(&mut self, message: RankMessage, cx: &mut Context<'_, Self>) {
        match message {
            RankMessage::Report => {
                let pe = u64::from(cx.pe().0);
                cx.contribute(Op::Concat, vec![pe], To::main());
            }
            RankMessage::Begin(places) => self.begin(places, cx),
            RankMessage::Results => self.give_result(cx),
            RankMessage::Explain => {
                let first = cx.collection().at(Ix1(0));
                cx.send(&first, RankMessage::Stuck(self.local.rank, self.waits()));
            }
            RankMessage::Stuck(rank, waits) => self.collect(rank, waits, cx),
            RankMessage::Piece { from, is_last, bytes } => {
                match self.joiner.add(from, is_last, &bytes) {
                    Ok(message) => self.local.with(|state| {
                        message.into_iter().for_each(|message| state.deliver(message));
                    }),
                    Err(error) => cx.fail(format!("a long message of rank {from}: {error}")),
                }
            }
            message => self.local.with(|state| state.deliver(message)),
        }
        self.advance(cx);
    }

    /// Begins a run; a rank that has ended has come to its next migration point at once.
    fn begin(&mut self, places: Arc<Places>, cx: &mut Context<'_, Self>) {
        let Some(program) = cx.resource::<P>() else {
            cx.fail("the job of these ranks lacks their program");
            return;
        };
        self.size = places.len();
        self.places = places.clone();
        let limit = cx.resource::<EagerLimit>();
        self.local.with(|state| {
            state.now = cx.now();
            state.eager_bytes = limit.map_or(state.eager_bytes, |limit| limit.bytes);
        });
        let world = Comm::world(self.local.clone(), Arc::new(Scope::world(places)));
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
        self.body.set(Some(Body { run, wakeup: Wakeup::new(), tasks: Vec::new() }));
    }

    /// Polls the futures and sends their messages until nothing is left to do.
    fn advance(&mut self, cx: &mut Context<'_, Self>) {
        let Some(mut body) = self.body.take() else {
            self.flush(cx);
            return;
        };
        self.local.with(|state| state.begin_turn(cx.now()));
        loop {
            let (is_woken, end) = body.poll();
            if !is_woken && end.is_none() {
                // The messages that came may have left others to send.
                if !self.flush(cx) {
                    break;
                }
                continue;
            }
            let tasks = self.local.with(|state| std::mem::take(&mut state.tasks));
            body.tasks.extend(tasks.into_iter().map(|task| (task, Wakeup::new())));
            self.flush(cx);
            if let Some(end) = end {
                self.end(end, cx);
                return;
            }
        }
        self.body.set(Some(body));
    }

    /// Sends the messages of the outbox, and delivers those to this rank itself. Returns whether
    /// there were any of the latter.
    fn flush(&mut self, cx: &mut Context<'_, Self>) -> bool {
        let (mut has_delivered, ranks) = (false, cx.collection());
        loop {
            let spare = std::mem::take(&mut self.spare_outbox);
            let (mut outbox, delays, charged) = self.local.with(|state| {
                let outbox = std::mem::replace(&mut state.outbox, spare);
                (outbox, std::mem::take(&mut state.delays), std::mem::take(&mut state.charged))
            });
            for (delay, number) in delays {
                cx.send_after(delay, &cx.me(), RankMessage::Elapsed(number));
            }
            if charged > Duration::ZERO {
                cx.charge(charged);
            }
            if outbox.is_empty() {
                self.spare_outbox = outbox;
                return has_delivered;
            }
            for (to, message) in outbox.drain(..) {
                match message {
                    // It comes back once the PE has handled what waits now.
                    RankMessage::GoOn => cx.send(&cx.me(), RankMessage::GoOn),
                    message if to == self.local.rank => {
                        self.local.with(|state| state.deliver(message));
                        has_delivered = true;
                    }
                    message => self.send(&ranks.at(Ix1(to as i32)), to, message, cx),
                }
            }
            self.spare_outbox = outbox;
        }
    }

    /// Sends a message to another rank: in pieces, if it is long and goes to another node.
    fn send(
        &self,
        rank: &ActorRef<Self>,
        to: u32,
        message: RankMessage,
        cx: &mut Context<'_, Self>,
    ) {
        let is_here = |pe| cx.layout().node_of(PeId(pe)) == cx.node();
        let is_near = || to < self.places.len() && is_here(self.places.of(to).1);
        if message.heap_bytes() <= PIECE_BYTES || is_near() {
            cx.send(rank, message);
            return;
        }
        match pieces::cut(self.local.rank, &message, PIECE_BYTES) {
            Ok(pieces) => pieces.into_iter().for_each(|piece| cx.send(rank, piece)),
            Err(error) => cx.fail(format!("a long message to rank {to}: {error}")),
        }
    }

    /// Ends a run, at a migration point or with a result.
    fn end(&mut self, end: End<P>, cx: &mut Context<'_, Self>) {
        let rank = self.local.rank;
        let pending = self.local.pending();
        self.local.with(|state| state.windows.clear());
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

    /// What the rank waits for; `None` if it waits for other ranks to come to a migration point.
    fn waits(&self) -> Option<String> {
        let is_running = matches!(self.life, Life::Running);
        is_running.then(|| self.local.with(|state| state.waits()))
    }

    /// Collects what ranks wait for, at rank 0, and ends the job once all have told.
    fn collect(&mut self, rank: u32, waits: Option<String>, cx: &mut Context<'_, Self>) {
        self.stuck.insert(rank, waits);
        if self.stuck.len() as u32 == self.size {
            cx.fail(deadlock(&std::mem::take(&mut self.stuck)));
        }
    }

    /// Gives main the result, and ends the actor.
    fn give_result(&mut self, cx: &mut Context<'_, Self>) {
        match std::mem::replace(&mut self.life, Life::Running) {
            Life::Ended(value) => cx.contribute(Op::Concat, List(vec![value]), To::main()),
            _ => cx.fail(format!("rank {} has no result", self.local.rank)),
        }
        cx.destroy();
    }
}

/// The text of a deadlock.
fn deadlock(stuck: &BTreeMap<u32, Option<String>>) -> String {
    let waiting = || stuck.iter().filter_map(|(rank, waits)| Some((rank, waits.as_ref()?)));
    let named: Vec<String> = waiting()
        .take(STUCK_NAMED_MAX)
        .map(|(rank, waits)| format!("rank {rank} waits in {waits}"))
        .collect();
    let more = waiting().count().saturating_sub(STUCK_NAMED_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("the ranks are in a deadlock: {}{more}", named.join("; "))
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
    parked: Option<Parked>,
    held: Vec<RankMessage>,
    size: u32,
    joiner: Joiner,
}

impl<P: RankProgram> Serialize for RankActor<P> {
    /// Parks the futures of a run, which the actor then no longer has. If it stays, it takes them
    /// back at its next message.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let (Some(body), Some((node, pe, parking))) = (self.body.take(), &self.place) {
            let number = parking.park(body, self.local.clone());
            self.parked.set(Some(Parked { node: *node, pe: *pe, number }));
        }
        let parked = self.parked.get();
        let local = match parked {
            Some(_) => SavedState::empty(self.local.rank),
            None => SavedState::of(&self.local),
        };
        let (held, size, joiner) = (self.held.clone(), self.size, self.joiner.clone());
        Image { life: &self.life, local, parked, held, size, joiner }.serialize(serializer)
    }
}

impl<'de, P: RankProgram> Deserialize<'de> for RankActor<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let image: Image<Life<P::Init, P::State, P::Value>> = Image::deserialize(deserializer)?;
        let Image { life, local, parked, held, size, joiner } = image;
        let new = Self::new(life, local.restored());
        Ok(Self { parked: Cell::new(parked), held, size, joiner, ..new })
    }
}
