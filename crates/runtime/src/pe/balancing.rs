//! How a job balances its actors, and the callbacks that observe it.

use gridspan_balance::{
    BalanceReport, Balancer, NoMoves, Plan, Snapshot, Strategy, UnknownStrategy, by_name,
};
use std::sync::Arc;
use std::time::Duration;

/// Called with the measurements and the plan of a rebalance.
pub(crate) type OnSnapshot = Arc<dyn Fn(&Snapshot, &Plan) + Send + Sync>;

/// Called with the outcome of a rebalance.
pub(crate) type OnBalance = Arc<dyn Fn(&BalanceReport) + Send + Sync>;

/// Makes a strategy with a seed for its dice.
type Make = Arc<dyn Fn(u64) -> Box<dyn Strategy> + Send + Sync>;

/// The source of the strategy.
#[derive(Clone)]
pub(crate) enum Source {
    /// One of the named strategies, which all nodes have.
    Named(Arc<str>),
    /// A strategy that the job defines.
    Made(Make),
}

/// A job's settings for balancing.
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

    /// Checks that the strategy exists.
    pub(crate) fn check(&self) -> Result<(), UnknownStrategy> {
        self.strategy(0).map(|_| ())
    }

    /// Whether actors may be moved, and are therefore measured.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(&self.source, Source::Named(name) if &**name == "none")
    }

    /// The strategy with its gate. An unknown strategy, which [`check`](Self::check) refuses
    /// beforehand, moves nothing.
    pub(crate) fn balancer(&self, seed: u64) -> Balancer {
        let strategy = self.strategy(seed).unwrap_or_else(|_| Box::new(NoMoves));
        Balancer::new(strategy, self.is_gated)
    }
}
