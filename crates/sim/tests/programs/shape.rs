//! The properties of a random program.

use gridspan_balance::NAMES;
use gridspan_runtime::CreateAt;
use gridspan_topology::dice::Dice;
use std::time::Duration;

/// The properties of a program.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
    pub(crate) budget: u32,
    pub(crate) state_bytes: u64,
    pub(crate) strategy: Option<&'static str>,
    pub(crate) balance_every: Option<Duration>,
    pub(crate) has_gate: bool,
    pub(crate) has_closures: bool,
    pub(crate) create_at: CreateAt,
    pub(crate) are_per_pe: bool,
}

impl Shape {
    /// Draws a program for a grid on whose slowest link this many bytes cross in a second.
    pub(crate) fn draw(seed: u64, bytes_per_second: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x7368_6170_6500);
        // The first name is `none`.
        let strategies = &NAMES[1..];
        let largest = bytes_per_second.min(1 << 20);
        let state_bytes = match dice.below(8_u32) {
            0 => 0,
            1 => largest,
            _ => largest >> dice.below(16_u32),
        };
        Self {
            seed,
            rounds: 5 + dice.below(30_u32),
            budget: 1 << dice.below(6_u32),
            state_bytes,
            strategy: dice.chance(0.7).then(|| dice.one_of(strategies)),
            balance_every: dice.chance(0.3).then(|| Duration::from_millis(20 << dice.below(6_u32))),
            has_gate: dice.chance(0.3),
            has_closures: dice.chance(0.5),
            create_at: dice.one_of(&[CreateAt::Home, CreateAt::Sender]),
            are_per_pe: dice.chance(0.6),
        }
    }
}
