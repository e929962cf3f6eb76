//! The model of J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
//! dumps" (2006). All times are in seconds.

/// The costs of losses and checkpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Time that a checkpoint costs.
    pub(crate) checkpoint: f64,
    /// Time that a loss costs.
    pub(crate) restart: f64,
    /// Mean time between losses.
    pub(crate) to_failure: f64,
}

impl Costs {
    /// The time between checkpoints that loses least (equation 37).
    pub(crate) fn interval(&self) -> f64 {
        let (cost, mean) = (self.checkpoint, self.to_failure);
        if cost >= 2.0 * mean {
            return mean;
        }
        let ratio = cost / (2.0 * mean);
        (2.0 * cost * mean).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - cost
    }

    /// The useful share of the time, with this time between checkpoints (equation 20, for losses at
    /// any moment, also during a restart).
    pub(crate) fn share(&self, interval: f64) -> f64 {
        let mean = self.to_failure;
        let segment = ((interval + self.checkpoint) / mean).exp_m1();
        interval / (mean * (self.restart / mean).exp() * segment)
    }
}
