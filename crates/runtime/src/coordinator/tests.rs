//! Tests of the coordinator without PEs: its answers to packets, and its moves between nodes.

use super::broadcast_reports::TREES_MAX;
use super::event::{CoordinatorCommand, CoordinatorEvent};
use super::host::CoordinatorHost;
use super::machine::Coordinator;
use crate::address::collection::Map;
use crate::address::id::CollectionId;
use crate::address::id::RebalanceId;
use crate::address::id::{ActorId, COORDINATOR, KindId, MAIN_PE};
use crate::address::index::{ActorIndex, Ix1};
use crate::error::{JobError, LossCause};
use crate::job::program::Program;
use crate::message::codec;
use crate::message::payload::Payload;
use crate::message::{Asked, Earlier, Wanted};
use crate::message::{
    Content, Contribution, Control, CoordinatorPlace, Loads, MainRequest, Packet, Piece,
    ReductionGroup, TransferMessage,
};
use crate::reduce::{Op, Partial, Reduction, Target, Value};
use crate::schema::definition::Definition;
use crate::{Actor, Context, Job};
use gridspan_balance::{PeLoad, Refine, Rotate};
use gridspan_bcast::PlanId;
use gridspan_topology::{Layout, NodeId, PeId, SiteId, Time};
use serde::Deserialize;
use serde::Serialize;

#[derive(Serialize, Deserialize)]
struct Idle;

impl Actor for Idle {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
}

/// Creates a job on nodes with these numbers of PEs.
fn program(nodes: &[u32]) -> Program {
    let layout = Layout::new(vec![("a".to_owned(), nodes.to_vec())]);
    let job = Job::new("coordination").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
    Program::new(job, layout).unwrap()
}

/// Sends the coordinator a control, and returns the controls that it sends to single PEs.
fn tell(coordinator: &mut CoordinatorHost, from: PeId, control: Control) -> Vec<(PeId, Control)> {
    let event = CoordinatorEvent::Packet { from, packet: Packet::control(control) };
    sent(coordinator.handle(Time::ZERO, event))
}

fn sent(commands: Vec<CoordinatorCommand>) -> Vec<(PeId, Control)> {
    let control = |command| match command {
        CoordinatorCommand::Send { to, packet: Packet(Content::Control(control)) } => {
            Some((to, *control))
        }
        _ => None,
    };
    commands.into_iter().filter_map(control).collect()
}

/// Creates a collection of one member, and confirms it on all PEs.
fn create(coordinator: &mut CoordinatorHost) -> CollectionId {
    let kind = KindId(0);
    let request =
        MainRequest::Create { kind, map: Map::Block, shape: None, members: 1, created: 8 };
    let told = tell(coordinator, MAIN_PE, Control::MainRequest { slot: 7, request });
    let [(MAIN_PE, Control::Reply { slot: 7, .. })] = &told[..] else { panic!("{told:?}") };
    let collection = CollectionId(0);
    let layout = coordinator.coordinator().unwrap().common.layout.clone();
    let told: Vec<_> = layout
        .pes()
        .flat_map(|pe| tell(coordinator, pe, Control::Created { collection }))
        .collect();
    let [(MAIN_PE, Control::Reply { slot: 8, .. })] = &told[..] else { panic!("{told:?}") };
    collection
}

fn request(collection: CollectionId, count: u64) -> Control {
    let kind = KindId(0);
    let source = ActorId { collection, key: Ix1(0).key() };
    let asked = Asked { source, count, earlier: Earlier::default() };
    let message = Payload::Bytes(codec::encode(&(count as u8)).into());
    let (wanted, priority, is_alone) = (Wanted::Message(message), 0, false);
    Control::BroadcastRequest { kind, collection, asked, wanted, priority, is_alone }
}

/// The contribution of `count` members to a sum.
fn contribution(collection: CollectionId, sequence: u64, count: u64) -> Contribution {
    Contribution {
        group: ReductionGroup::Collection(collection),
        sequence,
        count,
        expected: 0,
        op: Op::Sum,
        target: Target::Main,
        partial: Partial::new(&Op::Sum, Ix1(0).key(), Value::U64(1)),
    }
}

