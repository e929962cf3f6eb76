//! A job to launch: its program, grid and processes.

use super::own_name;
use super::record_plan::RecordPlan;
use super::supervisor::{OnLoss, Way};
use super::witness::JobWitness;
use crate::error::CliError;
use crate::hosts::{Hosts, Shared};
use crate::job_folder::{self, JobFolder, Saved};
use crate::program::Program;
use crate::progress::Progress;
use crate::rank_variables::rank_variables;
use crate::roster::{NewNode, Roster};
use crate::slurm::Allocations;
use crate::status::{self, Reach};
use crate::surroundings::Surroundings;
use gridspan::Settings;
use gridspan::binding::Binding;
use gridspan::keeper::{BRIDGE, LauncherId};
use gridspan::variables::{DETACHED, DRIVER, REPORT};
use gridspan_topology::{GridSpec, NodeId};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A job to launch.
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Program,
    /// The grid with which the job starts.
    pub(crate) spec: &'a GridSpec,
    /// The nodes of the grid, and those that were added since.
    pub(crate) roster: Roster,
    /// Nodes that were added to those of the grid.
    pub(crate) added: Vec<NewNode>,
    pub(crate) processes: Processes,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// If set, other commands can see the job and its known links, and the launcher reports changes
    /// of links to the user.
    pub(crate) is_listed: bool,
    /// Maximum number of nodes that may join at each site while the job runs.
    pub(crate) guests: u32,
    /// Which nodes take part, and what happens when that changes.
    pub(crate) membership: Membership,
    /// Whether the job runs in virtual time.
    pub(crate) is_simulated: bool,
    /// Variables and folder of its processes.
    pub(crate) surroundings: Surroundings,
    /// Name of the job among those of this user.
    pub(crate) id: String,
    /// Number of the run in which the launcher starts processes, from 0. Each change of the job's
    /// nodes begins another run.
    pub(crate) run: u32,
    /// The folder of a detached job, and the state that an earlier launcher, if there was one, has
    /// saved there.
    pub(crate) detached: Option<(JobFolder, Option<Saved>)>,
    /// What the launcher needs for kept nodes: those of a detached job on several hosts.
    pub(crate) kept: Option<Kept>,
    /// Size in bytes above which output is moved out of the files of the job's folder.
    pub(crate) log_limit: u64,
    /// The folder for the output, with a file for each stream of each node, if the user requests
    /// it.
    pub(crate) logs: Option<PathBuf>,
    /// The nodes whose output is printed; `None` for all.
    pub(crate) shown: Option<BTreeSet<NodeId>>,
    /// The display of progress, for a job that prints nothing for long.
    pub(crate) progress: Option<Progress>,
    /// The address at which the launcher serves the metrics of the job, if the user requests them.
    pub(crate) metrics: Option<String>,
    /// How processes get the standard input of this one.
    pub(crate) input: InputWay,
    /// Time for nodes to start, if the user has set it.
    pub(crate) connect_timeout: Option<Duration>,
    /// The processors to which PEs are bound.
    pub(crate) binding: Binding,
    /// The recording of the job, if the user requests one.
    pub(crate) record: Option<RecordPlan>,
}

/// How processes of nodes get the standard input of their launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputWay {
    /// Not at all.
    Nowhere,
    /// The process of this node inherits it.
    Inherited(NodeId),
    /// The launcher reads it, and sends it to the process of this node.
    Forwarded(NodeId),
    /// The launcher reads it, and sends it to all processes.
    ForwardedToAll,
}

/// What a launcher needs for kept nodes (see `gridspan::keeper`).
pub(crate) struct Kept {
    /// Name of the folder on each host that contains the folders of its nodes.
    pub(super) folder: String,
    pub(super) launcher: LauncherId,
    /// Nodes that have ended for good, according to the user.
    pub(super) ended: BTreeSet<NodeId>,
    /// If this launcher takes over: the nodes whose keepers have accepted it.
    pub(super) found: BTreeSet<NodeId>,
    /// Whether it takes over with a state that a launcher of another folder has saved. Its copies
    /// of the output of nodes may then have gaps.
    pub(super) is_copy: bool,
    /// Whether enough keepers agree to this launcher. If not, the job is over, and the launcher
    /// only ends the nodes that it reaches. It saves nothing at keepers, because later launchers
    /// would take that for the valid state.
    pub(super) has_quorum: bool,
    /// The place that decides between two halves of the members, if the job has one.
    pub(super) witness: Option<JobWitness>,
}

