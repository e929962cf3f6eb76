//! The PE machine: one processing element as a state machine that shares nothing.
//!
//! A driver feeds it [`Packet`]s and the time, lets it [`run`](Pe::run) messages, and sends what it
//! finds in the [`Outbox`]. The machine itself reads no clock, opens no socket and awaits nothing,
//! so that the same code runs under threads, over the network, and in virtual time.
//!
//! - `actor`: what a user's code is written against.
//! - `core` holds all that a PE keeps; the folder of each part has its state. `store`: actors of
//!   one type, which `core` knows as a `Kind`.
//! - `delivery`: the way of a message. `migrate`: the way of an actor. `post`: what PEs tell each
//!   other beside messages.
//! - `replicas`: actors that live on two PEs. `steps`: the order of messages of steps.
//! - `collective`: collections, broadcasts, reductions, quiescence, sync points.
//! - `ask`: questions and answers. `outbox`: what leaves. `measure`, `own_time`: loads, and the
//!   pace of the job. `own_plans`: plans of this node's broadcasts. `coordinator_place`: where the
//!   coordinator is. `stall`, `current_handler`: what a PE says of itself.
//! - `membership`: nodes that join while the job runs, and leave or are lost. `worker_message`:
//!   what workers tell theirs.

pub(crate) mod actor;
mod ask;
mod balancing;
mod callback;
mod collective;
mod control;
mod coordinator_place;
mod core;
pub(crate) mod current_handler;
mod delivery;
mod ending;
mod fault;
mod guest_event;
pub(crate) mod links;
mod measure;
mod members;
mod membership;
mod migrate;
mod multicast;
pub(crate) mod node_local;
mod outbox;
mod own_plans;
mod own_time;
mod pending_work;
mod pieces;
mod post;
mod published;
pub(crate) mod rank;
mod replicas;
mod stall;
mod statistics;
mod steps;
mod store;
mod survey;
mod timers;
pub(crate) mod watch;
mod worker_message;

pub use self::core::{Action, Core, Stopwatch};
pub(crate) use self::core::{Common, Deliver, Kind, Store};
pub use crate::message::pending_work::PendingWork;
pub(crate) use balancing::{Balancing, Source};
pub(crate) use delivery::{Accounted, Budget, Queue, TypedQueue, broadcasts_of, message_bytes};
pub use fault::PlantedFault;
pub use guest_event::GuestEvent;
pub(crate) use guest_event::OnGuests;
pub use measure::timesheet::{Spent, TRIAL};
pub(crate) use members::member::{Request, Wish};
pub(crate) use membership::state::PoolEvent;
pub use outbox::Outbox;
pub(crate) use own_plans::state::nearest;
pub(crate) use pieces::Pieces;
pub use statistics::Statistics;
pub(crate) use store::TypedStore;

use crate::address::id::{ActorId, COORDINATOR, KindId};
use crate::error::JobError;
use crate::message::probe::ProbeOrder;
use crate::message::{Content, Control, CoordinatorPlace, Packet};
use crate::pe::current_handler::CurrentHandler;
use crate::schema::definition::Definition;
use gridspan_topology::{NodeId, PeId, Speed, Time};
use migrate::Tentatives;
use std::sync::Arc;
use std::time::Duration;

/// One processing element.
pub struct Pe {
    core: Core,
    stores: Vec<Box<dyn Store>>,
    tentatives: Tentatives,
}

/// Shows from outside which handler a PE is inside of.
pub(crate) struct HandlerView {
    pub(crate) pe: PeId,
    current: Arc<CurrentHandler>,
    kinds: Arc<[&'static dyn Kind]>,
}

impl HandlerView {
    /// The number of the handler, and the name of its actor.
    pub(crate) fn look(&self) -> Option<(u64, String)> {
        let (number, kind, id) = self.current.look()?;
        let kind = self.kinds.get(kind.index())?.name();
        Some((number, format!("{kind} {:?} of collection {}", id.key, id.collection.0)))
    }
}

impl Pe {
    pub(crate) fn new(me: PeId, common: Common) -> Self {
        let stores = common.kinds().map(|(id, kind)| kind.new_store(id)).collect();
        let queues = common.kinds().map(|(_, kind)| kind.new_queue()).collect();
        Self { core: Core::new(me, common, queues), stores, tentatives: Tentatives::new() }
    }

    /// Which PE this is.
    pub fn id(&self) -> PeId {
        self.core.me
    }

    /// Tells the time. It may not go backwards.
    pub fn set_now(&mut self, now: Time) {
        self.core.now = self.core.now.max(now);
    }

