//! Arguments that state where nodes are started.

use super::values::command_text;
use clap::{Args, ValueEnum};
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

/// Where nodes are started.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PlaceArgs {
    /// Start N node processes of one PE each, in one site on this machine.
    #[arg(short, long = "nodes", value_name = "N", group = "place")]
    pub(crate) nodes: Option<NonZeroU32>,
    /// Start a node process on each host of this grid file, over ssh where it is not this machine.
    #[arg(short, long, value_name = "FILE", group = "place")]
    pub(crate) grid: Option<PathBuf>,
    /// Start a node process on each host of this host file, in the form of Open MPI
    /// (`HOST slots=N`) or MPICH (`HOST:N`), with a PE for each slot.
    #[arg(long, value_name = "FILE", group = "place")]
    pub(crate) hostfile: Option<PathBuf>,
    /// Put sites with emulated links between them on this machine: `SITESxHOSTS[xPES]` and options,
    /// such as 2x4,wan=32ms,loss=0.1%, or a grid file.
    #[arg(short, long, value_name = "SPEC", group = "place")]
    pub(crate) emulate: Option<String>,
    /// Start NODES node processes (1 if not given) of one PE each on this machine, in a site of
    /// this name, without emulated links; repeat it for each site.
    #[arg(long = "site", value_name = "NAME[:NODES]", group = "place")]
    pub(crate) sites: Vec<SiteArg>,
    /// `embedded`: threads of one process; `cluster`: a process per node, connected by QUIC.
    #[arg(short, long, value_enum, hide_possible_values = true)]
    pub(crate) driver: Option<DriverName>,
    /// Reach the other hosts of a grid file or host file by CMD, which is split at blanks and takes
    /// the arguments of `ssh` [default: $GRIDCTL_SSH, else ssh].
    #[arg(long, value_name = "CMD", value_parser = command_text)]
    pub(crate) ssh: Option<String>,
}

/// A site on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteArg {
    /// Name of the site.
    pub(crate) name: String,
    /// Number of its nodes.
    pub(crate) nodes: u32,
}

impl FromStr for SiteArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, nodes) = text.split_once(':').unwrap_or((text, "1"));
        let nodes = nodes.parse::<NonZeroU32>();
        let nodes = nodes.map_err(|_| "write a name and a number from 1, such as delft:2")?;
        Ok(Self { name: name.to_owned(), nodes: nodes.get() })
    }
}

impl PlaceArgs {
    /// Whether a place is given.
    pub(crate) fn is_given(&self) -> bool {
        let is_file = self.grid.is_some() || self.hostfile.is_some() || self.emulate.is_some();
        is_file || self.nodes.is_some() || !self.sites.is_empty()
    }

    /// The first flag about how nodes are started, if there is one.
    pub(crate) fn way_flag(&self) -> Option<&'static str> {
        let flags = [("--ssh", self.ssh.is_some()), ("--driver", self.driver.is_some())];
        flags.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

impl fmt::Display for PlaceArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.nodes, self.grid.as_ref().or(self.hostfile.as_ref()), &self.emulate) {
            (_, Some(path), _) => write!(f, "the hosts of {}", path.display()),
            (_, _, Some(spec)) => write!(f, "the emulated grid {spec}"),
            (Some(nodes), ..) if nodes.get() == 1 => f.write_str("one process of this machine"),
            (Some(nodes), ..) => write!(f, "{nodes} processes of this machine"),
            _ if self.sites.is_empty() => f.write_str("this machine"),
            _ => {
                let names: Vec<_> = self.sites.iter().map(|site| site.name.as_str()).collect();
                write!(f, "the sites {} of this machine", names.join(", "))
            }
        }
    }
}

/// Drivers in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriverName {
    /// Threads of one process.
    Embedded,
    /// A process per node, connected by QUIC.
    Cluster,
}
