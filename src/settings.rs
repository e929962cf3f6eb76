//! How to run a job: the driver, and settings that override those of the program.

use crate::binding::{Binding, HostShare};
use crate::dump;
use gridspan_balance::StrategyName;
use gridspan_balance::stealing::StealingPolicyName;
use gridspan_bcast::Mode;
use gridspan_runtime::pe::RecordSettings;
use gridspan_runtime::{Checkpoints, Job};
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
/// let start = Start::new(Driver::Embedded(GridSpec::single(2)))
///     .with_settings(Settings::default().with_seed(7));
/// let job = Job::new("nothing").main(async |_grid: Grid| Ok(()));
/// assert_eq!(gridspan::run(job, &start), ExitCode::SUCCESS);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Driver {
    /// Nodes in this process. The links of a grid with several nodes are emulated.
    Embedded(GridSpec),
    /// One of several nodes. The launcher that requests this sends the node's identity.
    #[cfg(feature = "net")]
    Node,
    /// A simulation in virtual time.
    #[cfg(feature = "sim")]
    Simulated(GridSpec),
}

/// Settings that override those of the program.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::Settings;
///
/// let settings = Settings::default().with_time_limit(Duration::from_secs(60));
/// let job = settings.apply(Job::new("nothing"));
/// assert_eq!(gridspan::embed::Runner::on_threads(1).run(job), Ok(()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// The seed of all intended randomness.
    pub seed: Option<u64>,
    /// The balancing strategy.
    pub strategy: Option<StrategyName>,
    /// Interval at which the strategy runs in addition to sync points and events.
    #[serde(default)]
    pub balance_every: Option<Duration>,
    /// Whether plans must be worth their cost.
    #[serde(default)]
    pub balance_gate: Option<bool>,
    /// The stealing policy of nodes without tasks.
    #[serde(default)]
    pub stealing: Option<StealingPolicyName>,
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
    /// Time limit of the job: virtual time in the simulator, otherwise real time.
    #[serde(default)]
    pub time_limit: Option<Duration>,
    /// Silence after which a node is lost.
    #[serde(default)]
    pub lost_after: Option<Duration>,
    /// The checkpoints of the job.
    #[serde(default)]
    pub checkpoints: Option<Checkpoints>,
    /// A folder in which checkpoints are stored in addition to the memory of the nodes.
    #[serde(default)]
    pub checkpoint_folder: Option<PathBuf>,
    /// The folder with the checkpoint from which the job continues.
    #[serde(default)]
    pub restart: Option<PathBuf>,
    /// Whether the nodes that remain after a loss continue. `None`: they do if the job makes
    /// checkpoints and its main can begin again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovers: Option<bool>,
    /// Whether a job that recovers from losses goes on without lost nodes that had only tasks; the
    /// other nodes repeat these tasks. `None`: as the program says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats_tasks: Option<bool>,
    /// Maximum bytes of the tasks that a node keeps to repeat them after the loss of other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// The processors to which PEs are bound.
    #[serde(default)]
    pub bind: Option<Binding>,
    /// The place of this node's PEs among those of its host; set by the launcher. Without it, the
    /// PEs of a node process are not bound.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_share: Option<HostShare>,
    /// How the job is recorded, if it is. Only a launcher, which receives the recording, sets this.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordSettings>,
}

impl Start {
    /// Returns a start with this driver and the settings of the program. It reports to people, not
    /// to a launcher.
    pub fn new(driver: Driver) -> Self {
        Self { driver, settings: Settings::default(), report_lines: false }
    }

    /// Sets the settings that override those of the program.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets whether to report in [control lines](crate::control), to a launcher.
    #[must_use]
    pub fn with_report_lines(mut self, report_lines: bool) -> Self {
        self.report_lines = report_lines;
        self
    }
}

impl Settings {
    /// Sets the seed of all intended randomness.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the balancing strategy.
    #[must_use]
    pub fn with_strategy(mut self, strategy: StrategyName) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// Sets the processors to which PEs are [bound](crate::binding), for [`run`](crate::run).
    #[must_use]
    pub fn with_bind(mut self, bind: Binding) -> Self {
        self.bind = Some(bind);
        self
    }