    /// Takes a packet from `from`.
    pub fn handle(&mut self, from: PeId, packet: Packet) {
        let control = match &packet.0 {
            Content::Control(control) => Some(&**control),
            _ => None,
        };
        if self.core.is_uninvited(from, control) {
            return;
        }
        match packet.0 {
            Content::Batch(batch) => {
                if let Some(kind) = self.core.kind(batch.kind()) {
                    kind.deliver(&mut self.core, batch);
                }
            }
            Content::Encoded(batch) => {
                let result = match self.core.kind(batch.kind) {
                    Some(kind) => kind.deliver_encoded(&mut self.core, &batch),
                    None => Err(crate::message::codec::DecodeError::new(
                        "a frame",
                        "unknown actor type",
                    )),
                };
                if let Err(error) = result {
                    self.core.fail(JobError::Protocol(format!("from {from}: {error}")));
                }
            }
            Content::Control(control) => {
                if from == self.core.me && control.is_of_pe() {
                    self.core.own_controls = self.core.own_controls.saturating_sub(1);
                }
                self.handle_control(from, *control);
            }
            Content::Frame(_) | Content::Spread(_) => {
                let reason = format!(
                    "a packet from {from} for another node came here; this is a bug in Gridspan"
                );
                self.core.fail(JobError::Protocol(reason));
            }
        }
        self.grant_requests();
    }

    /// Does what `main`, or the driver, asks of this PE.
    pub fn act(&mut self, action: Action) {
        action(&mut self.core);
        self.grant_requests();
    }

    /// Handles up to `budget` ready messages. Returns how many: none once a handler has ended the
    /// turn, there is much to send, or this PE has failed and waits for the end of the job.
    pub fn run(&mut self, budget: u32) -> u32 {
        let mut handled = 0;
        let begin = self.core.work_begins();
        let is_over =
            |core: &Core| core.failure.is_some() || core.turn_is_over || core.outbox.is_full();
        while handled < budget && !is_over(&self.core) {
            let Some((rank, kind)) = self.core.lanes.peek() else { break };
            let store = &mut self.stores[kind.index()];
            let step = store.dispatch(&mut self.core, rank, budget - handled);
            handled += step;
            if !self.core.requests.is_empty() {
                self.grant_requests();
            } else if step == 0 {
                break;
            }
        }
        self.core.statistics.handled += u64::from(handled);
        if handled > 0 {
            self.core.work_ends(begin);
        }
        handled
    }

    /// Fires due timers and passes on what has waited long enough. Call it at the end of each turn,
    /// before sending what is in the [`outbox`](Self::outbox).
    pub fn finish_turn(&mut self) {
        self.core.turn_is_over = false;
        while let Some(action) = self.core.timers.take_due(self.core.now) {
            action(&mut self.core);
            self.grant_requests();
        }
        if !self.core.replicas.is_empty() {
            replicas::settle(&mut self.core, &mut self.stores);
        }
        self.core.report_moved();
        self.core.expire_accumulators();
        if self.core.delivery.is_awaiting() {
            self.core.expire_awaiting();
        }
        // Contributions that wait here lead to a message sooner or later, so the PE is not idle.
        if !self.core.rounds_pending.is_empty()
            && self.core.lanes.is_empty()
            && self.core.next_accumulator().is_none()
        {
            self.core.answer_waves();
        }
        self.core.settle_look();
        self.core.check_budget();
    }

    /// When [`finish_turn`](Self::finish_turn) has something to do even if nothing arrives.
    pub fn next_wakeup(&self) -> Option<Time> {
        let held = self.core.delivery.next_deadline();
        [self.core.timers.next(), self.core.next_accumulator(), held].into_iter().flatten().min()
    }

    /// How much it has ever done for the job. What the runtime does again and again, such as
    /// balancing on a period, does not count.
    pub fn activity(&self) -> u64 {
        self.core.activity()
    }

    /// Whether it only has to do what the runtime does again and again, now and later, unless
    /// something comes.
    pub fn has_only_upkeep(&self) -> bool {
        self.core.has_only_upkeep()
    }

    /// Has handlers timed, if a strategy uses it.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.core.set_stopwatch(stopwatch);
    }

    /// Gives a clock to those who divide their time among many things within one handler. Without
    /// one they go by what is charged.
    pub fn set_clock(&mut self, clock: Stopwatch) {
        self.core.clock = Some(clock);
    }

    /// Has this PE be so fast, where processors are simulated or emulated: what is charged and
    /// timed takes longer or shorter. The driver sees to it that time passes accordingly.
    pub fn set_pace(&mut self, pace: Speed) {
        self.core.pace = pace;
    }

    /// Tells how fast the driver has found this PE, beside an ordinary one and without others'
    /// load.
    pub fn set_speed(&mut self, speed: f64) {
        if let Some(measures) = &mut self.core.measures {
            measures.time.set_speed(speed);
        }
    }

    /// Whether loads are measured.
    pub fn is_measured(&self) -> bool {
        self.core.measures.is_some()
    }

    /// Tells where time went since this was told last, where loads are measured. For a PE that
    /// shares a processor with other programs at least twice a second.
    pub fn note_time(&mut self, spent: Spent) {
        self.core.note_time(spent);
    }