fn numbers(told: &[(PeId, Control)]) -> Vec<(PeId, u64, u64)> {
    let number = |(to, control): &(PeId, Control)| match control {
        Control::Broadcast {
            order: crate::message::BroadcastOrder::Total(number), asked, ..
        } => Some((*to, *number, asked.count)),
        _ => None,
    };
    told.iter().filter_map(number).collect()
}

/// Two PEs that count what quiescence counts.
#[derive(Default)]
struct CountingPes {
    created: u64,
    processed: u64,
}

impl CountingPes {
    fn tell(
        &mut self,
        coordinator: &mut CoordinatorHost,
        from: PeId,
        control: Control,
    ) -> Vec<(PeId, Control)> {
        self.created += u64::from(control.is_counted());
        let told = tell(coordinator, from, control);
        self.processed += told.iter().filter(|(_, control)| control.is_counted()).count() as u64;
        told
    }

    /// Answers a round of quiescence.
    fn answer(&mut self, coordinator: &mut CoordinatorHost, round: u64) -> Vec<(PeId, Control)> {
        let (created, processed) = (self.created, self.processed);
        let reply = Control::QuiescenceReply { round, created, processed, stranded: 0 };
        assert!(self.tell(coordinator, PeId(0), reply).is_empty());
        let reply = Control::QuiescenceReply { round, created: 0, processed: 0, stranded: 0 };
        self.tell(coordinator, PeId(1), reply)
    }
}

#[test]
fn a_bound_collection_in_creation_is_not_quiescent() {
    let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
    let base = create(&mut coordinator);
    let Coordinator { created: processed, processed: created, .. } =
        *coordinator.coordinator().unwrap();
    let mut pes = CountingPes { created, processed };
    let (kind, map, members) = (KindId(0), Map::Bound(base), 1);
    let request = MainRequest::Create { kind, map, shape: None, members, created: 8 };
    pes.tell(&mut coordinator, MAIN_PE, Control::MainRequest { slot: 7, request });
    let ask = Control::MainRequest { slot: 3, request: MainRequest::Quiescence };
    pes.tell(&mut coordinator, MAIN_PE, ask);

    // Broadcasts may wait for its members, and nothing else counts these.
    assert!(pes.answer(&mut coordinator, 1).is_empty(), "no round follows at once");
    assert_eq!(sent(coordinator.wake(Time(1_000_000))).len(), 2, "the second round");
    assert!(pes.answer(&mut coordinator, 2).is_empty(), "although all counts are the same");

    let collection = CollectionId(1);
    for pe in [PeId(0), PeId(1)] {
        let created = Control::Created { collection };
        assert!(pes.tell(&mut coordinator, pe, created).is_empty());
    }
    let placed = Control::Placed { collection, members: 1, missing: None };
    let told = pes.tell(&mut coordinator, PeId(1), placed);
    assert!(matches!(told[..], [(MAIN_PE, Control::Reply { slot: 8, .. })]), "{told:?}");
    assert_eq!(sent(coordinator.wake(Time(2_000_000))).len(), 2, "the third round");
    let told = pes.answer(&mut coordinator, 3);
    assert!(matches!(told[..], [(_, Control::QuiescenceRound { round: 4 }), _]), "{told:?}");
    let told = pes.answer(&mut coordinator, 4);
    assert!(matches!(told[..], [(MAIN_PE, Control::Reply { slot: 3, .. })]), "{told:?}");
}

#[test]
fn requests_that_overtake_each_other_get_numbers_in_the_order_in_which_they_were_made() {
    let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);

    let second = request(collection, 2);
    assert!(tell(&mut coordinator, PeId(1), second).is_empty(), "request 1 has not arrived");
    let first = request(collection, 1);
    let told = tell(&mut coordinator, PeId(0), first);

    let expected = [(0, 0, 1), (1, 0, 1), (0, 1, 2), (1, 1, 2)];
    assert_eq!(numbers(&told), expected.map(|(pe, number, count)| (PeId(pe), number, count)));
}

