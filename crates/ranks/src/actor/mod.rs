//! The actor that runs one rank: delivers messages to it, and polls its futures.
//!
//! A handler delivers its message to the rank's state, polls the futures that this has woken, and
//! sends what they have left in the outbox, until no future is woken. So a PE runs its other ranks
//! while one waits.
//!
//! Futures cannot be encoded. So an actor of a job on several nodes is not movable during a run:
//! otherwise a strategy would plan useless moves, and take the small reference to the futures for
//! the size of the rank. In a job on one node a balancer may move it at any time. Then it leaves
//! its futures in the [`Parking`] of the node, carries their number, and takes them up again on the
//! other PE. If a node has joined the job since and the actor was moved there, it keeps its
//! messages and asks to go back.

mod body;
mod failing;
mod image;
mod serving;
mod watching;

pub(crate) use body::Parking;

use crate::comm::Comm;
use crate::deadlock::{self, Detector, WaitWatch};
use crate::error::RankError;
use crate::failures::ErrorsReturn;
use crate::local::Local;
use crate::local::link::Link;
use crate::name_server::NameServer;
use crate::packet::{RankMessage, SpawnedGroup};
use crate::pieces::{self, Joiner, PIECE_BYTES};
use crate::places::Places;
use crate::program::{EagerLimit, RankProgram, RunEnd};
use crate::scope::World;
use crate::ticket::Asker;
use body::{Body, End, Parked};
use gridspan_runtime::{Actor, ActorRef, Context, Ix1, List, NodeId, Op, PeId, To};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Time after which a rank that was moved away from its futures asks again to go back.
const RETURN_AFTER: Duration = Duration::from_millis(50);

