//! Evens out the loads of a cut beyond its tolerance, where that costs next to nothing.
//!
//! A cutter uses all of its tolerance, even where a cut of the same weight would be nearly even;
//! then the fullest part slows the job without any benefit. So the cut is improved once more within
//! tighter limits. Only a few more actors may move than move anyway: evening out all small
//! differences would move many actors at every change of loads.

use crate::cost::CostModel;
use crate::cutter::{Cut, Cutter, Graph, Tie};
use crate::snapshot::objects::MESSAGE_WEIGHT;

/// Tolerances that are tried, the tightest first.
const TOLERANCES: [f64; 3] = [0.002, 0.005, 0.01];

/// Cost of edges between parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// Edges cross a latency or a narrow link: their weight must not increase, whatever the gain.
    Scarce,
    /// Edges cost only the time to send and receive: their weight may increase if the fullest part
    /// gains more time than the additional messages take.
    Near,
}

/// Maximum number of additional moves, as a part of the actors that move anyway.
const MORE_MOVES: f64 = 0.1;
/// Maximum number of actors for which all tolerances are tried. In larger graphs, actors are so
/// small that the tightest limits can be kept if any can.
const SMALL: usize = 200_000;

/// Returns a more even cut if there is one that pays, otherwise `cut`. Loads are in nanoseconds.
pub(crate) fn tighten(
    cutter: &Cutter<'_>,
    graph: &Graph,
    ties: &[Tie],
    cut: Cut,
    crossing: Crossing,
) -> Cut {
    let is_at_home = |tie: &Tie, part: u32| tie.pull > 0 && tie.home == part;
    let movers = |cut: &Cut| {
        let away = ties.iter().zip(&cut.part).filter(|(tie, part)| !is_at_home(tie, **part));
        away.count() as f64
    };
    let most = movers(&cut) * (1.0 + MORE_MOVES);
    let pin = |(tie, part): (&Tie, &u32)| match is_at_home(tie, *part) {
        true => Tie::fixed(*part),
        false => *tie,
    };
    let pinned: Vec<Tie> = ties.iter().zip(&cut.part).map(pin).collect();
    let tried = if graph.len() > SMALL { 1 } else { TOLERANCES.len() };
    for tolerance in TOLERANCES.into_iter().take(tried).filter(|at| 1.0 + at < cut.imbalance) {
        // If too many more would move, only the actors that move anyway are placed differently.
        for ties in [ties, &pinned] {
            let cutter = cutter.clone().ties(ties).v_cycles(0).tolerance(tolerance);
            let Ok(even) = cutter.recut(graph, &cut.part) else { return cut };
            if movers(&even) <= most && is_worth(&cut, &even, crossing) {
                return even;
            }
        }
    }
    cut
}

fn is_worth(cut: &Cut, even: &Cut, crossing: Crossing) -> bool {
    let more = even.weight.saturating_sub(cut.weight);
    let mean = cut.loads.iter().map(|&load| load as f64).sum::<f64>() / cut.loads.len() as f64;
    let gain = (cut.imbalance - even.imbalance) * mean;
    let cost = match crossing {
        Crossing::Scarce if more > 0 => return false,
        Crossing::Scarce => 0.0,
        Crossing::Near => {
            // Each message is sent by one part and received by another.
            let messages = 2.0 * more as f64 / MESSAGE_WEIGHT as f64 / cut.loads.len() as f64;
            messages * CostModel::default().message_overhead.as_nanos() as f64
        }
    };
    gain > cost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(weight: u64, loads: [u64; 2]) -> Cut {
        let mean = loads.iter().sum::<u64>() as f64 / 2.0;
        let imbalance = loads[0].max(loads[1]) as f64 / mean;
        Cut { part: Vec::new(), weight, loads: loads.to_vec(), imbalance, obstacle: None }
    }

    /// A hundred vertices of 1 ms without edges, the first 51 in part 0.
    fn lopsided() -> (Graph, Cut) {
        let graph = Graph::new(&[1_000_000; 100], &[]).unwrap();
        let part = (0..100).map(|vertex| u32::from(vertex >= 51)).collect();
        (graph, Cut { part, ..cut(0, [51_000_000, 49_000_000]) })
    }

    #[test]
    fn a_more_even_cut_of_the_same_weight_is_taken() {
        let (graph, cut) = lopsided();

        let even = tighten(&Cutter::new(2), &graph, &[Tie::FREE; 100], cut, Crossing::Scarce);

        assert_eq!(even.loads, [50_000_000, 50_000_000]);
    }

    #[test]
    fn actors_at_home_do_not_move_for_a_small_difference() {
        let (graph, cut) = lopsided();
        let ties: Vec<Tie> = cut.part.iter().map(|&home| Tie { home, pull: 1 }).collect();

        assert_eq!(tighten(&Cutter::new(2), &graph, &ties, cut.clone(), Crossing::Scarce), cut);
    }

    #[test]
    fn actors_that_move_anyway_make_the_loads_even() {
        let (graph, cut) = lopsided();
        // Only vertex 0 comes from elsewhere.
        let mut ties: Vec<Tie> = cut.part.iter().map(|&home| Tie { home, pull: 1 }).collect();
        ties[0] = Tie::FREE;

        let even = tighten(&Cutter::new(2), &graph, &ties, cut.clone(), Crossing::Scarce);

        assert_eq!((even.part[0], &even.part[1..]), (1, &cut.part[1..]));
    }

    #[test]
    fn messages_over_a_scarce_link_do_not_increase_for_any_gain() {
        let uneven = cut(100, [1_030_000, 970_000]);

        assert!(is_worth(&uneven, &cut(100, [1_000_000, 1_000_000]), Crossing::Scarce));
        assert!(!is_worth(&uneven, &cut(101, [1_000_000, 1_000_000]), Crossing::Scarce));
    }

    #[test]
    fn messages_between_near_parts_may_take_less_time_than_is_gained() {
        // 30 µs are gained; a message takes 2 µs at each of its two ends.
        let uneven = cut(0, [1_030_000, 970_000]);
        let even = |messages: u64| cut(messages * MESSAGE_WEIGHT, [1_000_000, 1_000_000]);

        assert!(is_worth(&uneven, &even(14), Crossing::Near));
        assert!(!is_worth(&uneven, &even(16), Crossing::Near));
    }
}
