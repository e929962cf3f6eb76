//! The PE machine: one processing element as a state machine that shares nothing.
//!
//! A driver feeds it [`Packet`]s and the time, lets it [`run`](Pe::run) messages, and sends what it
//! finds in the [`Outbox`]. The machine itself reads no clock, opens no socket and awaits nothing,
//! so that the same code runs under threads, over the network, and in virtual time.
//!
//! - [`channel`](self) and `directory`: order between pairs of actors; where actors live.
//! - `send`: the way of a message. `migrate`: the way of an actor.
//! - `collective`: collections, broadcasts, reductions, quiescence, sync points.

mod channel;
mod collective;
mod core;
mod directory;
mod graves;
mod lifecycle;
mod local;
mod migrate;
mod outbox;
mod published;
mod queue;
mod send;
mod standing;
mod store;
mod timers;
mod waits;

pub use self::core::Core;
use self::core::Early;
pub(crate) use self::core::{Common, NewMembers};
pub use outbox::Outbox;
pub(crate) use queue::{Queue, TypedQueue};
pub use standing::Standing;
pub(crate) use store::{Request, Store, TypedStore, Wish};

use crate::error::JobError;
use crate::id::KindId;
use crate::id::{ActorId, CollectionId};
use crate::parcel::Parcel;
use crate::wire::{Content, Control, Insertion, MemberRecord, Packet, PlanEntry};
use gridspan_topology::{PeId, Time};
use migrate::Tentatives;
use std::time::Duration;

/// How often a message is forwarded before it goes by way of its receiver's home. Forwarding follows
/// ever newer knowledge, so that longer chains mean an actor that moves faster than its messages.
const HOPS_MAX: u8 = 8;
/// How long messages wait for a member that nobody knows, in case its insertion is still on its way.
/// Longer than any detour over a wide-area link that is not considered lost.
const UNKNOWN_MEMBER_HOLD: Duration = Duration::from_secs(5);
/// How long contributions wait for others, if fewer come than last time. Short against a wide-area
/// crossing, long against the handling of a message.
const REDUCTION_HOLD: Duration = Duration::from_millis(1);
/// The pause between two rounds of questions while messages are still on their way: this share of
/// the time waited so far, so that waiting is noticed at most that much later than it could be and
/// long waits cost few messages.
const QUIESCENCE_PAUSE_SHARE: u32 = 16;
/// The shortest such pause.
const QUIESCENCE_PAUSE_MIN: Duration = Duration::from_micros(500);
/// The longest such pause.
const QUIESCENCE_PAUSE_MAX: Duration = Duration::from_millis(100);
/// The largest actor that may migrate, state and mailbox together; bounds what a PE has to hold
/// aside for one offer.
const MIGRATION_BYTES_MAX: usize = 1 << 30;

/// Bugs on purpose, which a fault campaign has to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlantedFault {
    /// None.
    #[default]
    None,
    /// Messages are handled as they come, in any order, and again if they come again.
    HoldSkipped,
    /// Knowledge about places is replaced by older knowledge.
    EpochIgnored,
}

/// Counts of what a PE did, for reports and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages handled.
    pub handled: u64,
    /// Messages that came to a PE that their receiver had left.
    pub forwarded: u64,
    /// Actors that have left.
    pub migrations: u64,
    /// Messages that came twice and were dropped.
    pub repeated: u64,
    /// Messages to members that do not exist.
    pub dead_letters: u64,
    /// Answers that came after their time-out.
    pub late_answers: u64,
}

impl std::ops::AddAssign for Statistics {
    fn add_assign(&mut self, other: Self) {
        self.handled += other.handled;
        self.forwarded += other.forwarded;
        self.migrations += other.migrations;
        self.repeated += other.repeated;
        self.dead_letters += other.dead_letters;
        self.late_answers += other.late_answers;
    }
}

/// One processing element.
pub struct Pe {
    core: Core,
    stores: Vec<Box<dyn Store>>,
    tentatives: Tentatives,
}

impl Pe {
    pub(crate) fn new(me: PeId, common: Common) -> Self {
        let stores = common.kinds.iter().map(|kind| kind.new_store()).collect();
        Self { core: Core::new(me, common), stores, tentatives: Tentatives::new() }
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
        match packet.0 {
            Content::Batch(batch) => batch.deliver(&mut self.core),
            Content::Encoded(batch) => {
                let result = match self.core.kind(batch.kind) {
                    Some(kind) => kind.deliver(&mut self.core, &batch),
                    None => Err(crate::codec::DecodeError::new("a frame", "unknown actor type")),
                };
                if let Err(error) = result {
                    self.core.fail(JobError::Protocol(format!("from {from}: {error}")));
                }
            }
            Content::Control(control) => self.handle_control(from, *control),
            Content::Main(action) => action(&mut self.core),
        }
        self.grant_requests();
    }

