//! How long messages from another site wait at a PE.
//!
//! Border actors are those that exchange messages with other sites.
//!
//! **In order of arrival.** A message waits for a part of the work of all border actors of the PE,
//! since these wait for each other.
//!
//! **By step.** A PE handles messages of the oldest step first, and within it those to border
//! actors. So a message waits only for the rest of the running handler, and for the other actors of
//! the PE to which the same sender sends. The rest of the running handler takes on average the sum
//! of `h²/2T` over the other handlers of the PE, which take `h` each in a step of length `T` (the
//! mean residual life of renewal theory). The work of an actor in a step counts as one handler.

use gridspan_topology::PeId;
use std::collections::{BTreeMap, BTreeSet};

/// Waiting times of messages between sites.
pub(super) struct Waits<'a> {
    works: &'a [f64],
    mapping: &'a [PeId],
    order: Order,
}

/// Order in which a PE handles messages.
enum Order {
    /// Order of arrival. By PE, a part of the work of all its border actors.
    Arrival(Vec<f64>),
    /// Messages of the oldest step first, and within it those to border actors.
    Border {
        /// By PE, the sum of the squares of its handlers' times.
        squares: Vec<f64>,
        /// By sender and PE, the work of the PE's actors to which the sender sends from another
        /// site, and the sum of the squares of their work.
        receivers: BTreeMap<(u32, PeId), (f64, f64)>,
    },
}

impl<'a> Waits<'a> {
    /// Returns the waits where PEs handle messages in order of arrival: a message waits for a part
    /// `border_wait` of the work of border actors. `works` has the seconds of each actor per step
    /// on its PE in `mapping`; `pairs` are the pairs of actors that send across sites.
    pub(super) fn by_arrival(
        (works, mapping): (&'a [f64], &'a [PeId]),
        pes: usize,
        pairs: &BTreeSet<(u32, u32)>,
        border_wait: f64,
    ) -> Self {
        let mut border = vec![0.0; pes];
        let ends: BTreeSet<u32> = pairs.iter().flat_map(|&(from, to)| [from, to]).collect();
        for at in ends {
            border[mapping[at as usize].index()] += works[at as usize] * border_wait;
        }
        Self { works, mapping, order: Order::Arrival(border) }
    }

    /// Returns the waits where PEs first handle messages to actors for which another site waits;
    /// the arguments are those of [`Waits::by_arrival`].
    pub(super) fn by_step(
        (works, mapping): (&'a [f64], &'a [PeId]),
        pes: usize,
        pairs: &BTreeSet<(u32, u32)>,
    ) -> Self {
        let mut squares = vec![0.0; pes];
        for (work, pe) in works.iter().zip(mapping) {
            squares[pe.index()] += work * work;
        }
        let mut receivers = BTreeMap::new();
        for &(from, to) in pairs {
            let (work, pe) = (works[to as usize], mapping[to as usize]);
            let (sum, squared): &mut (f64, f64) = receivers.entry((from, pe)).or_default();
            (*sum, *squared) = (*sum + work, *squared + work * work);
        }
        Self { works, mapping, order: Order::Border { squares, receivers } }
    }

    /// Returns the seconds that a round trip of messages between two actors spends at the two ends,
    /// waiting and in handlers, where a step takes `step` seconds.
    pub(super) fn stay(&self, (from, to): (u32, u32), step: f64) -> f64 {
        let [a, b] = [from, to].map(|actor| self.mapping[actor as usize]);
        let work = |actor: u32| self.works[actor as usize];
        match &self.order {
            Order::Arrival(border) => {
                (work(from) + work(to)).max(border[a.index()].max(border[b.index()]))
            }
            Order::Border { squares, receivers } => {
                let stay = |sender: u32, actor: u32, pe: PeId| {
                    let own = (work(actor), work(actor) * work(actor));
                    let (handled, squared) = receivers.get(&(sender, pe)).copied().unwrap_or(own);
                    let others = (squares[pe.index()] - squared).max(0.0);
                    handled + others / (2.0 * step.max(f64::MIN_POSITIVE))
                };
                stay(from, to, b) + stay(to, from, a)
            }
        }
    }
}
