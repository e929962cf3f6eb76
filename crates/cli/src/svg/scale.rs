//! Logarithmic axes in milliseconds, and the colours along them.

/// Colours from low to high values: viridis, whose order remains visible in grey and to the
/// colour-blind.
const COLOURS: [[u8; 3]; 9] = [
    [68, 1, 84],
    [71, 44, 122],
    [59, 81, 139],
    [44, 113, 142],
    [33, 144, 141],
    [39, 173, 129],
    [92, 200, 99],
    [170, 220, 50],
    [253, 231, 37],
];
/// Number of different colours along an axis.
pub(crate) const STEPS: usize = 64;
/// Factor by which the axis extends below and above a single value, or values close to each other.
const AROUND_ONE: f64 = 3.0;

/// A logarithmic axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogScale {
    low: f64,
    high: f64,
}

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Position, from 0 to 1.
    pub(crate) at: f64,
    /// Label; `None` for a mark in between.
    pub(crate) label: Option<String>,
}

impl LogScale {
    /// Creates an axis over these values with a small margin, or from 0.1 to 10 if there are none.
    /// Values that are not positive are left out.
    pub(crate) fn over(values: impl Iterator<Item = f64>) -> Self {
        let ends = values.filter(|value| *value > 0.0).fold(None, |ends, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((value.min(low), value.max(high)))
        });
        let (low, high) = match ends {
            None => (0.1_f64, 10.0_f64),
            Some((low, high)) if high < low * 1.5 => (low / AROUND_ONE, high * AROUND_ONE),
            Some((low, high)) => {
                let margin = (high / low).powf(0.04);
                (low / margin, high * margin)
            }
        };
        Self { low: low.ln(), high: high.ln() }
    }

    /// Returns the position of a value, from 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if value <= 0.0 {
            return 0.0;
        }
        ((value.ln() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Returns the marks. Powers of ten have labels. On a short axis, some of their multiples have
    /// labels, too.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        let decades = (self.high - self.low) / std::f64::consts::LN_10;
        let labelled: &[u32] = match decades {
            _ if decades > 2.2 => &[1],
            _ if decades > 0.7 => &[1, 2, 5],
            _ => &[1, 2, 3, 4, 5, 6, 8],
        };
        let first = (self.low / std::f64::consts::LN_10).floor() as i32;
        let last = (self.high / std::f64::consts::LN_10).ceil() as i32;
        let marks = (first..=last).flat_map(|power| (1..10).map(move |digit| (power, digit)));
        let tick = |(power, digit): (i32, u32)| {
            let value = f64::from(digit) * 10_f64.powi(power);
            let is_within = (self.low..=self.high).contains(&value.ln());
            let label = labelled.contains(&digit).then(|| label(digit, power));
            is_within.then(|| Tick { at: self.place(value), label })
        };
        marks.filter_map(tick).collect()
    }

    /// Returns the number of a value's colour, below [`STEPS`].
    pub(crate) fn step(&self, value: f64) -> usize {
        ((self.place(value) * STEPS as f64) as usize).min(STEPS - 1)
    }
}

/// Writes out `digit` times ten to the `power`.
fn label(digit: u32, power: i32) -> String {
    let zeros = |count: i32| "0".repeat(count.unsigned_abs() as usize);
    match power {
        0.. => format!("{digit}{}", zeros(power)),
        _ => format!("0.{}{digit}", zeros(power + 1)),
    }
}

/// Returns the colour of this number, as `#rrggbb`.
pub(crate) fn colour(step: usize) -> String {
    let place = (step as f64 + 0.5) / STEPS as f64 * (COLOURS.len() - 1) as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(COLOURS.len() - 1);
    let mix = |channel: usize| {
        let [from, to] = [below, above].map(|at| f64::from(COLOURS[at][channel]));
        (from + (to - from) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// Whether white text is legible on the colour of this number.
pub(crate) fn is_dark(step: usize) -> bool {
    step < STEPS * 6 / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64]) -> Vec<String> {
        let scale = LogScale::over(values.iter().copied());
        scale.ticks().into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn every_axis_has_labels_at_round_numbers() {
        assert_eq!(labels(&[0.05, 300.0]), ["0.1", "1", "10", "100"]);
        assert_eq!(labels(&[3.0, 64.0]), ["5", "10", "20", "50"]);
        assert!(labels(&[20.0]).len() > 1);
        assert!(labels(&[]).len() > 1);
        assert!(labels(&[0.0, -1.0]).len() > 1);
    }

    #[test]
    fn values_lie_on_the_axis_in_order() {
        let scale = LogScale::over([0.1, 100.0].into_iter());
        assert!(scale.place(0.1) > 0.0 && scale.place(100.0) < 1.0);
        assert!((scale.place(10.0_f64.powf(0.5)) - 0.5).abs() < 1e-9);
        assert!(scale.step(0.1) < scale.step(100.0));
    }

    #[test]
    fn colours_go_from_dark_to_light() {
        assert!(colour(0).starts_with("#44"), "{}", colour(0));
        assert!(colour(STEPS - 1).starts_with("#f"), "{}", colour(STEPS - 1));
    }
}