    /// When this PE, if it is idle then, should compute for nothing for [`TRIAL`], and have what it
    /// got of that noted by [`note_trial`](Self::note_trial). Only where others' programs have
    /// slowed it.
    pub fn next_trial(&self) -> Option<Time> {
        self.core.measures.as_ref()?.time.next_trial()
    }

    /// Tells what a trial that has just ended got of a processor.
    pub fn note_trial(&mut self, now: Time, spent: Spent) {
        self.core.note_trial(now, spent);
    }

    /// Tells how many bytes wait outside of the machine, for the memory budget.
    pub fn set_waiting_bytes(&mut self, bytes: usize) {
        self.core.waiting_bytes = bytes;
    }

    /// Tells the coordinator which job this node runs, so that different programs do not mix.
    pub(crate) fn greet(&mut self) {
        let definition = Box::new(Definition::clone(&self.core.common.definition));
        self.core.post(COORDINATOR, Control::Greet { definition });
    }

    /// What this node should measure; the driver reports with [`Core::probed`](Core).
    pub fn take_probe_orders(&mut self) -> Vec<ProbeOrder> {
        std::mem::take(&mut self.core.probe_orders)
    }

    /// Where the coordinator runs, once after it has moved.
    pub fn take_coordinator_place(&mut self) -> Option<CoordinatorPlace> {
        self.core.coordinator.news.take()
    }

    /// Where guests can be reached of which this PE has heard, as they said to [`Core::join`].
    pub fn take_contacts(&mut self) -> Vec<(NodeId, String)> {
        std::mem::take(&mut self.core.membership.contacts)
    }

    /// The number of the coordinator's question about what this PE does, now that it does nothing;
    /// answered by [`Core::looked`](Core).
    pub fn take_look(&mut self) -> Option<u64> {
        self.core.looks.order.take()
    }

    /// Shows other threads which handler this PE is inside of.
    pub(crate) fn current_handler(&self) -> HandlerView {
        let looks = &self.core.looks;
        HandlerView {
            pe: self.core.me,
            current: looks.current.clone(),
            kinds: self.core.common.kinds.clone(),
        }
    }

    /// Whether messages are ready.
    pub fn has_work(&self) -> bool {
        !self.core.lanes.is_empty() && self.core.failure.is_none()
    }

    /// What is to be sent.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.core.outbox
    }

    /// How the job ended, once it has.
    pub fn outcome(&self) -> Option<&Result<(), JobError>> {
        self.core.outcome.as_ref()
    }

    /// Compute time that handlers charged since the last call.
    pub fn take_charged(&mut self) -> Duration {
        std::mem::take(&mut self.core.charged)
    }

    /// What the PE did so far.
    pub fn statistics(&self) -> Statistics {
        self.core.statistics
    }

    /// Over how many bytes of ready messages the driver should not bring more.
    pub fn soft_limit(&self) -> usize {
        self.core.common.limits.soft_bytes
    }

    /// Whether this PE has failed and only waits for the end of the job.
    pub fn has_failed(&self) -> bool {
        self.core.failure.is_some()
    }

    /// Another PE of this node does not take what is sent to it: so many bytes of messages wait,
    /// most of them for the members of these types.
    pub(crate) fn fail_full(&mut self, pe: PeId, bytes: usize, fullest: &[(KindId, usize)]) {
        self.core.fail_full(pe, bytes, fullest);
    }

    /// Bytes of messages that are ready here.
    pub fn ready_bytes(&self) -> usize {
        self.core.ready_bytes
    }

    /// Ends the job with an error, for example that of a panic.
    pub fn fail(&mut self, error: JobError) {
        self.core.fail(error);
    }

    /// The type of the actor that is, or was when it panicked, being handled, and the place.
    pub fn running(&self) -> (&'static str, String) {
        let kind = self.core.running.and_then(|kind| self.core.kind(kind));
        (kind.map_or("the runtime", |kind| kind.name()), self.core.place_name())
    }

    /// Does what handlers asked for their own actors.
    fn grant_requests(&mut self) {
        while !self.core.requests.is_empty() {
            let requests = std::mem::take(&mut self.core.requests);
            for &Request { id, wish } in &requests {
                // The actor may have asked for something else before.
                let Some(slot) = self.core.resident(id) else { continue };
                let dying = Request { id, wish: Wish::Destroy };
                match wish {
                    Wish::Migrate(_) if requests.contains(&dying) => {}
                    Wish::Migrate(to) => self.migrate(slot, to),
                    Wish::Destroy => self.destroy(id, slot),
                    Wish::Resume if requests.contains(&dying) => {}
                    Wish::Resume => self.resume_one(slot),
                }
            }
        }
    }

    fn migrate(&mut self, slot: (KindId, u32), to: PeId) {
        if to == self.core.me || !self.core.may_leave(slot, to) {
            return;
        }
        migrate::depart(&mut self.core, &mut self.stores, slot, to, None);
    }

    fn destroy(&mut self, id: ActorId, (kind, slot): (KindId, u32)) {
        self.stores[kind.index()].remove(slot);
        self.core.remove_member(id, kind, slot);
    }
}
