//! Starts the process of a node, for the first time or again.

use super::bridge_command::BridgeCommand;
use super::child::Child;
use super::guests::{Invited, issue_guests};
use super::host_shares::host_shares;
use super::mirror::Mirror;
use super::plan::{InputWay, Launch, Processes};
use super::reader::{Origin, Outlets};
use super::recording::places;
use super::report::Report;
use super::slots::Slots;
use super::supervisor::OnLoss;
use super::tasks::Tasks;
use crate::error::CliError;
use crate::job_folder::{NodeFiles, Saved};
use crate::request::NewNodes;
use crate::sharing::Sharing;
use crate::status;
use gridspan::Settings;
use gridspan::control::Failure;
use gridspan::keeper::BridgeTask;
use gridspan::variables::DETACHED;
use gridspan_runtime::net::bootstrap::{NodeBundle, RestoreOrder, issue};
use gridspan_runtime::net::{Authority, NodePublicKey};
use gridspan_topology::{GridSpec, NodeId};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Starts the processes of a job.
pub(super) struct Starter<'a> {
    launch: Launch<'a>,
    outlets: Outlets,
    /// First line written to each process, if any. `tasks` has the lines for tasks of Slurm.
    bundles: Vec<Option<String>>,
    sharing: Sharing,
    /// Limits the bridges that connect at the same time.
    slots: Arc<Slots>,
    /// The tasks of Slurm, if nodes run as tasks.
    tasks: Option<Tasks>,
    /// Number of runs whose bundles were issued, also by earlier launchers.
    runs: u32,
    /// Bundles for the guests of the present run, until its invitations are written.
    guests: Vec<NodeBundle>,
}

