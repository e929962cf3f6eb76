//! Times of steps, derived from intervals and the number of steps in each.

/// Times of steps, in samples of at least one step each: in shorter samples, steps that end in
/// bursts would look fast.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepTimes {
    /// Seconds per step and number of steps of each sample.
    samples: Vec<(f64, f64)>,
    /// Seconds and steps so far of the next sample.
    open: (f64, f64),
    seconds: f64,
    steps: f64,
}

impl StepTimes {
    /// Adds `steps` steps that took `seconds` together.
    pub(crate) fn add(&mut self, seconds: f64, steps: f64) {
        self.open = (self.open.0 + seconds, self.open.1 + steps);
        let (seconds, steps) = self.open;
        if steps >= 1.0 {
            self.samples.push((seconds / steps, steps));
            (self.seconds, self.steps) = (self.seconds + seconds, self.steps + steps);
            self.open = (0.0, 0.0);
        }
    }

    /// Returns the number of samples.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns the seconds of all samples.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Returns the steps of all samples.
    pub(crate) fn steps(&self) -> f64 {
        self.steps
    }

    /// Returns the quantile `part` of the seconds per step, weighted by the number of steps; 0
    /// without samples. Periods with few steps, such as the end of a job, have little weight.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = self.steps * part;
        let found = sorted.iter().find(|(_, steps)| {
            left -= steps;
            left <= 0.0
        });
        found.or(sorted.last()).map_or(0.0, |(step, _)| *step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_joined_and_long_pauses_with_few_steps_have_little_weight() {
        let mut times = StepTimes::default();
        // Steps of 0.5 s, measured in pieces of 0.25 s; a step ends in every second piece.
        for _ in 0..20 {
            times.add(0.25, 0.0);
            times.add(0.25, 1.0);
        }
        times.add(60.0, 1.0);

        assert_eq!((times.len(), times.steps(), times.seconds()), (21, 21.0, 70.0));
        assert_eq!([0.25, 0.5, 0.75].map(|part| times.quantile(part)), [0.5; 3]);
        assert_eq!(times.quantile(1.0), 60.0);
    }
}
