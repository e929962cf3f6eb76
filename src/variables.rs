//! The environment variables that control how a job runs. Flags of `gridctl` override all of them.
//!
//! | variable | value | default |
//! | --- | --- | --- |
//! | `GRIDSPAN_DRIVER` | `embedded` (threads of this process), `sim` (virtual time); `node` is set by the launcher | `embedded` |
//! | `GRIDSPAN_PES` | number of PEs, on one node | the number of cores |
//! | `GRIDSPAN_EMULATE` | a grid on this machine, such as `2x4,wan=32ms` (see [`GridSpec::from_emulate`]) | none |
//! | `GRIDSPAN_GRID` | the path of a grid file (see [`GridSpec::from_toml`]), or a [`GridSpec`] as JSON | none |
//! | `GRIDSPAN_SEED` | the seed of all intended randomness, a number | the program's, or 0 |
//! | `GRIDSPAN_BIND` | the processors to which PEs are [bound](crate::binding): `none`, `core`, or `numa` | `none` |
//! | `GRIDSPAN_BALANCE` | the balancing strategy: one of [`NAMES`](gridspan_balance::NAMES) | the program's, or `none` |
//! | `GRIDSPAN_BALANCE_EVERY` | interval at which the strategy runs in addition to sync points and events, such as `5s` or `200ms` | the program's, or never |
//! | `GRIDSPAN_ON_STALL` | reaction to a job that is stalled for ever: `warn`, or `fail` to end it | `warn` |
//! | `GRIDSPAN_TIME_LIMIT` | time, such as `10min`, after which a job ends with an error | none |
//! | `GRIDSPAN_LOST_AFTER` | silence, such as `60s`, after which a node is lost; from `1s` to a day | the program's, or `3s` |
//! | `GRIDSPAN_CHECKPOINT_EVERY` | how often to make checkpoints: `auto`, a time such as `30s`, or a number of progress points such as `100steps` | the program's, or never |
//! | `GRIDSPAN_COPIES` | number of nodes that keep each part of a checkpoint, at least 1 | 2 |
//! | `GRIDSPAN_PROTECT_SITES` | `on`: the second copy is kept at another site; `off` | `off` |
//! | `GRIDSPAN_COPY_RATE` | bandwidth, such as `100mbit`, of the copies from one site to others | unlimited |
//! | `GRIDSPAN_NODE_MTBF` | mean time between failures of a node, such as `700h`, for the interval of `auto` | 30 days |
//! | `GRIDSPAN_CHECKPOINT` | folder in which checkpoints are stored | none, in memory |
//! | `GRIDSPAN_RESTART` | folder with the checkpoint from which the job continues | none |
//! | `GRIDSPAN_BALANCE_GATE` | `on`: plans must be worth their cost, and are undone if they were not; `off` | the program's, or `on` |
//! | `GRIDSPAN_STEALING` | stealing policy of nodes without tasks: one of [`STEALING_POLICIES`](gridspan_balance::stealing::STEALING_POLICIES) | the program's, or `directory` |
//! | `GRIDSPAN_BROADCAST` | broadcast mode: one of [`MODES`](gridspan_bcast::MODES) | the program's, or `planned` |
//! | `GRIDSPAN_BALANCE_DUMP` | path of the file for the measurements of each rebalance | none |
//! | `GRIDSPAN_LAUNCHER` | number of the descriptor from which a node reads the input from its launcher; set by the launcher | 0, standard input |
//! | `GRIDSPAN_DETACHED` | the id of the process that starts a node: the node goes on when its launcher has ended; `bridge`: the process is a [bridge](crate::keeper) to a node; set by the launcher | a node ends with its launcher |
//! | `GRIDSPAN_NODE`, `GRIDSPAN_NODES` | number of this node in the grid of the job, from 0, and of all its nodes; set by the launcher for the process of a node | |
//! | `GRIDSPAN_LOCAL_NODE`, `GRIDSPAN_LOCAL_NODES` | the same among the nodes of this host | |
//! | `GRIDSPAN_SITE` | name of this node's site; set by the launcher | |
//! | `GRIDSPAN_SITE_INDEX`, `GRIDSPAN_SITES` | number of this node's site in the grid of the job, from 0, and of all its sites; set by the launcher | |
//! | `GRIDSPAN_JOB` | name of the job, as `gridctl ps` lists it; set by the launcher | |
//! | `GRIDSPAN_RUN` | the run of the job when this process was started: 0 at first, and higher after each change of nodes; set by the launcher | |
//! | `GRIDSPAN_RECORD` | the budget of a node's recording in bytes, and the start of the job in nanoseconds since 1970, such as `16000000@0`; set by the launcher | nothing is recorded |
//! | `GRIDSPAN_REPORT` | `lines`: report to a launcher in [control lines](crate::control) | reports are for people |
//!
//! Any of the four variables after `GRIDSPAN_CHECKPOINT_EVERY` also requests checkpoints, `auto` if
//! that variable is not set.
//!
//! At most one of `GRIDSPAN_PES`, `GRIDSPAN_EMULATE` and `GRIDSPAN_GRID` may be set. If the grid
//! has several nodes, the embedded driver connects them within the process.

