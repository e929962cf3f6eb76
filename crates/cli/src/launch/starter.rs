//! Starts the process of a node, for the first time or again.

use super::child::Child;
use super::guests::{Invited, issue_guests};
use super::mirror::Mirror;
use super::plan::{Launch, Processes};
use super::reader::{Origin, Outlets};
use super::recovery::grid_of;
use super::slots::Slots;
use super::way::Way;
use crate::error::CliError;
use crate::hosts::Hosts;
use crate::job_folder::{NodeFiles, Saved};
use crate::sharing::Sharing;
use crate::{nodes, status};
use gridspan::control::Failure;
use gridspan::keeper::BridgeTask;
use gridspan::variables::{DETACHED, DRIVER, REPORT};
use gridspan_runtime::net::Authority;
use gridspan_runtime::net::bootstrap::{RestoreOrder, issue};
use gridspan_topology::{GridSpec, NodeId};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Starts the processes of a job.
pub(super) struct Starter<'a> {
    launch: &'a Launch<'a>,
    outlets: Outlets,
    variables: Vec<(&'static str, OsString)>,
    /// First line written to each process, if any.
    bundles: Vec<Option<String>>,
    sharing: Sharing,
    /// How many bridges connect at the same time.
    slots: Arc<Slots>,
}

impl<'a> Starter<'a> {
    /// Creates the starter of a job with these shared connections. Also returns the nodes that may
    /// join later.
    pub(super) fn new(
        launch: &'a Launch<'a>,
        outlets: Outlets,
        sharing: Sharing,
    ) -> Result<(Self, Invited), CliError> {
        match &launch.processes {
            Processes::Single { variables } => {
                let mut variables = variables.clone();
                variables.push((REPORT, "lines".into()));
                let bundles = vec![None];
                let slots = Arc::default();
                let starter = Self { launch, outlets, variables, bundles, sharing, slots };
                Ok((starter, Invited::default()))
            }
            Processes::Nodes { is_emulated, hosts, settings, variables } => {
                let mut variables = variables.clone();
                variables.push((DRIVER, "node".into()));
                let authority = Authority::new(&launch.id)?;
                let mut guests = issue_guests(&authority, launch.spec, launch.guests)?;
                let value = serde_json::to_value(settings).map_err(encoding)?;
                for bundle in &mut guests {
                    bundle.nodes_per_core = hosts.nodes_per_core(launch.spec.layout().nodes());
                    bundle.emulate = *is_emulated;
                    bundle.settings = value.clone();
                }
                let command = Some(launch.program.command(&variables, &launch.surroundings)?);
                let nodes = launch.spec.layout().nodes();
                let bundles = vec![None; nodes.len()];
                let slots = Arc::default();
                let mut starter = Self { launch, outlets, variables, bundles, sharing, slots };
                match launch.saved() {
                    // The members have their bundles already.
                    Some(saved) => starter.begin_run(&saved.left),
                    None => {
                        starter.issue(&authority, &launch.members().collect::<Vec<_>>(), None)?;
                    }
                }
                Ok((starter, Invited { command, guests }))
            }
        }
    }

    /// Issues the bundles of another run, whose members continue from a checkpoint. They get keys
    /// of a new authority, so that lost nodes that come back are refused.
    pub(super) fn renew(
        &mut self,
        members: &[NodeId],
        order: Option<&RestoreOrder>,
    ) -> Result<(), CliError> {
        let authority = Authority::new(&self.launch.id)?;
        self.issue(&authority, members, order)
    }

    /// Issues the bundles of a run with these members.
    fn issue(
        &mut self,
        authority: &Authority,
        members: &[NodeId],
        order: Option<&RestoreOrder>,
    ) -> Result<(), CliError> {
        let Processes::Nodes { is_emulated, hosts, settings, .. } = &self.launch.processes else {
            return Ok(());
        };
        let Some(spec) = grid_of(self.launch.spec, members) else { return Ok(()) };
        self.outlets.known.begin_run(spec.clone());
        let settings = serde_json::to_value(settings).map_err(encoding)?;
        let nodes_per_core = hosts.nodes_per_core(members.iter().copied());
        for (&node, mut bundle) in members.iter().zip(issue(authority, &spec)?) {
            bundle.nodes_per_core = nodes_per_core;
            bundle.emulate = *is_emulated;
            bundle.settings = settings.clone();
            bundle.listen = hosts.listen(node);
            bundle.restore = order.cloned();
            self.bundles[node.index()] = Some(bundle.to_line().map_err(encoding)?);
        }
        Ok(())
    }

    /// The bundle of a node, as a line.
    pub(super) fn bundle(&self, node: NodeId) -> String {
        self.bundles[node.index()].clone().unwrap_or_default()
    }

    /// Whether any node runs on another host.
    pub(super) fn is_elsewhere(&self) -> bool {
        if self.launch.kept.is_some() {
            return true;
        }
        let Processes::Nodes { hosts, .. } = &self.launch.processes else { return false };
        self.launch.spec.layout().nodes().any(|node| hosts.remote(node).is_some())
    }

    /// Number of processes.
    pub(super) fn len(&self) -> usize {
        self.bundles.len()
    }

    /// Records that a run of these members begins, in what other processes can read.
    fn begin_run(&self, members: &[NodeId]) {
        if let Some(spec) = grid_of(self.launch.spec, members) {
            self.outlets.known.begin_run(spec);
        }
    }

