//! Quiescence: rounds of questions to all PEs.

use super::{contribution, create, program, sent, tell};
use crate::address::collection::Map;
use crate::address::id::{CollectionId, KindId, MAIN_PE};
use crate::coordinator::host::CoordinatorHost;
use crate::coordinator::machine::Coordinator;
use crate::message::{Control, MainRequest};
use gridspan_topology::{NodeId, PeId, Time};

/// Two PEs that count the controls that quiescence counts.
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

    // Broadcasts may wait for members of the bound collection, and no other count contains them.
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
        // Not the next reduction, so that the coordinator combines both contributions.
        let contribution = contribution(collection, 1, most);
        tell(&mut coordinator, pe, Control::Contribution(contribution));
    }

    assert_eq!(coordinator.coordinator().and_then(Coordinator::outcome), None);
}