use crate::binding::Binding;
use crate::bounded_file::read_text;
use crate::settings::{Driver, Settings, Start};
use gridspan_balance::UnknownStrategy;
use gridspan_balance::stealing::UnknownStealingPolicy;
use gridspan_bcast::UnknownMode;
pub use gridspan_runtime::driver::cores;
use gridspan_runtime::pe::RecordSettings;
use gridspan_runtime::{CheckpointEvery, Checkpoints};
use gridspan_topology::{Bandwidth, EmulateError, GridFileError, GridSpec, Link, parse_duration};
use std::env::VarError;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// The driver that runs the job.
pub const DRIVER: &str = "GRIDSPAN_DRIVER";
/// The number of PEs.
pub const PES: &str = "GRIDSPAN_PES";
/// A shorthand for an emulated grid.
pub const EMULATE: &str = "GRIDSPAN_EMULATE";
/// A grid file, or a grid as JSON.
pub const GRID: &str = "GRIDSPAN_GRID";
/// The seed.
pub const SEED: &str = "GRIDSPAN_SEED";
/// The processors to which PEs are bound.
pub const BIND: &str = "GRIDSPAN_BIND";
/// The balancing strategy.
pub const BALANCE: &str = "GRIDSPAN_BALANCE";
/// The interval of balancing.
pub const BALANCE_EVERY: &str = "GRIDSPAN_BALANCE_EVERY";
/// Whether plans must be worth their cost.
pub const BALANCE_GATE: &str = "GRIDSPAN_BALANCE_GATE";
/// The stealing policy of nodes without tasks.
pub const STEALING: &str = "GRIDSPAN_STEALING";
/// The mode of broadcasts.
pub const BROADCAST: &str = "GRIDSPAN_BROADCAST";
/// Whether a job that is stalled for ever ends.
pub const ON_STALL: &str = "GRIDSPAN_ON_STALL";
/// The time limit of a job.
pub const TIME_LIMIT: &str = "GRIDSPAN_TIME_LIMIT";
/// Silence after which a node is lost.
pub const LOST_AFTER: &str = "GRIDSPAN_LOST_AFTER";
/// How often checkpoints are made.
pub const CHECKPOINT_EVERY: &str = "GRIDSPAN_CHECKPOINT_EVERY";
/// Number of nodes that keep each part of a checkpoint.
pub const COPIES: &str = "GRIDSPAN_COPIES";
/// Whether the second copy of a part of a checkpoint is kept at another site.
pub const PROTECT_SITES: &str = "GRIDSPAN_PROTECT_SITES";
/// Bandwidth of the copies of checkpoints from one site to others.
pub const COPY_RATE: &str = "GRIDSPAN_COPY_RATE";
/// Mean time between failures of a node.
pub const NODE_MTBF: &str = "GRIDSPAN_NODE_MTBF";
/// The folder in which checkpoints are stored.
pub const CHECKPOINT: &str = "GRIDSPAN_CHECKPOINT";
/// The folder with the checkpoint from which the job continues.
pub const RESTART: &str = "GRIDSPAN_RESTART";
/// The file for the measurements of each rebalance.
pub const BALANCE_DUMP: &str = "GRIDSPAN_BALANCE_DUMP";
/// The budget of a node's recording.
pub const RECORD: &str = "GRIDSPAN_RECORD";
/// Whether to report in control lines.
pub const REPORT: &str = "GRIDSPAN_REPORT";
/// The descriptor from which a node reads the input from its launcher.
pub const LAUNCHER: &str = "GRIDSPAN_LAUNCHER";
/// Whether a node goes on when its launcher has ended.
pub const DETACHED: &str = "GRIDSPAN_DETACHED";
/// Number of a node in the grid of its job.
pub const NODE: &str = "GRIDSPAN_NODE";
/// Number of nodes in the grid of a job.
pub const NODES: &str = "GRIDSPAN_NODES";
/// Number of a node among those of its host.
pub const LOCAL_NODE: &str = "GRIDSPAN_LOCAL_NODE";
/// Number of nodes of a host.
pub const LOCAL_NODES: &str = "GRIDSPAN_LOCAL_NODES";
/// Name of a node's site.
pub const SITE: &str = "GRIDSPAN_SITE";
/// Number of a node's site in the grid of its job.
pub const SITE_INDEX: &str = "GRIDSPAN_SITE_INDEX";
/// Number of sites in the grid of a job.
pub const SITES: &str = "GRIDSPAN_SITES";
/// Name of a node's job.
pub const JOB: &str = "GRIDSPAN_JOB";
/// Number of the run of a job.
pub const RUN: &str = "GRIDSPAN_RUN";
/// The variables that describe the grid.
pub const GRIDS: [&str; 3] = [PES, EMULATE, GRID];
/// All variables.
pub const ALL: [&str; 35] = [
    DRIVER,
    PES,
    EMULATE,
    GRID,
    SEED,
    BIND,
    BALANCE,
    BALANCE_EVERY,
    BALANCE_GATE,
    BALANCE_DUMP,
    STEALING,
    BROADCAST,
    ON_STALL,
    TIME_LIMIT,
    LOST_AFTER,
    CHECKPOINT_EVERY,
    COPIES,
    PROTECT_SITES,
    COPY_RATE,
    NODE_MTBF,
    CHECKPOINT,
    RESTART,
    RECORD,
    REPORT,
    LAUNCHER,
    DETACHED,
    NODE,
    NODES,
    LOCAL_NODE,
    LOCAL_NODES,
    SITE,
    SITE_INDEX,
    SITES,
    JOB,
    RUN,
];

