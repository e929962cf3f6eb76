//! Quiescence: rounds of questions to all PEs.

use super::{Idle, contribution, create, program, sent, tell};
use crate::Job;
use crate::address::collection::Map;
use crate::address::id::{CollectionId, KindId, MAIN_PE};
use crate::coordinator::host::CoordinatorHost;
use crate::coordinator::machine::Coordinator;
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::{
    CheckpointMessage, Contribution, Control, DrainCounts, MainRequest, ReductionGroup,
};
use crate::reduce::{Op, Partial, Target, Value};
use bytes::Bytes;
use gridspan_balance::Refine;
use gridspan_topology::{Layout, NodeId, PeId, Time};

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

/// Number of PEs that are asked for their loads.
fn measured(told: &[(PeId, Control)]) -> usize {
    told.iter().filter(|(_, control)| matches!(control, Control::Measure { .. })).count()
}

#[test]
fn a_rebalance_that_waits_for_the_end_of_a_checkpoint_is_not_quiescent() {
    let job = Job::new("postponed").actor::<Idle>().strategy(Refine);
    let job = job.main(async |_| Ok::<(), JobError>(()));
    let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
    let mut coordinator = Program::new(job, layout).unwrap().coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);
    let Coordinator { created: processed, processed: created, .. } =
        *coordinator.coordinator().unwrap();
    let mut pes = CountingPes { created, processed };
    let request = MainRequest::Checkpoint { progress: Bytes::new(), phases: 0, pause: None };
    pes.tell(&mut coordinator, MAIN_PE, Control::MainRequest { slot: 3, request });
    // The only member waits at its first sync point until the rebalance has decided.
    let group = ReductionGroup::Sync(collection);
    let (op, target, partial) = (Op::And, Target::Sync, Partial::Plain(Value::Unit));
    let sync = Contribution { group, op, target, partial, ..contribution(collection, 0, 1) };
    let told = pes.tell(&mut coordinator, PeId(1), Control::Contribution(sync));
    assert_eq!(measured(&told), 0, "{told:?}");
    let ask = Control::MainRequest { slot: 4, request: MainRequest::Quiescence };
    pes.tell(&mut coordinator, MAIN_PE, ask);

    for round in 1..=3 {
        assert!(pes.answer(&mut coordinator, round).is_empty(), "no answer in round {round}");
        let woken = sent(coordinator.wake(Time(round * 1_000_000_000)));
        let is_round = |(_, it): &&(PeId, Control)| matches!(it, Control::QuiescenceRound { .. });
        assert_eq!(woken.iter().filter(is_round).count(), 2, "{woken:?}");
    }

    let mut told = Vec::new();
    for (round, pe) in [(1, PeId(0)), (1, PeId(1)), (2, PeId(0)), (2, PeId(1))] {
        let counts = DrainCounts { questions: 1, ..DrainCounts::default() };
        let drained = CheckpointMessage::Drained { checkpoint: 1, round, counts };
        let drained = Control::Checkpoint(Box::new(drained));
        told = pes.tell(&mut coordinator, pe, drained);
    }
    assert_eq!(
        measured(&told),
        2,
        "the checkpoint is postponed, and the rebalance begins: {told:?}"
    );
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
