//! The actor that runs one rank: delivers messages to it, and polls its futures.
//!
//! A handler delivers its message to the rank's state, polls the futures that this has woken, and
//! sends what they have left in the outbox, until no future is woken. So a PE runs its other ranks
//! while one waits.
//!
//! Futures cannot be encoded. So an actor of a job on several nodes is not movable during a run:
//! otherwise a load balancing strategy would plan useless moves, and would count only the small
//! reference to the futures as the size of the rank. In a job on one node a balancer may move the
//! actor at any time. Then it leaves its futures in the [`Parking`] of the node, carries their
//! number, and takes them up again on the other PE. If the actor moves to a node that has joined
//! the job since, it holds its messages and asks to go back.

mod body;
mod ending;
mod failing;
mod image;
mod outbox;
mod sending;
mod serving;
mod watching;

pub(crate) use body::Parking;

use crate::comm::Comm;
use crate::deadlock::{Detector, WaitWatch};
use crate::failures::ErrorsReturn;
use crate::local::Local;
use crate::local::interrupts::Interrupts;
use crate::local::link::Link;
use crate::name_server::NameServer;
use crate::packet::{RankMessage, SpawnedGroup};
use crate::pieces::Joiner;
use crate::places::Places;
use crate::program::{EagerLimit, RankProgram};
use crate::scope::World;
use crate::ticket::Asker;
use body::{Body, Parked};
use gridspan_runtime::{Actor, Context, Ix1, NodeId, Op, PeId, To};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Time after which a rank that was moved away from its futures asks again to go back.
const RETURN_AFTER: Duration = Duration::from_millis(50);

/// Whether the actor type of this name runs ranks. Recordings of jobs contain such names.
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
    /// Messages that come while the body is elsewhere. At rank 0 also requests to spawn ranks that
    /// come before it begins, and so before it knows the number of ranks.
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
    /// At rank 0: what each rank waits for, once nothing happens any more.
    stuck: BTreeMap<u32, Option<String>>,
    /// At rank 0, from the first request on.
    server: Option<Box<NameServer>>,
    /// The waits for the end of this rank.
    wait_for_end: Vec<Asker>,
    /// Present from the first look for deadlocks on. In large jobs ranks do not look.
    watch: Option<Box<WaitWatch>>,
    /// At rank 0, from the first look on.
    detector: Option<Box<Detector>>,
}

impl<P: RankProgram> Actor for RankActor<P> {
    type Index = Ix1;
    type Init = P::Init;
    type Message = RankMessage;

    /// A unit is a run, up to the next migration point: the first rank of a PE handles more
    /// messages than others.
    const COUNTS_WORK: bool = true;

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
        let (place, is_returning, size) = (None, false, 0);
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

    /// Handles the messages that had to wait.
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
            self.begin_turn(cx);
        }
        self.advance(cx);
        self.plan_look(cx);
    }

    fn begin_turn(&self, cx: &Context<'_, Self>) {
        self.local.with(|state| state.begin_turn(cx.now()));
    }

    /// Handles a message. Returns whether this has already begun the turn of the rank's state. For
    /// a message of another rank, one lock covers the begin of the turn and the delivery. For a
    /// request, the turn begins before the rank answers.
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
                // The time of a rank that has ended says nothing about the speed of its PE.
                if matches!(self.life, Life::Running) {
                    cx.count_work();
                }
                self.take_held(cx);
            }
            RankMessage::Spawned(group) => self.begin_spawned(&group, cx),
            RankMessage::Results => self.give_result(cx),
            RankMessage::Explain => {
                let first = cx.collection().at(Ix1(0));
                cx.send(&first, RankMessage::Stuck(self.local.rank, self.waits()));
            }
            RankMessage::Stuck(rank, waits) => self.collect(rank, waits, cx),
            RankMessage::Ask { asker, request } if self.is_too_early(&request) => {
                self.held.push(RankMessage::Ask { asker, request });
            }
            RankMessage::Ask { asker, request } => {
                self.begin_turn(cx);
                self.serve(asker, *request, cx);
                return true;
            }
            RankMessage::Begun { first } => {
                self.begin_turn(cx);
                self.note_begun(first, cx);
                return true;
            }
            RankMessage::Access { from, window, token, access } if access.runs_operator() => {
                self.begin_turn(cx);
                self.local.run_operator((from, token), window, &access);
                return true;
            }
            RankMessage::TellEnd(asker) => self.tell_end(asker, cx),
            RankMessage::Look { is_late_next } => self.look_for_main(is_late_next, cx),
            RankMessage::LookAgain(number) => self.look_again(number, cx),
            RankMessage::Rest => self.look_alone(false, cx),
            RankMessage::Waits { rank, state } => self.note_wait(rank, state),
            RankMessage::Flush(flush) => self.begin_flush(flush, cx),
            RankMessage::Marker { round, from } => self.take_marker(round, from, cx),
            RankMessage::Flushed { round, rank, waits } => {
                self.note_flushed((round, rank), waits, cx);
            }
            RankMessage::HasFailed { rank, known, next_communicator, reason } => {
                self.begin_turn(cx);
                self.note_failure((rank, known), next_communicator, &reason, cx);
                return true;
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
        let SpawnedGroup { number, children, parents, places, failed, .. } = group;
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
        if group.looks {
            self.look_alone(true, cx);
        }
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
        let (limit, fails_alone) = (cx.resource::<EagerLimit>(), self.fails_alone);
        self.local.with(|state| {
            state.now = cx.now();
            // The wait that the rank reported in an earlier run has ended.
            state.changes += 1;
            state.interrupts = Interrupts::new(fails_alone);
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
            self.flush(None, false, cx);
            return;
        };
        // The messages that came may have left others in the outbox.
        let mut may_send = true;
        loop {
            let (is_woken, end) = match self.fails_alone {
                true => body.poll_caught(self.local.with(|state| state.panic.take())),
                false => body.poll(),
            };
            let is_polled = is_woken || end.is_some();
            if !is_polled && !may_send {
                break;
            }
            self.flush(Some(&mut body), is_polled, cx);
            may_send = false;
            if let Some(end) = end {
                self.end(end, body, cx);
                return;
            }
        }
        self.body.set(Some(body));
    }
}

/// Tells main that a rank has come to a migration point, or has ended.
fn arrive<P: RankProgram>(goes_on: bool, cx: &mut Context<'_, RankActor<P>>) {
    cx.contribute(Op::Sum, u64::from(goes_on), To::main());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RankError;
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
