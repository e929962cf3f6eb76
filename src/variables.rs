//! What the environment can say about how to run a job. Flags of `gridctl` come before all of them.
//!
//! | variable | value | default |
//! | --- | --- | --- |
//! | `GRIDSPAN_DRIVER` | `embedded` (threads of this process), `sim` (virtual time); `node` is set by the launcher | `embedded` |
//! | `GRIDSPAN_PES` | how many PEs, on one node | the number of cores |
//! | `GRIDSPAN_EMULATE` | a grid on this machine, such as `2x4,wan=32ms` (see [`GridSpec::from_emulate`]) | none |
//! | `GRIDSPAN_GRID` | the path of a grid file (see [`GridSpec::from_toml`]), or a [`GridSpec`] as JSON | none |
//! | `GRIDSPAN_SEED` | a number that seeds everything random by intent | the program's, else 0 |
//! | `GRIDSPAN_BALANCE` | the balancing strategy: `none`, `auto`, `grid-cut`, `border`, `refine`, `greedy`, `vacate`, `rotate` or `random` | the program's, else `none` |
//! | `GRIDSPAN_BALANCE_EVERY` | how often the strategy is asked, besides sync points and events, such as `5s` or `200ms` | the program's, else never |
//! | `GRIDSPAN_ON_STALL` | what is done about a job that can never go on: `warn`, or `fail` to end it | `warn` |
//! | `GRIDSPAN_TIME_LIMIT` | a job that takes longer, such as `10m`, ends with an error | none |
//! | `GRIDSPAN_BALANCE_GATE` | `on`: plans must be worth what they cost, and are undone if they were not; `off` | the program's, else `on` |
//! | `GRIDSPAN_STEALING` | by which policy nodes without tasks find some: one of [`STEALING_POLICIES`](gridspan_balance::stealing::STEALING_POLICIES) | the program's, else `directory` |
//! | `GRIDSPAN_BROADCAST` | how broadcasts travel: one of [`MODES`](gridspan_bcast::MODES) | the program's, else `planned` |
//! | `GRIDSPAN_BALANCE_DUMP` | a path to which what is measured for each rebalance is written | none |
//! | `GRIDSPAN_LAUNCHER` | the number of the descriptor from which a node reads what its launcher says; set by the launcher | 0, standard input |
//! | `GRIDSPAN_REPORT` | `lines`: report to a launcher in [control lines](crate::control) | reports are for people |
//!
//! At most one of `GRIDSPAN_PES`, `GRIDSPAN_EMULATE` and `GRIDSPAN_GRID` may be set. Where one asks
//! for several nodes, the embedded driver connects them within the process.

use crate::settings::{Driver, Settings, Start};
use gridspan_balance::UnknownStrategy;
use gridspan_balance::stealing::{UnknownStealingPolicy, stealing_policy};
use gridspan_bcast::UnknownMode;
use gridspan_topology::{EmulateError, GridFileError, GridSpec, parse_duration};
use std::env::VarError;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Which driver runs the job.
pub const DRIVER: &str = "GRIDSPAN_DRIVER";
/// How many PEs.
pub const PES: &str = "GRIDSPAN_PES";
/// A shorthand for an emulated grid.
pub const EMULATE: &str = "GRIDSPAN_EMULATE";
/// A grid file or a grid.
pub const GRID: &str = "GRIDSPAN_GRID";
/// The seed.
pub const SEED: &str = "GRIDSPAN_SEED";
/// The balancing strategy.
pub const BALANCE: &str = "GRIDSPAN_BALANCE";
/// How often to balance.
pub const BALANCE_EVERY: &str = "GRIDSPAN_BALANCE_EVERY";
/// Whether plans must be worth what they cost.
pub const BALANCE_GATE: &str = "GRIDSPAN_BALANCE_GATE";
/// By which policy nodes without tasks find some.
pub const STEALING: &str = "GRIDSPAN_STEALING";
/// How broadcasts travel.
pub const BROADCAST: &str = "GRIDSPAN_BROADCAST";
/// Whether a job ends that can never go on.
pub const ON_STALL: &str = "GRIDSPAN_ON_STALL";
/// How long a job may take.
pub const TIME_LIMIT: &str = "GRIDSPAN_TIME_LIMIT";
/// Where to write what is measured for each rebalance.
pub const BALANCE_DUMP: &str = "GRIDSPAN_BALANCE_DUMP";
/// Whether to report in control lines.
pub const REPORT: &str = "GRIDSPAN_REPORT";
/// From which descriptor a node reads what its launcher says.
pub const LAUNCHER: &str = "GRIDSPAN_LAUNCHER";
/// Those that describe the grid.
pub const GRIDS: [&str; 3] = [PES, EMULATE, GRID];
/// All of them.
pub const ALL: [&str; 15] = [
    DRIVER,
    PES,
    EMULATE,
    GRID,
    SEED,
    BALANCE,
    BALANCE_EVERY,
    BALANCE_GATE,
    BALANCE_DUMP,
    STEALING,
    BROADCAST,
    ON_STALL,
    TIME_LIMIT,
    REPORT,
    LAUNCHER,
];