#[test]
fn a_broadcast_waits_for_an_insertion_in_progress() {
    let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);
    let id = ActorId { collection, key: Ix1(5).key() };
    let insert = Control::InsertRequest { id, init: Payload::new(()), at: PeId(1) };

    let told = tell(&mut coordinator, PeId(0), insert);
    let [(_, Control::Insert(insertion))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(insertion.record.broadcasts, 0);
    let first = request(collection, 1);
    assert!(tell(&mut coordinator, PeId(0), first).is_empty());

    let told = tell(&mut coordinator, PeId(1), Control::Inserted { id });
    assert_eq!(numbers(&told), [(PeId(0), 0, 1), (PeId(1), 0, 1)]);
}

fn held_bytes(coordinator: &CoordinatorHost) -> usize {
    coordinator.coordinator().unwrap().budget.bytes()
}

#[test]
fn an_insertion_that_waits_counts_in_the_budget() {
    let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);
    let ids = [5, 6].map(|index| ActorId { collection, key: Ix1(index).key() });
    let insert = |id| {
        let init = Payload::Bytes(vec![7; 1000].into());
        Control::InsertRequest { id, init, at: PeId(1) }
    };
    tell(&mut coordinator, PeId(0), insert(ids[0]));
    let first = request(collection, 1);
    tell(&mut coordinator, PeId(0), first);
    let before = held_bytes(&coordinator);

    assert!(tell(&mut coordinator, PeId(0), insert(ids[1])).is_empty());
    assert!(held_bytes(&coordinator) >= before + 1000);

    let told = tell(&mut coordinator, PeId(1), Control::Inserted { id: ids[0] });
    assert!(matches!(told.last(), Some((_, Control::Insert(_)))), "{told:?}");
    assert!(held_bytes(&coordinator) <= before);
}

/// Takes results of reductions.
#[derive(Serialize, Deserialize)]
struct Receiving;

impl Actor for Receiving {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}

    fn reduced(_reduction: Reduction) -> Option<u8> {
        Some(0)
    }
}

#[test]
fn numbers_of_results_count_in_the_budget_once_for_each_member() {
    let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
    let job = Job::new("results").actor::<Receiving>().main(async |_| Ok::<(), JobError>(()));
    let mut coordinator = Program::new(job, layout).unwrap().coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);
    let to = ActorId { collection, key: Ix1(0).key() };
    let mut held = Vec::new();

    for sequence in 0..3 {
        let target = Target::Member { to, tag: 0 };
        let contribution = Contribution { target, ..contribution(collection, sequence, 1) };
        let told = tell(&mut coordinator, PeId(0), Control::Contribution(contribution));
        assert!(
            matches!(told[..], [(_, Control::Result { number, .. })] if number == sequence),
            "{told:?}"
        );
        held.push(held_bytes(&coordinator));
    }

    assert!(held[0] > 0);
    assert_eq!(held[1..], [held[0]; 2]);
}

#[test]
fn quiescence_takes_two_equal_rounds_in_which_all_messages_are_handled() {
    let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
    let ask = Control::MainRequest { slot: 3, request: MainRequest::Quiescence };
    let asked = tell(&mut coordinator, MAIN_PE, ask);
    assert!(matches!(asked[..], [(_, Control::QuiescenceRound { round: 1 }), _]), "{asked:?}");
    let reply = |round, created, processed| Control::QuiescenceReply {
        round,
        created,
        processed,
        stranded: 0,
    };

    tell(&mut coordinator, PeId(0), reply(1, 5, 4));
    let again = tell(&mut coordinator, PeId(1), reply(1, 0, 1));
    assert!(matches!(again[..], [(_, Control::QuiescenceRound { round: 2 }), _]), "{again:?}");
    tell(&mut coordinator, PeId(0), reply(2, 5, 4));
    // An answer to the previous round has no effect.
    assert!(tell(&mut coordinator, PeId(1), reply(1, 0, 1)).is_empty());
    let told = tell(&mut coordinator, PeId(1), reply(2, 0, 1));

    assert!(matches!(told[..], [(MAIN_PE, Control::Reply { slot: 3, .. })]), "{told:?}");
}