impl Kept {
    /// Creates the state of the first launcher of a job. A launcher that [takes
    /// over](super::take_over) changes it. `name` is that of the folder on each host.
    pub(crate) fn new(
        folder: &JobFolder,
        name: String,
        ended: BTreeSet<NodeId>,
        witness: Option<JobWitness>,
    ) -> Self {
        let launcher = LauncherId { epoch: 1, name: own_name::new(folder.path()) };
        let found = BTreeSet::new();
        Self { folder: name, launcher, ended, found, is_copy: false, has_quorum: true, witness }
    }
}

impl Kept {
    /// The place that decides between two halves of the members, if the job has one.
    pub(crate) fn witness(&self) -> Option<&JobWitness> {
        self.witness.as_ref()
    }
}

/// Which nodes of a grid take part in a job, and what happens when that changes.
#[derive(Default)]
pub(crate) struct Membership {
    /// What happens when nodes are lost.
    pub(crate) on_loss: OnLoss,
    /// Nodes that are not started, and may join later.
    pub(crate) spares: Vec<NodeId>,
    /// Time for nodes to leave, or for the job to stop, after SIGTERM.
    pub(crate) drain_deadline: Duration,
}

/// The processes of a job.
pub(crate) enum Processes {
    /// One for each node; they connect over the network.
    Nodes {
        /// Whether the links between sites are emulated.
        is_emulated: bool,
        /// The hosts on which they are started, over ssh or here.
        hosts: Hosts,
        /// The allocations of Slurm, if the nodes are tasks instead.
        tasks: Option<Allocations>,
        /// Settings that override the program's own.
        settings: Box<Settings>,
        /// Further variables.
        variables: Vec<(&'static str, OsString)>,
    },
    /// One for the whole job, configured by variables.
    Single { variables: Vec<(&'static str, OsString)> },
}

/// The place of a node in a job.
#[derive(Debug, Serialize)]
pub(crate) struct PlannedNode<'a> {
    pub(crate) site: &'a str,
    pub(crate) host: &'a str,
    pub(crate) node: u32,
    /// The first of its PEs.
    pub(crate) first_pe: u32,
    /// Number of its PEs.
    pub(crate) pes: u32,
}

impl<'a> PlannedNode<'a> {
    /// Returns the place where `node` of `spec` would run.
    pub(crate) fn new(spec: &'a GridSpec, node: NodeId) -> Self {
        let place = spec.layout().place(node);
        Self {
            site: spec.layout().site_name(place.site),
            host: spec.host(node),
            node: node.0,
            first_pe: place.pes.start,
            pes: place.pes.len() as u32,
        }
    }
}

impl<'a> Launch<'a> {
    /// Creates an unlisted job of these processes, with output for people.
    pub(crate) fn new(program: &'a Program, spec: &'a GridSpec, processes: Processes) -> Self {
        Self {
            program,
            spec,
            roster: spec.clone().into(),
            added: Vec::new(),
            processes,
            json: false,
            is_listed: false,
            guests: 0,
            membership: Membership::default(),
            is_simulated: false,
            surroundings: Surroundings::default(),
            id: job_name(program),
            run: 0,
            detached: None,
            kept: None,
            log_limit: u64::MAX,
            logs: None,
            shown: None,
            progress: None,
            metrics: None,
            input: InputWay::Nowhere,
            connect_timeout: None,
            binding: Binding::None,
            record: None,
        }
    }

    /// The nodes that are started with the job.
    pub(crate) fn members(&self) -> impl Iterator<Item = NodeId> {
        let spares = &self.membership.spares;
        self.spec.layout().nodes().filter(|node| !spares.contains(node))
    }

    /// Returns the variables that configure each process.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        match &self.processes {
            Processes::Single { variables } => {
                let report = (REPORT, OsString::from("lines"));
                variables.iter().cloned().chain([report]).collect()
            }
            Processes::Nodes { variables, .. } => {
                let driver = (DRIVER, OsString::from("node"));
                // A bridge starts a kept node.
                let bridge = self.kept.as_ref().map(|_| (DETACHED, OsString::from(BRIDGE)));
                variables.iter().cloned().chain([driver]).chain(bridge).collect()
            }
        }
    }

