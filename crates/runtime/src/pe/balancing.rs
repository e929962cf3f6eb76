//! How a job balances its actors, and the callbacks that observe it.

use gridspan_balance::{BalanceReport, Balancer, MakeStrategy, NoMoves, Plan, Snapshot, Strategy};
use std::sync::Arc;
use std::time::Duration;

/// Called with the measurements and the plan of a rebalance.
pub(crate) type OnSnapshot = Arc<dyn Fn(&Snapshot, &Plan) + Send + Sync>;

/// Called with the outcome of a rebalance.
pub(crate) type OnBalance = Arc<dyn Fn(&BalanceReport) + Send + Sync>;

/// A job's settings for balancing.
#[derive(Clone)]
pub(crate) struct Balancing {
    strategy: Arc<dyn MakeStrategy>,
    is_active: bool,
    pub(crate) is_gated: bool,
    pub(crate) every: Option<Duration>,
    pub(crate) on_snapshot: Vec<OnSnapshot>,
    pub(crate) on_balance: Vec<OnBalance>,
}

impl Default for Balancing {
    fn default() -> Self {
        let (on_snapshot, on_balance) = (vec![], vec![]);
        let strategy = Arc::new(NoMoves);
        Self { strategy, is_active: false, is_gated: true, every: None, on_snapshot, on_balance }
    }
}

impl Balancing {
    /// Returns the settings with another strategy.
    pub(crate) fn with(self, strategy: impl MakeStrategy) -> Self {
        let is_active = strategy.make(0).name() != NoMoves.name();
        Self { strategy: Arc::new(strategy), is_active, ..self }
    }

    /// Whether actors may be moved, and are therefore measured.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active
    }

    /// The strategy with its gate.
    pub(crate) fn balancer(&self, seed: u64) -> Balancer {
        Balancer::new(self.strategy.make(seed), self.is_gated)
    }
}
