//! Worker messages of guests, founders and relays.

use super::*;
use crate::Job;
use crate::address::collection::{CollectionInfo, Map};
use crate::address::id::COORDINATOR;
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::{Content, MembershipMessage, Packet};
use crate::pe::Pe;
use crate::{Actor, Context};
use gridspan_topology::{Layout, NodeId, SiteId};
use serde::{Deserialize, Serialize};
use std::any::TypeId;

/// An actor that is not a worker of a pool.
#[derive(Serialize, Deserialize)]
struct Bystander;

impl Actor for Bystander {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: u8, cx: &mut Context<'_, Self>) {
        cx.fail(format!("a stranger said {message}"));
    }
}

/// Two founders of one PE each; and the first PE of a guest.
fn program() -> (Program, PeId) {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let guest = layout.leader(layout.guest(SiteId(0), 0).unwrap());
    let job =
        Job::new("worker messages").actor::<Bystander>().main(async |_| Ok::<(), JobError>(()));
    (Program::new(job, layout).unwrap(), guest)
}

fn worker_message(bytes: usize) -> Packet {
    Packet::control(Control::WorkerMessage {
        collection: CollectionId(7),
        message: vec![0; bytes].into(),
    })
}

fn controls(pe: &mut Pe) -> Vec<Control> {
    let control = |(_, packet): (PeId, Packet)| match packet.0 {
        Content::Control(control) => Some(*control),
        _ => None,
    };
    pe.take_output().packets.filter_map(control).collect()
}

#[test]
fn a_guest_that_sends_to_an_unknown_collection_is_lost() {
    let (program, guest) = program();
    for founder in [PeId(0), PeId(1)] {
        let mut pe = program.pe(founder);
        pe.handle(guest, worker_message(1000));

        assert_eq!(pe.core.delivery.budget.bytes(), 0);
        assert!(!pe.has_failed());
        let told = controls(&mut pe);
        let [Control::Membership(MembershipMessage::Unreachable { node: lost, .. })] = &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!(*lost, program.layout().node_of(guest));
    }
}

#[test]
fn a_guest_that_sends_to_an_actor_outside_of_pools_is_lost() {
    let (program, guest) = program();
    let mut pe = program.pe(PeId(0));
    let kind = pe.core.common.kind_of(TypeId::of::<Bystander>()).unwrap();
    let collection = CollectionId(0);
    let info = CollectionInfo { id: collection, kind, map: Map::Block, shape: None, members: 1 };
    let inits = Payload::new(vec![(Ix1(0).key(), ())]);
    pe.handle(PeId(0), Packet::control(Control::Create { info, inits, more: 0 }));
    assert!(pe.core.resident(ActorId { collection, key: Ix1(0).key() }).is_some());
    pe.take_output().packets.for_each(drop);

    pe.handle(
        guest,
        Packet::control(Control::WorkerMessage { collection, message: vec![7].into() }),
    );
    while pe.run(10) > 0 {}

    assert!(!pe.has_failed());
    let told = controls(&mut pe);
    assert!(
        matches!(told[..], [Control::Membership(MembershipMessage::Unreachable { .. })]),
        "{told:?}"
    );
}

#[test]
fn a_worker_message_that_waits_for_its_collection_counts_in_the_budget() {
    let (program, _) = program();
    let mut pe = program.pe(PeId(1));
    pe.handle(PeId(0), worker_message(1000));
    assert!(pe.core.delivery.budget.bytes() > 1000, "{}", pe.core.delivery.budget.bytes());
}

#[test]
fn a_worker_message_of_the_relay_is_not_counted_as_an_own_control() {
    let (program, _) = program();
    let me = PeId(1);
    let mut pe = program.pe(me);
    pe.core.post(me, Control::ShareChanged { is_late: false });
    pe.handle(me, worker_message(1));
    assert_eq!(pe.core.own_controls, 1);
    pe.handle(me, Packet::control(Control::ShareChanged { is_late: false }));
    assert_eq!(pe.core.own_controls, 0);
}

#[test]
fn agents_learn_of_a_guest_before_the_coordinator_gets_the_acknowledgement() {
    let (program, guest) = program();
    let guest = program.layout().node_of(guest);
    let mut pe = program.pe(PeId(1));
    let announced = MembershipMessage::Announce { node: guest, contact: String::new() };
    pe.handle(COORDINATOR, Packet::control(Control::Membership(announced)));

    let told: Vec<Packet> = pe.take_output().packets.map(|(_, packet)| packet).collect();
    let [Packet(Content::Spread(_)), Packet(Content::Control(noted))] = &told[..] else {
        panic!("{} packets", told.len())
    };
    assert!(matches!(
        **noted,
        Control::Membership(MembershipMessage::Acknowledge { node: NodeId(2) })
    ));
}