/// Whether an actor type of this name, as recordings of jobs have them, runs ranks.
///
/// ```
/// assert!(!gridspan::ranks::is_rank_type("stencil::Block"));
/// ```
pub fn is_rank_type(name: &str) -> bool {
    name.starts_with(concat!(module_path!(), "::RankActor<"))
}

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
    /// Its program has failed, for this reason.
    Failed(String),
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
    /// Whether it fails alone, not with the job.
    fails_alone: bool,
    /// The ranks that began together with this one; `None` before its first run.
    world: Option<World>,
    /// Number of ranks of the job. Rank 0 counts those that it spawns; others know the number at
    /// the last migration point.
    size: u32,
    /// Where the ranks live, as of the last run; empty after a move.
    places: Arc<Places>,
    joiner: Joiner,
    /// An empty outbox, whose memory is used again.
    spare_outbox: Vec<(u32, RankMessage)>,
    /// At rank 0: what ranks wait for, if nothing happens any more.
    stuck: BTreeMap<u32, Option<String>>,
    /// At rank 0, from the first request on.
    server: Option<Box<NameServer>>,
    /// The waits for the end of this rank.
    wait_for_end: Vec<Asker>,
    /// From the first look for deadlocks on. In large jobs ranks do not look.
    watch: Option<Box<WaitWatch>>,
    /// At rank 0, from the first look on.
    detector: Option<Box<Detector>>,
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
        let (has_one_node, fails_alone) = (false, false);
        let (world, server, wait_for_end) = (None, None, Vec::new());
        let (watch, detector) = (None, None);
        Self {
            life,
            local,
            body,
            place,
            parked,
            held,
            is_returning,
            has_one_node,
            fails_alone,
            world,
            size,
            places,
            joiner,
            spare_outbox,
            stuck,
            server,
            wait_for_end,
            watch,
            detector,
        }
    }

    /// Takes up the futures of a run that is under way if they are on this node, and otherwise asks
    /// to go back to them. Returns whether the actor can handle messages.
    fn is_complete(&mut self, cx: &mut Context<'_, Self>) -> bool {
        let (node, pe) = (cx.node(), cx.pe());
        self.has_one_node = cx.layout().node_count() == 1;
        if self.place.as_ref().is_none_or(|(_, known, _)| *known != pe) {
            self.place = cx.resource().map(|parking| (node, pe, parking));
            self.fails_alone = cx.resource::<ErrorsReturn>().is_some();
        }
        let Some(parked) = self.parked.get() else { return true };
        if parked.node != node {
            cx.migrate_to(parked.pe);
            if !std::mem::replace(&mut self.is_returning, true) {
                // The PE may have no room for it and refuse.
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
        let has_begun_turn = match message {
            RankMessage::Piece { from, is_last, bytes } => {
                match self.joiner.add(from, is_last, &bytes) {
                    Ok(Some(message)) => self.take_whole(message, cx),
                    Ok(None) => false,
                    Err(error) => {
                        cx.fail(format!("a long message of rank {from}: {error}"));
                        false
                    }
                }
            }
            message => self.take_whole(message, cx),
        };
        if !has_begun_turn {
            self.local.with(|state| state.begin_turn(cx.now()));
        }
        self.advance(cx);
    }

    /// Takes a message. Returns whether the turn of the rank's state has begun: messages of other
    /// ranks begin it and are delivered under one lock.
    fn take_whole(&mut self, message: RankMessage, cx: &mut Context<'_, Self>) -> bool {
        if self.drops(&message) {
            return false;
        }
        match message {
            RankMessage::Report => {
                let pe = u64::from(cx.pe().0);
                cx.contribute(Op::Concat, vec![pe], To::main());
            }
            RankMessage::Begin(places) => {
                // A rank that has begun before this one may have spawned others.
                self.size = self.size.max(places.len());
                self.begin(places, cx);
            }
            RankMessage::Spawned(group) => self.begin_spawned(&group, cx),
            RankMessage::Results => self.give_result(cx),
            RankMessage::Explain => {
                let first = cx.collection().at(Ix1(0));
                cx.send(&first, RankMessage::Stuck(self.local.rank, self.waits()));
            }
            RankMessage::Stuck(rank, waits) => self.collect(rank, waits, cx),
            RankMessage::Ask { asker, request } => self.serve(asker, *request, cx),
            RankMessage::Begun { first } => self.note_begun(first, cx),
            RankMessage::TellEnd(asker) => self.tell_end(asker, cx),
            RankMessage::Look => self.look(cx),
            RankMessage::Waits { rank, state } => self.note_wait(rank, state),
            RankMessage::Flush(flush) => self.begin_flush(flush, cx),
            RankMessage::Marker { round, from } => self.take_marker(round, from, cx),
            RankMessage::Flushed { round, rank, waits } => {
                self.note_flushed((round, rank), waits, cx);
            }
            RankMessage::HasFailed { rank, known, next_communicator, reason } => {
                self.note_failure((rank, known), next_communicator, &reason, cx);
            }
            RankMessage::TellFailure { ranks } => self.tell_failure(ranks, cx),
            message => {
                self.local.with(|state| {
                    state.begin_turn(cx.now());
                    state.deliver(message);
                });
                return true;
            }
        }
        false
    }

    /// Begins the first run of a spawned rank.
    fn begin_spawned(&mut self, group: &SpawnedGroup, cx: &mut Context<'_, Self>) {
        let SpawnedGroup { number, children, parents, places, failed } = group;
        places.learn(*number, &[children, parents]);
        let first = children.ranks.first().copied().unwrap_or(self.local.rank);
        self.world = Some(World { first, size: children.ranks.len() as u32 });
        let link = Link::new(*number, true, &children.ranks, &parents.ranks);
        self.local.with(|state| {
            state.links.push(link);
            for (rank, reason) in failed {
                state.note_failed(*rank, reason.clone());
            }
        });
        cx.send(&cx.collection().at(Ix1(0)), RankMessage::Begun { first });
        self.begin(places.clone(), cx);
    }

    /// Begins a run. A rank that has ended arrives at its next migration point at once.
    fn begin(&mut self, places: Arc<Places>, cx: &mut Context<'_, Self>) {
        let Some(program) = cx.resource::<P>() else {
            cx.fail("the job of these ranks lacks their program");
            return;
        };
        self.places = places.clone();
        self.watch = None;
        self.detector = self.detector.take().map(|detector| Box::new(detector.of_next_run()));
        let world = *self.world.get_or_insert(World::of_job(places.len()));
        let limit = cx.resource::<EagerLimit>();
        self.local.with(|state| {
            state.now = cx.now();
            // What it reported in an earlier run no longer holds.
            state.changes += 1;
            state.eager_bytes = limit.map_or(state.eager_bytes, |limit| limit.bytes);
        });
        let world = Comm::world(self.local.clone(), Arc::new(world.scope(places)));
        let state = match std::mem::replace(&mut self.life, Life::Running) {
            Life::New(init) => P::create(init, &world),
            Life::Between(state) => state,
            ended => {
                self.life = ended;
                arrive(false, cx);
                return;
            }
        };
        self.body.set(Some(Body::new(program.begin(state, world))));
    }

    /// Polls the futures and sends their messages until nothing is left to do.
    fn advance(&mut self, cx: &mut Context<'_, Self>) {
        let Some(mut body) = self.body.take() else {
            self.flush(None, cx);
            return;
        };
        // The messages that came may have left others in the outbox.
        let mut may_send = true;
        loop {
            let (is_woken, end) = match self.fails_alone {
                true => body.poll_caught(),
                false => body.poll(),
            };
            let is_polled = is_woken || end.is_some();
            if !is_polled && !may_send {
                break;
            }
            self.flush(is_polled.then_some(&mut body), cx);
            may_send = false;
            if let Some(end) = end {
                self.end(end, body, cx);
                return;
            }
        }
        self.body.set(Some(body));
    }

    /// Sends the messages of the outbox, and delivers those to this rank itself, until there are
    /// none. Gives futures that were polled the tasks that they have begun.
    fn flush(&mut self, mut polled: Option<&mut Body<P>>, cx: &mut Context<'_, Self>) {
        let ranks = cx.collection();
        loop {
            let spare = std::mem::take(&mut self.spare_outbox);
            let body = polled.take();
            let is_polled = body.is_some();
            let (mut outbox, delays, charged, tasks) = self.local.with(|state| {
                state.changes += u64::from(is_polled);
                let tasks = match is_polled {
                    true => std::mem::take(&mut state.tasks),
                    false => Vec::new(),
                };
                let outbox = std::mem::replace(&mut state.outbox, spare);
                let delays = std::mem::take(&mut state.delays);
                (outbox, delays, std::mem::take(&mut state.charged), tasks)
            });
            if let Some(body) = body {
                body.add(tasks);
            }
            for (delay, number) in delays {
                cx.send_after(delay, &cx.me(), RankMessage::Elapsed(number));
            }
            if charged > Duration::ZERO {
                cx.charge(charged);
            }
            let mut has_delivered = false;
            for (to, message) in outbox.drain(..) {
                match message {
                    // It comes back once the PE has handled what waits now.
                    RankMessage::GoOn => cx.send(&cx.me(), RankMessage::GoOn),
                    RankMessage::Ask { asker, request } if to == self.local.rank => {
                        self.serve(asker, *request, cx);
                        has_delivered = true;
                    }
                    RankMessage::TellEnd(asker) if to == self.local.rank => {
                        self.tell_end(asker, cx);
                        has_delivered = true;
                    }
                    message if to == self.local.rank => {
                        self.local.with(|state| state.deliver(message));
                        has_delivered = true;
                    }
                    message => self.send(&ranks.at(Ix1(to as i32)), to, message, cx),
                }
            }
            self.spare_outbox = outbox;
            // Only messages that are delivered here leave more in the outbox.
            if !has_delivered {
                return;
            }
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
        let is_here = |(_, pe): (u32, u32)| cx.layout().node_of(PeId(pe)) == cx.node();
        let is_near = || self.places.find(to).is_some_and(is_here);
        if message.heap_bytes() <= PIECE_BYTES || is_near() {
            cx.send(rank, message);
            return;
        }
        match pieces::cut(self.local.rank, &message, PIECE_BYTES) {
            Ok(pieces) => pieces.into_iter().for_each(|piece| cx.send(rank, piece)),
            Err(error) => cx.fail(format!("a long message to rank {to}: {error}")),
        }
    }

    /// Ends a run, at a migration point, with a result or with a failure.
    fn end(&mut self, end: End<P>, body: Body<P>, cx: &mut Context<'_, Self>) {
        let rank = self.local.rank;
        let pending = self.local.pending();
        self.local.with(|state| state.windows.clear());
        let end = match end {
            Ok(_) if !pending.is_empty() => Err(RankError::PendingOperations { rank, pending }),
            end => end,
        };
        match end {
            Err(error) if self.fails_alone => {
                // The futures give back what they hold of others, such as locks.
                drop(body);
                drop(self.local.pending());
                self.flush(None, cx);
                self.begin_failure(&error.to_string(), cx);
            }
            Err(error) => cx.fail(format!("rank {rank}: {error}")),
            Ok(RunEnd::Moves(state)) => {
                self.life = Life::Between(state);
                arrive(true, cx);
            }
            Ok(RunEnd::Value(value)) => {
                self.life = Life::Ended(value);
                for asker in std::mem::take(&mut self.wait_for_end) {
                    self.tell_end(asker, cx);
                }
                arrive(false, cx);
            }
        }
    }

    /// What the rank waits for; `None` if it waits for other ranks to come to a migration point.
    fn waits(&self) -> Option<String> {
        let is_running = matches!(self.life, Life::Running);
        is_running.then(|| self.local.with(|state| state.waits()))
    }

    /// Collects what ranks wait for, at rank 0, and ends the job once all have reported.
    fn collect(&mut self, rank: u32, waits: Option<String>, cx: &mut Context<'_, Self>) {
        self.stuck.insert(rank, waits);
        if self.stuck.len() as u32 == self.size {
            let stuck = std::mem::take(&mut self.stuck);
            let waits = stuck.iter().filter_map(|(rank, waits)| Some((rank, waits.as_ref()?)));
            cx.fail(deadlock::text("the ranks are in a deadlock", waits));
        }
    }

    /// Gives main the result, and ends the actor. The results of spawned ranks are dropped.
    fn give_result(&mut self, cx: &mut Context<'_, Self>) {
        let is_spawned = self.world.is_some_and(World::is_spawned);
        match std::mem::replace(&mut self.life, Life::Running) {
            Life::Ended(_) if is_spawned => {
                cx.contribute(Op::Concat, List::<P::Value>(Vec::new()), To::main());
            }
            Life::Failed(_) => cx.contribute(Op::Concat, List::<P::Value>(Vec::new()), To::main()),
            Life::Ended(value) => cx.contribute(Op::Concat, List(vec![value]), To::main()),
            _ => cx.fail(format!("rank {} has no result", self.local.rank)),
        }
        cx.destroy();
    }
}

/// Tells main that a rank has come to a migration point, or has ended.
fn arrive<P: RankProgram>(goes_on: bool, cx: &mut Context<'_, RankActor<P>>) {
    cx.contribute(Op::Sum, u64::from(goes_on), To::main());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Continuation, Rank, StructProgram};
    use std::any::type_name;

    #[derive(Serialize, Deserialize)]
    struct Idle;

    impl Rank for Idle {
        type Init = ();
        type Value = ();

        fn create((): (), _world: &Comm) -> Self {
            Self
        }

        async fn run(self, _world: Comm) -> Result<Continuation<Self>, RankError> {
            Ok(Continuation::Done(()))
        }
    }

    #[test]
    fn the_actor_type_of_ranks_is_told_by_its_name() {
        assert!(is_rank_type(type_name::<RankActor<StructProgram<Idle>>>()));
        assert!(!is_rank_type(type_name::<Vec<RankActor<StructProgram<Idle>>>>()));
    }
}
