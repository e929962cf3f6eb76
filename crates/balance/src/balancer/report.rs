//! Results of a rebalance, for people and programs.

use crate::cost::Traffic;
use crate::gate::Refusal;
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Reason for a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Cause {
    /// All members of a collection have reached their sync point.
    SyncPoint,
    /// The job requested the rebalance.
    Request,
    /// The balancing period has elapsed.
    Period,
    /// A link has changed.
    Link,
    /// Other programs have begun or stopped using a PE.
    ForeignLoad,
    /// The last plan made steps longer.
    Undo,
}

/// Result of one rebalance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BalanceReport {
    /// Time of the decision.
    pub at: Time,
    /// Reason for the rebalance.
    pub cause: Cause,
    /// The name of the strategy.
    pub strategy: String,
    /// Number of actors.
    pub actors: u64,
    /// Number of actors that moved, or got or lost a replica.
    pub moved: u64,
    /// Number of actors that are computed at two sites after the rebalance; 0 if the gate refused
    /// the plan.
    #[serde(default)]
    pub replicas: u64,
    /// Bytes of state of the moved actors.
    pub bytes_moved: u64,
    /// Measured traffic between sites per step with the placement before the rebalance.
    pub before: Traffic,
    /// Predicted traffic between sites per step with the placement after the rebalance.
    pub after: Traffic,
    /// Predicted part of a step that is saved; `None` if the gate considered no plan.
    pub predicted: Option<f64>,
    /// Part of a step that was saved; `None` if the plan was not judged to the end.
    pub realised: Option<f64>,
    /// Time taken to carry out the plan. At a sync point the job stands still meanwhile; elsewhere
    /// it goes on.
    pub took: Duration,
    /// Reason why the gate refused the plan, if it did.
    pub refusal: Option<Refusal>,
}

/// One line for people: the moves, the traffic between sites and the gain.
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
