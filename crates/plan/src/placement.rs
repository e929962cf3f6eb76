//! Where actors live on another grid: as they are created there, or as a strategy places them.
//!
//! A recording identifies actors by hashes, and not by their indices. But members of a collection
//! are created in the order of their indices, and the default placement cuts this order into as
//! many runs as there are PEs. So actors of a type are ordered by the PE and the time of their
//! creation, and cut again. If the recorded number of PEs is a multiple of the new one, adjacent
//! PEs are merged instead. That is right for every placement that scales with the number of PEs,
//! including placements that the program defines.

use crate::error::ForecastError;
use crate::trace::JobTrace;
use gridspan_balance::{ActorKey, ActorLoad, Edge, PeLoad, SiteLink, Snapshot, by_name};
use gridspan_topology::{GridSpec, PeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Where actors are put.
///
/// ```
/// use gridspan_plan::ActorPlacement;
///
/// let balanced = ActorPlacement::Strategy { name: "auto".to_owned(), seed: 1 };
/// assert_ne!(balanced, ActorPlacement::Created);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ActorPlacement {
    /// Where they are created.
    #[default]
    Created,
    /// Where a balancing strategy moves them, once it knows their loads and messages.
    Strategy {
        /// Its name.
        name: String,
        /// The seed of its random numbers.
        seed: u64,
    },
}

/// Returns the PE of each actor.
pub(crate) fn places(
    trace: &JobTrace,
    grid: &GridSpec,
    placement: &ActorPlacement,
) -> Result<Vec<u32>, ForecastError> {
    let created = created(trace, grid.layout().pe_count());
    match placement {
        ActorPlacement::Created => Ok(created),
        ActorPlacement::Strategy { name, seed } => balanced(trace, grid, created, name, *seed),
    }
}

/// Where actors are created on this number of PEs.
fn created(trace: &JobTrace, pes: u32) -> Vec<u32> {
    let recorded = trace.pes.max(1);
    if recorded.is_multiple_of(pes) {
        let merged = |pe: u32| (u64::from(pe) * u64::from(pes) / u64::from(recorded)) as u32;
        return trace.actors.iter().map(|actor| merged(actor.pe).min(pes - 1)).collect();
    }
    let of_kind = trace.actors_by_kind();
    let mut before = vec![0_u64; trace.kinds.len()];
    let place = |kind: u32| {
        let rank = before[kind as usize];
        before[kind as usize] += 1;
        (rank * u64::from(pes) / (of_kind[kind as usize] as u64).max(1)) as u32
    };
    trace.actors.iter().map(|actor| actor.kind).map(place).collect()
}

/// Where a strategy moves actors.
fn balanced(
    trace: &JobTrace,
    grid: &GridSpec,
    mut places: Vec<u32>,
    name: &str,
    seed: u64,
) -> Result<Vec<u32>, ForecastError> {
    let unknown = |_| ForecastError::UnknownStrategy { name: name.to_owned() };
    let mut strategy = by_name(name, seed).map_err(unknown)?;
    let bad = |reason: String| ForecastError::BadPlan { name: name.to_owned(), reason };
    let snapshot = snapshot(trace, grid, &places);
    snapshot.validate().map_err(|error| bad(error.to_string()))?;
    let plan = strategy.plan(&snapshot);
    plan.validate(&snapshot).map_err(|error| bad(error.to_string()))?;
    for step in &plan.moves {
        if let Some(place) = places.get_mut(step.actor.index as usize) {
            *place = step.to.0;
        }
    }
    Ok(places)
}

