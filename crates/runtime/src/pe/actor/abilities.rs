//! What an actor can do while it handles a message.

use crate::address::id::{ActorId, CollectionId, Phase, Sender, Timer};
use crate::address::index::{ActorIndex, Ix1};
use crate::error::{AskError, JobError};
use crate::message::PhaseCounts;
use crate::pe::actor::options::{BroadcastOptions, SendOptions};
use crate::pe::actor::reference::{ActorRef, CollectionRef, Reply, SectionRef};
use crate::pe::actor::to::To;
use crate::pe::{Request, Wish};
use crate::reduce::{Op, Reducible};
use crate::{Actor, Context, Published};
use gridspan_topology::{Layout, NodeId, PeId, SiteId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

impl<A: Actor> Context<'_, A> {
    #[inline]
    fn id(&self) -> ActorId {
        self.core.id_in(self.slot)
    }

    #[inline]
    fn sender(&self) -> Sender {
        Sender::Actor(self.slot)
    }

    /// This actor's index.
    pub fn index(&self) -> A::Index {
        A::Index::from_key(self.id().key)
    }

    /// A reference to this actor.
    pub fn me(&self) -> ActorRef<A> {
        ActorRef::new(self.id())
    }

    /// The collection that this actor belongs to.
    pub fn collection(&self) -> CollectionRef<A> {
        CollectionRef::new(self.id().collection)
    }

    /// The PE on which the actor currently lives.
    pub fn pe(&self) -> PeId {
        self.core.me
    }

    /// The node on which the actor currently lives.
    pub fn node(&self) -> NodeId {
        self.layout().node_of(self.pe())
    }

    /// The site at which the actor currently lives.
    pub fn site(&self) -> SiteId {
        self.layout().site_of(self.pe())
    }

    /// Whether an actor lives on this actor's PE at present. Members that are bound to each other
    /// always do; see [`Grid::create_bound`](crate::Grid::create_bound).
    pub fn is_here<B: Actor>(&self, actor: &ActorRef<B>) -> bool {
        self.core.resident(actor.id).is_some()
    }

    /// The member on this actor's PE of a group that has one member per PE.
    pub fn on_this_pe<B: Actor<Index = Ix1>>(&self, group: &CollectionRef<B>) -> ActorRef<B> {
        group.at(Ix1(self.pe().0 as i32))
    }

    /// The member on this actor's node of a group that has one member per node.
    pub fn on_this_node<B: Actor<Index = Ix1>>(&self, group: &CollectionRef<B>) -> ActorRef<B> {
        group.at(Ix1(self.node().0 as i32))
    }

    /// The sites, nodes and PEs of the job.
    pub fn layout(&self) -> &Layout {
        &self.core.common.layout
    }

    /// The time since the job began, taken at the beginning of the PE's turn.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// Sends a message. Messages from one actor to another keep their order within one priority.
    #[inline]
    pub fn send<B: Actor>(&mut self, to: &ActorRef<B>, message: B::Message) {
        let sender = self.sender();
        self.core.send::<B>(sender, to.id, 0, message);
    }

    /// Sends a message with a [`Priority`](crate::Priority), or one that belongs to a
    /// [step](crate::InStep) of the job.
    #[inline]
    pub fn send_with<B: Actor>(
        &mut self,
        options: impl Into<SendOptions>,
        to: &ActorRef<B>,
        message: B::Message,
    ) {
        let sender = self.sender();
        self.core.send::<B>(sender, to.id, options.into().priority, message);
    }

    /// Sends a message to an actor after a delay. Until then the job is not quiescent.
    pub fn send_after<B: Actor>(
        &mut self,
        delay: Duration,
        to: &ActorRef<B>,
        message: B::Message,
    ) -> Timer {
        if self.core.breaks_promise(self.slot.kind, "set timers") {
            return Timer { pe: self.core.me, at: self.core.now, number: u64::MAX };
        }
        self.core.send_after::<B>(delay, to.id, message)
    }

    /// Cancels a delayed message. A message that has already been sent is not recalled. If the
    /// timer was set on another PE, the message may be sent before the cancellation arrives there.
    pub fn cancel(&mut self, timer: Timer) {
        self.core.cancel_timer(timer);
    }

    /// Sends this actor a message once the job is quiescent: no other message is in flight, queued
    /// or being handled.
    pub fn when_quiescent(&mut self, message: A::Message) {
        if self.core.breaks_promise(self.slot.kind, "wait for quiescence") {
            return;
        }
        let me = self.id();
        self.core.when_quiescent::<A>(me, message);
    }

    /// Counts items of a phase that this actor has produced, for example messages that it has sent.
    /// The receiver of an item [consumes](Self::consume) it. An actor that produces items while it
    /// consumes one counts them first.
    pub fn produce(&mut self, phase: Phase, items: u64) {
        let counts = PhaseCounts { produced: items, ..PhaseCounts::default() };
        self.core.count_in_phase(self.slot, phase, counts);
    }

    /// Counts items of a phase that this actor has consumed.
    pub fn consume(&mut self, phase: Phase, items: u64) {
        let counts = PhaseCounts { consumed: items, ..PhaseCounts::default() };
        self.core.count_in_phase(self.slot, phase, counts);
    }

    /// Announces that one of the phase's producers has produced its items. Each producer does this
    /// once: the runtime counts only the calls, so a second one would count for another producer.
    pub fn producer_done(&mut self, phase: Phase) {
        let counts = PhaseCounts { done: 1, ..PhaseCounts::default() };
        self.core.count_in_phase(self.slot, phase, counts);
    }

    /// Sends a message to all members of a section. The message crosses each link between sites,
    /// and each link to a node, once. If the section is [across](SectionRef::across) several
    /// collections, it crosses each link once per collection. It keeps its order with other
    /// messages of its priority from this actor to the same members.
    pub fn multicast<B: Actor>(&mut self, section: &SectionRef<B>, message: B::Message) {
        self.multicast_with(SendOptions::default(), section, message);
    }

    /// Sends a message to all members of a section, with the options of
    /// [`send_with`](Self::send_with).
    pub fn multicast_with<B: Actor>(
        &mut self,
        options: impl Into<SendOptions>,
        section: &SectionRef<B>,
        message: B::Message,
    ) {
        let sender = self.sender();
        self.core.multicast::<B>(sender, section, options.into().priority, message);
    }

    /// Sends a message to all members of a collection. All members handle the broadcasts of a
    /// collection in the same order. A broadcast also keeps its order with other messages of its
    /// priority from this actor to the same member. An inserted member does not receive broadcasts
    /// older than itself. A message that an actor sent to this member before such an older
    /// broadcast has no order with the broadcasts that the member does receive.
    pub fn broadcast<B: Actor>(&mut self, collection: &CollectionRef<B>, message: B::Message) {
        self.broadcast_with(BroadcastOptions::default(), collection, message);
    }

    /// Sends a message to all members of a collection, with a [`Priority`](crate::Priority),
    /// [`Unordered`](crate::Unordered), or both.
    pub fn broadcast_with<B: Actor>(
        &mut self,
        options: impl Into<BroadcastOptions>,
        collection: &CollectionRef<B>,
        message: B::Message,
    ) {
        let sender = self.sender();
        self.core.broadcast_with::<B>(sender, collection.id, options.into(), message);
    }

    /// Asks an actor a question: `question` makes the message, and puts the [`Reply`] into it.
    /// `answered` turns the answer, or an error such as a time-out, into a message to this actor,
    /// wherever it lives by then. No checkpoint is made until then, since none could contain
    /// `answered`; see [`ask_tagged`](Self::ask_tagged).
    pub fn ask<B: Actor, T: DeserializeOwned + Send + 'static>(
        &mut self,
        to: &ActorRef<B>,
        timeout: Duration,
        question: impl FnOnce(Reply<T>) -> B::Message,
        answered: impl FnOnce(Result<T, AskError>) -> A::Message + Send + 'static,
    ) {
        if self.core.breaks_promise(self.slot.kind, "ask others") {
            return;
        }
        let (me, kind) = (self.id(), self.slot.kind);
        let reply = self.core.expect_reply_for_actor((me, to.id), timeout, move |core, answer| {
            // The error after a panic names the type.
            core.running = Some(kind);
            let message = answered(answer);
            core.running = None;
            core.send::<A>(Sender::Pe, me, 0, message);
        });
        self.send(to, question(reply));
    }

    /// Asks an actor a question, as [`ask`](Self::ask) does. [`Actor::answered`] turns the answer,
    /// or an error such as a time-out, into a message to this actor. It gets `tag`, to tell
    /// questions apart; keep other data for the answer in the state of the actor. A checkpoint
    /// contains the question. If the job continues from the checkpoint, on any number of PEs, the
    /// answer arrives once, within the part of `timeout` that was left at the checkpoint.
    ///
    /// See [`TaggedAnswer`](crate::TaggedAnswer) for an example.
    pub fn ask_tagged<B: Actor, T: DeserializeOwned + Send + 'static>(
        &mut self,
        to: &ActorRef<B>,
        timeout: Duration,
        tag: u64,
        question: impl FnOnce(Reply<T>) -> B::Message,
    ) {
        if self.core.breaks_promise(self.slot.kind, "ask others") {
            return;
        }
        let me = (self.id(), self.slot.kind);
        let reply = self.core.expect_tagged_reply(me, (to.id, tag), timeout);
        self.send(to, question(reply));
    }

    /// Answers a question.
    pub fn reply<T: Serialize + Send + 'static>(&mut self, reply: Reply<T>, answer: T) {
        if !self.core.is_secondary(self.sender()) {
            self.core.answer(reply, answer);
        }
    }

    /// Contributes to a reduction over this actor's collection. The n-th contributions of all
    /// members form the n-th reduction; they must agree in `op` and `to`.
    pub fn contribute(&mut self, op: impl Into<Op>, value: impl Reducible, to: To) {
        self.core.contribute(self.slot, op.into(), value.into_value(), to.0);
    }

    /// Contributes to a reduction over a section. Ends the job if this actor is not a member of the
    /// section.
    pub fn contribute_to_section(
        &mut self,
        section: &SectionRef<A>,
        op: impl Into<Op>,
        value: impl Reducible,
        to: To,
    ) {
        let (op, value) = (op.into(), value.into_value());
        self.core.contribute_to_section(self.slot, section, op, value, to.0);
    }

    /// Reaches a sync point. Once all members have reached it, the job's strategy may move actors
    /// of all collections. [`Actor::resume`] is called when this actor may continue, at the
    /// earliest after this handler has returned.
    ///
    /// A sync point is not a barrier; for a barrier, contribute to a reduction. Messages are
    /// handled as usual at all times. Without a strategy no member waits. With one, a sync point is
    /// settled once all members have reached it and the moves after it are known. Members wait
    /// until the collection's first sync point is settled, so that a bad placement is corrected
    /// early. Later a member waits only while it is more than three sync points ahead of the last
    /// settled one.
    pub fn at_sync(&mut self) {
        if !self.core.breaks_promise(self.slot.kind, "wait at a sync point") {
            self.core.reach_sync(self.slot);
        }
    }

    /// Moves this actor to another PE once the handler has returned, together with the members that
    /// are [bound](crate::Grid::create_bound) to it or to the same member. If a rebalance is under
    /// way, the move waits for its end, and the rebalance moves the actor to no other PE. The last
    /// request counts: it replaces one that waits, and a request for the PE where the actor lives
    /// withdraws it. The job ends with an error if there is no such PE, or if the actor is a member
    /// of a group.
    pub fn migrate_to(&mut self, pe: PeId) {
        let id = self.id();
        self.core.request(Request { id, wish: Wish::Migrate(pe) });
    }

    /// Ends this actor once the handler has returned, and the members that are
    /// [bound](crate::Grid::create_bound) to it. Messages that arrive for them later are dropped,
    /// or create new members if the job creates members [on demand](crate::Job::on_demand).
    pub fn destroy(&mut self) {
        if self.core.breaks_promise(self.slot.kind, "destroy itself") {
            return;
        }
        let id = self.id();
        self.core.request(Request { id, wish: Wish::Destroy });
    }

    /// Adds a member to a collection, on this PE or, in a [bound](crate::Grid::create_bound)
    /// collection, on the PE of its partner.
    ///
    /// The member takes part in broadcasts that begin later on this node, and in broadcasts of
    /// other nodes that the coordinator orders after the insertion. It takes part in reductions
    /// from the first incomplete one on: so insert while no reduction is under way, or let the new
    /// member contribute. A sync point under way does not wait for the member, unless it is the
    /// first of the collection. Messages can be sent to the member at once; but if a member of this
    /// index was destroyed before, messages that arrive before the insertion are dropped. Ends the
    /// job if the members of the collection are created [on demand](crate::Job::on_demand).
    pub fn insert<B: Actor>(&mut self, at: &ActorRef<B>, init: B::Init) {
        let pe = self.core.me;
        self.insert_on(at, init, pe);
    }

    /// Adds a member to a collection like [`insert`](Self::insert), but on a given PE. In a
    /// [bound](crate::Grid::create_bound) collection, the PE of its partner takes precedence.
    ///
    /// The job ends with an error if there is no such PE, or if the collection has a member of this
    /// index.
    pub fn insert_on<B: Actor>(&mut self, at: &ActorRef<B>, init: B::Init, pe: PeId) {
        if !self.core.breaks_promise(self.slot.kind, "insert members") {
            self.core.insert::<B>(at.id, init, pe);
        }
    }

    /// The collection with this identity, which must hold actors of type `B`.
    pub fn collection_of<B: Actor>(&self, id: CollectionId) -> CollectionRef<B> {
        CollectionRef::new(id)
    }

    /// Returns read-only data that main has published. It is decoded once per PE. If there is no
    /// such publication, which cannot happen with a reference from main, ends the job and returns
    /// `None`.
    pub fn read<T: DeserializeOwned + Send + Sync + 'static>(
        &mut self,
        published: &Published<T>,
    ) -> Option<Arc<T>> {
        match self.core.read(published.id) {
            Ok(value) => Some(value),
            Err(error) => {
                self.core.fail(error);
                None
            }
        }
    }

    /// Returns the [resource](crate::Job::resource) of this type on the node where this actor
    /// lives, if the job has one.
    pub fn resource<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.core.common.resources.get()
    }

    /// Charges compute time to this actor. In virtual time, the handler takes as long as it charges
    /// in total, scaled by the speed of the PE, or the default cost of a message if it charges
    /// nothing. Charged time counts as load when actors are balanced. In real time, handlers are
    /// timed instead.
    pub fn charge(&mut self, time: Duration) {
        self.core.charge(self.slot, time);
    }

    /// Counts one unit of work of an actor whose type [counts it](Actor::COUNTS_WORK), such as a
    /// step. Units should take about the same time.
    pub fn count_work(&mut self) {
        self.core.count_work(self.slot);
    }

    /// Ends the turn of the PE after this handler, so that the messages that it has sent leave
    /// before the PE handles others. Otherwise they leave once the turn has lasted for 0.2 ms, once
    /// a handler has taken long, or once no message waits. Use it if the actor continues its work
    /// with a message to itself. In virtual time each message is a turn.
    pub fn end_turn(&mut self) {
        self.core.turn_is_over = true;
    }

    /// Ends the job with an error.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.core.fail(JobError::Failed(reason.into()));
    }
}
