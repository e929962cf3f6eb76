//! Times as colours.

use crate::svg::{STEPS, colour};

/// A colour scale, from dark to light along time.
#[derive(Clone, Copy)]
pub(super) struct Shades {
    /// End of the scale, in seconds. The scale starts at zero.
    pub(super) end_s: f64,
}

impl Shades {
    /// Returns the colour of a time.
    pub(super) fn of(self, time_s: f64) -> String {
        let place = if self.end_s > 0.0 { (time_s / self.end_s).clamp(0.0, 1.0) } else { 0.0 };
        colour(((place * STEPS as f64) as usize).min(STEPS - 1))
    }
}