/// Returns the snapshot from which a strategy plans.
fn snapshot(trace: &JobTrace, grid: &GridSpec, places: &[u32]) -> Snapshot {
    let layout = grid.layout();
    let speed = |pe: u32| grid.speed(layout.node_of(PeId(pe))).factor();
    let fixed = fixed_kinds(trace);
    let work = trace.work_by_actor();
    let actors = trace.actors.iter().enumerate().map(|(at, actor)| {
        let id = ActorKey { collection: actor.kind, index: at as u128 };
        let load = Duration::from_nanos((work[at] / speed(places[at])) as u64);
        let mut actor_load = ActorLoad::new(id, PeId(places[at]), load);
        actor_load.migratable = !fixed.contains(&actor.kind);
        actor_load
    });
    let pes = layout.pes().map(|pe| PeLoad::new(speed(pe.0)));
    let (actors, pes) = (actors.collect(), pes.collect());
    let mut snapshot = Snapshot::new(actors, edges(trace), pes, layout.clone());
    snapshot.steps = u64::from(trace.rounds.saturating_sub(1).max(1));
    snapshot.has_step_order = trace.has_steps;
    let sites = || layout.sites();
    let pairs = sites().flat_map(|from| sites().map(move |to| (from, to)));
    let link = |(from, to)| {
        let link = grid.link_between(from, to);
        SiteLink::new(from, to, link.latency, grid.bandwidth_between(from, to))
    };
    snapshot.links = pairs.filter(|(from, to)| from != to).map(link).collect();
    snapshot
}

/// The messages between actors.
fn edges(trace: &JobTrace) -> Vec<Edge> {
    let mut edges: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (from, actor) in trace.actors.iter().enumerate() {
        let range = actor.firings.start as usize..actor.firings.end as usize;
        for handling in trace.firings[range].iter().flat_map(|firing| &firing.sends) {
            let of = &trace.handlings[*handling as usize];
            let edge = edges.entry((from as u32, of.actor)).or_default();
            *edge = (edge.0 + 1, edge.1.saturating_add(of.bytes));
        }
    }
    let edge = |((from, to), (messages, bytes))| Edge { from, to, messages, bytes };
    edges.into_iter().filter(|((from, to), _)| from != to).map(edge).collect()
}

/// The types that have one actor on each PE, which cannot move.
fn fixed_kinds(trace: &JobTrace) -> BTreeSet<u32> {
    let mut pes: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for actor in &trace.actors {
        pes.entry(actor.kind).or_default().insert(actor.pe);
    }
    let counts = trace.actors_by_kind();
    let is_on_each = |kind: u32, on: &BTreeSet<u32>| {
        counts[kind as usize] == on.len() && on.len() == trace.pes as usize && trace.pes > 1
    };
    pes.into_iter().filter(|(kind, on)| is_on_each(*kind, on)).map(|(kind, _)| kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TracedActor;

    /// Eight actors of a type, two on each of four PEs, and two of another one.
    fn trace() -> JobTrace {
        let actor = |kind, pe| TracedActor { kind, pe, firings: 0..0 };
        let actors = (0..8).map(|at| actor(0, at / 2)).chain([actor(1, 3), actor(1, 3)]);
        JobTrace {
            kinds: vec!["Cell".to_owned(), "Sink".to_owned()],
            actors: actors.collect(),
            pes: 4,
            ..JobTrace::default()
        }
    }

    #[test]
    fn fewer_pes_are_merged_and_more_cut_the_order_of_creation() {
        assert_eq!(created(&trace(), 4), [0, 0, 1, 1, 2, 2, 3, 3, 3, 3]);
        assert_eq!(created(&trace(), 2), [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(created(&trace(), 8), [0, 1, 2, 3, 4, 5, 6, 7, 0, 4]);
    }

    #[test]
    fn a_strategy_moves_actors_to_fast_pes() {
        let mut trace = trace();
        let handling = |actor| crate::trace::Handling {
            actor,
            work_ns: 1e6,
            ..crate::trace::Handling::default()
        };
        trace.handlings = (0..8).map(handling).collect();
        let grid = GridSpec::from_emulate("1x2,wan=1ms,speed=1:1/3").unwrap();
        let greedy = ActorPlacement::Strategy { name: "greedy".to_owned(), seed: 1 };
        let places = places(&trace, &grid, &greedy).unwrap();
        let on_fast = places[..8].iter().filter(|&&pe| pe == 0).count();
        assert_eq!(on_fast, 6, "{places:?}");
        let nothing = ActorPlacement::Strategy { name: "no".to_owned(), seed: 1 };
        let refused = super::places(&trace, &grid, &nothing).unwrap_err();
        assert_eq!(refused, ForecastError::UnknownStrategy { name: "no".to_owned() });
    }
}
