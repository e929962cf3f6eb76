//! How a PE handles each kind of control packet. It ignores packets for the coordinator.

use super::delivery::{Accounted, Early, Place};
use super::insertion::{create_inserted, create_members};
use super::replicas::Then;
use super::{Pe, migrate, partners, replicas};
use crate::address::collection::PlanEntry;
use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId, RebalanceId};
use crate::error::JobError;
use crate::message::{Accepted, BroadcastOrder, Control, Insertion};
use crate::pe::collective::collections::Incomplete;
use crate::pe::members::member::NewMembers;
use gridspan_topology::PeId;
use std::time::Duration;

impl Pe {
    pub(super) fn handle_control(&mut self, from: PeId, control: Control) {
        let is_missing = |collection| self.core.collections.get(collection).is_none();
        if let Some(collection) = control.missing_collection(is_missing) {
            if self.core.is_worker_message_of_guest(from, &control) {
                let reason = format_args!(
                    "a worker message for collection {}, which is not known",
                    collection.0
                );
                return self.core.blame(self.core.common.node_of(from), reason);
            }
            let bytes = size_of::<Control>() + control.bytes();
            let control = self.core.delivery.budget.keep(Box::new(control), bytes);
            return self.core.hold_early(collection, Early::Control(from, control));
        }
        if control.is_counted() {
            self.core.processed += 1;
            self.core.note_busy(Duration::ZERO);
        }
        let core = &mut self.core;
        match control {
            Control::CreatePart { collection, inits } => {
                let inits = core.keep_inits(inits);
                core.parts.entry(collection).or_default().parts.push(inits);
                self.create_if_complete(collection);
            }
            Control::Create { info, inits, more } => {
                let (collection, inits) = (info.id, core.keep_inits(inits));
                let incomplete = core.parts.entry(collection).or_default();
                incomplete.info = Some((info, more));
                incomplete.parts.push(inits);
                self.create_if_complete(collection);
            }
            Control::Insert(insertion) if core.is_bound(insertion.id.collection) => {
                partners::insert(core, &mut self.stores, insertion);
            }
            Control::Insert(insertion) => self.insert(insertion),
            Control::Follow(follower) => partners::follow(core, &mut self.stores, follower),
            Control::Tombstone(tombstone) => core.handle_tombstone(&tombstone),
            Control::Location { id, pe, epoch, gone, replica } => {
                core.learn(id, Place { pe, epoch, gone, replica });
            }
            Control::Multicast(multicast) => core.handle_multicast(multicast),
            Control::Broadcast { kind, collection, order, asked, message, priority } => {
                let (of, broadcast) = ((kind, collection), (asked, message, priority));
                match order {
                    BroadcastOrder::Total(number) => core.handle_broadcast(of, number, broadcast),
                    BroadcastOrder::TotalApart => core.handle_direct(of, broadcast),
                    BroadcastOrder::Fifo(number) => core.handle_unordered(of, number, broadcast),
                }
            }
            Control::Sequencer { collection, news } => core.handle_sequencer(collection, news),
            Control::BroadcastNumber { collection, number, source, count } => {
                core.handle_number(collection, number, (source, count));
            }
            Control::OwnPlan(news) => core.handle_own_plan(news),
            Control::Contribution(contribution) => core.merge(contribution),
            Control::Result { kind, to, number, message } => {
                core.send_result(kind, (to, number), message);
            }
            Control::Reply { slot, answer } => core.handle_reply(slot, answer),
            Control::RestoredReply { asked, answer } => core.handle_restored_reply(asked, answer),
            Control::CancelTimer(timer) => core.cancel_timer(timer),
            Control::QuiescenceRound { round } => {
                core.rounds_pending.insert(round);
            }
            Control::PhaseRound { phase, round } => core.answer_phase_round(phase, round),
            Control::PhaseOver { phase } => core.end_phase(phase),
            Control::DropStranded => core.drop_stranded(),
            Control::Publish { id, value } => core.handle_publish(id, value),
            Control::Probe(order) => core.handle_probe(order),
            Control::ProgressProbe { number } => core.handle_progress_probe(number),
            Control::CoordinatorAt(place) => core.coordinator_at(from, place),
            Control::UpTree { plan, tree } => core.handle_up_tree(plan, tree),
            Control::Hierarchy(hierarchy) => core.handle_hierarchy(from, *hierarchy),
            Control::Membership(message) => core.handle_membership(from, message),
            Control::WorkerMessage { collection, message } => {
                core.handle_worker_message(from, collection, message)
            }
            Control::Piece(piece) => {
                match core.pieces.take(from, piece, core.common.limits.hard_bytes) {
                    Ok(Some(control)) => self.handle_control(from, control),
                    Ok(None) => {}
                    Err(error) => core.fail(JobError::Protocol(format!("{from}: {error}"))),
                }
            }
            Control::Checkpoint(message) => self.handle_checkpoint(from, *message),
            Control::Look { round } => core.handle_look(round),
            Control::Diagnose { round, about } => core.handle_diagnose(round, about),
            Control::Stop { outcome } => core.handle_stop(outcome),
            control => self.handle_movement(from, control),
        }
    }

