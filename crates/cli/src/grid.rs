//! Where to run: the grid that flags, environment and machine describe.

use crate::args::{DriverName, PlaceArgs, SimArgs};
use crate::error::CliError;
use gridspan::variables::{EMULATE, GRID, GRIDS, PES, cores, grid_from_environment, load_grid};
use gridspan_topology::{GridSpec, HostSpec, Link, SiteSpec};
use std::ffi::OsString;
use std::path::Path;

/// A grid, and the variable that tells another process of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Described {
    /// The grid.
    pub(crate) spec: GridSpec,
    /// The variable and its value.
    pub(crate) variable: (&'static str, OsString),
}

/// A grid and how to run on it.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    /// Threads, or a process per node.
    pub(crate) driver: DriverName,
    /// The grid.
    pub(crate) grid: Described,
    /// Whether its links are emulated.
    pub(crate) is_emulated: bool,
}

impl Described {
    fn pes(pes: u32) -> Self {
        Self { spec: GridSpec::single(pes), variable: (PES, pes.to_string().into()) }
    }

    fn file(path: &Path) -> Result<Self, CliError> {
        let spec = load_grid(path)?;
        Ok(Self { spec, variable: (GRID, path.as_os_str().to_owned()) })
    }

    /// A shorthand, or the path of a grid file.
    fn emulated(text: &str) -> Result<Self, CliError> {
        if text.contains('/') || text.ends_with(".toml") {
            return Self::file(Path::new(text));
        }
        Ok(Self { spec: GridSpec::from_emulate(text)?, variable: (EMULATE, text.into()) })
    }

    fn environment() -> Result<Option<Self>, CliError> {
        let Some(spec) = grid_from_environment()? else { return Ok(None) };
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let variable = GRIDS.into_iter().find_map(|name| Some((name, set(name)?)));
        Ok(variable.map(|variable| Self { spec, variable }))
    }
}

impl Place {
    /// Where to run in real time.
    pub(crate) fn of_run(args: &PlaceArgs, is_built_in: bool) -> Result<Self, CliError> {
        let is_processes = args.nodes.is_some() || args.grid.is_some() || !is_built_in;
        let driver = match args.driver {
            Some(driver) => driver,
            None if is_processes => DriverName::Cluster,
            None => DriverName::Embedded,
        };
        let is_cluster = driver == DriverName::Cluster;
        let pes = |pes| if is_cluster { local(pes) } else { Ok(Described::pes(pes)) };
        let (grid, is_emulated) = if let Some(nodes) = args.nodes {
            (pes(nodes.get())?, false)
        } else if let Some(path) = &args.grid {
            (Described::file(path)?, false)
        } else if let Some(text) = &args.emulate {
            (Described::emulated(text)?, true)
        } else if let Some(grid) = Described::environment()? {
            (grid, true)
        } else {
            (pes(cores())?, false)
        };
        Ok(Self { driver, grid, is_emulated })
    }
}

/// What to simulate for `gridctl sim`.
pub(crate) fn of_sim(args: &SimArgs) -> Result<Described, CliError> {
    if let Some(pes) = args.pes {
        return Ok(Described::pes(pes.get()));
    }
    if let Some(path) = &args.grid {
        return Described::file(path);
    }
    if let Some(text) = &args.emulate {
        return Described::emulated(text);
    }
    Ok(Described::environment()?.unwrap_or_else(|| Described::pes(cores())))
}

/// What to say if the PEs of a run outnumber the cores.
pub(crate) fn sharing(pes: u32, cores: u32) -> Option<String> {
    let plural = |n: u32, word| if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") };
    (pes > cores).then(|| format!("{} on {}, sharing", plural(pes, "PE"), plural(cores, "core")))
}

/// One site with nodes of one PE each, on this machine.
fn local(nodes: u32) -> Result<Described, CliError> {
    let host = HostSpec::new("localhost", 1);
    let hosts = vec![host; nodes as usize];
    let site = SiteSpec::new("local", hosts, Link::loopback());
    Ok(Described { spec: GridSpec::new(vec![site])?, variable: (PES, nodes.to_string().into()) })
}

/// Checks that all hosts of a grid are this machine.
pub(crate) fn all_here(spec: &GridSpec) -> Result<(), CliError> {
    let system = rustix::system::uname();
    let own = system.nodename().to_string_lossy();
    let is_here = |host: &str| ["localhost", "127.0.0.1", "::1", &own].contains(&host);
    match spec.hosts().find(|(_, host)| !is_here(host)) {
        Some((_, host)) => Err(CliError::RemoteHost { host: host.to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_is_mentioned_only_when_there_are_more_pes_than_cores() {
        assert_eq!(sharing(4, 2).as_deref(), Some("4 PEs on 2 cores, sharing"));
        assert_eq!(sharing(2, 1).as_deref(), Some("2 PEs on 1 core, sharing"));
        assert_eq!(sharing(2, 2), None);
    }

    #[test]
    fn local_nodes_have_a_pe_each() {
        let Described { spec, .. } = local(3).unwrap();
        assert_eq!((spec.layout().node_count(), spec.layout().pe_count()), (3, 3));
    }

    #[test]
    fn hosts_elsewhere_are_refused() {
        let here = GridSpec::from_toml("[site.a]\nhosts = [\"localhost\", \"127.0.0.1\"]").unwrap();
        assert!(all_here(&here).is_ok());
        let there = GridSpec::from_toml("[site.a]\nhosts = [\"nowhere.invalid\"]").unwrap();
        assert!(matches!(all_here(&there), Err(CliError::RemoteHost { .. })));
    }
}
