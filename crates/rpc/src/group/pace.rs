//! How fast servers turn out to be.

/// How long tasks of a server took, beside how long they should have; older ones count less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    took_s: f64,
    should_s: f64,
}

/// Each task makes all earlier ones count so much less for the pace of a server.
const FADING: f64 = 0.9;

impl Pace {
    pub(super) fn observe(&mut self, took_s: f64, should_s: f64) {
        self.took_s = self.took_s * FADING + took_s;
        self.should_s = self.should_s * FADING + should_s;
    }

    /// How fast, as a part of what was said.
    pub(super) fn factor(self) -> f64 {
        let factor = self.should_s / self.took_s;
        // What nobody believes is not measured well.
        if factor.is_finite() && factor > 0.0 { factor.clamp(1e-3, 1e3) } else { 1.0 }
    }
}