impl<'a> Starter<'a> {
    /// Creates the starter of a job with these shared connections. Also returns the nodes that may
    /// join later.
    pub(super) fn new(
        mut launch: Launch<'a>,
        outlets: Outlets,
        sharing: Sharing,
    ) -> Result<(Self, Invited), CliError> {
        match &launch.processes {
            Processes::Single { .. } => {
                let bundles = vec![None];
                let (slots, tasks, guests) = (Arc::default(), None, Vec::new());
                let starter =
                    Self { launch, outlets, bundles, sharing, slots, tasks, runs: 0, guests };
                Ok((starter, Invited::default()))
            }
            Processes::Nodes { tasks, .. } => {
                let authority = Arc::new(Authority::new(&launch.id)?);
                let variables = launch.variables();
                let command = launch.program.command(&variables, &launch.surroundings)?;
                let bundles = vec![None; launch.roster.nodes().len()];
                let is_loss_fatal = launch.membership.on_loss == OnLoss::Fail;
                let open = |_| Tasks::new(is_loss_fatal, authority.clone(), &outlets);
                let tasks = tasks.as_ref().map(open).transpose()?;
                let (slots, guests) = (Arc::default(), Vec::new());
                let left = launch.saved().map(|saved| saved.left.clone());
                let runs = launch.saved().map_or(0, |saved| saved.runs.len() as u32);
                launch.run = runs.saturating_sub(1);
                let members: Vec<NodeId> = launch.members().collect();
                let mut starter =
                    Self { launch, outlets, bundles, sharing, slots, tasks, runs, guests };
                match left {
                    // The members have their bundles already.
                    Some(left) => starter.begin_run(&left),
                    None => starter.issue(&authority, &members, None)?,
                }
                Ok((starter, Invited::new(command)))
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
        let authority = Arc::new(Authority::new(&self.launch.id)?);
        self.issue(&authority, members, order)
    }

    /// Issues the bundles of a run with these members.
    fn issue(
        &mut self,
        authority: &Arc<Authority>,
        members: &[NodeId],
        order: Option<&RestoreOrder>,
    ) -> Result<(), CliError> {
        let processes = &self.launch.processes;
        let Processes::Nodes { is_emulated, hosts, settings, .. } = processes else {
            return Ok(());
        };
        let Some(spec) = self.launch.roster.part(members) else { return Ok(()) };
        self.outlets.known.begin_run(spec.clone());
        let shares = host_shares(processes, &self.launch.roster, members);
        let mut settings = Settings::clone(settings);
        if let Some(record) = &mut settings.record {
            record.run = self.runs;
            record.places = Some(places(self.launch.spec, members, &spec));
        }
        self.launch.run = self.runs;
        self.runs += 1;
        let nodes_per_core = processes.nodes_per_core(members.iter().copied());
        let mut guests = issue_guests(authority, &spec, self.launch.guests)?;
        for bundle in &mut guests {
            bundle.nodes_per_core = nodes_per_core;
            bundle.emulate = *is_emulated;
            bundle.settings = serde_json::to_value(&settings).map_err(encoding)?;
        }
        self.guests = guests;
        let mut bundles = issue(authority, &spec)?;
        for ((&node, share), bundle) in members.iter().zip(shares).zip(&mut bundles) {
            let mut settings = settings.clone();
            settings.host_share = settings.bind.map(|_| share);
            bundle.nodes_per_core = nodes_per_core;
            bundle.emulate = *is_emulated;
            bundle.settings = serde_json::to_value(settings).map_err(encoding)?;
            bundle.listen = hosts.listen(node);
            bundle.restore = order.cloned();
        }
        let bundles = members.iter().copied().zip(bundles);
        match &mut self.tasks {
            Some(tasks) => tasks.begin_run(authority.clone(), bundles),
            None => {
                for (node, bundle) in bundles {
                    self.bundles[node.index()] = Some(bundle.to_line().map_err(encoding)?);
                }
            }
        }
        Ok(())
    }

    /// The bundle of a node, as a line; `None` if the node has none, or its task has not enrolled.
    pub(super) fn bundle(&self, node: NodeId) -> Result<Option<String>, CliError> {
        match &self.tasks {
            Some(tasks) => tasks.bundle(node),
            None => Ok(self.bundles.get(node.index()).cloned().flatten()),
        }
    }

    /// Whether any node runs on another host.
    pub(super) fn is_elsewhere(&self) -> bool {
        if self.launch.kept.is_some() {
            return true;
        }
        let Processes::Nodes { hosts, .. } = &self.launch.processes else { return false };
        let is_remote = |node| hosts.remote(node).is_some();
        self.tasks.is_some() || self.launch.roster.nodes().any(is_remote)
    }

    /// Adds nodes to the job, so that [`start`](Self::start) can start them. Returns their numbers.
    ///
    /// # Errors
    ///
    /// The reason why the job cannot have these nodes. The job has not changed then.
    pub(super) fn grow(&mut self, new: &NewNodes) -> Result<Vec<NodeId>, String> {
        let nodes = self.launch.add(new)?;
        self.bundles.resize(self.launch.roster.nodes().len(), None);
        self.outlets.known.grow(self.launch.roster.clone());
        Ok(nodes)
    }

    /// The job, with all its nodes.
    pub(super) fn launch(&self) -> &Launch<'a> {
        &self.launch
    }

    /// Number of processes.
    pub(super) fn len(&self) -> usize {
        self.bundles.len()
    }

    /// Takes the bundles for the guests of the present run.
    pub(super) fn take_guests(&mut self) -> Vec<NodeBundle> {
        std::mem::take(&mut self.guests)
    }

    /// Notes in the status file, which other processes read, that these members form the present
    /// run.
    fn begin_run(&self, members: &[NodeId]) {
        if let Some(spec) = self.launch.roster.part(members) {
            self.outlets.known.begin_run(spec);
        }
    }

    /// The files of a node of a detached job.
    fn files(&self, node: NodeId) -> Option<NodeFiles> {
        let (folder, _) = self.launch.detached.as_ref()?;
        Some(folder.node(&self.launch.roster.name(node), self.launch.log_limit))
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
            // After a change of runs, earlier control lines of nodes are obsolete.
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

    /// Has a keeper start a node, or adopts a node that runs already.
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
        let command = BridgeCommand::new(&self.launch, node, task, &self.sharing.of(node))?;
        let path = command.program();
        let named = (self.origin(node), self.launch.roster.name(node));
        let what = (command, start.unwrap_or_default());
        Child::kept(named, what, (mirror, files), self.slots.clone(), &self.outlets)
            .map_err(|error| CliError::Start { path, error })
    }

    /// Starts the process of a node, which then waits for its bundle. A task is started by the next
    /// [`launch_tasks`](Self::launch_tasks).
    pub(super) fn start(&mut self, node: NodeId) -> Result<Child, CliError> {
        if let (Some(_), Some(files)) = (&self.launch.kept, self.files(node)) {
            let mirror = Mirror::open(&files, false);
            let mirror = mirror.map_err(CliError::system("open the files of a node"))?;
            return self.kept(node, BridgeTask::Start, mirror, &files);
        }
        if let Some(tasks) = &mut self.tasks {
            let program = self.launch.program_of(node)?;
            let child = tasks.add(node, &program, &self.outlets)?;
            self.direct_input(node, &child);
            return Ok(child);
        }
        let mut command = self.launch.command(node, &self.sharing.of(node))?;
        let origin = self.origin(node);
        let path = match origin.address {
            Some(_) => PathBuf::from(command.get_program()),
            None => {
                if self.launch.detached.is_some() {
                    command.env(DETACHED, std::process::id().to_string());
                }
                self.launch.program.path()?
            }
        };
        let has_input = self.launch.input == InputWay::Inherited(node);
        let files = self.files(node);
        let child = Child::start(origin, command, &self.outlets, files.as_ref(), has_input)
            .map_err(|error| CliError::Start { path, error })?;
        self.direct_input(node, &child);
        Ok(child)
    }

    /// Directs the standard input to a process that has just been started, if its node gets a
    /// forwarded input.
    fn direct_input(&self, node: NodeId, child: &Child) {
        if let Some(input) = &self.outlets.input {
            input.direct(node, child.lines());
        }
    }

    /// Records that the process of a node has ended or does not start, so that no other node waits
    /// for it to take input.
    pub(super) fn end_input(&self, node: NodeId) {
        if let Some(input) = &self.outlets.input {
            input.ended(node);
        }
    }

    /// Writes the bundle of a node, if there is one, to its process.
    pub(super) fn pass_bundle(&self, node: NodeId, child: &Child) -> Result<(), CliError> {
        self.bundle(node)?.into_iter().for_each(|bundle| child.tell(bundle));
        Ok(())
    }

    /// If nodes are tasks, starts those for which [`start`](Self::start) was called since the last
    /// call of this method. If that fails, these tasks count as ended.
    pub(super) fn launch_tasks(&mut self) -> Result<(), CliError> {
        let Processes::Nodes { tasks: Some(allocations), .. } = &self.launch.processes else {
            return Ok(());
        };
        let launch = |tasks: &mut Tasks| tasks.launch(allocations, &self.outlets);
        self.tasks.as_mut().map_or(Ok(()), launch)
    }

    /// Whether there is an `srun` without an enrolled task.
    pub(super) fn awaits_srun(&self) -> bool {
        self.tasks.as_ref().is_some_and(Tasks::awaits_srun)
    }

    /// Ends tasks that cannot start any more, and cancels each `srun` that no task needs any more.
    pub(super) fn notice_ends_of_tasks(&mut self) {
        let Some(tasks) = &mut self.tasks else { return };
        tasks.notice_exits();
        for nodes in tasks.cancel_unneeded() {
            let names = nodes.iter().map(|node| self.launch.roster.name(*node));
            let (names, is) =
                (names.collect::<Vec<_>>(), if nodes.len() == 1 { "is" } else { "are" });
            let text = format!(
                "srun is cancelled: it has started no task yet, and {} {is} not needed any more",
                names.join(", ")
            );
            self.outlets.reports.push(Report::Warning { text });
        }
    }

    /// Notes the key of a task that has enrolled.
    pub(super) fn enrolled(&mut self, node: NodeId, key: NodePublicKey) {
        if let Some(tasks) = &mut self.tasks {
            tasks.enrolled(node, key);
        }
    }

    /// Waits until each `srun` has ended, after the connections of its tasks have ended.
    pub(super) fn end_tasks(&mut self) {
        self.tasks.iter_mut().for_each(Tasks::end);
    }
}

impl Starter<'_> {
    /// Adds a hint to a failure caused by a port in use. It names the other jobs of this machine
    /// that have the port, if they are known.
    pub(super) fn explained(&self, reporter: NodeId, mut failure: Failure, own: &str) -> Failure {
        let roster = &self.launch.roster;
        let position = (reporter.index() < roster.nodes().len()).then(|| roster.position(reporter));
        let port = position.and_then(|position| roster.grid().port(position));
        let Some(port) = port.filter(|_| failure.is_port_taken) else {
            return failure;
        };
        let has_port = |grid: &GridSpec| {
            grid.hosts()
                .any(|(node, host)| host == roster.host(reporter) && grid.port(node) == Some(port))
        };
        let running = status::running().unwrap_or_default().into_iter();
        let others = running.filter(|status| status.id != own && has_port(&status.grid));
        let others: Vec<_> = others.map(|status| format!("the job {}", status.id)).collect();
        let who =
            if others.is_empty() { "another program".to_owned() } else { others.join(" or ") };
        let hint = format!(
            "{who} listens there; wait for its end, or give the site another `port` than {port} in the grid file"
        );
        failure.hint = Some(hint);
        failure.node = Some(reporter);
        failure
    }
}

fn encoding(error: serde_json::Error) -> CliError {
    CliError::System { what: "describe the job to its nodes", error: error.into() }
}
