//! How to run a job: the driver, and settings that override those of the program.

use crate::dump;
use gridspan_bcast::Mode;
use gridspan_runtime::Job;
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The way to run a job.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::topology::GridSpec;
/// use gridspan::{Driver, Settings, Start};
///
/// let start = Start {
///     driver: Driver::Embedded(GridSpec::single(2)),
///     settings: Settings { seed: Some(7), ..Settings::default() },
///     report_lines: false,
/// };
/// let job = Job::new("nothing").main(async |_grid: Grid| Ok(()));
/// assert_eq!(gridspan::run(job, &start), ExitCode::SUCCESS);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The driver.
    pub driver: Driver,
    /// Settings that override those of the program.
    pub settings: Settings,
    /// Whether to report in [control lines](crate::control), to a launcher.
    pub report_lines: bool,
}

/// The driver of a job.
///
/// ```
/// use gridspan::Driver;
/// use gridspan::topology::GridSpec;
///
/// // Four nodes of one process, at two sites.
/// let grid = GridSpec::from_emulate("2x2,wan=32ms")?;
/// let driver = Driver::Embedded(grid);
/// # assert!(matches!(driver, Driver::Embedded(_)));
/// # Ok::<(), gridspan::topology::EmulateError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Driver {
    /// In this process; the links of a grid with several nodes are emulated.
    Embedded(GridSpec),
    /// As one of several nodes, given on standard input. A launcher requests this.
    #[cfg(feature = "net")]
    Node,
    /// In virtual time.
    #[cfg(feature = "sim")]
    Simulated(GridSpec),
}

/// Settings that override those of the program.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::Settings;
///
/// let settings = Settings { time_limit: Some(Duration::from_secs(60)), ..Settings::default() };
/// let job = settings.apply(Job::new("nothing"));
/// assert_eq!(gridspan::embed::Runner::on_threads(1).run(job), Ok(()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The seed of all intended randomness.
    pub seed: Option<u64>,
    /// The balancing strategy, by name.
    pub strategy: Option<String>,
    /// Interval at which the strategy runs in addition to sync points and events.
    #[serde(default)]
    pub balance_every: Option<Duration>,
    /// Whether plans must be worth their cost.
    #[serde(default)]
    pub balance_gate: Option<bool>,
    /// The stealing policy of nodes without tasks, by name.
    #[serde(default)]
    pub stealing: Option<String>,
    /// The mode of broadcasts.
    #[serde(default)]
    pub broadcast: Option<Mode>,
    /// The file for the measurements of each rebalance, one line of JSON each.
    #[serde(default)]
    pub balance_dump: Option<PathBuf>,
    /// Whether the job continues when a guest is lost.
    #[serde(default)]
    pub tolerates_lost_guests: Option<bool>,
    /// Whether the job ends with an error when it is stalled for ever.
    #[serde(default)]
    pub fails_on_stall: Option<bool>,
    /// Time limit of the job: virtual time in the simulator, else real time.
    #[serde(default)]
    pub time_limit: Option<Duration>,
}

impl Settings {
    /// Applies these settings to the job.
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
