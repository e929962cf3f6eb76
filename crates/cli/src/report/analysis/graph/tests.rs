//! Tests on recordings that are built by hand.

use super::*;
use crate::report::analysis::fixtures::{MS, complete, from, recording, span};
use gridspan_record::{RebalanceTrigger, RecordedEvent, Recording, SentTo, Span, What};

fn balanced(at_ms: u64, actual_gain: Option<f64>, pause_ms: u64) -> RecordedEvent {
    let what = What::Balanced {
        trigger: RebalanceTrigger::SyncPoint,
        strategy: "refine".to_owned(),
        moved: 1,
        bytes: 10,
        predicted_gain: None,
        actual_gain,
        pause_ns: pause_ms * MS,
    };
    RecordedEvent { at_ns: at_ms * MS, what }
}

/// Adds a span of an actor to a PE.
fn add(recording: &mut Recording, pe: u32, actor: u64, times_ms: [u64; 2]) {
    let spans = &mut recording.pes[pe as usize].spans;
    let number = spans.len() as u64;
    spans.push(Span { actor, ..span(pe, number, times_ms) });
}

fn graph(recording: &Recording) -> Option<RebalanceGraph> {
    let places = Places::of(recording);
    let (kinds, profile) = (Kinds::of(recording), Profile::of(recording, &places));
    let traffic = Traffic::of(recording, &places, &profile);
    let history = History::of(recording, &places, profile.active);
    let source = GraphSource {
        history: &history,
        kinds: &kinds,
        places: &places,
        profile: &profile,
        traffic: &traffic,
    };
    RebalanceGraph::of(source, &Events::of(recording, &places, &profile))
}

/// At 10 ms actor 7 moves from site `a` to site `b`; actors 8 and 9 stay there. Actor 10 runs only
/// before.
fn one_move() -> Recording {
    let mut recording = recording(2, 1);
    add(&mut recording, 0, 7, [0, 5]);
    add(&mut recording, 0, 8, [5, 9]);
    add(&mut recording, 0, 10, [9, 10]);
    add(&mut recording, 0, 8, [20, 24]);
    add(&mut recording, 1, 9, [0, 8]);
    add(&mut recording, 1, 7, [20, 26]);
    add(&mut recording, 1, 9, [26, 30]);
    complete(&mut recording, 40);
    recording.events = vec![balanced(10, Some(0.2), 2), balanced(32, Some(0.1), 2)];
    recording
}

#[test]
fn actors_are_where_they_ran_before_and_after_the_rebalance_with_the_largest_gain() {
    let mut recording = one_move();
    let sent = |site, bytes| vec![SentTo { site, messages: 1, bytes }];
    recording.pes[0].bins[3].sent = sent(1, 500);
    recording.pes[0].bins[15].sent = sent(1, 80);
    recording.pes[1].bins[4].sent = sent(0, 30);
    // These do not count: one inside of a site, one during the rebalance, and one after the window,
    // which is as long as the time before the rebalance.
    recording.pes[1].bins[5].sent = sent(1, 7000);
    recording.pes[0].bins[11].sent = sent(1, 8000);
    recording.pes[0].bins[25].sent = sent(1, 9000);

    let graph = graph(&recording).unwrap();

    assert_eq!((graph.rebalance.at_ns, graph.region_kind), (10 * MS, RegionKind::Site));
    assert_eq!((graph.actors_known, graph.moved_known), (3, 1));
    let [a, b] = &graph.regions[..] else { panic!("{graph:?}") };
    assert_eq!((&*a.name, a.actors, &*b.name, b.actors), ("a", [2, 1], "b", [1, 2]));
    let group =
        MovedGroup { kind: "Worker".to_owned(), from: 0, to: 1, actors: 1, load_ns: 5 * MS };
    assert_eq!(graph.moves, [group]);
    let link = |from, to, bytes| RegionLink { from, to, bytes };
    assert_eq!(graph.links, [link(0, 1, [500.0, 80.0]), link(1, 0, [30.0, 0.0])]);
    assert_eq!((graph.window_ns, graph.are_bytes_estimated), (Some(10 * MS), false));
    // 10 and 8 ms before; afterwards, from 12 to 22 ms, 2 ms each.
    assert_eq!((a.busy_share, b.busy_share), ([Some(1.0), Some(0.2)], [Some(0.8), Some(0.2)]));
    assert_eq!(graph.unevenness, [Some(10.0 / 9.0), Some(1.0)]);
    let dot = |from, to, has_moved, load_ms: [u64; 2]| Dot {
        from,
        to,
        has_moved,
        actors: 1,
        load_ns: load_ms.map(|ms| ms * MS),
    };
    let dots = [dot(0, 0, false, [4, 4]), dot(1, 1, false, [8, 4]), dot(0, 1, true, [5, 6])];
    assert_eq!(graph.dots, dots);
}

