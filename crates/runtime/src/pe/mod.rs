//! The PE machine: one processing element as a state machine that shares nothing.
//!
//! A driver passes [`Packet`]s and the time to the machine, lets it [`run`](Pe::run) messages,
//! sends the packets of the [`TurnOutput`], and asks what comes [`next`](Pe::next). The machine
//! itself reads no clock, opens no socket and awaits nothing, so that the same code runs under
//! threads, over the network, and in virtual time.
//!
//! - `actor`: the interface for the user's code.
//! - `core` holds all state of a PE except its actors; the folder of each part defines the part's
//!   state. `store`: actors of one type, which `core` knows as a `Kind`.
//! - `delivery`: the path of a message. `migrate`: the path of an actor. `post`: controls between
//!   PEs, besides messages.
//! - `replicas`: actors that live on two PEs. `partners`: actors that are bound to each other, and
//!   live and move together. `insertion`: new members. `steps`: the order of messages of steps.
//! - `collective`: collections, broadcasts, reductions, quiescence, sync points.
//! - `checkpoint`: the image of this PE, and its restoration. `ask`: questions and answers.
//!   `outbox`: outgoing packets. `measure`, `own_time`: loads, and the pace of the job.
//!   `own_plans`: plans of this node's broadcasts. `coordinator_place`: the place of the
//!   coordinator. `stall`, `diagnosis`, `current_handler`, `telemetry`: reports of a PE about
//!   itself. `recording`: a record of its work, for reports after the job.
//! - `membership`: nodes that join while the job runs, and leave or are lost. `worker_message`:
//!   messages between workers. `turn`: what a turn leaves for the driver.

pub(crate) mod actor;
mod ask;
mod balancing;
mod callback;
mod checkpoint;
mod collective;
mod command;
mod control;
mod coordinator_place;
mod core;
pub(crate) mod current_handler;
mod delivery;
mod diagnosis;
mod ending;
mod fault;
mod guest_event;
mod insertion;
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
mod partners;
mod pending_work;
mod pieces;
mod post;
mod published;
pub(crate) mod rank;
mod recording;
mod replicas;
pub(crate) mod slab_map;
mod stall;
mod statistics;
mod steps;
mod store;
mod survey;
mod telemetry;
mod timers;
mod tolerated_loss;
mod turn;
pub(crate) mod watch;
mod worker_message;

pub(crate) use self::checkpoint::resizing::{Merge, Resizing};
pub(crate) use self::checkpoint::restoration::{GroupCounts, ResizedGroup, Restoration};
pub use self::checkpoint::settings::{CheckpointEvery, Checkpoints};
pub use self::command::PeCommand;
pub use self::core::{Action, Core, Stopwatch};
pub(crate) use self::core::{Common, Deliver, Kind, RunOfJob, Store};
pub use self::watch::{BroadcastEdge, BroadcastReport, CheckpointReport, CopiesRemade};
pub use crate::message::pending_work::PendingWork;
pub(crate) use balancing::Balancing;
pub(crate) use delivery::{
    Accounted, Budget, OnDemand, Queue, TypedQueue, broadcasts_of, message_bytes,
};
pub use fault::PlantedFault;
pub use guest_event::GuestEvent;
pub(crate) use guest_event::OnGuests;
pub use measure::timesheet::{Spent, TRIAL};
pub(crate) use members::member::{Request, Wish};
pub(crate) use membership::loan_log::{LoanEntry, LoanLog, LoanLogs};
pub(crate) use membership::pool_hooks::{OpenTasks, PoolEvent};
pub(crate) use outbox::Outbox;
pub(crate) use own_plans::state::nearest;
pub(crate) use pieces::Pieces;
pub use recording::records::{RecordSettings, RecordedPlaces, Records};
pub use statistics::PeStatistics;
pub(crate) use store::TypedStore;
pub(crate) use tolerated_loss::OnToleratedLoss;
pub use tolerated_loss::{ToleratedLoss, has_half_left};
pub use turn::{Next, TurnOutput};

