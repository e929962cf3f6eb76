//! What became of a rebalance, for people and programs.

use crate::cost::Traffic;
use crate::gate::Refusal;
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why actors are balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// All members of a collection have reached their sync point.
    SyncPoint,
    /// The job asked for it.
    Request,
    /// It was time.
    Period,
    /// A link has changed.
    Link,
    /// Other programs have begun or ceased to use a PE.
    ForeignLoad,
    /// The last plan has made steps longer.
    Undo,
}

/// What became of one rebalance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalanceReport {
    /// When it was decided.
    pub at: Time,
    /// Why.
    pub cause: Cause,
    /// The name of the strategy.
    pub strategy: String,
    /// How many actors there are.
    pub actors: u64,
    /// How many have moved, or got or lost a replica.
    pub moved: u64,
    /// How many are computed at two sites after it; none if nothing was carried out.
    #[serde(default)]
    pub replicas: u64,
    /// How many bytes of state they have.
    pub bytes_moved: u64,
    /// What crosses from one site to another in a step as actors were placed, by what was measured.
    pub before: Traffic,
    /// The same as they are placed now.
    pub after: Traffic,
    /// The part of a step that should be saved; none if the gate was not asked.
    pub predicted: Option<f64>,
    /// The part that was; none if the job ended before that could be told, or nobody looked.
    pub realised: Option<f64>,
    /// How long it took to carry out: the job stood still at a sync point, and went on elsewhere.
    pub took: Duration,
    /// Why nothing was moved, if the gate said so.
    pub refusal: Option<Refusal>,
}

/// One line for people: what has moved, what crosses sites, what it brought.
impl fmt::Display for BalanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strategy, actors, moved, before, after, .. } = self;
        let kib = self.bytes_moved.div_ceil(1024);
        match self.cause {
            Cause::Undo => write!(f, "undone: {moved} actors moved back ({kib} KiB)")?,
            _ => write!(f, "{strategy}: {moved} of {actors} actors moved ({kib} KiB)")?,
        }
        if (before.messages, after.messages) != (0, 0) {
            let [old, new] = [before, after].map(|traffic| traffic.bytes.div_ceil(1024));
            write!(f, ", {} → {} messages", before.messages, after.messages)?;
            write!(f, " and {old} → {new} KiB between sites a step")?;
        }
        if self.replicas > 0 {
            write!(f, ", {} at two sites", self.replicas)?;
        }
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        if let Some(predicted) = self.predicted {
            write!(f, ", gain {} predicted", percent(predicted))?;
            match self.realised {
                Some(realised) => write!(f, ", {} realised", percent(realised))?,
                None => write!(f, ", not judged")?,
            }
        }
        Ok(())
    }
}