    /// The files of a node of a detached job.
    fn files(&self, node: NodeId) -> Option<NodeFiles> {
        let (folder, _) = self.launch.detached.as_ref()?;
        Some(folder.node(&nodes::name(self.launch.spec, node)))
    }

    /// Adopts the process of a node that another launcher has started; `None` if there is none, or
    /// its keeper cannot be reached.
    pub(super) fn adopt(&self, node: NodeId, saved: &Saved) -> Result<Option<Child>, CliError> {
        let failed = CliError::system("adopt the processes of the job");
        let nothing = || io::Error::from(io::ErrorKind::NotFound);
        if let Some(kept) = &self.launch.kept {
            if !kept.found.contains(&node) {
                return Ok(None);
            }
            let files = self.files(node).ok_or_else(nothing).map_err(&failed)?;
            // After a change of runs, what nodes have said before is obsolete.
            let is_old = kept.is_copy && saved.recovers;
            let mirror = Mirror::open(&files, is_old).map_err(&failed)?;
            let from = (!kept.is_copy).then(|| mirror.positions());
            return self.kept(node, BridgeTask::Attend { from }, mirror, &files).map(Some);
        }
        let Some(&process) = saved.processes.get(&node) else { return Ok(None) };
        let files = self.files(node).ok_or_else(nothing).map_err(&failed)?;
        Child::adopt(self.origin(node), process, &self.outlets, &files).map(Some).map_err(failed)
    }

    /// Where the output of a node comes from.
    fn origin(&self, node: NodeId) -> Origin {
        let address = match &self.launch.processes {
            Processes::Single { .. } => None,
            Processes::Nodes { hosts, .. } => hosts.address(node),
        };
        Origin { node, address }
    }

    /// Lets a keeper start a node, or attends to one.
    fn kept(
        &self,
        node: NodeId,
        task: BridgeTask,
        mirror: Mirror,
        files: &NodeFiles,
    ) -> Result<Child, CliError> {
        let folder = self.launch.detached.as_ref().map(|(folder, _)| folder);
        let start = match task {
            BridgeTask::Start => folder.map(|folder| folder.start_bytes()).transpose(),
            _ => Ok(None),
        };
        let start = start.map_err(CliError::system("read how the job was started"))?;
        let way = Way::new(self.launch, node, task, &self.sharing.of(node))?;
        let path = way.program();
        let named = (self.origin(node), nodes::name(self.launch.spec, node));
        let what = (way, start.unwrap_or_default());
        Child::kept(named, what, (mirror, files), self.slots.clone(), &self.outlets)
            .map_err(|error| CliError::Start { path, error })
    }

    /// Starts the process of a node, which then waits for its bundle.
    pub(super) fn start(&self, node: NodeId) -> Result<Child, CliError> {
        if let (Some(_), Some(files)) = (&self.launch.kept, self.files(node)) {
            let mirror = Mirror::open(&files, false);
            let mirror = mirror.map_err(CliError::system("open the files of a node"))?;
            return self.kept(node, BridgeTask::Start, mirror, &files);
        }
        let here = Hosts::here();
        let hosts = match &self.launch.processes {
            Processes::Single { .. } => &here,
            Processes::Nodes { hosts, .. } => hosts,
        };
        let program = self.launch.program.command(&self.variables, &self.launch.surroundings)?;
        let (surroundings, shared) = (&self.launch.surroundings, self.sharing.of(node));
        let mut command = hosts.command(node, program, &self.variables, surroundings, &shared)?;
        let path = match hosts.remote(node) {
            Some(_) => PathBuf::from(command.get_program()),
            None => {
                if self.launch.detached.is_some() {
                    command.env(DETACHED, std::process::id().to_string());
                }
                self.launch.program.path()?
            }
        };
        Child::start(self.origin(node), command, &self.outlets, self.files(node).as_ref())
            .map_err(|error| CliError::Start { path, error })
    }

    /// Writes the bundle of a node, if there is one, to its process.
    pub(super) fn pass_bundle(&self, node: NodeId, child: &Child) {
        if let Some(Some(bundle)) = self.bundles.get(node.index()) {
            child.tell(bundle.clone());
        }
    }
}

impl Starter<'_> {
    /// Adds a hint to a failure caused by a port in use. It names the other jobs of this machine
    /// that have the port, if they are known.
    pub(super) fn explained(&self, reporter: NodeId, failure: Failure, own: &str) -> Failure {
        let spec = self.launch.spec;
        let Some(port) = spec.port(reporter).filter(|_| failure.is_port_taken) else {
            return failure;
        };
        let has_port = |grid: &GridSpec| {
            grid.hosts()
                .any(|(node, host)| host == spec.host(reporter) && grid.port(node) == Some(port))
        };
        let running = status::running().unwrap_or_default().into_iter();
        let others = running.filter(|status| status.id != own && has_port(&status.grid));
        let others: Vec<_> = others.map(|status| format!("the job {}", status.id)).collect();
        let who =
            if others.is_empty() { "another program".to_owned() } else { others.join(" or ") };
        let hint = format!(
            "{who} listens there; wait for its end, or give the site another `port` than {port} in the grid file"
        );
        Failure { hint: Some(hint), node: Some(reporter), ..failure }
    }
}

fn encoding(error: serde_json::Error) -> CliError {
    CliError::System { what: "describe the job to its nodes", error: error.into() }
}
