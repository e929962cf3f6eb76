//! Brings overfull parts under their limits at the least cost, and if necessary at any cost.
//!
//! First, single vertices move where that costs least per load (as in KaMinPar); then pairs are
//! exchanged; then the overfull parts and some others are emptied, and their vertices are packed
//! again, heaviest first.

use super::heap::GainHeap;
use super::state::State;
use std::collections::BTreeSet;

/// Maximum number of exchanges per part.
const EXCHANGES_MAX: usize = 64;
/// Maximum number of vertices of a part that are tried in an exchange. In a larger part, every
/// n-th vertex in order of load is tried.
const TRIED_MAX: usize = 512;

/// Moves vertices out of overfull parts while some part has room for them.
pub(super) fn shed(state: &mut State<'_>) {
    let over: BTreeSet<u32> =
        (0..state.parts() as u32).filter(|&part| state.excess_of(part) > 0).collect();
    if over.is_empty() {
        return;
    }
    let mut heap = GainHeap::new(state.part.len());
    for vertex in 0..state.part.len() as u32 {
        if over.contains(&state.part[vertex as usize])
            && let Some(choice) = anywhere(state, vertex)
        {
            heap.set(vertex, urgency(state, vertex, choice.0));
        }
    }
    while let Some((key, vertex)) = heap.pop() {
        if state.excess_of(state.part[vertex as usize]) == 0 {
            continue;
        }
        let Some((gain, to)) = anywhere(state, vertex) else { continue };
        let now = urgency(state, vertex, gain);
        if now < key && heap.peek().is_some_and(|top| top.0 > now) {
            heap.set(vertex, now);
            continue;
        }
        state.shift(vertex, to);
    }
}

/// Returns the gain of the best move, and the part: one of the neighbours' parts or the home if one
/// has room, otherwise the part with most room.
fn anywhere(state: &mut State<'_>, vertex: u32) -> Option<(i64, u32)> {
    let load = state.problem.graph.load(vertex);
    if state.problem.is_fixed(vertex) || load == 0 {
        return None;
    }
    if let Some(choice) = state.choice(vertex) {
        return Some((choice.gain, choice.to));
    }
    let to = emptiest(state)?;
    (to != state.part[vertex as usize] && state.room(to) >= load).then(|| (-state.hold(vertex), to))
}

fn emptiest(state: &State<'_>) -> Option<u32> {
    (0..state.parts() as u32).max_by_key(|&part| (state.room(part), u32::MAX - part))
}

/// Returns the priority of a move, from its gain and the load it moves: a greater load raises the
/// value of a gain and lowers that of a cost. Load beyond the excess does not count. Only the order
/// of the keys has a meaning.
fn urgency(state: &State<'_>, vertex: u32, gain: i64) -> i64 {
    let load = state.problem.graph.load(vertex).max(1) as f64;
    let excess = state.excess_of(state.part[vertex as usize]).max(1) as f64;
    let useful = load.min(excess) / state.problem.graph.total_load().max(1) as f64;
    let value = if gain > 0 { gain as f64 * useful } else { gain as f64 / useful };
    ordered(value)
}

/// Maps a number to an integer, keeping the order. Scaling cannot do this, because weights range
/// from 1 to 2^62.
fn ordered(value: f64) -> i64 {
    // The bits of non-negative numbers have the order of the numbers; the bits of negative numbers
    // have the opposite order.
    let bits = value.to_bits() as i64;
    if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
}

/// Exchanges a heavier vertex of an overfull part for a lighter one of another part, while that
/// helps.
pub(super) fn exchange(state: &mut State<'_>) {
    let mut members = vec![Vec::new(); state.parts()];
    for vertex in 0..state.part.len() as u32 {
        if !state.problem.is_fixed(vertex) {
            members[state.part[vertex as usize] as usize]
                .push((state.problem.graph.load(vertex), vertex));
        }
    }
    members.iter_mut().for_each(|members| members.sort_unstable());
    for part in 0..state.parts() as u32 {
        for _ in 0..EXCHANGES_MAX {
            if state.excess_of(part) == 0 || !exchange_once(state, &mut members, part) {
                break;
            }
        }
    }
}

type Members = [Vec<(i64, u32)>];