#[test]
fn the_first_error_stops_all_nodes_and_later_errors_are_ignored() {
    let mut coordinator = program(&[2, 3]).coordinator_host(NodeId(0));
    let error = JobError::Failed("enough".to_owned());

    let told = tell(&mut coordinator, PeId(3), Control::Failed { error: error.clone() });

    let stopped: Vec<PeId> = told.iter().map(|(to, _)| *to).collect();
    // This node comes last: it may end on receipt.
    assert_eq!(stopped, [PeId(2), PeId(0)]);
    assert_eq!(coordinator.coordinator().and_then(Coordinator::outcome), Some(&Err(error)));
    let other = Control::Failed { error: JobError::Failed("more".to_owned()) };
    assert!(tell(&mut coordinator, PeId(0), other).is_empty());
    assert_eq!(coordinator.next_wakeup(), None);
}

#[test]
fn requests_of_a_guest_for_more_than_membership_are_ignored() {
    let program = program(&[1, 1]);
    let guest = program.layout().leader(program.layout().guest(SiteId(0), 0).unwrap());
    let mut coordinator = program.coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);

    let first = request(collection, 1);
    assert!(tell(&mut coordinator, guest, first).is_empty());
    assert!(tell(&mut coordinator, guest, Control::End { outcome: Ok(()) }).is_empty());
    assert_eq!(coordinator.coordinator().and_then(Coordinator::outcome), None);
}

#[test]
fn invalid_controls_end_the_job_with_an_error() {
    for control in [
        Control::SettleSyncs { collection: CollectionId(0), syncs: 1 },
        Control::InsertRequest {
            id: ActorId { collection: CollectionId(9), key: Ix1(0).key() },
            init: Payload::new(()),
            at: COORDINATOR,
        },
    ] {
        let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
        tell(&mut coordinator, PeId(1), control);
        let outcome = coordinator.coordinator().and_then(Coordinator::outcome);
        assert!(matches!(outcome, Some(Err(JobError::Protocol(_)))), "{outcome:?}");
    }
}

#[test]
fn counts_of_faulty_pes_are_added_without_overflow() {
    let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);
    let ask = Control::MainRequest { slot: 3, request: MainRequest::Quiescence };
    tell(&mut coordinator, MAIN_PE, ask);
    let most = u64::MAX;

    for pe in [PeId(0), PeId(1)] {
        let counts =
            Control::QuiescenceReply { round: 1, created: most, processed: most, stranded: most };
        tell(&mut coordinator, pe, counts);
        // Not the next reduction, so that two contributions are combined.
        let contribution = contribution(collection, 1, most);
        tell(&mut coordinator, pe, Control::Contribution(contribution));
    }

    assert_eq!(coordinator.coordinator().and_then(Coordinator::outcome), None);
}

#[test]
fn a_sync_point_of_any_number_is_settled_at_once_where_no_member_is_left() {
    let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);
    let id = ActorId { collection, key: Ix1(0).key() };
    tell(&mut coordinator, PeId(0), Control::Destroyed { id, reductions: 0, syncs: 0 });

    let group = ReductionGroup::Sync(collection);
    let late = Contribution { group, ..contribution(collection, u64::MAX, 1) };
    tell(&mut coordinator, PeId(0), Control::Contribution(late));

    assert_eq!(coordinator.coordinator().and_then(Coordinator::outcome), None);
}

/// Hosts on nodes of one PE each, and the packets in flight between them.
struct Hosts {
    hosts: Vec<CoordinatorHost>,
    /// The target node, the sender and the packet, in sending order.
    frames: Vec<(NodeId, PeId, Packet)>,
    /// Controls sent to PEs.
    told: Vec<(PeId, Control)>,
}