    fn handle_movement(&mut self, from: PeId, control: Control) {
        let Self { core, stores, tentatives } = self;
        match control {
            Control::MigrateOffer(migrant) => {
                migrate::handle_offer(core, stores, tentatives, from, vec![*migrant]);
            }
            Control::OfferPartners(migrants) => {
                migrate::handle_offer(core, stores, tentatives, from, migrants);
            }
            Control::MigrateAccept { id, epoch, broadcasts, streams } => {
                let accepted = Accepted { id, epoch, broadcasts, streams };
                migrate::handle_accept(core, stores, vec![accepted]);
            }
            Control::AcceptPartners(accepted) => {
                migrate::handle_accept(core, stores, accepted);
            }
            Control::MigrateRefuse { id, reason, .. } => {
                migrate::handle_refuse(core, stores, id, &reason);
            }
            Control::MigrateCommit { id, plan, .. } => {
                migrate::handle_commit(core, stores, tentatives, id);
                core.note_moved(plan, true);
            }
            Control::Measure { rebalance, led } => core.handle_measure(rebalance, led, stores),
            Control::Loads(loads) => {
                if let Some(number) = loads.led {
                    core.gather(from, number, *loads);
                }
            }
            Control::Lead { number, note, .. } => core.handle_lead(from, number, *note),
            Control::Settle { number, rebalance, is_passed, uses_steps } => {
                core.handle_settle(number, rebalance, is_passed, uses_steps);
            }
            Control::PlanPart { rebalance, moves } | Control::Plan { rebalance, moves } => {
                let mine = core.learn_moves(moves);
                self.carry_out(rebalance, &mine);
            }
            Control::Replica(edge) => {
                for (id, then) in replicas::handle(core, stores, from, *edge) {
                    self.go_on(id, then);
                }
            }
            Control::Replicas { rebalance, begin, end } => {
                core.end_replicas(rebalance, &end);
                for order in begin {
                    replicas::begin(core, stores, order, Some(rebalance));
                }
            }
            Control::Borders { hops } => core.handle_borders(hops),
            Control::Rebalanced { rebalance } => self.end_rebalance(rebalance),
            Control::SettleSyncs { collection, syncs } => self.settle_syncs(collection, syncs),
            _ => {}
        }
    }

    /// Registers a collection and creates its first members, once all of them have arrived.
    fn create_if_complete(&mut self, collection: CollectionId) {
        let all = &mut self.core.parts;
        if !all.get(&collection).is_some_and(Incomplete::is_complete) {
            return;
        }
        let Some(Incomplete { info: Some((info, _)), parts }) = all.remove(&collection) else {
            return;
        };
        let kind = info.kind;
        if !self.core.enter_collection(info) {
            return;
        }
        let (core, stores) = (&mut self.core, &mut self.stores);
        for inits in parts.into_iter().map(Accounted::into_inner) {
            match core.is_bound(collection) {
                false => create_members(core, stores, kind, NewMembers::first(collection), inits),
                true => partners::create_first(core, stores, (kind, collection), inits),
            }
        }
        self.core.post(COORDINATOR, Control::Created { collection });
        for early in self.core.delivery.take_early(collection) {
            match early {
                Early::Message(kind, envelope) => {
                    self.core.arrive_any(kind, envelope.into_inner());
                }
                Early::Control(from, control) => self.handle_control(from, *control.into_inner()),
            }
        }
    }

    /// Creates a new member, or forwards the insertion to the PE where it will live.
    fn insert(&mut self, mut insertion: Box<Insertion>) {
        let core = &mut self.core;
        if core.home(insertion.id) == Some(core.me) {
            match core.prepare_insertion(insertion) {
                Some(ready) => insertion = ready,
                None => return,
            }
        }
        let id = insertion.id;
        if create_inserted(core, &mut self.stores, *insertion) {
            core.post(COORDINATOR, Control::Inserted { id });
        }
    }

