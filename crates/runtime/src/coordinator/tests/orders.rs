//! The order of broadcasts, insertions and results, and the memory of those that wait.

use super::{contribution, create, held_bytes, numbers, program, request, tell};
use crate::address::id::{ActorId, SectionId};
use crate::address::index::{ActorIndex, Ix1};
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::payload::Payload;
use crate::message::{Contribution, Control, ReductionGroup};
use crate::reduce::{Reduction, Target};
use crate::{Actor, Context, Job};
use gridspan_topology::{Layout, NodeId, PeId};
use serde::{Deserialize, Serialize};

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

#[test]
fn reductions_over_a_group_complete_in_their_order_whatever_other_groups_wait_for() {
    let mut coordinator = program(&[2]).coordinator_host(NodeId(0));
    let collection = create(&mut coordinator);
    let whole = ReductionGroup::Collection(collection);
    let section = |name: u64| ReductionGroup::Section(SectionId { collection, name });
    // Adds a contribution, and returns the numbers of results for main so far.
    let mut contribute = |group: ReductionGroup, sequence: u64, expected: u64| {
        let contribution =
            Contribution { group, expected, ..contribution(collection, sequence, 1) };
        tell(&mut coordinator, PeId(0), Control::Contribution(contribution));
        let state = &coordinator.coordinator().unwrap().collections[&collection];
        let results =
            |group: ReductionGroup| state.for_main.get(&group).map_or(0, |it| it.results.len());
        [whole, section(1), section(2)].map(results)
    };

    assert_eq!(contribute(section(1), 0, 2), [0, 0, 0], "the other member is missing");
    assert_eq!(contribute(whole, 1, 0), [0, 0, 0], "it is early");
    assert_eq!(contribute(section(2), 0, 1), [0, 0, 1]);
    assert_eq!(contribute(whole, 0, 0), [2, 0, 1]);
    assert_eq!(contribute(section(1), 0, 2), [2, 1, 1]);
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