fn exchange_once(state: &mut State<'_>, members: &mut Members, part: u32) -> bool {
    let excess = state.excess_of(part);
    let stride = members[part as usize].len().div_ceil(TRIED_MAX).max(1);
    // (excess left, cost, our member, other part, its member)
    let mut best: Option<(i64, i64, usize, u32, usize)> = None;
    for other in (0..state.parts() as u32).filter(|&other| other != part && state.room(other) > 0) {
        let room = state.room(other);
        for (at, &(load, vertex)) in members[part as usize].iter().enumerate().step_by(stride) {
            // The lightest partner that the other part's room allows removes most load.
            let least = load - room;
            let theirs = members[other as usize].partition_point(|member| member.0 < least);
            let Some(&(their_load, their)) = members[other as usize].get(theirs) else { continue };
            if their_load >= load {
                continue;
            }
            let left = (excess - (load - their_load)).max(0);
            let cost = state.hold(vertex).saturating_add(state.hold(their));
            if best.is_none_or(|best| (left, cost) < (best.0, best.1)) {
                best = Some((left, cost, at, other, theirs));
            }
        }
    }
    let Some((_, _, at, other, theirs)) = best else { return false };
    let ours = members[part as usize].remove(at);
    let their = members[other as usize].remove(theirs);
    state.shift(ours.1, other);
    state.shift(their.1, part);
    for (part, member) in [(part, their), (other, ours)] {
        let members = &mut members[part as usize];
        let at = members.partition_point(|entry| *entry < member);
        members.insert(at, member);
    }
    true
}

/// Empties the overfull parts and the emptiest others and packs them again, with more parts each
/// time until all vertices fit. If they never fit, nothing changes.
pub(super) fn repack(state: &mut State<'_>) {
    let over: Vec<u32> = (0..state.parts() as u32).filter(|&p| state.excess_of(p) > 0).collect();
    if over.is_empty() {
        return;
    }
    let mut others: Vec<u32> =
        (0..state.parts() as u32).filter(|part| !over.contains(part)).collect();
    others.sort_by_key(|&part| (-state.room(part), part));
    let mut helpers = over.len();
    loop {
        let helping = &others[..helpers.min(others.len())];
        let parts: BTreeSet<u32> = over.iter().chain(helping).copied().collect();
        let packed = pack(state, &parts);
        if let Some(packed) = packed {
            packed.into_iter().for_each(|(vertex, to)| state.shift(vertex, to));
            return;
        }
        if helpers >= others.len() {
            return;
        }
        helpers = (helpers * 4).max(1);
    }
}

/// Returns a part for each vertex of `parts`, heaviest first, so that all fit. Each vertex goes to
/// the part with the most room; if that fails, each goes to the part with the least room that is
/// enough. Returns `None` if both fail.
fn pack(state: &State<'_>, parts: &BTreeSet<u32>) -> Option<Vec<(u32, u32)>> {
    let graph = &state.problem.graph;
    let mut room: Vec<(u32, i64)> = parts.iter().map(|&part| (part, state.room(part))).collect();
    let mut free: Vec<(i64, u32)> = Vec::new();
    for vertex in 0..state.part.len() as u32 {
        let part = state.part[vertex as usize];
        if state.problem.is_fixed(vertex) || graph.load(vertex) == 0 {
            continue;
        }
        if let Ok(at) = room.binary_search_by_key(&part, |entry| entry.0) {
            room[at].1 += graph.load(vertex);
            free.push((graph.load(vertex), vertex));
        }
    }
    free.sort_by_key(|&(load, vertex)| (-load, vertex));
    let fit = |is_tight: bool| -> Option<Vec<(u32, u32)>> {
        let mut room = room.clone();
        let place = |&(load, vertex): &(i64, u32)| {
            let fitting = room.iter_mut().filter(|entry| entry.1 >= load);
            let key = |entry: &(u32, i64)| if is_tight { -entry.1 } else { entry.1 };
            let best = fitting.reduce(|a, b| if key(b) > key(a) { b } else { a })?;
            best.1 -= load;
            Some((vertex, best.0))
        };
        free.iter().map(place).collect()
    };
    fit(false).or_else(|| fit(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_of_all_sizes_are_in_the_order_of_their_numbers(
            one in -1e30..1e30_f64, other in -1e-30..1e-30_f64, third in -1e19..1e19_f64,
        ) {
            let mut values = [one, other, third, 0.0, -1.0, 1.0, 2.0_f64.powi(62), -(2.0_f64.powi(62))];
            values.sort_by(f64::total_cmp);
            prop_assert!(values.map(ordered).is_sorted());
            prop_assert!(ordered(-0.0) <= ordered(0.0));
        }
    }
}
