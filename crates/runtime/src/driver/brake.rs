//! Emulates a slower processor: prolongs the turns of a PE before their packets leave.

use super::processor_time::processor_time;
use gridspan_topology::{GridSpec, NodeId, Speed};
use std::time::Duration;

/// Shortest sleep that systems carry out reasonably precisely; shorter waits are added up.
const SLEEP_MIN: Duration = Duration::from_micros(100);

/// Emulated speed of the processors of `node`, relative to this machine, which stands for the
/// fastest processors of the grid.
pub(crate) fn emulated_speed(spec: &GridSpec, node: NodeId) -> Speed {
    let fastest = spec.layout().nodes().map(|node| spec.speed(node)).max().unwrap_or_default();
    Speed::new(spec.speed(node).factor() / fastest.factor()).unwrap_or_default()
}

/// Slows down the thread of a PE.
pub(super) struct Brake {
    speed: Speed,
    /// Processor time of the thread when the turn began.
    begin: Duration,
    /// Time still to sleep for the turns so far.
    debt: Duration,
}

impl Brake {
    pub(super) fn new(speed: Speed) -> Self {
        Self { speed, begin: Duration::ZERO, debt: Duration::ZERO }
    }

    /// Starts a turn.
    pub(super) fn begin(&mut self) {
        if self.speed < Speed::ORDINARY {
            self.begin = processor_time();
        }
    }

    /// Ends a turn: adds the time by which the emulated processor would have taken longer, and
    /// sleeps once the sum reaches [`SLEEP_MIN`].
    pub(super) fn end(&mut self) {
        if self.speed < Speed::ORDINARY {
            let computed = processor_time().saturating_sub(self.begin);
            self.debt += self.speed.takes(computed).saturating_sub(computed);
            if self.debt >= SLEEP_MIN {
                let begin = std::time::Instant::now();
                std::thread::sleep(self.debt);
                self.debt = self.debt.saturating_sub(begin.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_fastest_node_of_a_grid_is_not_slowed() {
        let spec = GridSpec::from_emulate("2x2,speed=4:1:2").unwrap();

        let speeds: Vec<f64> =
            spec.layout().nodes().map(|node| emulated_speed(&spec, node).factor()).collect();

        assert_eq!(speeds, [1.0, 0.25, 0.5, 1.0]);
    }

    #[test]
    fn a_quarter_of_the_speed_makes_a_turn_take_four_times_as_long() {
        let mut brake = Brake::new(Speed::new(0.25).unwrap());
        brake.begin();
        let (begin, computed) = (Instant::now(), processor_time());
        while processor_time().saturating_sub(computed) < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        brake.end();

        // A busy machine makes the turn longer, never shorter.
        assert!(begin.elapsed() >= Duration::from_millis(8), "{:?}", begin.elapsed());
    }
}