impl Hosts {
    fn new(nodes: usize) -> Self {
        let program = program(&vec![1; nodes]);
        let hosts = program.layout().nodes().map(|node| program.coordinator_host(node)).collect();
        Self { hosts, frames: Vec::new(), told: Vec::new() }
    }

    /// Sends a packet to the host of a node, encoded and decoded if it is forwarded.
    fn tell(&mut self, node: u32, from: PeId, packet: Packet) {
        let event = CoordinatorEvent::Packet { from, packet };
        let commands = self.hosts[node as usize].handle(Time::ZERO, event);
        self.obey(commands);
    }

    fn obey(&mut self, commands: Vec<CoordinatorCommand>) {
        for command in commands {
            match command {
                CoordinatorCommand::Forward { node, frame } => {
                    let frame = frame.into();
                    let (from, to, packet) = Packet::from_frame(&frame).unwrap();
                    assert_eq!(to, COORDINATOR);
                    self.frames.push((node, from, packet));
                }
                CoordinatorCommand::Send { to, packet: Packet(Content::Control(control)) } => {
                    self.told.push((to, *control));
                }
                _ => {}
            }
        }
    }

    /// Delivers the newest or the oldest frame first, until none is left.
    fn settle(&mut self, is_newest_first: bool) {
        while !self.frames.is_empty() {
            let at = if is_newest_first { self.frames.len() - 1 } else { 0 };
            let (node, from, packet) = self.frames.remove(at);
            self.tell(node.0, from, packet);
        }
    }

    fn ask(&mut self, node: u32, slot: u64, request: MainRequest) {
        self.tell(node, MAIN_PE, Packet::control(Control::MainRequest { slot, request }));
    }

    fn move_to(&mut self, slot: u64, to: u32) {
        self.ask(0, slot, MainRequest::MoveCoordinator { to: NodeId(to) });
    }

    /// Returns the nodes that have the coordinator.
    fn places(&self) -> Vec<usize> {
        let has = |&at: &usize| self.hosts[at].coordinator().is_some();
        (0..self.hosts.len()).filter(has).collect()
    }

    /// Returns the slots of main that were answered, in order.
    fn answers(&mut self) -> Vec<u64> {
        let slot = |(_, control)| match control {
            Control::Reply { slot, .. } => Some(slot),
            _ => None,
        };
        std::mem::take(&mut self.told).into_iter().filter_map(slot).collect()
    }
}

/// Two hosts of a job that is balanced and has no actors.
fn balanced() -> Hosts {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let job = Job::new("moves").actor::<Idle>().strategy(Rotate);
    let program = Program::new(job.main(async |_| Ok::<(), JobError>(())), layout).unwrap();
    let mut hosts = Hosts::new(2);
    hosts.hosts = [0, 1].map(|node| program.coordinator_host(NodeId(node))).into();
    // Not all nodes have greeted, so the places are not measured.
    let definition = hosts.hosts[0].coordinator().unwrap().common.definition.clone();
    let definition = Box::new(Definition::clone(&definition));
    hosts.tell(0, PeId(0), Packet::control(Control::Greet { definition }));
    hosts
}

/// Returns the measurements of a PE without actors.
fn no_loads(rebalance: u64) -> Control {
    Control::Loads(Box::new(Loads {
        rebalance: RebalanceId(rebalance),
        actors: Vec::new(),
        edges: Vec::new(),
        led: None,
        away: Vec::new(),
        pe: PeLoad::default(),
        handled: 0,
        replicas: Vec::new(),
    }))
}