#[test]
fn a_move_of_the_next_rebalance_is_not_one_of_this() {
    let mut recording = one_move();
    add(&mut recording, 0, 9, [35, 36]);
    complete(&mut recording, 40);

    assert_eq!(graph(&recording).unwrap().moved_known, 1);

    // Now the second rebalance has the larger gain.
    recording.events[1] = balanced(32, Some(0.3), 2);
    let later = graph(&recording).unwrap();
    let group =
        |from, to| MovedGroup { kind: "Worker".to_owned(), from, to, actors: 1, load_ns: 4 * MS };
    assert_eq!((later.rebalance.at_ns, &later.moves[..]), (32 * MS, &[group(1, 0)][..]));
}

#[test]
fn an_actor_that_also_runs_at_its_old_place_has_a_replica_and_did_not_move() {
    let mut recording = one_move();
    add(&mut recording, 0, 7, [24, 25]);
    add(&mut recording, 1, 7, [30, 31]);
    complete(&mut recording, 40);

    let graph = graph(&recording).unwrap();

    assert_eq!((graph.actors_known, graph.moved_known), (3, 0));
}

#[test]
fn an_actor_that_leaves_late_has_moved() {
    // Asynchronous rebalances have no pause: actors go on at their old places for a while.
    let mut recording = one_move();
    recording.pes[0].spans[3] = Span { actor: 7, ..span(0, 3, [12, 14]) };
    complete(&mut recording, 40);
    recording.events[0] = balanced(10, Some(0.2), 0);

    let graph = graph(&recording).unwrap();

    assert_eq!((graph.actors_known, graph.moved_known), (2, 1));
}

#[test]
fn the_regions_of_one_site_are_nodes_with_the_bytes_of_messages() {
    let mut recording = recording(1, 2);
    add(&mut recording, 0, 7, [0, 5]);
    add(&mut recording, 1, 9, [6, 8]);
    add(&mut recording, 1, 7, [20, 26]);
    recording.pes[1].spans[0].cause = from(0, 0, [5, 6]);
    complete(&mut recording, 40);
    recording.events = vec![balanced(10, None, 2)];

    let found = graph(&recording).unwrap();

    assert_eq!(found.region_kind, RegionKind::Node);
    assert_eq!(found.regions[1].name, "a/1");
    let link = |bytes| RegionLink { from: 0, to: 1, bytes };
    assert_eq!((&found.links[..], found.are_bytes_estimated), (&[link([100.0, 0.0])][..], false));
    // Each kept span stands for two.
    recording.pes[0].dropped_spans = 3;
    let found = graph(&recording).unwrap();
    assert_eq!((&found.links[..], found.are_bytes_estimated), (&[link([200.0, 0.0])][..], true));
}

#[test]
fn many_sites_and_actors_have_a_bounded_graph() {
    let mut recording = recording(20, 1);
    for pe in 0..20 {
        for actor in 0..100 {
            add(&mut recording, pe, u64::from(pe) * 1000 + actor + 1, [actor, actor + 1]);
        }
    }
    for pe in 0..20 {
        for actor in 0..100 {
            // The actors of sites 18 and 19 change places.
            let from = if pe >= 18 { 37 - pe } else { pe };
            let times = [200 + actor, 201 + actor];
            add(&mut recording, pe, u64::from(from) * 1000 + actor + 1, times);
        }
    }
    complete(&mut recording, 400);
    recording.events = vec![balanced(150, None, 0)];

    let graph = graph(&recording).unwrap();

    assert_eq!((graph.actors_known, graph.moved_known), (2000, 200));
    assert!(graph.has_others());
    let names: Vec<&str> = graph.regions.iter().map(|region| region.name.as_str()).collect();
    // Those with moves, then those with the lowest numbers.
    let sites = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "s", "t"];
    assert_eq!((&names[..11], names[11]), (&sites[..], OTHERS));
    assert_eq!(graph.regions[11].actors, [900, 900]);
    // A dot stands for four actors: 25 dots for 100.
    assert_eq!(graph.dots.len(), 9 * 25 + 2 * 25 + 225);
    assert_eq!(graph.dots.iter().map(|dot| dot.actors).sum::<usize>(), 2000);
    assert_eq!(graph.moves.iter().map(|group| group.actors).collect::<Vec<_>>(), [100, 100]);
}

#[test]
fn without_a_rebalance_that_moved_actors_there_is_no_graph() {
    let mut recording = one_move();
    recording.events.clear();
    assert_eq!(graph(&recording), None);
}

#[test]
fn a_rebalance_at_the_begin_has_no_time_before() {
    let mut recording = one_move();
    recording.events = vec![balanced(0, None, 0)];

    let graph = graph(&recording).unwrap();

    assert_eq!((graph.window_ns, graph.actors_known), (None, 0));
    assert_eq!((graph.links, graph.unevenness), (vec![], [None, None]));
}