    /// Starts the moves of a plan that leave from here.
    fn carry_out(&mut self, rebalance: RebalanceId, moves: &[PlanEntry]) {
        let plan = Some(rebalance);
        for entry in moves {
            match self.core.resident(entry.id) {
                Some(_) if self.core.replicas.get(entry.id).is_some() => {
                    self.core.end_replica(entry.id, Then::Move(entry.to, rebalance));
                }
                Some(_) if self.core.replicas.is_trailing(entry.id) => {
                    self.core.replicas.defer(entry.id, Then::Move(entry.to, rebalance));
                }
                Some(slot) => {
                    migrate::depart(&mut self.core, &mut self.stores, slot, entry.to, plan);
                }
                None => {
                    self.core.correct_plan(entry);
                    self.core.note_moved(plan, false);
                }
            }
        }
    }

    /// Continues with the action that was deferred until an actor is no longer replicated.
    pub(super) fn go_on(&mut self, id: ActorId, then: Then) {
        let slot = self.core.resident(id);
        match (then, slot) {
            (Then::Report(plan), _) => self.core.note_moved(Some(plan), true),
            (Then::Move(to, plan), Some(slot)) => {
                migrate::depart(&mut self.core, &mut self.stores, slot, to, Some(plan));
            }
            (Then::Move(_, plan), None) => self.core.note_moved(Some(plan), false),
            (Then::Wish(to), Some(slot)) => self.migrate(slot, to),
            (Then::Wish(_), None) | (Then::Checkpoint, _) => {}
        }
    }

    /// Resumes a member from its sync point, if it still waits there.
    pub(super) fn resume_one(&mut self, (kind, slot): (KindId, u32)) {
        self.stores[kind.index()].resume_if_settled(&mut self.core, slot);
    }

    /// Resumes the members that may leave their sync points, now that the coordinator has settled
    /// `syncs` sync points. During a restoration, this only notes the number, since restored
    /// members must first learn that they have arrived: over relays, [`Control::SettleSyncs`] may
    /// overtake the control to continue after the restoration.
    fn settle_syncs(&mut self, collection: CollectionId, syncs: u64) {
        if self.core.checkpointing.restoring.restoration.is_some() {
            return self.core.checkpointing.restoring.settled.push((collection, syncs));
        }
        if let Some((kind, slots)) = self.core.take_settled(collection, syncs) {
            for slot in slots {
                self.resume_one((kind, slot));
                self.grant_requests();
            }
        }
    }