/// The environment asks for something that cannot be. Nothing was started; correct the variable.
#[derive(Debug, Error)]
pub enum VariableError {
    /// A value that is none of those possible.
    #[error("{name}={value:?} is not {expected}")]
    Value {
        /// The variable.
        name: &'static str,
        /// What it is set to.
        value: String,
        /// What it could be set to.
        expected: &'static str,
    },
    /// The value is not text.
    #[error("{0} is set to bytes that are no UTF-8 text; set it anew")]
    NotText(&'static str),
    /// Two variables that each describe the grid.
    #[error("{0} and {1} are both set; unset one of them")]
    Both(&'static str, &'static str),
    /// A shorthand that cannot be read.
    #[error("{EMULATE}: {0}")]
    Emulate(#[from] EmulateError),
    /// A strategy that does not exist.
    #[error("{BALANCE}: {0}")]
    Strategy(#[from] UnknownStrategy),
    /// A policy for stealing that does not exist.
    #[error("{STEALING}: {0}")]
    Stealing(#[from] UnknownStealingPolicy),
    /// A way for broadcasts that does not exist.
    #[error("{BROADCAST}: {0}")]
    Broadcast(#[from] UnknownMode),
    /// A grid in JSON that cannot be read.
    #[error("{GRID} is no grid in JSON: {0}")]
    Json(serde_json::Error),
    /// A grid file that cannot be used.
    #[error("{GRID}: {0}")]
    File(#[from] GridLoadError),
}

/// A grid file could not be used.
#[derive(Debug, Error)]
pub enum GridLoadError {
    /// It cannot be read.
    #[error("cannot read the grid file {}: {error}", .path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// It says something wrong.
    #[error("grid file {}, {error}", .path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// What is wrong, and where.
        error: GridFileError,
    },
}

/// Reads a grid file.
pub fn load_grid(path: &Path) -> Result<GridSpec, GridLoadError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| GridLoadError::Read { path: path.to_owned(), error })?;
    GridSpec::from_toml(&text)
        .map_err(|error| GridLoadError::Content { path: path.to_owned(), error })
}

/// One PE for each core that this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
}

/// Reads one variable.
type Get<'a> = &'a dyn Fn(&'static str) -> Result<Option<String>, VariableError>;

impl Start {
    /// What the environment asks for.
    pub fn from_environment() -> Result<Self, VariableError> {
        start(&from_process)
    }
}

impl Settings {
    /// What the environment asks for.
    pub fn from_environment() -> Result<Self, VariableError> {
        settings(&from_process)
    }
}

/// The grid that the environment describes, if it does.
pub fn grid_from_environment() -> Result<Option<GridSpec>, VariableError> {
    grid(&from_process)
}

fn from_process(name: &'static str) -> Result<Option<String>, VariableError> {
    match std::env::var(name) {
        // A variable set to nothing is as good as unset: some shells cannot unset for one command.
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
        Some("sim") => Driver::Simulated(grid()?),
        Some("node") => Driver::Node,
        Some(value) => return Err(wrong(DRIVER, value, "`embedded` or `sim`")),
    };
    Ok(Start { driver, settings: settings(get)?, report_lines })
}

fn settings(get: Get<'_>) -> Result<Settings, VariableError> {
    let seed = match get(SEED)? {
        None => None,
        Some(value) => Some(value.parse().map_err(|_| wrong(SEED, &value, "a number"))?),
    };
    let strategy = get(BALANCE)?;
    if let Some(name) = &strategy {
        gridspan_balance::by_name(name, 0)?;
    }
    let balance_every = match get(BALANCE_EVERY)? {
        None => None,
        Some(value) => Some(
            period(&value).ok_or_else(|| wrong(BALANCE_EVERY, &value, "a time such as `5s`"))?,
        ),
    };
    let balance_gate = match get(BALANCE_GATE)?.as_deref() {
        None => None,
        Some("on") => Some(true),
        Some("off") => Some(false),
        Some(value) => return Err(wrong(BALANCE_GATE, value, "`on` or `off`")),
    };
    let balance_dump = get(BALANCE_DUMP)?.map(Into::into);
    let stealing = get(STEALING)?;
    if let Some(name) = &stealing {
        stealing_policy(name)?;
    }
    let broadcast = get(BROADCAST)?.map(|name| name.parse()).transpose()?;
    let fails_on_stall = match get(ON_STALL)?.as_deref() {
        None => None,
        Some("warn") => Some(false),
        Some("fail") => Some(true),
        Some(value) => return Err(wrong(ON_STALL, value, "`warn` or `fail`")),
    };
    let time_limit = match get(TIME_LIMIT)? {
        None => None,
        Some(value) => {
            Some(period(&value).ok_or_else(|| wrong(TIME_LIMIT, &value, "a time such as `10m`"))?)
        }
    };
    let tolerates_lost_guests = None;
    Ok(Settings {
        seed,
        strategy,
        balance_every,
        balance_gate,
        stealing,
        broadcast,
        balance_dump,
        tolerates_lost_guests,
        fails_on_stall,
        time_limit,
    })
}

/// A time between rebalances, such as `5s`; none if it is no time, or less than a millisecond.
pub fn period(text: &str) -> Option<Duration> {
    parse_duration(text).ok().filter(|&period| period >= Duration::from_millis(1))
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
    fn an_empty_environment_asks_for_a_pe_on_every_core() {
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
            (BALANCE, "rotate"),
            (BALANCE_EVERY, "200ms"),
            (BALANCE_GATE, "off"),
            (BROADCAST, "binomial"),
        ])
        .unwrap();
        assert_eq!(start.driver, Driver::Simulated(GridSpec::single(512)));
        assert_eq!(start.settings.seed, Some(7));
        assert_eq!(start.settings.strategy.as_deref(), Some("rotate"));
        assert_eq!(start.settings.balance_every, Some(Duration::from_millis(200)));
        assert_eq!(start.settings.balance_gate, Some(false));
        assert_eq!(start.settings.broadcast, Some(gridspan_bcast::Mode::Binomial));
    }

    #[test]
    fn a_grid_can_come_as_a_shorthand_and_as_json() {
        let spec = GridSpec::from_emulate("2x3,wan=5ms").unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        let expected = Driver::Embedded(spec);
        assert_eq!(start(&[(EMULATE, "2x3,wan=5ms")]).unwrap().driver, expected);
        assert_eq!(start(&[(GRID, &json)]).unwrap().driver, expected);
    }

    #[test]
    fn a_wrong_value_is_refused_by_the_name_of_its_variable() {
        let wrongs: [(&[(&'static str, &str)], &str); 10] = [
            (
                &[(BROADCAST, "fast")],
                "GRIDSPAN_BROADCAST: broadcasts cannot travel `fast`; write one of",
            ),
            (&[(BALANCE, "best")], "GRIDSPAN_BALANCE: there is no strategy `best`; write one of"),
            (&[(BALANCE_EVERY, "5")], "GRIDSPAN_BALANCE_EVERY=\"5\" is not a time such as `5s`"),
            (&[(BALANCE_GATE, "no")], "GRIDSPAN_BALANCE_GATE=\"no\" is not `on` or `off`"),
            (&[(PES, "0")], "GRIDSPAN_PES=\"0\" is not a number from 1"),
            (&[(SEED, "x")], "GRIDSPAN_SEED=\"x\" is not a number"),
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
