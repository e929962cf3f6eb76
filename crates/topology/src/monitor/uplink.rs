//! Whether the nodes of a group share one pipe to the outside.
//!
//! Each node sends to a group of its own, if there are so many: first alone, and then all together,
//! with the same packets at the same pace. Pipes of their own carry all of it; a shared one does
//! not. Whatever else disturbs makes it less, so that of several tries the one counts in which most
//! arrived.

use crate::units::{Bandwidth, Time};
use serde::{Deserialize, Serialize};

/// Nodes that sent together less than so many times what the best carries alone have not tried the
/// pipe.
const DEMAND_MIN: f64 = 1.5;
/// Of what was sent, a shared pipe carries at most this share, and separate ones at least that;
/// what lies between tells nothing. Measured rates are within a fifth of the truth.
const SHARED_MAX: f64 = 0.7;
const SEPARATE_MIN: f64 = 0.85;

/// How the nodes of a group reach the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pipes {
    /// All through one.
    Shared,
    /// Each through its own.
    Separate,
}

/// The way from a group to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uplink {
    /// Whether nodes share it.
    pub pipes: Pipes,
    /// What all nodes that were measured carried together.
    pub bandwidth: Bandwidth,
    /// When it was measured.
    pub measured: Time,
}

impl Uplink {
    /// Judges by what arrived of what nodes sent alone, and by what each of them sent when all
    /// sent, and how much of that arrived. None for fewer than two nodes, and if it is not clear.
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
        // A node that cannot send faster alone did not share anything.
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
    fn pipes_that_carry_all_are_separate_and_one_that_does_not_is_shared() {
        assert_eq!(judge(&[100, 90], &[(100, 52), (90, 49)]), Some(Pipes::Shared));
        assert_eq!(judge(&[100, 90], &[(100, 97), (90, 90)]), Some(Pipes::Separate));
        assert_eq!(judge(&[100, 100, 100], &[(95, 40), (98, 30), (99, 40)]), Some(Pipes::Shared));
    }

    #[test]
    fn what_is_not_clear_is_not_judged() {
        assert_eq!(judge(&[100], &[(100, 100)]), None, "one node tells nothing");
        assert_eq!(judge(&[100, 100], &[(60, 60), (70, 70)]), None, "the pipe was not tried");
        assert_eq!(judge(&[100, 100], &[(100, 75), (100, 80)]), None, "neither all nor half");
    }

    #[test]
    fn a_pace_that_no_pipe_carried_is_not_taken_for_sharing() {
        // Packets of a burst that came in a heap look fast: at that pace, each node alone brings no
        // more.
        assert_eq!(judge(&[50, 51], &[(95, 49), (90, 50)]), Some(Pipes::Separate));
        assert_eq!(judge(&[50, 51], &[(95, 25), (90, 24)]), Some(Pipes::Shared));
    }
}
