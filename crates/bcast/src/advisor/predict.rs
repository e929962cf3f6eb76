//! Predicts the next value of a series of positive numbers with several predictors; the one with
//! the smallest recent error gives the forecast.

use super::period::period;
use std::collections::VecDeque;

/// Number of values that are remembered; enough for two of the longest periods.
const HISTORY: usize = 72;
/// Number of last values through which a line is fitted.
const WINDOW: usize = 16;
/// A predictor's error fades by this factor with each value.
const FADING: f64 = 0.8;
/// Bound on the factor by which one value counts as wrong.
const ERROR_MAX: f64 = 100.0;
/// Holt's constant for the level.
const LEVEL: f64 = 0.6;
/// Holt's constant for the trend.
const TREND: f64 = 0.4;

const COUNT: usize = 5;

/// A predicted value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The value.
    pub value: f64,
    /// Factor by which recent forecasts of this kind were wrong, 1 if they were right; infinite
    /// before the first could be checked.
    pub error: f64,
}

/// A bank of predictors: the last value, a line, an exponential, Holt's smoothing, and the last
/// period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predictor {
    values: VecDeque<f64>,
    /// The prediction of each.
    predicted: [Option<f64>; COUNT],
    /// The error of each: the faded mean of the absolute logarithm of the ratio of actual to
    /// predicted value.
    errors: [Option<f64>; COUNT],
    /// Holt's level and trend, of logarithms.
    smooth: Option<(f64, f64)>,
}

impl Predictor {
    /// A predictor without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no value was observed.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Takes the next value of the series. Values below `f64::MIN_POSITIVE` and NaN count as
    /// `f64::MIN_POSITIVE`.
    pub fn observe(&mut self, value: f64) {
        let value = value.max(f64::MIN_POSITIVE);
        for (predicted, error) in self.predicted.iter().zip(&mut self.errors) {
            if let Some(predicted) = predicted {
                let wrong = (value / predicted).ln().abs().min(ERROR_MAX.ln());
                let before = error.unwrap_or(wrong);
                *error = Some(FADING * before + (1.0 - FADING) * wrong);
            } else {
                *error = None;
            }
        }
        if self.values.len() == HISTORY {
            self.values.pop_front();
        }
        self.values.push_back(value);
        self.smooth = Some(match self.smooth {
            None => (value.ln(), 0.0),
            Some((level, trend)) => {
                let next = LEVEL * value.ln() + (1.0 - LEVEL) * (level + trend);
                (next, TREND * (next - level) + (1.0 - TREND) * trend)
            }
        });
        self.predicted = self.predict();
    }

    /// Predicts the next value; `None` before the first value.
    pub fn forecast(&self) -> Option<Forecast> {
        let known = self.predicted.iter().zip(&self.errors);
        let tried = known.filter_map(|(predicted, error)| Some(((*predicted)?, (*error)?)));
        let best = tried.min_by(|one, other| one.1.total_cmp(&other.1));
        match best {
            Some((value, error)) => Some(Forecast { value, error: error.exp() }),
            None => self.predicted[0].map(|value| Forecast { value, error: f64::INFINITY }),
        }
    }

    fn predict(&self) -> [Option<f64>; COUNT] {
        let values: Vec<f64> = self.values.iter().copied().collect();
        let recent = &values[values.len().saturating_sub(WINDOW)..];
        let logarithms: Vec<f64> = recent.iter().map(|value| value.ln()).collect();
        let positive = |value: f64| value.is_finite().then_some(value.max(f64::MIN_POSITIVE));
        [
            values.last().copied(),
            line(recent).filter(|&value| value > 0.0),
            line(&logarithms).and_then(|value| positive(value.exp())),
            self.smooth.and_then(|(level, trend)| positive((level + trend).exp())),
            period(&values).map(|period| values[values.len() - period]),
        ]
    }
}

/// The next value on the least-squares line.
fn line(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (place, value) in values.iter().enumerate() {
        let x = place as f64 - middle;
        xy += x * (value - mean);
        xx += x * x;
    }
    Some(mean + xy / xx * (count - middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest factor by which forecasts are wrong from the eleventh value on.
    fn worst(values: &[f64]) -> f64 {
        let mut predictor = Predictor::new();
        let mut worst: f64 = 1.0;
        for (place, &value) in values.iter().enumerate() {
            if let Some(forecast) = predictor.forecast().filter(|_| place >= 10) {
                worst = worst.max((forecast.value / value).max(value / forecast.value));
            }
            predictor.observe(value);
        }
        worst
    }

    #[test]
    fn linear_exponential_constant_and_periodic_series_are_predicted() {
        let linear: Vec<f64> = (0..60).map(|n| 1e6 * (1.0 - f64::from(n) / 60.0)).collect();
        let exponential: Vec<f64> = (0..60).map(|n| 90.0 * 0.9475_f64.powi(n)).collect();
        let periodic: Vec<f64> = [1e6, 8.0, 8.0, 3e4].into_iter().cycle().take(60).collect();

        assert!(worst(&linear) < 1.01);
        assert!(worst(&exponential) < 1.01);
        assert_eq!(worst(&periodic), 1.0);
        assert_eq!(worst(&[7.0; 20]), 1.0);
    }

    #[test]
    fn a_change_of_pattern_is_followed() {
        let mut predictor = Predictor::new();
        (0..30).for_each(|_| predictor.observe(1e6));
        (0..8).for_each(|n| predictor.observe(1e3 * f64::from(n + 1)));

        let forecast = predictor.forecast().unwrap();

        assert!((forecast.value / 9e3 - 1.0).abs() < 0.3, "{forecast:?}");
    }

    #[test]
    fn without_values_there_is_no_forecast() {
        assert_eq!(Predictor::new().forecast(), None);
    }
}