    /// Handles up to `budget` ready messages. Returns how many.
    pub fn run(&mut self, budget: u32) -> u32 {
        let mut handled = 0;
        while handled < budget {
            let Some((priority, kind)) = self.core.lanes.peek() else { break };
            let store = &mut self.stores[kind.index()];
            let step = store.dispatch(&mut self.core, priority, budget - handled);
            handled += step;
            if !self.core.requests.is_empty() {
                self.grant_requests();
            } else if step == 0 {
                break;
            }
        }
        self.core.statistics.handled += u64::from(handled);
        handled
    }

    /// Fires due timers and passes on what has waited long enough. Call it at the end of each turn,
    /// before sending what is in the [`outbox`](Self::outbox).
    pub fn finish_turn(&mut self) {
        while let Some(action) = self.core.timers.take_due(self.core.now) {
            action(&mut self.core);
            self.grant_requests();
        }
        self.core.expire_accumulators();
        if !self.core.awaiting.is_empty() {
            self.core.expire_awaiting();
        }
        // Contributions that wait here lead to a message sooner or later, so the PE is not idle.
        if !self.core.waves_pending.is_empty()
            && self.core.lanes.is_empty()
            && self.core.next_accumulator().is_none()
        {
            self.core.answer_waves();
        }
        self.core.check_budget();
    }

    /// When [`finish_turn`](Self::finish_turn) has something to do even if nothing arrives.
    pub fn next_wakeup(&self) -> Option<Time> {
        let held = self.core.awaiting.values().map(|held| held.deadline).min();
        [self.core.timers.next(), self.core.next_accumulator(), held].into_iter().flatten().min()
    }

    /// Tells how many bytes wait outside of the machine, for the memory budget.
    pub fn set_waiting_bytes(&mut self, bytes: usize) {
        self.core.waiting_bytes = bytes;
    }

    /// Tells the root which job this node runs, so that different programs do not mix.
    pub(crate) fn greet(&mut self) {
        let fingerprint = self.core.common.fingerprint;
        self.core.post(Core::ROOT, Control::Greet { fingerprint });
    }

    /// Whether messages are ready.
    pub fn has_work(&self) -> bool {
        !self.core.lanes.is_empty()
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
        let kind = self.core.running.and_then(|(kind, _)| self.core.kind(kind));
        (kind.map_or("the runtime", |kind| kind.name()), self.core.place_name())
    }

    fn handle_control(&mut self, from: PeId, control: Control) {
        if let Some(collection) = control.needs_collection()
            && self.core.collections.get(collection).is_none()
        {
            let early = self.core.early.entry(collection).or_default();
            return early.push(Early::Control(from, Box::new(control)));
        }
        if control.is_counted() {
            self.core.processed += 1;
        }
        let core = &mut self.core;
        match control {
            Control::Create { info, inits } => {
                let (collection, kind) = (info.id, info.kind);
                core.enter_collection(info);
                self.create(kind, NewMembers::first(collection), inits);
                self.core.post(Core::ROOT, Control::Created { collection });
                for early in self.core.early.remove(&collection).unwrap_or_default() {
                    match early {
                        Early::Message(kind, envelope) => envelope.arrive(kind, &mut self.core),
                        Early::Control(from, control) => self.handle_control(from, *control),
                    }
                }
            }
            Control::Created { collection } => core.handle_created(collection),
            Control::InsertRequest { id, init, at } => core.handle_insert_request(id, init, at),
            Control::Insert(insertion) => self.insert(insertion),
            Control::Inserted { id } => core.handle_inserted(id),
            Control::Destroyed { id, reductions, syncs } => {
                core.handle_destroyed(id, reductions, syncs);
            }
            Control::Buried(buried) => core.handle_buried(&buried),
            Control::Location { id, pe, epoch, gone } => {
                core.learn(id, directory::Place { pe, epoch, gone });
            }
            Control::Multicast(multicast) => core.handle_multicast(multicast),
            Control::BroadcastRequest { kind, collection, source, sequence, message, priority } => {
                core.handle_broadcast_request(
                    collection,
                    source,
                    sequence,
                    (kind, message, priority),
                );
            }
            Control::Broadcast { kind, collection, number, message, priority } => {
                core.handle_broadcast(kind, collection, number, message, priority);
            }
            Control::Contribution(contribution) => core.merge(contribution),
            Control::Reply { slot, answer } => core.handle_reply(slot, answer),
            Control::Wave { wave } => {
                core.waves_pending.insert(wave);
            }
            Control::WaveReply { wave, created, processed } => {
                core.handle_wave_reply(wave, created, processed);
            }
            Control::Publish { id, value } => core.handle_publish(id, value),
            Control::Published { id } => core.handle_published(id),
            Control::Greet { fingerprint } => core.handle_greet(from, fingerprint),
            Control::Failed { error } => core.stop(Err(error)),
            Control::Stop { outcome } => core.handle_stop(outcome),
            control => self.handle_movement(from, control),
        }
    }

