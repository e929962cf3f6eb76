//! How a job wants its actors balanced, and whom it tells.

use gridspan_balance::{
    BalanceReport, Balancer, NoMoves, Plan, Snapshot, Strategy, UnknownStrategy, by_name,
};
use std::sync::Arc;
use std::time::Duration;

/// Is told of what was measured, and of the plan.
pub(crate) type OnSnapshot = Arc<dyn Fn(&Snapshot, &Plan) + Send + Sync>;

/// Is told what became of a rebalance.
pub(crate) type OnBalance = Arc<dyn Fn(&BalanceReport) + Send + Sync>;

/// Makes a strategy whose dice begin with a seed.
type Make = Arc<dyn Fn(u64) -> Box<dyn Strategy> + Send + Sync>;

/// Where the strategy comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// One of those that everybody knows.
    Named(Arc<str>),
    /// The job's own.
    Made(Make),
}

/// What a job wants.
#[derive(Clone)]
pub(crate) struct Balancing {
    pub(crate) source: Source,
    pub(crate) is_gated: bool,
    pub(crate) every: Option<Duration>,
    pub(crate) on_snapshot: Vec<OnSnapshot>,
    pub(crate) on_balance: Vec<OnBalance>,
}

impl Default for Balancing {
    fn default() -> Self {
        let source = Source::Named("none".into());
        Self { source, is_gated: true, every: None, on_snapshot: vec![], on_balance: vec![] }
    }
}

impl Balancing {
    fn strategy(&self, seed: u64) -> Result<Box<dyn Strategy>, UnknownStrategy> {
        match &self.source {
            Source::Named(name) => by_name(name, seed),
            Source::Made(make) => Ok(make(seed)),
        }
    }

    /// Checks that there is such a strategy.
    pub(crate) fn check(&self) -> Result<(), UnknownStrategy> {
        self.strategy(0).map(|_| ())
    }

    /// Whether actors may ever be moved, and are measured for that.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(&self.source, Source::Named(name) if &**name == "none")
    }

    /// The strategy with its gate. One that is not known, which was refused before, moves nothing.
    pub(crate) fn balancer(&self, seed: u64) -> Balancer {
        let strategy = self.strategy(seed).unwrap_or_else(|_| Box::new(NoMoves));
        Balancer::new(strategy, self.is_gated)
    }
}
