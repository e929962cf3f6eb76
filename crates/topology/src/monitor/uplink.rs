//! Whether the nodes of a group share one pipe to the outside.
//!
//! Each node is measured alone, and then all of them together. Pipes of their own add up; a shared
//! one does not.

use crate::units::{Bandwidth, Time};
use serde::{Deserialize, Serialize};

/// Together, shared pipes carry at most so many times what the best carries alone; separate ones
/// carry nearly the sum. The limit lies in the middle for two nodes, and measured rates are within a
/// fifth of the truth.
const SHARED_RATIO: f64 = 1.5;

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
    /// Compares what nodes carried alone with what the same nodes carried together. None for fewer
    /// than two nodes, which tell nothing.
    pub fn judge(now: Time, alone: &[Bandwidth], together: &[Bandwidth]) -> Option<Self> {
        if alone.len() < 2 || alone.len() != together.len() {
            return None;
        }
        let best = alone.iter().max()?.bits_per_second();
        let sum =
            together.iter().fold(0u64, |sum, rate| sum.saturating_add(rate.bits_per_second()));
        let is_shared = (sum as f64) < SHARED_RATIO * best as f64;
        let pipes = if is_shared { Pipes::Shared } else { Pipes::Separate };
        Some(Self { pipes, bandwidth: Bandwidth::from_bits_per_second(sum), measured: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(mbit: &[u64]) -> Vec<Bandwidth> {
        mbit.iter().map(|mbit| Bandwidth::from_bits_per_second(mbit * 1_000_000)).collect()
    }

    #[test]
    fn rates_that_add_up_are_separate_pipes_and_rates_that_do_not_share_one() {
        let judge = |alone: &[u64], together: &[u64]| {
            Uplink::judge(Time::ZERO, &rates(alone), &rates(together)).map(|uplink| uplink.pipes)
        };
        assert_eq!(judge(&[100, 90], &[52, 49]), Some(Pipes::Shared));
        assert_eq!(judge(&[100, 90], &[97, 90]), Some(Pipes::Separate));
        assert_eq!(judge(&[100, 100, 100], &[40, 30, 40]), Some(Pipes::Shared));
        assert_eq!(judge(&[100], &[100]), None);
    }
}
