//! What a message from another site waits for at a PE.
//!
//! Where messages are handled as they come: a part of the work of all border actors of the PE, since these wait for
//! each other. Where those of the oldest step, and in it those of border actors, are handled first: the rest of a
//! running handler, on average the sum of `h²/2T` over the handlers of the PE, which take `h` each in a step of length
//! `T` (the mean residual life of renewal theory), and those beside its receiver that it is also for. The work of an
//! actor in a step is taken for one handler.

use super::Predictor;
use gridspan_topology::PeId;
use std::collections::{BTreeMap, BTreeSet};

/// What messages between sites wait for.
pub(super) enum Waits {
    /// By PE, the work of all its border actors.
    InTurn(Vec<f64>),
    /// Those whom another site waits for are handled first.
    First {
        /// By PE, the sum of the squares of its handlers.
        squares: Vec<f64>,
        /// By sender and PE, the work of those whom it sends to from another site.
        told: BTreeMap<(u32, PeId), f64>,
    },
}

impl Waits {
    /// `pairs` talk across sites.
    pub(super) fn of(of: &Predictor<'_>, pairs: &BTreeSet<(u32, u32)>) -> Self {
        let pe = |actor: u32| of.mapping[actor as usize];
        if of.snapshot.has_step_order {
            let mut squares = vec![0.0; of.sites.len()];
            for (work, pe) in of.works.iter().zip(of.mapping) {
                squares[pe.index()] += work * work;
            }
            let mut told = BTreeMap::new();
            for &(from, to) in pairs {
                *told.entry((from, pe(to))).or_default() += of.works[to as usize];
            }
            return Self::First { squares, told };
        }
        let mut border = vec![0.0; of.sites.len()];
        let ends: BTreeSet<u32> = pairs.iter().flat_map(|&(from, to)| [from, to]).collect();
        for at in ends {
            border[pe(at).index()] += of.works[at as usize];
        }
        Self::InTurn(border)
    }

    /// How long a cycle through a pair stays at both of its ends, in steps of such a length.
    pub(super) fn stay(&self, of: &Predictor<'_>, (from, to): (u32, u32), step: f64) -> f64 {
        let [a, b] = [from, to].map(|actor| of.mapping[actor as usize]);
        let work = |actor: u32| of.works[actor as usize];
        match self {
            Self::InTurn(border) => {
                let waiting = border[a.index()].max(border[b.index()]) * of.model.border_wait;
                (work(from) + work(to)).max(waiting)
            }
            Self::First { squares, told } => {
                let stay = |sender: u32, actor: u32, pe: PeId| {
                    let handled = told.get(&(sender, pe)).copied().unwrap_or(work(actor));
                    let others = (squares[pe.index()] - work(actor) * work(actor)).max(0.0);
                    handled + others / (2.0 * step.max(f64::MIN_POSITIVE))
                };
                stay(from, to, b) + stay(to, from, a)
            }
        }
    }
}
