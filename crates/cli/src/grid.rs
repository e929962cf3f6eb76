//! The place of a run: the grid that flags, environment and machine describe.

use crate::args::{CheckArgs, DriverName, PlaceArgs, SimArgs, SiteArg};
use crate::batch::Batch;
use crate::error::{CheckCommandError, CliError};
use crate::host_file::{self, HostSlots};
use crate::slurm::Allocation;
use gridspan::variables::{EMULATE, GRID, GRIDS, PES, cores, grid_from_environment, load_grid};
use gridspan_topology::{GridSpec, HostSpec, Link, MAX_HOSTS, SiteError, SiteSpec};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A grid, and the variable that passes it to another process.
#[derive(Debug, PartialEq)]
pub(crate) struct Described {
    pub(crate) spec: GridSpec,
    /// The variable and its value.
    pub(crate) variable: (&'static str, OsString),
}

/// A grid and how to run on it.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    /// Threads, or a process per node.
    pub(crate) driver: DriverName,
    pub(crate) grid: Described,
    /// Whether the grid's links are emulated.
    pub(crate) is_emulated: bool,
    /// Whether another launcher started the job, perhaps on another machine. Hosts of the grid may
    /// then be unknown here.
    pub(crate) is_taken_over: bool,
    /// The allocation of Slurm whose tasks are the nodes.
    pub(crate) tasks: Option<Allocation>,
}

/// Name of the site of a host file.
const HOSTS: &str = "hosts";

impl Described {
    fn pes(pes: u32) -> Self {
        Self { spec: GridSpec::single(pes), variable: (PES, pes.to_string().into()) }
    }

    fn file(path: &Path) -> Result<Self, CliError> {
        Self::of_file(load_grid(path)?, path)
    }

    /// Describes the grid that was read from a file.
    fn of_file(spec: GridSpec, path: &Path) -> Result<Self, CliError> {
        // Another process cannot read a pipe once more.
        if !path.is_file() {
            return Self::json(spec);
        }
        Ok(Self { spec, variable: (GRID, path.as_os_str().to_owned()) })
    }

    /// Returns the grid as JSON, if that is how another process gets it.
    pub(crate) fn as_json(&self) -> Option<&OsStr> {
        let (name, value) = &self.variable;
        (*name == GRID && is_json(value)).then_some(value.as_os_str())
    }

    /// Returns the variable for a process that may run in another folder than gridctl.
    pub(crate) fn variable_from_root(&self) -> (&'static str, OsString) {
        let (name, ref value) = self.variable;
        let is_file = name == GRID && !is_json(value);
        // If there is no current folder, the grid was not read from a relative path.
        let path = is_file.then(|| std::path::absolute(value).ok()).flatten();
        (name, path.map_or_else(|| value.clone(), PathBuf::into_os_string))
    }

    /// Describes a grid by JSON.
    fn json(spec: GridSpec) -> Result<Self, CliError> {
        let json = serde_json::to_string(&spec)
            .map_err(|error| CliError::System { what: "describe the grid", error: error.into() })?;
        Ok(Self { spec, variable: (GRID, json.into()) })
    }

    /// Reads a host file, whose hosts become a site of this name.
    fn host_file(path: &Path, site: &str) -> Result<Self, CliError> {
        let unread = |error| CliError::ReadHostFile { path: path.to_owned(), error };
        let wrong = |error| CliError::HostFile { path: path.to_owned(), error };
        let text = host_file::read(path).map_err(unread)?;
        let hosts = host_file::parse(&text).map_err(wrong)?;
        Self::hosts(hosts, site, &path.display().to_string())
    }

    fn hosts(hosts: Vec<HostSlots>, site: &str, of: &str) -> Result<Self, CliError> {
        let spec = host_file::grid(site, hosts);
        Self::json(spec.map_err(|error| CliError::Hosts { of: of.to_owned(), error })?)
    }

    /// Describes the hosts that a batch system has allocated. Also returns the allocation if its
    /// tasks are nodes.
    fn batch(batch: Batch) -> Result<(Self, Option<Allocation>), CliError> {
        match batch {
            Batch::Slurm(allocation) => {
                let spec = allocation.grid().map_err(|error| CliError::Hosts {
                    of: "the allocation of Slurm".to_owned(),
                    error,
                })?;
                Ok((Self::json(spec)?, Some(allocation)))
            }
            Batch::HostFile(system, path) => Ok((Self::host_file(&path, system)?, None)),
            Batch::Pairs(name, text) => {
                let hosts = host_file::parse_pairs(&text)
                    .map_err(|error| CliError::HostFile { path: name.into(), error })?;
                Ok((Self::hosts(hosts, "lsf", name)?, None))
            }
        }
    }

    /// Reads a shorthand, or a grid file from its path.
    fn emulated(text: &str) -> Result<Self, CliError> {
        if is_path(text) {
            return Self::file(Path::new(text));
        }
        Ok(Self { spec: GridSpec::from_emulate(text)?, variable: (EMULATE, text.into()) })
    }

