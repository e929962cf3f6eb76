//! Whether the nodes of a group share one pipe to the outside.
//!
//! Each node sends to a different group, if there are enough: first alone, and then all together,
//! with the same packets at the same pace. Separate pipes carry all packets; a shared one does not.
//! Other traffic only reduces the number of packets that arrive, so of several tries the one with
//! most arrivals counts.

use crate::units::{Bandwidth, Time};
use serde::{Deserialize, Serialize};

/// The pipe counts as tested if the ratio of the total rate sent to the best rate of a single node
/// is at least this.
const DEMAND_MIN: f64 = 1.5;
/// Maximum fraction of the sent data that arrives through a shared pipe. Between this and
/// [`SEPARATE_MIN`] the result is unclear. Measured rates are within a fifth of the truth.
const SHARED_MAX: f64 = 0.7;
/// Minimum fraction of the sent data that arrives through separate pipes.
const SEPARATE_MIN: f64 = 0.85;

/// The connection of the nodes of a group to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pipes {
    /// All through one pipe.
    Shared,
    /// Each through a separate pipe.
    Separate,
}

/// The path from a group to the outside.
///
/// ```
/// use gridspan_topology::{Bandwidth, Pipes, Time, Uplink};
///
/// let mbit = |n: u64| Bandwidth::from_bits_per_second(n * 1_000_000);
/// // Each of two nodes sends 100 Mbit/s alone; together they get no more.
/// let alone = [mbit(100), mbit(100)];
/// let together = [(mbit(100), mbit(50)), (mbit(100), mbit(50))];
/// let uplink = Uplink::judge(Time::ZERO, &alone, &together);
/// assert_eq!(uplink.map(|uplink| uplink.pipes), Some(Pipes::Shared));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Uplink {
    /// Whether the nodes share one pipe.
    pub pipes: Pipes,
    /// Total bandwidth of all measured nodes.
    pub bandwidth: Bandwidth,
    /// Time of the measurement.
    pub measured: Time,
}

impl Uplink {
    /// Classifies the pipes from the rates that arrived when each node sent alone, and from the
    /// rates that each sent, and that arrived, when all sent together. Returns `None` for fewer
    /// than two nodes, and if the result is unclear.
    pub fn judge(
        now: Time,
        alone: &[Bandwidth],
        together: &[(Bandwidth, Bandwidth)],
    ) -> Option<Self> {
        if alone.len() < 2 || alone.len() != together.len() {
            return None;
        }
        let sum = |rates: &mut dyn Iterator<Item = Bandwidth>| {
            rates.fold(0u64, |sum, rate| sum.saturating_add(rate.bits_per_second()))
        };
        let best = alone.iter().max()?.bits_per_second();
        let sent = sum(&mut together.iter().map(|&(sent, _)| sent));
        let arrived = sum(&mut together.iter().map(|&(_, arrived)| arrived));
        // Together the nodes cannot deliver more than the sum of their rates alone.
        let possible = sent.min(sum(&mut alone.iter().copied()));
        let share = arrived as f64 / possible.max(1) as f64;
        let pipes = match share {
            _ if (sent as f64) < DEMAND_MIN * best as f64 => return None,
            _ if share <= SHARED_MAX => Pipes::Shared,
            _ if share >= SEPARATE_MIN => Pipes::Separate,
            _ => return None,
        };
        Some(Self { pipes, bandwidth: Bandwidth::from_bits_per_second(arrived), measured: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(mbit: u64) -> Bandwidth {
        Bandwidth::from_bits_per_second(mbit * 1_000_000)
    }

    fn judge(alone: &[u64], together: &[(u64, u64)]) -> Option<Pipes> {
        let alone: Vec<_> = alone.iter().map(|&mbit| rate(mbit)).collect();
        let together: Vec<_> =
            together.iter().map(|&(sent, arrived)| (rate(sent), rate(arrived))).collect();
        Uplink::judge(Time::ZERO, &alone, &together).map(|uplink| uplink.pipes)
    }

    #[test]
    fn pipes_that_carry_all_data_are_separate_and_others_shared() {
        assert_eq!(judge(&[100, 90], &[(100, 52), (90, 49)]), Some(Pipes::Shared));
        assert_eq!(judge(&[100, 90], &[(100, 97), (90, 90)]), Some(Pipes::Separate));
        assert_eq!(judge(&[100, 100, 100], &[(95, 40), (98, 30), (99, 40)]), Some(Pipes::Shared));
    }

    #[test]
    fn unclear_results_are_not_judged() {
        assert_eq!(judge(&[100], &[(100, 100)]), None, "one node tells nothing");
        assert_eq!(judge(&[100, 100], &[(60, 60), (70, 70)]), None, "the pipe was not tried");
        assert_eq!(judge(&[100, 100], &[(100, 75), (100, 80)]), None, "neither all nor half");
    }

    #[test]
    fn a_pace_beyond_the_rates_of_single_nodes_does_not_indicate_sharing() {
        // Packets of a burst that arrive together look fast, although at that pace each node alone
        // delivers no more.
        assert_eq!(judge(&[50, 51], &[(95, 49), (90, 50)]), Some(Pipes::Separate));
        assert_eq!(judge(&[50, 51], &[(95, 25), (90, 24)]), Some(Pipes::Shared));
    }
}