#[test]
fn a_coordinator_moves_with_its_waiting_requests_and_later_packets_follow() {
    for is_newest_first in [false, true] {
        let mut hosts = Hosts::new(3);
        let collection = create(&mut hosts.hosts[0]);
        let at = PeId(2);
        let id = ActorId { collection, key: Ix1(5).key() };
        let insert = Control::InsertRequest { id, init: Payload::new(()), at };
        hosts.tell(0, PeId(0), Packet::control(insert));
        // Request 1, which is not sent yet, will wait for the insertion, and request 2 waits for
        // request 1.
        hosts.tell(0, PeId(2), Packet::control(request(collection, 2)));
        hosts.told.clear();

        hosts.move_to(1, 1);
        assert_eq!((hosts.places(), hosts.answers()), (vec![], vec![]), "it is moving");
        hosts.tell(0, PeId(1), Packet::control(request(collection, 1)));
        hosts.tell(2, PeId(2), Packet::control(Control::Inserted { id }));
        hosts.settle(is_newest_first);

        assert_eq!(hosts.places(), [1]);
        let told = std::mem::take(&mut hosts.told);
        // The coordinator sends the broadcasts to the PE of its node, and a relay sends them to the
        // others.
        assert_eq!(numbers(&told), [(PeId(1), 0, 1), (PeId(1), 1, 2)]);
        let places = told.iter().filter(|(_, control)| {
            let place = CoordinatorPlace { term: 1, node: NodeId(1) };
            matches!(control, Control::CoordinatorAt(at) if *at == place)
        });
        assert_eq!(places.count(), 3);
        hosts.told = told;
        assert_eq!(hosts.answers(), [1]);
    }
}

#[test]
fn all_requests_are_answered_when_the_coordinator_moves_several_times() {
    for is_newest_first in [false, true] {
        let mut hosts = Hosts::new(4);
        create(&mut hosts.hosts[0]);
        for (slot, to) in (10..).zip([1, 1, 2, 0, 3]) {
            hosts.move_to(slot, to);
        }
        // Requests through two nodes that have not learned of any move.
        hosts.ask(1, 20, MainRequest::Rebalance);
        hosts.ask(3, 21, MainRequest::Rebalance);
        hosts.settle(is_newest_first);

        // A packet that overtakes another counts as sent before it.
        assert_eq!(hosts.places(), [if is_newest_first { 1 } else { 3 }]);
        let mut answers = hosts.answers();
        answers.sort_unstable();
        assert_eq!(answers, [10, 11, 12, 13, 14, 20, 21]);
    }
}

#[test]
fn a_coordinator_leaves_only_once_a_rebalance_is_over() {
    let mut hosts = balanced();
    hosts.ask(0, 1, MainRequest::Rebalance);
    hosts.move_to(2, 1);
    assert_eq!(hosts.places(), [0]);

    for pe in [0, 1] {
        hosts.tell(0, PeId(pe), Packet::control(no_loads(1)));
    }
    assert_eq!(hosts.places(), [0], "the coordinator has not decided");
    hosts.answers();
    let commands = hosts.hosts[0].wake(Time::ZERO);
    hosts.obey(commands);
    hosts.settle(false);

    assert_eq!(hosts.places(), [1]);
}

#[test]
fn a_host_ends_the_job_if_the_coordinators_present_or_next_node_is_lost() {
    for has_arrived in [false, true] {
        let mut hosts = Hosts::new(3);
        create(&mut hosts.hosts[0]);
        hosts.move_to(1, 1);
        if has_arrived {
            hosts.settle(false);
            hosts.told.clear();
        }
        let (site, reason) = ("a".to_owned(), "it was silent".to_owned());
        let (node, cause, others) = (NodeId(1), LossCause::Silent, Vec::new());
        let lost = JobError::NodeLost { node, site, cause, reason, others };
        let event = |node| CoordinatorEvent::NodeLost(NodeId(node), lost.clone());

        let commands = hosts.hosts[0].handle(Time::ZERO, event(2));
        assert!(commands.is_empty(), "the coordinator is not on node 2");
        let commands = hosts.hosts[0].handle(Time::ZERO, event(1));
        hosts.obey(commands);

        let stopped = hosts.told.iter().filter(|(_, control)| {
            matches!(control, Control::Stop { outcome: Err(error) } if *error == lost)
        });
        // This node comes last: it may end on receipt.
        assert_eq!(stopped.map(|(pe, _)| pe.0).collect::<Vec<u32>>(), [1, 2, 0]);
    }
}

