//! The coordinator without a PE: what it answers to packets.

use super::event::{CoordinatorCommand, CoordinatorEvent};
use super::machine::Coordinator;
use crate::address::collection::Map;
use crate::address::id::CollectionId;
use crate::address::id::{ActorId, COORDINATOR, KindId, MAIN_PE};
use crate::address::index::{ActorIndex, Ix1};
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::codec;
use crate::message::payload::Payload;
use crate::message::{Asked, Earlier, Wanted};
use crate::message::{Content, Control, MainRequest, Packet};
use crate::{Actor, Context, Job};
use gridspan_topology::{Layout, SiteId};
use gridspan_topology::{PeId, Time};
use serde::Deserialize;
use serde::Serialize;

/// An actor that does nothing.
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

/// A job on one node of two PEs, or on more, and its coordinator.
fn program(nodes: &[u32]) -> Program {
    let layout = Layout::new(vec![("a".to_owned(), nodes.to_vec())]);
    let job = Job::new("coordination").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
    Program::new(job, layout).unwrap()
}

/// Gives the coordinator a control, and returns those that it sends to single PEs.
fn tell(coordinator: &mut Coordinator, from: PeId, control: Control) -> Vec<(PeId, Control)> {
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

/// Enters a collection of one member, whose members all PEs have made.
fn create(coordinator: &mut Coordinator) -> CollectionId {
    let kind = KindId(0);
    let request =
        MainRequest::Create { kind, map: Map::Block, shape: None, members: 1, created: 8 };
    let told = tell(coordinator, MAIN_PE, Control::MainRequest { slot: 7, request });
    let [(MAIN_PE, Control::Reply { slot: 7, .. })] = &told[..] else { panic!("{told:?}") };
    let collection = CollectionId(0);
    let pes = coordinator.common.layout.pes();
    let told: Vec<_> =
        pes.flat_map(|pe| tell(coordinator, pe, Control::Created { collection })).collect();
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

fn numbers(told: &[(PeId, Control)]) -> Vec<(PeId, u64, u64)> {
    let number = |(to, control): &(PeId, Control)| match control {
        Control::Broadcast {
            order: crate::message::BroadcastOrder::Total(number), asked, ..
        } => Some((*to, *number, asked.count)),
        _ => None,
    };
    told.iter().filter_map(number).collect()
}

#[test]
fn requests_that_overtake_each_other_get_numbers_in_the_order_in_which_they_were_made() {
    let mut coordinator = program(&[2]).coordinator();
    let collection = create(&mut coordinator);

    let second = request(collection, 2);
    assert!(tell(&mut coordinator, PeId(1), second).is_empty(), "the first has not come");
    let first = request(collection, 1);
    let told = tell(&mut coordinator, PeId(0), first);

    let expected = [(0, 0, 1), (1, 0, 1), (0, 1, 2), (1, 1, 2)];
    assert_eq!(numbers(&told), expected.map(|(pe, number, count)| (PeId(pe), number, count)));
}

#[test]
fn a_broadcast_waits_for_an_insertion_that_is_under_way() {
    let mut coordinator = program(&[2]).coordinator();
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

#[test]
fn quiescence_takes_two_rounds_that_say_the_same_with_all_made_handled() {
    let mut coordinator = program(&[2]).coordinator();
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
    // An answer to the round before says nothing.
    assert!(tell(&mut coordinator, PeId(1), reply(1, 0, 1)).is_empty());
    let told = tell(&mut coordinator, PeId(1), reply(2, 0, 1));

    assert!(matches!(told[..], [(MAIN_PE, Control::Reply { slot: 3, .. })]), "{told:?}");
}

#[test]
fn the_first_error_stops_the_first_pe_of_each_node_and_nothing_follows() {
    let mut coordinator = program(&[2, 3]).coordinator();
    let error = JobError::Failed("enough".to_owned());

    let told = tell(&mut coordinator, PeId(3), Control::Failed { error: error.clone() });

    let stopped: Vec<PeId> = told.iter().map(|(to, _)| *to).collect();
    // The own node last: it may end with that.
    assert_eq!(stopped, [PeId(2), PeId(0)]);
    assert_eq!(coordinator.outcome(), Some(&Err(error)));
    let other = Control::Failed { error: JobError::Failed("more".to_owned()) };
    assert!(tell(&mut coordinator, PeId(0), other).is_empty());
    assert_eq!(coordinator.next_wakeup(), None);
}

#[test]
fn a_guest_that_asks_for_more_than_to_join_is_not_heard() {
    let program = program(&[1, 1]);
    let guest = program.layout().leader(program.layout().guest(SiteId(0), 0).unwrap());
    let mut coordinator = program.coordinator();
    let collection = create(&mut coordinator);

    let first = request(collection, 1);
    assert!(tell(&mut coordinator, guest, first).is_empty());
    assert!(tell(&mut coordinator, guest, Control::End { outcome: Ok(()) }).is_empty());
    assert_eq!(coordinator.outcome(), None);
}

#[test]
fn what_is_for_a_pe_and_what_names_no_collection_end_the_job_with_an_error() {
    for control in [
        Control::SettleSyncs { collection: CollectionId(0), syncs: 1 },
        Control::InsertRequest {
            id: ActorId { collection: CollectionId(9), key: Ix1(0).key() },
            init: Payload::new(()),
            at: COORDINATOR,
        },
    ] {
        let mut coordinator = program(&[2]).coordinator();
        tell(&mut coordinator, PeId(1), control);
        let outcome = coordinator.outcome();
        assert!(matches!(outcome, Some(Err(JobError::Protocol(_)))), "{outcome:?}");
    }
}