/// Error of the environment. Nothing was started; correct the variable.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VariableError {
    /// A value is not a possible one.
    #[error("{name}={value:?} is not {expected}")]
    Value {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The possible values.
        expected: &'static str,
    },
    /// The program was built without this driver.
    #[error(
        "{DRIVER}={value} needs the feature `{feature}` of the crate `gridspan`; build the program with it"
    )]
    Feature {
        /// The driver.
        value: &'static str,
        /// The feature.
        feature: &'static str,
    },
    /// The value is not text.
    #[error("{0} is set to bytes that are not UTF-8 text; set it again")]
    NotText(&'static str),
    /// Two variables both describe the grid.
    #[error("{0} and {1} are both set; unset one of them")]
    Both(&'static str, &'static str),
    /// A shorthand cannot be read.
    #[error("{EMULATE}: {0}")]
    Emulate(#[from] EmulateError),
    /// A strategy does not exist.
    #[error("{BALANCE}: {0}")]
    Strategy(#[from] UnknownStrategy),
    /// A stealing policy does not exist.
    #[error("{STEALING}: {0}")]
    Stealing(#[from] UnknownStealingPolicy),
    /// A broadcast mode does not exist.
    #[error("{BROADCAST}: {0}")]
    Broadcast(#[from] UnknownMode),
    /// A grid in JSON cannot be read.
    #[error("{GRID} is not a grid in JSON: {0}")]
    Json(serde_json::Error),
    /// A grid file cannot be used.
    #[error("{GRID}: {0}")]
    File(#[from] GridLoadError),
}

/// Error of loading a grid file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GridLoadError {
    /// The file cannot be read.
    #[error("cannot read the grid file {}: {error}", .path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// Its content is invalid.
    #[error("grid file {}, {error}", .path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// The problem and its position.
        error: GridFileError,
    },
}

/// Largest number of bytes that are read as a grid file. [`GridSpec::from_toml`] already refuses
/// smaller files, with advice; this bound is for devices without end.
const GRID_BYTES_MAX: u64 = 16 << 20;

/// Reads a grid file. Fails if the file cannot be read, is too large, or is invalid.
pub fn load_grid(path: &Path) -> Result<GridSpec, GridLoadError> {
    let text = read_text(path, GRID_BYTES_MAX)
        .map_err(|error| GridLoadError::Read { path: path.to_owned(), error })?;
    GridSpec::from_toml(&text)
        .map_err(|error| GridLoadError::Content { path: path.to_owned(), error })
}

/// Reads one variable.
type Get<'a> = &'a dyn Fn(&'static str) -> Result<Option<String>, VariableError>;

impl Start {
    /// Reads the start from the environment. Fails if a variable is invalid.
    pub fn from_environment() -> Result<Self, VariableError> {
        start(&from_process)
    }
}

impl Settings {
    /// Reads the settings from the environment. Fails if a variable is invalid.
    pub fn from_environment() -> Result<Self, VariableError> {
        settings(&from_process)
    }
}

/// Returns the grid that the environment describes, if any. Fails if a variable is invalid, or two
/// describe the grid.
pub fn grid_from_environment() -> Result<Option<GridSpec>, VariableError> {
    grid(&from_process)
}

fn from_process(name: &'static str) -> Result<Option<String>, VariableError> {
    match std::env::var(name) {
        // An empty variable counts as unset: some shells cannot unset one for a single command.
        Ok(value) => Ok((!value.is_empty()).then_some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(VariableError::NotText(name)),
    }
}

fn start(get: Get<'_>) -> Result<Start, VariableError> {
    let report_lines = match get(REPORT)?.as_deref() {
        None => false,
        Some("lines") => true,
        Some(value) => return Err(wrong(REPORT, value, "`lines`")),
    };
    let grid = || -> Result<GridSpec, VariableError> {
        Ok(grid(get)?.unwrap_or_else(|| GridSpec::single(cores())))
    };
    let driver = match get(DRIVER)?.as_deref() {
        None | Some("embedded") => Driver::Embedded(grid()?),
        #[cfg(feature = "sim")]
        Some("sim") => Driver::Simulated(grid()?),
        #[cfg(feature = "net")]
        Some("node") => Driver::Node,
        #[cfg(not(feature = "sim"))]
        Some("sim") => return Err(VariableError::Feature { value: "sim", feature: "sim" }),
        #[cfg(not(feature = "net"))]
        Some("node") => return Err(VariableError::Feature { value: "node", feature: "net" }),
        Some(value) => return Err(wrong(DRIVER, value, "`embedded` or `sim`")),
    };
    Ok(Start { driver, settings: settings(get)?, report_lines })
}

fn settings(get: Get<'_>) -> Result<Settings, VariableError> {
    let on_or_off = |text: &str| yes_or_no(text, ["on", "off"]);
    let fail_or_warn = |text: &str| yes_or_no(text, ["fail", "warn"]);
    Ok(Settings {
        seed: read(get, SEED, "a number", |text| text.parse().ok())?,
        strategy: get(BALANCE)?.map(|name| name.parse()).transpose()?,
        balance_every: read(get, BALANCE_EVERY, "a time such as `5s`", period)?,
        balance_gate: read(get, BALANCE_GATE, "`on` or `off`", on_or_off)?,
        stealing: get(STEALING)?.map(|name| name.parse()).transpose()?,
        broadcast: get(BROADCAST)?.map(|name| name.parse()).transpose()?,
        balance_dump: get(BALANCE_DUMP)?.map(PathBuf::from),
        tolerates_lost_guests: None,
        fails_on_stall: read(get, ON_STALL, "`warn` or `fail`", fail_or_warn)?,
        time_limit: read(get, TIME_LIMIT, "a time such as `10min`", period)?,
        lost_after: read(get, LOST_AFTER, "a time from `1s` to a day, such as `60s`", silence)?,
        checkpoints: checkpoints(get)?,
        checkpoint_folder: get(CHECKPOINT)?.map(PathBuf::from),
        restart: get(RESTART)?.map(PathBuf::from),
        recovers: None,
        repeats_tasks: None,
        log_bytes: None,
        bind: read(get, BIND, "`none`, `core` or `numa`", Binding::by_name)?,
        host_share: None,
        record: read(get, RECORD, "what the launcher sets; unset it", record_of)?,
    })
}

/// Reads the checkpoints of the job; `None` if no variable is about them.
fn checkpoints(get: Get<'_>) -> Result<Option<Checkpoints>, VariableError> {
    let expected = "`auto`, a time such as `30s`, or `100steps`";
    let every = read(get, CHECKPOINT_EVERY, expected, checkpoint_every)?;
    let copies = |text: &str| text.parse::<u32>().ok().filter(|copies| *copies > 0);
    let copies = read(get, COPIES, "a number of at least 1", copies)?;
    let on_or_off = |text: &str| yes_or_no(text, ["on", "off"]);
    let protects_site = read(get, PROTECT_SITES, "`on` or `off`", on_or_off)?;
    let rate = |text: &str| text.parse::<Bandwidth>().ok();
    let copy_rate = read(get, COPY_RATE, "a bandwidth such as `100mbit`", rate)?;
    let node_mtbf = read(get, NODE_MTBF, "a time such as `700h`", period)?;
    let has_times = copy_rate.is_some() || node_mtbf.is_some();
    let has_details = copies.is_some() || protects_site.is_some() || has_times;
    let Some(every) = every.or(has_details.then_some(CheckpointEvery::Auto)) else {
        return Ok(None);
    };
    let mut checkpoints = Checkpoints::every(every);
    if let Some(copies) = copies {
        checkpoints = checkpoints.with_copies(copies);
    }
    if let Some(yes) = protects_site {
        checkpoints = checkpoints.protecting_sites(yes);
    }
    if let Some(rate) = copy_rate {
        checkpoints = checkpoints.with_copy_rate(rate);
    }
    if let Some(mtbf) = node_mtbf {
        checkpoints = checkpoints.with_node_mtbf(mtbf);
    }
    Ok(Some(checkpoints))
}

/// Reads a variable, if it is set; `parse` returns `None` if the value is not as `expected`.
fn read<T>(
    get: Get<'_>,
    name: &'static str,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, VariableError> {
    let Some(value) = get(name)? else { return Ok(None) };
    parse(&value).map(Some).ok_or_else(|| wrong(name, &value, expected))
}

/// Whether the text is the first of two words; `None` if it is neither.
fn yes_or_no(text: &str, [yes, no]: [&str; 2]) -> Option<bool> {
    (text == yes || text == no).then_some(text == yes)
}

/// The value of [`RECORD`] for a process that has all nodes of a job.
pub fn record_value(settings: &RecordSettings) -> String {
    format!("{}@{}", settings.node_bytes, settings.started_unix_ns.unwrap_or(0))
}

/// Reads a value of [`RECORD`].
fn record_of(value: &str) -> Option<RecordSettings> {
    let (node_bytes, started) = value.split_once('@')?;
    let mut settings = RecordSettings::new(node_bytes.parse().ok()?);
    let started: u64 = started.parse().ok()?;
    settings.started_unix_ns = (started > 0).then_some(started);
    Some(settings)
}

/// Reads how often checkpoints are made: `auto`, a time, or a number of progress points such as
/// `100steps`.
pub fn checkpoint_every(text: &str) -> Option<CheckpointEvery> {
    if text == "auto" {
        return Some(CheckpointEvery::Auto);
    }
    if let Some(points) = text.strip_suffix("steps") {
        let points = points.parse().ok().filter(|&points| points > 0)?;
        return Some(CheckpointEvery::Points(points));
    }
    period(text).map(CheckpointEvery::Time)
}

/// Reads an interval or a time limit, such as `5s`; `None` if the text is not a duration, or the
/// duration is less than a millisecond.
pub fn period(text: &str) -> Option<Duration> {
    parse_duration(text).ok().filter(|&period| period >= Duration::from_millis(1))
}

/// Reads the silence after which a node is lost, such as `60s`; `None` if the text is not a
/// duration, or not within [`Link::LOST_AFTER`].
pub fn silence(text: &str) -> Option<Duration> {
    parse_duration(text).ok().filter(|silence| Link::LOST_AFTER.contains(silence))
}

fn grid(get: Get<'_>) -> Result<Option<GridSpec>, VariableError> {
    let mut described = None;
    for name in GRIDS {
        if let Some(value) = get(name)? {
            if let Some((other, _)) = described {
                return Err(VariableError::Both(other, name));
            }
            described = Some((name, value));
        }
    }
    let Some((name, value)) = described else { return Ok(None) };
    Ok(Some(match name {
        PES => match value.parse::<NonZeroU32>() {
            Ok(pes) => GridSpec::single(pes.get()),
            Err(_) => return Err(wrong(PES, &value, "a number from 1")),
        },
        EMULATE => GridSpec::from_emulate(&value)?,
        _ if value.starts_with('{') => serde_json::from_str(&value).map_err(VariableError::Json)?,
        _ => load_grid(Path::new(&value))?,
    }))
}

fn wrong(name: &'static str, value: &str, expected: &'static str) -> VariableError {
    VariableError::Value { name, value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(variables: &[(&'static str, &str)]) -> Result<Start, VariableError> {
        super::start(&|name| {
            let found = variables.iter().find(|(found, _)| *found == name);
            Ok(found.map(|(_, value)| (*value).to_owned()))
        })
    }

    #[test]
    fn an_empty_environment_gives_one_pe_per_core() {
        let start = start(&[]).unwrap();
        assert_eq!(start.driver, Driver::Embedded(GridSpec::single(cores())));
        assert_eq!(start.settings, Settings::default());
    }

    #[test]
    fn every_variable_has_its_effect() {
        let start = start(&[
            (DRIVER, "sim"),
            (PES, "512"),
            (SEED, "7"),
            (BIND, "numa"),
            (BALANCE, "rotate"),
            (BALANCE_EVERY, "200ms"),
            (BALANCE_GATE, "off"),
            (BROADCAST, "binomial"),
            (RECORD, "5000@90"),
        ])
        .unwrap();
        assert_eq!(start.driver, Driver::Simulated(GridSpec::single(512)));
        assert_eq!(start.settings.seed, Some(7));
        assert_eq!(start.settings.bind, Some(Binding::Numa));
        assert_eq!(start.settings.strategy, "rotate".parse().ok());
        assert_eq!(start.settings.balance_every, Some(Duration::from_millis(200)));
        assert_eq!(start.settings.balance_gate, Some(false));
        assert_eq!(start.settings.broadcast, Some(gridspan_bcast::Mode::Binomial));
        let record = start.settings.record.unwrap();
        assert_eq!((record.node_bytes, record.started_unix_ns), (5000, Some(90)));
        assert_eq!(record_value(&record), "5000@90");
    }

    #[test]
    fn each_variable_about_checkpoints_requests_them() {
        let requested =
            |variables: &[(&'static str, &str)]| start(variables).unwrap().settings.checkpoints;
        let auto = Checkpoints::every(CheckpointEvery::Auto);
        assert_eq!(requested(&[]), None);
        assert_eq!(requested(&[(COPIES, "1")]), Some(auto.with_copies(1)));
        assert_eq!(requested(&[(PROTECT_SITES, "on")]), Some(auto.protecting_sites(true)));
        let rate = auto.with_copy_rate(Bandwidth::from_bits_per_second(100_000_000));
        assert_eq!(requested(&[(COPY_RATE, "100mbit")]), Some(rate));
        let steps = Checkpoints::every(CheckpointEvery::Points(100));
        let often = steps.with_node_mtbf(Duration::from_secs(3_600));
        assert_eq!(requested(&[(CHECKPOINT_EVERY, "100steps"), (NODE_MTBF, "1h")]), Some(often));
        for wrong in ["0", "-1", "two"] {
            let error = start(&[(COPIES, wrong)]).unwrap_err().to_string();
            assert_eq!(error, format!("GRIDSPAN_COPIES={wrong:?} is not a number of at least 1"));
        }
    }

    #[test]
    fn a_grid_can_be_a_shorthand_or_json() {
        let spec = GridSpec::from_emulate("2x3,wan=5ms").unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        let expected = Driver::Embedded(spec);
        assert_eq!(start(&[(EMULATE, "2x3,wan=5ms")]).unwrap().driver, expected);
        assert_eq!(start(&[(GRID, &json)]).unwrap().driver, expected);
    }

    #[cfg(unix)]
    #[test]
    fn a_device_without_end_is_no_grid_file() {
        let error = load_grid(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "cannot read the grid file /dev/zero: it is larger than 16777216 bytes");
    }

    #[test]
    fn an_error_names_the_variable_with_the_invalid_value() {
        let wrongs: [(&[(&'static str, &str)], &str); 11] = [
            (
                &[(BROADCAST, "fast")],
                "GRIDSPAN_BROADCAST: `fast` is not a broadcast mode; write one of",
            ),
            (&[(BALANCE, "best")], "GRIDSPAN_BALANCE: there is no strategy `best`; write one of"),
            (&[(BALANCE_EVERY, "5")], "GRIDSPAN_BALANCE_EVERY=\"5\" is not a time such as `5s`"),
            (&[(BALANCE_GATE, "no")], "GRIDSPAN_BALANCE_GATE=\"no\" is not `on` or `off`"),
            (&[(PES, "0")], "GRIDSPAN_PES=\"0\" is not a number from 1"),
            (&[(SEED, "x")], "GRIDSPAN_SEED=\"x\" is not a number"),
            (&[(BIND, "x")], "GRIDSPAN_BIND=\"x\" is not `none`, `core` or `numa`"),
            (&[(DRIVER, "gpu")], "GRIDSPAN_DRIVER=\"gpu\" is not `embedded` or `sim`"),
            (&[(REPORT, "x")], "GRIDSPAN_REPORT=\"x\" is not `lines`"),
            (&[(PES, "1"), (EMULATE, "2x2")], "GRIDSPAN_PES and GRIDSPAN_EMULATE are both set"),
            (&[(GRID, "/nowhere.toml")], "GRIDSPAN_GRID: cannot read the grid file /nowhere.toml"),
        ];
        for (variables, message) in wrongs {
            let error = start(variables).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
