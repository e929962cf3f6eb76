//! The problem classes of the NAS kernels, and the comparison with published values.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A size of the problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "UPPER")]
pub(super) enum ProblemClass {
    /// A sample, for tests.
    S,
    /// A workstation of the nineties.
    W,
    /// The smallest of the standard sizes.
    A,
    /// About four times the work of class A, or more.
    B,
}

impl ProblemClass {
    /// The value for this class among those of all classes.
    pub(super) fn of<T>(self, [s, w, a, b]: [T; 4]) -> T {
        match self {
            Self::S => s,
            Self::W => w,
            Self::A => a,
            Self::B => b,
        }
    }
}

/// A computed value beside the published one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) found: f64,
    pub(super) published: f64,
    /// The largest relative difference.
    pub(super) tolerance: f64,
}

impl Check {
    pub(super) fn new(name: impl Into<String>, found: f64, published: f64, tolerance: f64) -> Self {
        Self { name: name.into(), found, published, tolerance }
    }

    /// Whether the values agree.
    pub(super) fn is_right(&self) -> bool {
        ((self.found - self.published) / self.published).abs() <= self.tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_agree_within_the_tolerance() {
        let check = |found| Check::new("zeta", found, -2.0, 1e-3);
        assert!(check(-2.001).is_right() && check(-1.999).is_right());
        assert!(!check(-2.01).is_right() && !check(2.0).is_right() && !check(f64::NAN).is_right());
    }
}