    /// Returns the variables that configure the process of a node.
    fn variables_of(&self, node: NodeId) -> Vec<(&'static str, OsString)> {
        let mut variables = self.variables();
        if matches!(self.processes, Processes::Nodes { .. }) {
            variables.extend(rank_variables(&self.roster, node, (self.id.as_str(), self.run)));
        }
        variables
    }

    /// Returns the command of the process of a node on its host: the program with its variables.
    pub(crate) fn program_of(&self, node: NodeId) -> Result<Command, CliError> {
        self.program.command(&self.variables_of(node), &self.surroundings)
    }

    /// Returns the command that starts the process of a node, over ssh and these shared connections
    /// if its host is another machine.
    pub(crate) fn command(&self, node: NodeId, shared: &Shared) -> Result<Command, CliError> {
        let variables = self.variables_of(node);
        let program = self.program_of(node)?;
        match &self.processes {
            Processes::Single { .. } => Ok(program),
            Processes::Nodes { hosts, .. } => {
                hosts.command(node, program, &variables, &self.surroundings, shared)
            }
        }
    }

    /// Returns the way to a node; `None` if the node runs on this machine.
    pub(super) fn way(&self, node: NodeId) -> Option<Way> {
        match &self.processes {
            Processes::Nodes { tasks: Some(_), .. } => {
                Some(Way::Srun { host: self.roster.host(node).to_owned() })
            }
            Processes::Nodes { hosts, .. } => {
                let (host, login) = (hosts.remote(node)?.to_owned(), hosts.login(node)?);
                Some(Way::Ssh { host, login })
            }
            Processes::Single { .. } => None,
        }
    }

    /// The folder of the status file.
    pub(super) fn status_folder(&self) -> io::Result<PathBuf> {
        match self.detached {
            Some(_) => job_folder::status_folder(),
            None => status::folder(),
        }
    }

    /// The state that an earlier launcher has saved, if there was one.
    pub(crate) fn saved(&self) -> Option<&Saved> {
        self.detached.as_ref().and_then(|(_, saved)| saved.as_ref())
    }

    /// Returns the host or gateway to which a connection is opened for a node; `None` if the node
    /// runs here.
    pub(crate) fn entry(&self, node: NodeId) -> Option<String> {
        match &self.processes {
            Processes::Nodes { hosts, .. } => hosts.entry(node).map(str::to_owned),
            Processes::Single { .. } => None,
        }
    }
}

impl Processes {
    /// Returns how the launcher starts the nodes.
    pub(super) fn reach(&self) -> Reach {
        match self {
            Self::Nodes { tasks: Some(_), .. } => Reach::Tasks,
            Self::Nodes { is_emulated: false, .. } => Reach::Hosts,
            Self::Nodes { .. } | Self::Single { .. } => Reach::Here,
        }
    }

    /// Returns the largest number of these nodes per core on any host, rounded up. Tasks of Slurm
    /// share no CPUs.
    pub(super) fn nodes_per_core(&self, nodes: impl Iterator<Item = NodeId>) -> u32 {
        match self {
            Self::Nodes { tasks: None, hosts, .. } => hosts.nodes_per_core(nodes),
            Self::Nodes { tasks: Some(_), .. } | Self::Single { .. } => 1,
        }
    }
}

/// Returns a name for certificates, such as `ring-4711`: up to 24 characters of the program's name,
/// with `-` for each character that is not allowed, and the id of this process.
pub(crate) fn job_name(program: &Program) -> String {
    name_with(program, &std::process::id().to_string())
}

/// Returns the name of a job that other commands find: that of [`job_name`], or one with a number
/// if a detached job has it.
pub(crate) fn listed_job_name(program: &Program) -> String {
    job_folder::unused_name(&job_name(program))
}

/// Returns the name of a job that is not started, with `PID` in place of the id of its launcher.
pub(crate) fn planned_job_name(program: &Program) -> String {
    name_with(program, "PID")
}

fn name_with(program: &Program, process: &str) -> String {
    let name = program.name().to_ascii_lowercase();
    let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let name: String = name.trim_matches('-').chars().take(24).collect();
    let name = if name.is_empty() { "job" } else { &name };
    format!("{name}-{process}")
}
