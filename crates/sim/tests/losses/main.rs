//! Random jobs lose nodes at random moments, again and again, and continue from their checkpoints,
//! while other nodes leave and join: every message is handled once, and in order.
#![allow(missing_docs, clippy::unwrap_used)]

mod actors;
mod job;
mod order;
mod phases;
mod processes;
mod questions;
mod story;
mod tasks;

use gridspan_runtime::pe::PlantedFault;
use gridspan_runtime::session::PlantedSessionFault;
use gridspan_sim::campaign::Planted;
use phases::{LossPhase, LostPlace};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::catch_unwind;
use story::{Story, story};

/// Seeds of a test without `LOSSES_SEEDS`; `.ci/extended` has more.
const SEEDS: Range<u64> = 0..500;

/// Minimum number of seeds in which losses hit each phase and make the job repeat work.
const SEEDS_PER_PHASE: u64 = 20;

/// Minimum number of seeds in which nodes of each [`LostPlace`] are lost and the job goes on from a
/// checkpoint, if the test has all of [`SEEDS`].
const SEEDS_PER_PLACE: u64 = 20;

/// Minimum number of seeds in which lost nodes come back and are refused.
const SEEDS_WITH_RETURNS: u64 = 20;

/// Minimum number of seeds for a check of the counts. A run with fewer serves to repeat a failure.
const SEEDS_JUDGED: u64 = 150;

/// The seeds of a test: as many as `LOSSES_SEEDS` says, or those of a range such as `1000..2000`.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("LOSSES_SEEDS") else { return SEEDS };
    let number = |text: &str| text.parse().expect("LOSSES_SEEDS is a number or a range `A..B`");
    let seeds = match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&text),
    };
    assert!(!seeds.is_empty(), "LOSSES_SEEDS={text} has no seed");
    seeds
}

#[test]
fn every_message_is_handled_once_and_in_order_whatever_nodes_are_lost() {
    let mut sum = Story::default();
    let mut with_returns = 0;
    let mut phases: BTreeMap<LossPhase, u64> = LossPhase::ALL.map(|phase| (phase, 0)).into();
    let mut places: BTreeMap<LostPlace, u64> = LostPlace::ALL.map(|place| (place, 0)).into();
    let seeds = seeds();
    for seed in seeds.clone() {
        let story = story(seed, Planted::None);
        let end = seed + 1;
        assert_eq!(story.problem, None, "seed {seed}; LOSSES_SEEDS={seed}..{end} repeats it");
        sum.recoveries += story.recoveries;
        sum.changes += story.changes;
        sum.beginnings += story.beginnings;
        sum.unprotected += story.unprotected;
        sum.again += story.again;
        sum.refused += story.refused;
        with_returns += u64::from(story.refused > 0);
        sum.checkpoints += story.checkpoints;
        sum.postponed.extend(story.postponed);
        for phase in story.phases {
            *phases.entry(phase).or_default() += 1;
        }
        for place in story.places {
            *places.entry(place).or_default() += 1;
        }
    }
    println!(
        "{} recoveries, {} of them to the checkpoint of the one before; {} changes of the nodes; {} \
         beginnings, {} ends without a copy; {} checkpoints; postponed: {:?}",
        sum.recoveries,
        sum.again,
        sum.changes,
        sum.beginnings,
        sum.unprotected,
        sum.checkpoints,
        sum.postponed
    );
    println!(
        "nodes that were lost came back in {with_returns} seeds; {} of their frames were refused",
        sum.refused
    );
    println!("seeds in which a loss hit a phase, and work was repeated: {phases:?}");
    println!("seeds in which nodes were lost, by what ran there: {places:?}");
    if seeds.end - seeds.start < SEEDS_JUDGED {
        return;
    }
    assert!(sum.recoveries > 100, "{}", sum.recoveries);
    assert!(sum.changes > 50, "{}", sum.changes);
    assert!(
        with_returns >= SEEDS_WITH_RETURNS,
        "lost nodes came back in only {with_returns} seeds"
    );
    for (phase, seeds) in phases {
        assert!(seeds >= SEEDS_PER_PHASE, "losses hit {phase:?} in only {seeds} seeds");
    }
    let are_enough = seeds.end - seeds.start >= SEEDS.end;
    for (place, seeds) in places.into_iter().filter(|_| are_enough) {
        assert!(seeds >= SEEDS_PER_PLACE, "{place:?} was lost in only {seeds} seeds");
    }
}

/// Number of seeds of which one must find a planted bug.
const SEEDS_TO_FIND: u64 = 100;
/// The same for a bug in the mailboxes of group members that merge: messages wait there in only one
/// of fifty seeds.
const SEEDS_TO_FIND_MERGED: u64 = 400;

/// Asserts that one of the first `seeds` finds a planted bug, by a problem that contains `text`.
fn assert_found(planted: Planted, text: &str, seeds: u64) {
    // A panic outside of handlers and main finds the bug, too.
    let problem = |seed| match catch_unwind(|| story(seed, planted)) {
        Ok(story) => story.problem.filter(|problem| problem.contains(text)),
        Err(_) => Some("a panic".to_owned()).filter(|_| text.is_empty()),
    };
    let found = (0..seeds).find_map(|seed| Some((seed, problem(seed)?)));
    let (seed, problem) = found.unwrap_or_else(|| panic!("{planted:?} was not found"));
    println!("{planted:?} was found by seed {seed}: {problem}");
}

#[test]
fn planted_bugs_are_found() {
    for fault in [
        PlantedFault::MailboxesLeftOut,
        PlantedFault::TimersLeftOut,
        PlantedFault::QuestionsLeftOut,
        PlantedFault::CapturedInFlight,
        PlantedFault::HomeNotMoved,
        PlantedFault::ChangedBeforeEncoding,
    ] {
        assert_found(Planted::Pe(fault), "", SEEDS_TO_FIND);
    }
    let merged = Planted::Pe(PlantedFault::MergedMailboxesLeftOut);
    assert_found(merged, "", SEEDS_TO_FIND_MERGED);
}

#[test]
fn accepting_nodes_of_the_run_before_is_found() {
    assert_found(Planted::Session(PlantedSessionFault::KeysKept), "", SEEDS_TO_FIND);
}

#[test]
fn mailboxes_in_reverse_order_are_found_by_the_numbers_of_messages() {
    let reversed = Planted::Pe(PlantedFault::MailboxesReversed);
    assert_found(reversed, "out of order", SEEDS_TO_FIND);
}

#[test]
fn a_copy_on_the_same_node_protects_against_no_loss() {
    let protected = |fault| {
        let stories = (0..20).map(|seed| story(seed, Planted::Pe(fault)));
        stories.map(|story| u64::from(story.recoveries > 0)).sum::<u64>()
    };
    let (right, wrong) = (protected(PlantedFault::None), protected(PlantedFault::CopyOnSameNode));
    assert!(wrong == 0 && right > 8, "{wrong} of 20 jobs recovered, and {right} without the bug");
}