    fn environment() -> Result<Option<Self>, CliError> {
        let Some(spec) = grid_from_environment()? else { return Ok(None) };
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match GRIDS.into_iter().find_map(|name| Some((name, set(name)?))) {
            Some((GRID, path)) if !is_json(&path) => {
                Self::of_file(spec, Path::new(&path)).map(Some)
            }
            variable => Ok(variable.map(|variable| Self { spec, variable })),
        }
    }
}

/// Whether the value of [`GRID`] is a grid in JSON, and not the path of a grid file.
fn is_json(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"{")
}

/// Whether `text` is the path of a grid file. A shorthand may contain a `/` too, as in
/// `speed=1:1/3`, but not before its first option.
fn is_path(text: &str) -> bool {
    let shape = text.split([',', ';']).next().unwrap_or(text);
    shape.contains('/') || text.ends_with(".toml")
}

impl Place {
    /// The place of a job that another process describes: a grid with a process per node.
    pub(crate) fn of_processes(spec: GridSpec, is_emulated: bool) -> Self {
        // Processes get the grid from their launcher.
        let grid = Described { spec, variable: (GRID, OsString::new()) };
        let driver = DriverName::Cluster;
        Self { driver, grid, is_emulated, is_taken_over: false, tasks: None }
    }

    /// Returns the place of a run in real time.
    pub(crate) fn of_run(args: &PlaceArgs, is_built_in: bool) -> Result<Self, CliError> {
        let environment = if args.is_given() { None } else { Described::environment()? };
        let may_be_batch = !args.is_given() && environment.is_none();
        let batch = match args.driver {
            Some(DriverName::Embedded) => None,
            _ if may_be_batch => Batch::of_environment()?,
            _ => None,
        };
        let is_file = args.grid.is_some() || args.hostfile.is_some() || batch.is_some();
        let is_place = args.nodes.is_some() || is_file || !args.sites.is_empty();
        let is_processes = is_place || !is_built_in;
        let driver = match args.driver {
            Some(driver) => driver,
            None if is_processes => DriverName::Cluster,
            None => DriverName::Embedded,
        };
        let mut tasks = None;
        let is_cluster = driver == DriverName::Cluster;
        let pes = |pes| if is_cluster { local(pes) } else { Ok(Described::pes(pes)) };
        let (grid, is_emulated) = if let Some(nodes) = args.nodes {
            (pes(nodes.get())?, false)
        } else if let Some(path) = &args.grid {
            (Described::file(path)?, false)
        } else if let Some(path) = &args.hostfile {
            (Described::host_file(path, HOSTS)?, false)
        } else if !args.sites.is_empty() {
            (named(&args.sites)?, false)
        } else if let Some(text) = &args.emulate {
            (Described::emulated(text)?, true)
        } else if let Some(grid) = environment {
            (grid, true)
        } else if let Some(batch) = batch {
            let (grid, allocation) = Described::batch(batch)?;
            tasks = allocation;
            (grid, false)
        } else {
            (pes(cores())?, false)
        };
        Ok(Self { driver, grid, is_emulated, is_taken_over: false, tasks })
    }
}

/// Returns the grid that `gridctl sim` simulates.
pub(crate) fn of_sim(args: &SimArgs) -> Result<Described, CliError> {
    if let Some(pes) = args.pes {
        return Ok(Described::pes(pes.get()));
    }
    let described = described(args.grid.as_deref(), args.emulate.as_deref())?;
    Ok(described.unwrap_or_else(|| Described::pes(cores())))
}

/// Returns the grid that `gridctl check` examines, and whether this machine stands for all of its
/// hosts. Without a place, this is the grid on which `gridctl run` would start nodes. Fails if that
/// grid cannot be read, or if `srun` would start the nodes.
pub(crate) fn of_check(args: &CheckArgs) -> Result<(GridSpec, bool), CliError> {
    if let Some(path) = &args.hostfile {
        return Ok((Described::host_file(path, HOSTS)?.spec, false));
    }
    if let Some(described) = described(args.grid.as_deref(), args.emulate.as_deref())? {
        return Ok((described.spec, args.grid.is_none()));
    }
    match Batch::of_environment().map_err(CheckCommandError::Allocation)? {
        Some(Batch::Slurm(_)) => Err(CheckCommandError::Tasks.into()),
        Some(batch) => Ok((Described::batch(batch)?.0.spec, false)),
        None => Ok((GridSpec::single(cores()), true)),
    }
}

/// Returns the grid of a file or a shorthand. If neither is given, returns the grid of the
/// environment, if there is one.
pub(crate) fn described(
    file: Option<&Path>,
    emulate: Option<&str>,
) -> Result<Option<Described>, CliError> {
    match (file, emulate) {
        (Some(path), _) => Described::file(path).map(Some),
        (None, Some(text)) => Described::emulated(text).map(Some),
        (None, None) => Described::environment(),
    }
}

/// Returns a note if the PEs of a run outnumber the cores.
pub(crate) fn sharing(pes: u32, cores: u32) -> Option<String> {
    let plural = |n: u32, word| if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") };
    (pes > cores).then(|| format!("{} on {}, sharing", plural(pes, "PE"), plural(cores, "core")))
}