use crate::address::id::{ActorId, COORDINATOR, KindId};
use crate::error::JobError;
use crate::message::{Content, Control, Packet};
use crate::pe::current_handler::CurrentHandler;
use crate::schema::definition::Definition;
use gridspan_topology::{PeId, Speed, Time};
use migrate::Tentatives;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One processing element.
pub struct Pe {
    core: Core,
    stores: Vec<Box<dyn Store>>,
    tentatives: Tentatives,
}

/// Shows other threads which handler a PE is running.
pub(crate) struct HandlerView {
    pub(crate) pe: PeId,
    current: Arc<CurrentHandler>,
    kinds: Arc<[&'static dyn Kind]>,
    task_names: Arc<BTreeMap<KindId, &'static str>>,
}

impl HandlerView {
    /// The number of the handler, and its description: a handler of an actor, or a task.
    pub(crate) fn look(&self) -> Option<(u64, String)> {
        let (number, kind, id) = self.current.look()?;
        if let Some(task) = self.task_names.get(&kind) {
            return Some((number, format!("a task of type {task}")));
        }
        let actor = self.kinds.get(kind.index())?.name();
        let (key, collection) = (id.key, id.collection.0);
        Some((number, format!("a handler of {actor} {key:?} of collection {collection}")))
    }
}

impl Pe {
    pub(crate) fn new(me: PeId, common: Common) -> Self {
        let stores = common.kinds().map(|(id, kind)| kind.new_store(id)).collect();
        let queues = common.kinds().map(|(_, kind)| kind.new_queue()).collect();
        let mut core = Core::new(me, common, queues);
        core.begin_recording();
        Self { core, stores, tentatives: Tentatives::new() }
    }

    /// The identity of this PE.
    pub fn id(&self) -> PeId {
        self.core.me
    }

    /// Sets the time, which never goes backwards.
    pub fn set_now(&mut self, now: Time) {
        self.core.now = self.core.now.max(self.core.checkpointing.job_time(now));
    }