    fn handle_movement(&mut self, from: PeId, control: Control) {
        let Self { core, stores, tentatives } = self;
        match control {
            Control::MigrateOffer(migrant) => {
                migrate::handle_offer(core, stores, tentatives, from, *migrant);
            }
            Control::MigrateAccept { id, epoch, broadcasts } => {
                migrate::handle_accept(core, stores, id, epoch, broadcasts);
            }
            Control::MigrateRefuse { id, epoch, reason } => {
                migrate::handle_refuse(core, stores, id, epoch, &reason);
            }
            Control::MigrateCommit { id, .. } => {
                migrate::handle_commit(core, stores, tentatives, id);
            }
            Control::Measure { collection, syncs } => core.handle_measure(collection, syncs),
            Control::Loads { collection, actors } => core.handle_loads(collection, actors),
            Control::Plan { collection, moves } => {
                let mine = core.learn_plan(collection, moves);
                self.carry_out(collection, &mine);
            }
            Control::PlanDone { collection } => core.handle_plan_done(collection),
            Control::Resume { collection, syncs } => self.resume(collection, syncs),
            _ => {}
        }
    }

    fn create(&mut self, kind: KindId, new: NewMembers, inits: Parcel) {
        let result = match self.stores.get_mut(kind.index()) {
            Some(store) => store.create(&mut self.core, new, inits),
            None => Err(JobError::Protocol("a collection of an unknown actor type".to_owned())),
        };
        if let Err(error) = result {
            self.core.fail(error);
        }
    }

    /// Makes a new member, or sends it on its way.
    fn insert(&mut self, mut insertion: Box<Insertion>) {
        let core = &mut self.core;
        if core.home(insertion.id) == Some(core.me) {
            match core.prepare_insertion(insertion) {
                Some(ready) => insertion = ready,
                None => return,
            }
        }
        let Insertion { id, init, epoch, record, held, .. } = *insertion;
        let collection = id.collection;
        let Some(kind) = core.collections.get(collection).map(|local| local.info.kind) else {
            return;
        };
        let channels = match migrate::channels(core, kind, &record, &held) {
            Ok(channels) => channels,
            Err(error) => return core.fail(JobError::Protocol(error.to_string())),
        };
        let MemberRecord { reductions, broadcasts, syncs, .. } = record;
        let new = NewMembers { collection, epoch, reductions, broadcasts, syncs, channels };
        self.create(kind, new, init);
        self.core.post(Core::ROOT, Control::Inserted { id });
    }

    /// Moves the actors that a plan moves away from here.
    fn carry_out(&mut self, collection: CollectionId, moves: &[PlanEntry]) {
        let mut begun = false;
        for entry in moves {
            match self.core.resident(entry.id) {
                Some(seat) => {
                    migrate::depart(
                        &mut self.core,
                        &mut self.stores,
                        seat,
                        entry.to,
                        Some(collection),
                    );
                    begun = true;
                }
                None => self.core.correct_plan(entry),
            }
        }
        if !begun {
            self.core.post(Core::ROOT, Control::PlanDone { collection });
        }
    }

    /// Lets the members that wait at their sync point go on.
    fn resume(&mut self, collection: CollectionId, syncs: u64) {
        for child in self.core.tree_children() {
            self.core.post(child, Control::Resume { collection, syncs });
        }
        let Some((kind, slots)) = self.core.take_synced(collection, syncs) else { return };
        for slot in slots {
            self.stores[kind.index()].resume(&mut self.core, slot);
            self.grant_requests();
        }
        for (id, to) in self.core.take_deferred() {
            if let Some((kind, slot)) = self.core.resident(id) {
                self.migrate((kind, slot), to);
            }
        }
    }

    /// Does what handlers asked for their own actors.
    fn grant_requests(&mut self) {
        while !self.core.requests.is_empty() {
            let requests = std::mem::take(&mut self.core.requests);
            for &Request { id, wish } in &requests {
                // The actor may have asked for something else before.
                let Some(seat) = self.core.resident(id) else { continue };
                let dying = Request { id, wish: Wish::Destroy };
                match wish {
                    Wish::Migrate(_) if requests.contains(&dying) => {}
                    Wish::Migrate(to) => self.migrate(seat, to),
                    Wish::Destroy => self.destroy(id, seat),
                }
            }
        }
    }

    fn migrate(&mut self, seat: (KindId, u32), to: PeId) {
        if to == self.core.me || !self.core.may_leave(seat, to) {
            return;
        }
        migrate::depart(&mut self.core, &mut self.stores, seat, to, None);
    }

    fn destroy(&mut self, id: ActorId, (kind, slot): (KindId, u32)) {
        self.stores[kind.index()].remove(slot);
        self.core.unseat(id, kind, slot);
    }
}