    /// Starts the migrations that actors requested during a rebalance.
    fn end_rebalance(&mut self, rebalance: RebalanceId) {
        // The next rebalance may have begun before the end of this one is reported.
        if self.core.rebalance.is_some_and(|present| present <= rebalance) {
            self.core.rebalance = None;
        }
        for (id, to) in self.core.take_deferred() {
            if let Some((kind, slot)) = self.core.resident(id) {
                self.migrate((kind, slot), to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::collection::{CollectionInfo, Map};
    use crate::address::index::{ActorIndex, Key};
    use crate::job::program::Program;
    use crate::message::payload::Payload;
    use crate::message::{Content, Packet, codec};
    use crate::pe::{Request, Wish};
    use crate::{Actor, Context, Ix1, Job};
    use gridspan_topology::Layout;
    use serde::{Deserialize, Serialize};
    use std::any::TypeId;

    #[derive(Serialize, Deserialize)]
    struct Keeper(Vec<u8>);

    impl Actor for Keeper {
        type Index = Ix1;
        type Init = Vec<u8>;
        type Message = u8;

        fn create(init: Vec<u8>, _cx: &mut Context<'_, Self>) -> Self {
            Self(init)
        }

        fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
    }

    #[test]
    fn initial_values_count_in_the_budget_until_their_collection_is_complete() {
        let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
        let job = Job::new("parts").actor::<Keeper>().main(async |_| Ok::<(), JobError>(()));
        let mut pe = Program::new(job, layout).unwrap().pe(PeId(1));
        let kind = pe.core.common.kind_of(TypeId::of::<Keeper>()).unwrap();
        let id = CollectionId(0);
        let part = |index| {
            let inits: Vec<(Key, Vec<u8>)> = vec![(Ix1(index).key(), vec![0; 1000])];
            Payload::Bytes(codec::encode(&inits).into())
        };

        let control = Control::CreatePart { collection: id, inits: part(0) };
        pe.handle(PeId(0), Packet::control(control));
        assert!(pe.core.delivery.budget.bytes() > 1000, "{}", pe.core.delivery.budget.bytes());

        let info = CollectionInfo { id, kind, map: Map::Block, shape: None, members: 2 };
        let control = Control::Create { info, inits: part(1), more: 1 };
        pe.handle(PeId(0), Packet::control(control));
        assert_eq!(pe.core.delivery.budget.bytes(), 0);
        for index in [0, 1] {
            assert!(pe.core.resident(ActorId { collection: id, key: Ix1(index).key() }).is_some());
        }
    }

    /// Ends a turn of the PE, which takes the packets to itself. Returns the PEs to which it offers
    /// actors.
    fn offers(pe: &mut Pe) -> Vec<PeId> {
        pe.finish_turn();
        let packets: Vec<(PeId, Packet)> = pe.take_output().packets.collect();
        let mut to = Vec::new();
        for (at, packet) in packets {
            if let Content::Control(control) = &packet.0
                && matches!(**control, Control::MigrateOffer(_))
            {
                to.push(at);
            }
            if at == pe.id() {
                pe.handle(at, packet);
            }
        }
        to
    }

    /// PE 1 of three PEs, with a keeper on it.
    fn pe_with_keeper() -> (Pe, ActorId) {
        let layout = Layout::new(vec![("a".to_owned(), vec![1, 1, 1])]);
        let job = Job::new("wishes").actor::<Keeper>().main(async |_| Ok::<(), JobError>(()));
        let mut pe = Program::new(job, layout).unwrap().pe(PeId(1));
        let kind = pe.core.common.kind_of(TypeId::of::<Keeper>()).unwrap();
        let (id, key) = (CollectionId(0), Ix1(0).key());
        let info = CollectionInfo { id, kind, map: Map::Block, shape: None, members: 1 };
        let inits: Vec<(Key, Vec<u8>)> = vec![(key, Vec::new())];
        let inits = Payload::Bytes(codec::encode(&inits).into());
        pe.handle(PeId(0), Packet::control(Control::Create { info, inits, more: 0 }));
        (pe, ActorId { collection: id, key })
    }

    /// A handler of the actor requests these moves, one after the other.
    fn request_moves(pe: &mut Pe, id: ActorId, to: &[PeId]) {
        for &to in to {
            pe.core.request(Request { id, wish: Wish::Migrate(to) });
        }
        pe.grant_requests();
    }

    #[test]
    fn a_plan_does_not_move_an_actor_that_waits_for_its_end_to_move_elsewhere() {
        // The PE to which the actor wants to move, the PEs to which it is offered during the plan,
        // and those to which it is offered after the plan.
        for (wished, [by_plan, after]) in
            [(PeId(2), [vec![], vec![PeId(2)]]), (PeId(0), [vec![PeId(0)], vec![]])]
        {
            let (mut pe, id) = pe_with_keeper();
            let rebalance = RebalanceId(1);
            pe.core.rebalance = Some(rebalance);
            request_moves(&mut pe, id, &[wished]);
            assert!(offers(&mut pe).is_empty(), "the move waits");

            let entry = PlanEntry { id, from: PeId(1), to: PeId(0), epoch: 1 };
            let plan = Control::Plan { rebalance, moves: vec![entry] };
            pe.handle(PeId(0), Packet::control(plan));
            assert_eq!(offers(&mut pe), by_plan);
            pe.handle(PeId(0), Packet::control(Control::Rebalanced { rebalance }));
            assert_eq!(offers(&mut pe), after);
        }
    }

    #[test]
    fn of_several_requests_to_move_the_last_one_counts() {
        for (last, after) in [(PeId(0), vec![PeId(0)]), (PeId(1), vec![])] {
            let (mut pe, id) = pe_with_keeper();
            let rebalance = RebalanceId(1);
            pe.core.rebalance = Some(rebalance);
            request_moves(&mut pe, id, &[PeId(2)]);
            request_moves(&mut pe, id, &[last]);
            assert!(offers(&mut pe).is_empty(), "the moves wait");
            pe.handle(PeId(0), Packet::control(Control::Rebalanced { rebalance }));
            assert_eq!(offers(&mut pe), after, "requests of two handlers");

            let (mut pe, id) = pe_with_keeper();
            request_moves(&mut pe, id, &[PeId(2), last]);
            assert_eq!(offers(&mut pe), after, "requests of one handler");
        }
    }
}