/// Describes one site with nodes of one PE each, on this machine.
fn local(nodes: u32) -> Result<Described, CliError> {
    let site = site_here("local", nodes).map_err(CliError::Nodes)?;
    let spec = GridSpec::new(vec![site]).map_err(CliError::Nodes)?;
    Ok(Described { spec, variable: (PES, nodes.to_string().into()) })
}

/// Describes named sites on this machine, without emulated links.
fn named(sites: &[SiteArg]) -> Result<Described, CliError> {
    let site = |site: &SiteArg| site_here(&site.name, site.nodes);
    let sites = sites.iter().map(site).collect::<Result<_, _>>();
    let spec = sites.and_then(GridSpec::new).map_err(CliError::Sites)?;
    Described::json(spec.with_wan(Link::loopback()))
}

/// Describes a site with nodes of one PE each, on this machine.
fn site_here(name: &str, nodes: u32) -> Result<SiteSpec, SiteError> {
    if nodes as usize > MAX_HOSTS {
        return Err(SiteError::TooManyHosts);
    }
    let hosts = vec![HostSpec::new("localhost", 1); nodes as usize];
    Ok(SiteSpec::new(name, hosts, Link::loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::NodeId;

    #[test]
    fn nodes_of_named_sites_run_on_this_machine() {
        let site = |text: &str| text.parse::<SiteArg>().unwrap();
        let Described { spec, variable } = named(&[site("delft:2"), site("urbana")]).unwrap();
        let layout = spec.layout();
        let sites =
            layout.sites().map(|site| (layout.site_name(site), layout.nodes_in(site).count()));
        assert_eq!(sites.collect::<Vec<_>>(), [("delft", 2), ("urbana", 1)]);
        let read: GridSpec = serde_json::from_str(variable.1.to_str().unwrap()).unwrap();
        assert_eq!(read, spec);
        assert!(named(&[site("a"), site("a")]).is_err(), "two of one name");
        assert!(named(&[site("a:4000000000")]).is_err());
        assert!("a:0".parse::<SiteArg>().is_err());
    }

    #[test]
    fn a_grid_that_was_stored_before_sites_had_uplinks_is_read() {
        let spec = GridSpec::from_emulate("2x1").unwrap();
        let stored = serde_json::to_string(&spec).unwrap();
        let old = stored.replace(",\"uplink\":null", "");
        assert_ne!(old, stored);

        assert_eq!(serde_json::from_str::<GridSpec>(&old).unwrap(), spec);
    }

    #[test]
    fn sharing_is_mentioned_only_when_there_are_more_pes_than_cores() {
        assert_eq!(sharing(4, 2).as_deref(), Some("4 PEs on 2 cores, sharing"));
        assert_eq!(sharing(2, 1).as_deref(), Some("2 PEs on 1 core, sharing"));
        assert_eq!(sharing(2, 2), None);
    }

    #[test]
    fn a_fraction_in_a_shorthand_is_not_a_path() {
        for path in ["./grid", "grids/2x2", "grid.toml", "a,b/grid.toml", "2x2/grid"] {
            assert!(is_path(path), "{path}");
        }
        let Described { spec, .. } = Described::emulated("1x4,wan=1ms,speed=1:1/3").unwrap();
        let factors = [0, 1, 2, 3].map(|node| spec.speed(NodeId(node)).factor());
        assert_eq!(factors, [1.0, 0.333_333, 1.0, 0.333_333]);
    }

    #[test]
    fn a_process_in_another_folder_gets_the_path_of_a_grid_file_from_the_root() {
        let passed = |name, value: &str| {
            let described = Described { spec: GridSpec::single(1), variable: (name, value.into()) };
            described.variable_from_root()
        };
        let own = std::env::current_dir().unwrap();
        let from_root = own.join("grids/two.toml").into_os_string();
        assert_eq!(passed(GRID, "grids/two.toml"), (GRID, from_root));
        for (name, value) in [(GRID, "/two.toml"), (GRID, "{\"sites\":[]}"), (EMULATE, "2x2/1")] {
            assert_eq!(passed(name, value), (name, OsString::from(value)));
        }
    }

    #[test]
    fn another_process_gets_the_content_of_a_grid_that_came_through_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let [file, pipe] = ["file.toml", "pipe.toml"].map(|name| folder.path().join(name));
        let text = "[site.a]\nhosts = [\"x[1-2]\"]\n";
        std::fs::write(&file, text).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success(), "{made}");
        let to = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(to, text));

        let piped = Described::file(&pipe).unwrap();

        writer.join().unwrap().unwrap();
        let (name, value) = piped.variable_from_root();
        let passed: GridSpec = serde_json::from_str(value.to_str().unwrap()).unwrap();
        assert_eq!((name, &passed), (GRID, &piped.spec));
        let named = Described::file(&file).unwrap();
        assert_eq!((named.spec, named.variable), (passed, (GRID, file.into_os_string())));
    }

    #[test]
    fn each_local_node_has_one_pe() {
        let Described { spec, .. } = local(3).unwrap();
        assert_eq!((spec.layout().node_count(), spec.layout().pe_count()), (3, 3));
    }
}