#[test]
fn an_error_while_the_coordinator_moves_ends_the_job() {
    let mut hosts = Hosts::new(3);
    create(&mut hosts.hosts[0]);
    hosts.move_to(1, 1);
    let error = JobError::Failed("enough".to_owned());

    hosts.tell(0, PeId(2), Packet::control(Control::Failed { error }));

    let stopped = hosts.told.iter().filter(|(_, control)| matches!(control, Control::Stop { .. }));
    assert_eq!(stopped.count(), 3);
}

#[test]
fn a_large_packet_is_forwarded_in_pieces() {
    let mut hosts = Hosts::new(2);
    let collection = create(&mut hosts.hosts[0]);
    hosts.move_to(1, 1);
    let Control::BroadcastRequest { kind, asked, priority, is_alone, .. } = request(collection, 1)
    else {
        panic!("not a request")
    };
    let wanted = Wanted::Message(Payload::Bytes(vec![7; 1 << 20].into()));
    let large = Control::BroadcastRequest { kind, collection, asked, wanted, priority, is_alone };
    hosts.tell(0, PeId(0), Packet::control(large));
    hosts.settle(true);

    assert_eq!(numbers(&std::mem::take(&mut hosts.told)), [(PeId(1), 0, 1)]);
}

#[test]
fn consecutive_rebalances_do_not_prevent_a_move_of_the_coordinator() {
    let mut hosts = balanced();
    hosts.ask(0, 1, MainRequest::Rebalance);
    hosts.ask(0, 2, MainRequest::Rebalance);
    hosts.move_to(3, 1);
    for pe in [0, 1] {
        hosts.tell(0, PeId(pe), Packet::control(no_loads(1)));
    }
    let commands = hosts.hosts[0].wake(Time::ZERO);
    hosts.obey(commands);
    hosts.settle(false);
    assert_eq!((hosts.places(), hosts.answers()), (vec![1], vec![1, 3]));

    // The second rebalance begins at the coordinator's new place.
    for pe in [0, 1] {
        hosts.tell(1, PeId(pe), Packet::control(no_loads(2)));
    }
    let commands = hosts.hosts[1].wake(Time::ZERO);
    hosts.obey(commands);
    assert_eq!(hosts.answers(), [2]);
}

fn is_stop_for_protocol(control: &Control) -> bool {
    matches!(control, Control::Stop { outcome: Err(JobError::Protocol(_)) })
}

#[test]
fn a_state_that_does_not_decode_or_has_the_wrong_address_ends_the_job() {
    for is_garbled in [true, false] {
        let mut hosts = Hosts::new(3);
        create(&mut hosts.hosts[0]);
        hosts.move_to(1, 1);
        let (_, from, packet) = hosts.frames.remove(0);
        let (to, packet) = match (is_garbled, packet) {
            (false, packet) => (2, packet),
            (true, Packet(Content::Control(control))) => {
                let Control::Piece(piece) = *control else { panic!("{control:?}") };
                let mut bytes = piece.bytes.to_vec();
                let middle = bytes.len() / 2;
                bytes.truncate(middle);
                let total = bytes.len() as u64;
                let piece = Piece { bytes: bytes.into(), total, ..piece };
                (1, Packet::control(Control::Piece(piece)))
            }
            (true, _) => panic!("not a control"),
        };

        hosts.tell(to, from, packet);

        let stops = hosts.told.iter().filter(|(_, control)| is_stop_for_protocol(control));
        assert_eq!(stops.count(), 3);
        assert!(hosts.places().is_empty());
    }
}

#[test]
fn an_announced_place_outside_the_job_ends_the_job() {
    let place = CoordinatorPlace { term: 1, node: NodeId(9) };
    let mut hosts = Hosts::new(3);
    hosts.move_to(1, 1);
    let done = Control::Transfer(TransferMessage::Done(place));
    hosts.tell(0, COORDINATOR, Packet::control(done));
    assert!(hosts.told.iter().any(|(_, control)| is_stop_for_protocol(control)));

    let mut pe = program(&[1, 1]).pe(PeId(1));
    pe.handle(PeId(0), Packet::control(Control::CoordinatorAt(place)));
    let is_failure = |packet: &Packet| match &packet.0 {
        Content::Control(control) => {
            matches!(**control, Control::Failed { error: JobError::Protocol(_) })
        }
        _ => false,
    };
    assert!(pe.take_output().packets.any(|(_, packet)| is_failure(&packet)));
}

