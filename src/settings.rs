//! How to run a job: under which driver, and with what instead of the program's own settings.

use crate::dump;
use gridspan_bcast::Mode;
use gridspan_runtime::Job;
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How to run a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Where it runs.
    pub driver: Driver,
    /// What overrides the program's own settings.
    pub settings: Settings,
    /// Whether to report in [control lines](crate::control), to a launcher.
    pub report_lines: bool,
}

/// Where a job runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Driver {
    /// In this process; the links of a grid with several nodes are emulated.
    Embedded(GridSpec),
    /// As one node of several; standard input says which. A launcher asks for this.
    Node,
    /// In virtual time.
    Simulated(GridSpec),
}

/// What overrides the program's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Seeds everything random by intent.
    pub seed: Option<u64>,
    /// The balancing strategy, by name.
    pub strategy: Option<String>,
    /// How often the strategy is asked besides.
    #[serde(default)]
    pub balance_every: Option<Duration>,
    /// Whether plans must be worth what they cost.
    #[serde(default)]
    pub balance_gate: Option<bool>,
    /// By which policy nodes without tasks find some, by name.
    #[serde(default)]
    pub stealing: Option<String>,
    /// How broadcasts travel.
    #[serde(default)]
    pub broadcast: Option<Mode>,
    /// Where what was measured for each rebalance is written to, a line each, in JSON.
    #[serde(default)]
    pub balance_dump: Option<PathBuf>,
    /// Whether the job goes on when a guest is lost.
    #[serde(default)]
    pub tolerates_lost_guests: Option<bool>,
    /// Whether the job ends with an error when it can never go on.
    #[serde(default)]
    pub fails_on_stall: Option<bool>,
    /// How long the job may take: virtual time in the simulator, else real time.
    #[serde(default)]
    pub time_limit: Option<Duration>,
}

impl Settings {
    /// The job with these settings instead of its own.
    pub fn apply(&self, mut job: Job) -> Job {
        if let Some(seed) = self.seed {
            job = job.seed(seed);
        }
        if let Some(strategy) = &self.strategy {
            job = job.strategy(strategy);
        }
        if let Some(every) = self.balance_every {
            job = job.balance_every(every);
        }
        if let Some(is_gated) = self.balance_gate {
            job = job.balance_gate(is_gated);
        }
        if let Some(policy) = &self.stealing {
            job = job.stealing(policy);
        }
        if let Some(mode) = self.broadcast {
            job = job.broadcasts(mode);
        }
        if let Some(path) = &self.balance_dump {
            job = dump::balance(job, path);
        }
        if let Some(yes) = self.tolerates_lost_guests {
            job = job.tolerate_lost_guests(yes);
        }
        if let Some(yes) = self.fails_on_stall {
            job = job.fail_on_stall(yes);
        }
        if let Some(limit) = self.time_limit {
            job = job.time_limit(limit);
        }
        job
    }
}