    /// Sets the interval at which the strategy runs in addition to sync points and events.
    #[must_use]
    pub fn with_balance_every(mut self, balance_every: Duration) -> Self {
        self.balance_every = Some(balance_every);
        self
    }

    /// Sets whether plans must be worth their cost.
    #[must_use]
    pub fn with_balance_gate(mut self, balance_gate: bool) -> Self {
        self.balance_gate = Some(balance_gate);
        self
    }

    /// Sets the stealing policy of nodes without tasks.
    #[must_use]
    pub fn with_stealing(mut self, stealing: StealingPolicyName) -> Self {
        self.stealing = Some(stealing);
        self
    }

    /// Sets the mode of broadcasts.
    #[must_use]
    pub fn with_broadcast(mut self, broadcast: Mode) -> Self {
        self.broadcast = Some(broadcast);
        self
    }

    /// Sets the file for the measurements of each rebalance.
    #[must_use]
    pub fn with_balance_dump(mut self, balance_dump: PathBuf) -> Self {
        self.balance_dump = Some(balance_dump);
        self
    }

    /// Sets whether the job continues when a guest is lost.
    #[must_use]
    pub fn with_tolerates_lost_guests(mut self, tolerates_lost_guests: bool) -> Self {
        self.tolerates_lost_guests = Some(tolerates_lost_guests);
        self
    }

    /// Sets whether the job ends with an error when it is stalled for ever.
    #[must_use]
    pub fn with_fails_on_stall(mut self, fails_on_stall: bool) -> Self {
        self.fails_on_stall = Some(fails_on_stall);
        self
    }

    /// Sets the time limit of the job.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = Some(time_limit);
        self
    }

    /// Sets the silence after which a node is lost.
    #[must_use]
    pub fn with_lost_after(mut self, lost_after: Duration) -> Self {
        self.lost_after = Some(lost_after);
        self
    }

    /// Sets the checkpoints of the job.
    #[must_use]
    pub fn with_checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = Some(checkpoints);
        self
    }

    /// Sets a folder in which checkpoints are stored in addition to the memory of the nodes.
    #[must_use]
    pub fn with_checkpoint_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.checkpoint_folder = Some(folder.into());
        self
    }

    /// Sets the folder with the checkpoint from which the job continues.
    #[must_use]
    pub fn with_restart(mut self, folder: impl Into<PathBuf>) -> Self {
        self.restart = Some(folder.into());
        self
    }

    /// Sets the maximum bytes of the tasks that a node keeps to repeat them after the loss of other
    /// nodes.
    #[must_use]
    pub fn with_log_bytes(mut self, log_bytes: u64) -> Self {
        self.log_bytes = Some(log_bytes);
        self
    }

    /// Applies these settings to the job, except `bind`, which [`run`](crate::run) applies, and
    /// `recovers` and `repeats_tasks`, which only a node process uses.
    pub fn apply(&self, mut job: Job) -> Job {
        if let Some(seed) = self.seed {
            job = job.seed(seed);
        }
        if let Some(strategy) = self.strategy {
            job = job.strategy(strategy);
        }
        if let Some(every) = self.balance_every {
            job = job.balance_every(every);
        }
        if let Some(is_gated) = self.balance_gate {
            job = job.balance_gate(is_gated);
        }
        if let Some(policy) = self.stealing {
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
        if let Some(silence) = self.lost_after {
            job = job.lost_after(silence);
        }
        if let Some(checkpoints) = self.checkpoints {
            job = job.checkpoints(checkpoints);
        }
        if let Some(folder) = &self.checkpoint_folder {
            job = job.checkpoint_folder(folder);
        }
        if let Some(folder) = &self.restart {
            job = job.restart(folder);
        }
        if let Some(bytes) = self.log_bytes {
            job = job.log_bytes(bytes);
        }
        job
    }
}
