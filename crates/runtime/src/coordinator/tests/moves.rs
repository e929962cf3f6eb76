//! Moves of the coordinator between nodes.

use super::{Idle, create, no_loads, numbers, program, request};
use crate::Job;
use crate::address::id::{ActorId, COORDINATOR, MAIN_PE};
use crate::address::index::{ActorIndex, Ix1};
use crate::coordinator::event::{CoordinatorCommand, CoordinatorEvent};
use crate::coordinator::host::CoordinatorHost;
use crate::error::{JobError, LossCause};
use crate::job::program::Program;
use crate::message::payload::Payload;
use crate::message::{
    Content, Control, CoordinatorPlace, MainRequest, Packet, Piece, TransferMessage, Wanted,
};
use crate::schema::definition::Definition;
use gridspan_balance::Rotate;
use gridspan_topology::{Layout, NodeId, PeId, Time};

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

    /// Gives a packet to the host of a node, and carries out the commands of the host.
    fn tell(&mut self, node: u32, from: PeId, packet: Packet) {
        let event = CoordinatorEvent::Packet { from, packet };
        let commands = self.hosts[node as usize].handle(Time::ZERO, event);
        self.obey(commands);
    }

    /// Carries out commands. Forwarded packets are encoded and decoded.
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

#[test]
fn a_diagnosis_at_the_next_place_is_not_ended_by_an_earlier_one() {
    let mut hosts = Hosts::new(2);
    let at = |millis: u64| Time(millis * 1_000_000);
    hosts.hosts[0].handle(at(0), CoordinatorEvent::Diagnose(1));
    hosts.move_to(3, 1);
    hosts.settle(false);
    assert_eq!(hosts.places(), [1]);

    hosts.hosts[1].handle(at(1500), CoordinatorEvent::Diagnose(2));
    for from in [PeId(0), PeId(1)] {
        let late = Packet::control(Control::Diagnosed { round: 1, findings: Box::default() });
        hosts.hosts[1].handle(at(1500), CoordinatorEvent::Packet { from, packet: late });
    }
    hosts.hosts[1].wake(at(2100));

    let diagnosing = &hosts.hosts[1].coordinator().unwrap().diagnosing;
    assert!(diagnosing.is_on && diagnosing.missing.len() == 2);
    hosts.hosts[1].wake(at(3600));
    assert!(!hosts.hosts[1].coordinator().unwrap().diagnosing.is_on);
}

/// Two hosts of a job that is balanced and has no actors.
fn balanced() -> Hosts {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let job = Job::new("moves").actor::<Idle>().strategy(Rotate);
    let program = Program::new(job.main(async |_| Ok::<(), JobError>(())), layout).unwrap();
    let mut hosts = Hosts::new(2);
    hosts.hosts = [0, 1].map(|node| program.coordinator_host(NodeId(node))).into();
    // Only one of the two nodes greets the coordinator, so that no survey of the places begins.
    let definition = hosts.hosts[0].coordinator().unwrap().common.definition.clone();
    let definition = Box::new(Definition::clone(&definition));
    hosts.tell(0, PeId(0), Packet::control(Control::Greet { definition }));
    hosts
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
