//! Observed speeds of servers.

/// Total time of a server's tasks, and their total predicted time, in seconds. Older tasks have
/// less weight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObservedSpeed {
    took_s: f64,
    expected_s: f64,
}

/// Factor by which each task reduces the weight of all earlier ones.
const FADING: f64 = 0.9;

impl ObservedSpeed {
    pub(super) fn observe(&mut self, took_s: f64, expected_s: f64) {
        self.took_s = self.took_s * FADING + took_s;
        self.expected_s = self.expected_s * FADING + expected_s;
    }

    /// Observed speed, as a fraction of the declared speed.
    pub(super) fn factor(self) -> f64 {
        let factor = self.expected_s / self.took_s;
        // An implausible factor is a measurement error.
        if factor.is_finite() && factor > 0.0 { factor.clamp(1e-3, 1e3) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_takes_twice_as_long_is_half_as_fast() {
        let mut observed_speed = ObservedSpeed::default();
        assert!(
            (observed_speed.factor() - 1.0).abs() < 1e-12,
            "the declared speed counts until a task is observed"
        );

        (0..5).for_each(|_| observed_speed.observe(2.0, 1.0));

        assert!((observed_speed.factor() - 0.5).abs() < 1e-12);
    }
}
