//! How the broadcasts of a job travel, by name.

use super::shapes::{binomial, hierarchical, star};
use super::tree::Tree;
use gridspan_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The names of all modes. `planned` is the default.
pub const MODES: &[&str] = &["planned", "layout", "binomial", "star"];

/// How broadcasts travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As the advisor plans, and over the [`hierarchical`] tree where it has no better plan.
    #[default]
    Planned,
    /// Over the [`hierarchical`] tree, which follows from the layout.
    Layout,
    /// Over a [`binomial`] tree, which knows of no sites.
    Binomial,
    /// From the root to each other node: over a [`star`].
    Star,
}

/// There is no mode of this name. Nothing was changed; write one of the names listed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("broadcasts cannot travel `{}`; write one of {}", .name.escape_debug(), MODES.join(", "))]
pub struct UnknownMode {
    /// The name that was asked for.
    pub name: String,
}

impl Mode {
    /// The tree that broadcasts take without a plan. Panics if the job has no node `root`.
    pub fn tree(self, layout: &Layout, root: NodeId) -> Tree {
        match self {
            Self::Planned | Self::Layout => hierarchical(layout, root),
            Self::Binomial => binomial(layout, root),
            Self::Star => star(layout, root),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Planned => "planned",
            Self::Layout => "layout",
            Self::Binomial => "binomial",
            Self::Star => "star",
        })
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let all = [Self::Planned, Self::Layout, Self::Binomial, Self::Star];
        let found = all.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| UnknownMode { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_mode_and_other_names_are_answered_with_them() {
        for &name in MODES {
            assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
        }
        let error = "fast".parse::<Mode>().unwrap_err().to_string();
        assert!(error.ends_with("write one of planned, layout, binomial, star"), "{error}");
    }

    #[test]
    fn each_mode_has_its_tree() {
        let sites = ["a", "b"].map(|name| (name.to_owned(), vec![1; 3]));
        let layout = Layout::new(sites.to_vec());
        let from_root = |mode: Mode| {
            let tree = mode.tree(&layout, NodeId(0));
            tree.children(NodeId(0)).len()
        };
        // The other site's first node and two in its own; 1, 2 and 4 further; all five.
        assert_eq!([Mode::Layout, Mode::Binomial, Mode::Star].map(from_root), [3, 3, 5]);
        let crosses = |mode: Mode| {
            let tree = mode.tree(&layout, NodeId(0));
            tree.edges().filter(|(from, to)| (from.0 < 3) != (to.0 < 3)).count()
        };
        assert_eq!(crosses(Mode::Planned), 1);
        assert!(crosses(Mode::Binomial) > 1);
    }
}
