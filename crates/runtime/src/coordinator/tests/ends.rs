//! Errors, requests of guests, and late contributions.

use super::{contribution, create, program, request, tell};
use crate::address::collection::Map;
use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId, MAIN_PE};
use crate::address::index::{ActorIndex, Ix1};
use crate::coordinator::event::{Asker, CoordinatorCommand, CoordinatorEvent};
use crate::coordinator::machine::Coordinator;
use crate::coordinator::reductions::RESULT_NUMBER_BYTES;
use crate::error::{JobError, Misuse};
use crate::message::limits::COLLECTIONS_MAX;
use crate::message::payload::Payload;
use crate::message::{Content, Contribution, Control, MembershipMessage, Packet, ReductionGroup};
use gridspan_topology::{NodeId, PeId, SiteId, Time};

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
fn one_collection_too_many_ends_the_job_with_advice() {
    let host = program(&[1]).coordinator_host(NodeId(0));
    let common = host.coordinator().unwrap().common.clone();
    let mut coordinator = Coordinator::new(NodeId(0), common);
    let asker = Asker { pe: MAIN_PE, slot: 7 };
    for _ in 0..COLLECTIONS_MAX {
        coordinator.create_collection(asker, (KindId(0), Map::PerPe, None, 1), 8);
    }
    assert_eq!(coordinator.outcome(), None);

    coordinator.create_collection(asker, (KindId(0), Map::PerPe, None, 1), 8);

    let outcome = coordinator.outcome().unwrap().clone();
    let expected = Misuse::TooManyCollections { limit: 65_536 };
    assert_eq!(outcome, Err(JobError::Misuse(expected)));
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("run many roots in one pool"), "{error}");
}

#[test]
fn packets_that_a_node_without_the_coordinator_has_dropped_end_the_job() {
    let mut host = program(&[1, 1]).coordinator_host(NodeId(1));

    let mut commands = host.handle(Time::ZERO, CoordinatorEvent::Overflow(usize::MAX));

    let Some(CoordinatorCommand::Forward { node, frame }) = commands.pop() else { panic!() };
    assert_eq!((node, commands.len()), (NodeId(0), 0));
    let (_, to, packet) = Packet::from_frame(&frame.into()).unwrap();
    let Content::Control(control) = packet.0 else { panic!() };
    let Control::Failed { error } = *control else { panic!() };
    let is_over_budget = matches!(error, JobError::OverBudget { pe: PeId(1), .. });
    assert!(to == COORDINATOR && is_over_budget, "{error}");
}

#[test]
fn a_budget_that_numbers_of_destroyed_members_fill_is_not_blamed_on_what_waits() {
    for (receivers, cause) in [(0, "packets and broadcasts that wait"), (9, "of 9 members")] {
        let host = program(&[1]).coordinator_host(NodeId(0));
        let common = host.coordinator().unwrap().common.clone();
        let mut coordinator = Coordinator::new(NodeId(0), common);
        for index in 0..receivers {
            let id = ActorId { collection: CollectionId(0), key: Ix1(index).key() };
            coordinator.result_numbers.insert(id, 1);
        }

        let most = coordinator.most_of(9 * RESULT_NUMBER_BYTES);
        assert!(most.contains(cause), "{most}");

        coordinator.fail_overflow(9 * RESULT_NUMBER_BYTES);
        let error = coordinator.outcome().unwrap().clone().unwrap_err().to_string();
        assert!(error.contains("packets that wait"), "no packet is in the budget: {error}");
    }
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
fn a_guest_that_fails_before_it_is_admitted_does_not_end_the_job() {
    for has_asked in [false, true] {
        let program = program(&[1, 1]);
        let guest = program.layout().leader(program.layout().guest(SiteId(0), 0).unwrap());
        let mut coordinator = program.coordinator_host(NodeId(0));
        if has_asked {
            let fingerprint = coordinator.coordinator().unwrap().common.definition.fingerprint;
            let join = MembershipMessage::Join { fingerprint, pes: 1, contact: String::new() };
            tell(&mut coordinator, guest, Control::Membership(join));
        }

        let error = JobError::Failed("its device is gone".to_owned());
        let told = tell(&mut coordinator, guest, Control::Failed { error });

        assert_eq!(coordinator.coordinator().and_then(Coordinator::outcome), None);
        let is_end = |control: &Control| matches!(control, Control::Stop { outcome: Err(_) });
        assert!(told.iter().any(|(to, it)| *to == guest && is_end(it)), "{told:?}");
    }
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