    /// Takes a packet from `from`.
    pub fn handle(&mut self, from: PeId, packet: Packet) {
        if let Content::Stamped(arrived_ns, packet) = packet.0 {
            self.note_arrival(Some(arrived_ns));
            self.handle(from, *packet);
            return self.note_arrival(None);
        }
        let control = match &packet.0 {
            Content::Control(control) => Some(&**control),
            _ => None,
        };
        if self.core.is_uninvited(from, control) {
            return;
        }
        match packet.0 {
            Content::Batch(batch) => {
                if let Some(kind) = self.core.common.kind(batch.kind()) {
                    kind.deliver(&mut self.core, batch);
                }
            }
            Content::Encoded(batch) => {
                let result = match self.core.common.kind(batch.kind) {
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
            Content::Frame(_) | Content::Spread(_) | Content::Stamped(..) => {
                let reason = format!(
                    "a packet from {from} for another node came here; this is a bug in Gridspan"
                );
                self.core.fail(JobError::Protocol(reason));
            }
        }
        self.grant_requests();
    }

    /// Runs an action of `main` or the driver on this PE.
    pub fn act(&mut self, action: Action) {
        action(&mut self.core);
        self.grant_requests();
    }

    /// Handles up to `budget` ready messages. Returns their number, which is zero once a handler
    /// has ended the turn, the outbox is full, this PE has stopped for a checkpoint, or this PE has
    /// failed and waits for the end of the job.
    pub fn run(&mut self, budget: u32) -> u32 {
        let mut handled = 0;
        // Only main's PE keeps the job's own time, if actors are balanced.
        let begin = self.core.own_time.is_some().then(|| self.core.work_begins());
        let is_over =
            |core: &Core| core.failure.is_some() || core.turn_is_over || core.outbox.is_full();
        if self.core.checkpointing.is_stopped {
            return 0;
        }
        while handled < budget && !is_over(&self.core) {
            let Some((rank, kind)) = self.core.lanes.peek() else { break };
            let store = &mut self.stores[kind.index()];
            let step = store.dispatch(&mut self.core, rank, budget - handled);
            handled += step;
            self.core.note_dispatched(rank, kind, step);
            if !self.core.requests.is_empty() {
                self.grant_requests();
            } else if step == 0 {
                break;
            }
        }
        self.core.statistics.handled += u64::from(handled);
        if handled > 0
            && let Some(begin) = begin
        {
            self.core.work_ends(begin);
        }
        handled
    }

    /// Fires due timers and passes on messages and contributions whose wait is over. Call it at the
    /// end of each turn, before [`take_output`](Self::take_output).
    pub fn finish_turn(&mut self) {
        self.core.turn_is_over = false;
        while !self.core.checkpointing.is_stopped
            && let Some(due) = self.core.timers.take_due(self.core.now)
        {
            due.fire(&mut self.core);
            self.grant_requests();
        }
        // Many jobs do not use these parts of the runtime, so each runs only if it has work.
        if self.core.replicas.is_any() {
            for (id, then) in replicas::settle(&mut self.core, &mut self.stores) {
                self.go_on(id, then);
            }
            self.grant_requests();
        }
        if self.core.checkpointing.first_round.is_some() {
            self.stop_without_replicas();
        }
        if self.core.checkpointing.reported.is_some() {
            self.report_drained_again();
        }
        if self.core.checkpointing.captured.is_some() {
            self.encode_some();
        }
        let core = &mut self.core;
        if core.checkpointing.sending.room_at.is_some() {
            core.send_waiting();
        }
        if !core.moved.is_empty() {
            core.report_moved();
        }
        if !core.accumulators.is_empty() {
            core.expire_accumulators();
        }
        if core.delivery.is_awaiting() {
            core.expire_awaiting();
            core.request_missing();
        }
        // Contributions that wait here will lead to a message, so the PE is not idle.
        if !core.rounds_pending.is_empty() && core.lanes.is_empty() && core.accumulators.is_empty()
        {
            core.answer_waves();
        }
        if core.looks.asked.is_some() {
            core.settle_look();
        }
        if core.is_over_budget() {
            core.check_budget();
        }
    }

    /// Amount of work that the PE has done for the job. Periodic work of the runtime, such as
    /// balancing on a period, does not count.
    pub fn activity(&self) -> u64 {
        self.core.activity()
    }

    /// Whether only periodic work of the runtime is left, now and later, unless something arrives.
    pub fn has_only_upkeep(&self) -> bool {
        self.core.has_only_upkeep()
    }

    /// Notes the time that the [encoding](TurnOutput::encoded) of the last turn took, in virtual
    /// time.
    pub fn note_encoding(&mut self, took: Duration) {
        self.core.checkpointing.note_encoding(took);
    }

    /// Sets a stopwatch to time handlers, if loads are measured.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.core.set_stopwatch(stopwatch);
    }

    /// Sets a clock for handlers that divide their time among many tasks. Without a clock they use
    /// the charged time.
    pub fn set_clock(&mut self, clock: Stopwatch) {
        self.core.clock = Some(clock);
    }

    /// Sets the speed of this PE where processors are simulated or emulated: charged and timed
    /// durations are scaled by it. The driver ensures that time passes accordingly.
    pub fn set_pace(&mut self, pace: Speed) {
        self.core.pace = pace;
    }

    /// Sets the speed that the driver has measured for this PE, relative to an ordinary one and
    /// without load from other programs.
    pub fn set_speed(&mut self, speed: f64) {
        if let Some(measures) = &mut self.core.measures {
            measures.time.set_speed(speed);
        }
    }

    /// Whether loads are measured.
    pub fn is_measured(&self) -> bool {
        self.core.measures.is_some()
    }

    /// Sets the number of bytes that wait outside the machine, for the memory budget, and how many
    /// of them wait for the network.
    pub fn set_waiting_bytes(&mut self, bytes: usize, for_network: usize) {
        self.core.waiting_bytes = bytes;
        self.core.checkpointing.sending.network_bytes = for_network;
    }

    /// Sends the coordinator this node's job definition, so that different programs do not mix.
    pub(crate) fn greet(&mut self) {
        let definition = Box::new(Definition::clone(&self.core.common.definition));
        self.core.post(COORDINATOR, Control::Greet { definition });
    }

    /// Returns a view through which other threads see the handler that this PE is running.
    pub(crate) fn current_handler(&self) -> HandlerView {
        let looks = &self.core.looks;
        HandlerView {
            pe: self.core.me,
            current: looks.current.clone(),
            kinds: self.core.common.kinds.clone(),
            task_names: self.core.common.task_names.clone(),
        }
    }

    /// The outcome of the job, once it has ended.
    pub fn outcome(&self) -> Option<&Result<(), JobError>> {
        self.core.outcome.as_ref()
    }

    /// Counters of the PE's work so far.
    pub fn statistics(&self) -> PeStatistics {
        self.core.statistics
    }

    /// Whether the driver may deliver further messages. Above a limit of bytes, messages wait until
    /// handlers have consumed others. A failed PE takes messages and drops them. A PE that has
    /// stopped for a checkpoint takes them although its handlers consume nothing, since it is
    /// drained only when no message to it is under way. No further messages follow, since all PEs
    /// stop.
    pub fn takes_messages(&self) -> bool {
        self.has_failed()
            || self.core.checkpointing.is_stopped
            || self.core.ready_bytes < self.core.common.limits.soft_bytes
    }

    /// Whether this PE has failed and only waits for the end of the job.
    pub fn has_failed(&self) -> bool {
        self.core.failure.is_some()
    }

    /// Ends the job because another PE of this node does not take its messages: `bytes` bytes of
    /// messages wait, most of them for the members of the types in `fullest`.
    pub(crate) fn fail_full(&mut self, pe: PeId, bytes: usize, fullest: &[(KindId, usize)]) {
        self.core.fail_full(pe, bytes, fullest);
    }

    /// Ends the job with an error, such as a panic.
    pub fn fail(&mut self, error: JobError) {
        self.core.fail(error);
    }

    /// Returns the error after a panic with this message: names the actor type whose handler ran,
    /// or whose state was being encoded.
    pub fn panicked(&self, message: &str) -> JobError {
        let Core { running, encoding, .. } = self.core;
        let kind = encoding.or(running).and_then(|kind| self.core.common.kind(kind));
        let actor = kind.map_or("the runtime", |kind| kind.name()).to_owned();
        let reason = match encoding {
            Some(_) => format!("while a state was encoded for a checkpoint: {message}"),
            None => message.to_owned(),
        };
        JobError::Panicked { actor, pe: self.id(), place: self.core.place_name(), reason }
    }

    /// Carries out the requests of actors about themselves. Ends come first: a partner that
    /// migrates would otherwise take a member along that has requested its end.
    fn grant_requests(&mut self) {
        while !self.core.requests.is_empty() {
            let requests = std::mem::take(&mut self.core.requests);
            let is_end = |request: &Request| request.wish == Wish::Destroy;
            let (ends, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_end);
            for Request { id, wish } in ends.into_iter().chain(others) {
                // An earlier request may have removed the actor.
                let Some(slot) = self.core.resident(id) else { continue };
                match wish {
                    Wish::Migrate(to) => self.migrate(slot, to),
                    Wish::Destroy => self.destroy(id),
                    Wish::Resume => self.resume_one(slot),
                }
            }
        }
    }

    fn migrate(&mut self, slot: (KindId, u32), to: PeId) {
        self.core.forget_wish(slot);
        if to == self.core.me || !self.core.may_leave(slot, to) {
            return;
        }
        migrate::depart(&mut self.core, &mut self.stores, slot, to, None);
    }

    /// Destroys a member, and those that are bound to it.
    fn destroy(&mut self, id: ActorId) {
        for id in self.core.ending_with(id) {
            if let Some((kind, slot)) = self.core.resident(id) {
                let store = &mut self.stores[kind.index()];
                store.prepare_change(&mut self.core, slot);
                store.remove(slot);
                self.core.remove_member(id, kind, slot);
            }
        }
    }
}
