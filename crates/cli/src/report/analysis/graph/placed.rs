//! Where actors ran before and after a rebalance, as their spans say.

use super::super::history::{History, KeptSpan};
use super::super::kinds::Kinds;
use super::super::places::Places;
use super::super::profile::Profile;
use super::super::traffic::Traffic;
use gridspan_record::{OTHER, TASK};
use std::collections::BTreeMap;

/// The parts of the analysis from which the graph is made.
#[derive(Clone, Copy)]
pub(crate) struct GraphSource<'a> {
    pub(crate) history: &'a History<'a>,
    pub(crate) kinds: &'a Kinds,
    pub(crate) places: &'a Places,
    pub(crate) profile: &'a Profile,
    pub(crate) traffic: &'a Traffic,
}

/// An actor whose places are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedActor {
    /// Position of its type.
    pub(crate) kind: usize,
    /// Its PE before and after.
    pub(crate) pes: [usize; 2],
    /// Its time in handlers before and after.
    pub(crate) load_ns: [u64; 2],
}

impl PlacedActor {
    /// Whether it is on another PE afterwards.
    pub(crate) fn has_moved(&self) -> bool {
        self.pes[0] != self.pes[1]
    }
}

/// What the spans of an actor say on one side of the rebalance.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// Begin and PE of its last span.
    last: Option<(u64, usize)>,
    load_ns: u64,
}

/// Type and number of an actor.
type ActorKey = (usize, u64);

/// Returns the spans of actors that began between two times, each with its actor and its PE.
fn spans<'a>(
    source: GraphSource<'a>,
    [from_ns, to_ns]: [u64; 2],
) -> impl Iterator<Item = (ActorKey, usize, KeptSpan<'a>)> {
    source.history.pes.iter().enumerate().flat_map(move |(pe, known)| {
        let first = known.spans.partition_point(|kept| kept.span.begin_ns < from_ns);
        let inside = known.spans[first..].iter().take_while(move |it| it.span.begin_ns < to_ns);
        inside.filter_map(move |kept| {
            let span = kept.span;
            let is_actor = span.kind != TASK && span.kind != OTHER;
            is_actor.then(|| ((source.kinds.place(pe, span.kind), span.actor), pe, *kept))
        })
    })
}

/// Returns the actors whose places before and after are known.
pub(crate) fn actors(
    source: GraphSource<'_>,
    before: [u64; 2],
    after: [u64; 2],
) -> Vec<PlacedActor> {
    let mut sides: BTreeMap<ActorKey, [Side; 2]> = BTreeMap::new();
    for (number, times) in [before, after].into_iter().enumerate() {
        for (actor, pe, kept) in spans(source, times) {
            // An actor without a place before is left out.
            let known = match number {
                0 => Some(sides.entry(actor).or_default()),
                _ => sides.get_mut(&actor),
            };
            let Some(known) = known else { continue };
            let side = &mut known[number];
            side.last = side.last.max(Some((kept.span.begin_ns, pe)));
            let ns = kept.end_ns.saturating_sub(kept.span.begin_ns);
            side.load_ns = side.load_ns.saturating_add(ns);
        }
    }
    let mut returned = returned(source, after, &sides);
    let placed = |(actor, [before, after]): (ActorKey, [Side; 2])| {
        let (_, old) = before.last?;
        let (_, last) = after.last?;
        let new = if returned.remove(&actor) == Some(true) { old } else { last };
        Some(PlacedActor {
            kind: actor.0,
            pes: [old, new],
            load_ns: [before.load_ns, after.load_ns],
        })
    };
    sides.into_iter().filter_map(placed).collect()
}

/// Returns for each actor that ran elsewhere afterwards whether it still ran at its old place after
/// it had begun at the new one. If so, the new place has a replica, and the actor did not move.
fn returned(
    source: GraphSource<'_>,
    after: [u64; 2],
    sides: &BTreeMap<ActorKey, [Side; 2]>,
) -> BTreeMap<ActorKey, bool> {
    let mut first: BTreeMap<ActorKey, u64> = BTreeMap::new();
    let mut last: BTreeMap<ActorKey, u64> = BTreeMap::new();
    for (actor, pe, kept) in spans(source, after) {
        let Some([Side { last: Some((_, old)), .. }, Side { last: Some((_, new)), .. }]) =
            sides.get(&actor)
        else {
            continue;
        };
        let begin_ns = kept.span.begin_ns;
        if old != new && pe == *new {
            let known = first.entry(actor).or_insert(begin_ns);
            *known = begin_ns.min(*known);
        } else if old != new && pe == *old {
            let known = last.entry(actor).or_insert(begin_ns);
            *known = begin_ns.max(*known);
        }
    }
    let is_later = |(actor, first_ns): (ActorKey, u64)| {
        (actor, last.get(&actor).is_some_and(|last_ns| *last_ns > first_ns))
    };
    first.into_iter().map(is_later).collect()
}