/// Answers all questions of the coordinator about loads and progress, for PEs that have handled
/// `handled` messages each. Returns the number of questions about loads.
fn answer_as_measured(
    host: &mut CoordinatorHost,
    commands: Vec<CoordinatorCommand>,
    (now, handled): (Time, u64),
) -> usize {
    let (mut asked, mut measured) = (sent(commands), 0);
    while let Some((pe, control)) = asked.pop() {
        let answer = match control {
            Control::Measure { rebalance, .. } => {
                measured += 1;
                let Control::Loads(mut loads) = no_loads(rebalance.0) else { unreachable!() };
                loads.handled = handled;
                Control::Loads(loads)
            }
            Control::ProgressProbe { number } => Control::Progress { number, handled, own: now },
            _ => continue,
        };
        let event = CoordinatorEvent::Packet { from: pe, packet: Packet::control(answer) };
        asked.extend(sent(host.handle(now, event)));
        // Plans are made by a timer.
        asked.extend(sent(host.wake(now)));
    }
    measured
}

#[test]
fn changes_of_foreign_load_do_not_keep_a_job_that_handles_nothing_from_being_found_stalled() {
    let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
    let job = Job::new("idle").actor::<Idle>().strategy(Refine);
    let program = Program::new(job.main(async |_| Ok::<(), JobError>(())), layout).unwrap();
    let mut host = program.coordinator_host(NodeId(0));
    // As in real time.
    host.set_stopwatch(std::sync::Arc::new(|| 0_u64));
    let second = |number: u64| Time(number * 1_000_000_000);
    let mut load_changes = |at: u64, handled: u64| {
        let now = second(at);
        let due = host.wake(now);
        let before = answer_as_measured(&mut host, due, (now, handled));
        let packet = Packet::control(Control::ShareChanged { is_late: false });
        let told = host.handle(now, CoordinatorEvent::Packet { from: PeId(1), packet });
        let activity = host.coordinator().unwrap().activity();
        (before + answer_as_measured(&mut host, told, (now, handled)), activity)
    };

    let first: usize = (1..5).map(|at| load_changes(at, 50).0).sum();
    assert!(first > 0, "the job has handled messages, so it is measured");
    let (_, activity) = load_changes(5, 50);
    for at in 6..40 {
        assert_eq!(load_changes(at, 50), (0, activity), "second {at}");
    }

    let again: usize = (40..44).map(|at| load_changes(at, 51).0).sum();
    assert!(again > 0, "the job has handled messages again");
}

#[test]
fn the_trees_of_many_senders_take_bounded_memory() {
    let nodes = TREES_MAX as u32 + 36;
    let layout = Layout::new(vec![("a".to_owned(), vec![1; nodes as usize])]);
    let job = Job::new("shown").actor::<Idle>().on_broadcast(|_| ());
    let job = job.main(async |_| Ok::<(), JobError>(()));
    let host = Program::new(job, layout).unwrap().coordinator_host(NodeId(0));
    let common = host.coordinator().unwrap().common.clone();
    let mut coordinator = Coordinator::new(NodeId(0), common);

    for root in (0..nodes).chain(0..nodes).map(NodeId) {
        let trees = coordinator.trees_of(PlanId { root, version: 0 }).unwrap();
        let edges: usize = trees.trees().iter().map(|tree| tree.edges_from_root().count()).sum();
        assert_eq!(edges, nodes as usize - 1);
        assert!(coordinator.advice.trees.len() <= TREES_MAX);
    }
    assert!(coordinator.trees_of(PlanId { root: NodeId(0), version: 7 }).is_none());
    assert!(coordinator.trees_of(PlanId { root: NodeId(nodes), version: 0 }).is_none());
}
