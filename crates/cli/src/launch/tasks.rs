//! Starts nodes as tasks of Slurm: one `srun` for all nodes that start at the same time.
//!
//! A node gets its bundle when its task has enrolled, since the certificate in it is for the key
//! that the task has made.

use super::child::Child;
use super::enrolment::Enrolment;
use super::event::Exit;
use super::reader::{Origin, Outlets};
use super::step::Step;
use super::task::Task;
use crate::error::CliError;
use crate::job_folder::machine;
use crate::node_program::NodeProgram;
use crate::slurm::{Allocations, SRUN, StepPlan, arguments};
use gridspan_runtime::net::bootstrap::NodeBundle;
use gridspan_runtime::net::{
    Authority, EnrolmentListener, EnrolmentSecret, EnrolmentToken, NodePublicKey,
};
use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;

/// The variable that says where the configuration of Slurm is.
const CONFIGURATION: &str = "SLURM_CONF";

/// The tasks of a job.
pub(super) struct Tasks {
    is_loss_fatal: bool,
    enrolment: Enrolment,
    /// The authority of the first run, which tasks know by its digest.
    authority: Arc<Authority>,
    /// The authority of the present run.
    issuer: Arc<Authority>,
    /// Nodes whose `srun` has yet to be started, with their tasks.
    due: BTreeMap<NodeId, Arc<Task>>,
    steps: Vec<StartedStep>,
    /// The keys that tasks have made.
    keys: BTreeMap<NodeId, NodePublicKey>,
    /// The bundles of the present run, before they get certificates for the keys of tasks.
    bundles: BTreeMap<NodeId, NodeBundle>,
}

/// An `srun` and what it starts.
struct StartedStep {
    step: Step,
    secret: EnrolmentSecret,
    tasks: Vec<Arc<Task>>,
}

impl Tasks {
    /// Opens the port at which the tasks of a job enrol. `is_loss_fatal`: whether `srun` ends all
    /// tasks after a loss, since the job ends then.
    pub(super) fn new(
        is_loss_fatal: bool,
        authority: Arc<Authority>,
        outlets: &Outlets,
    ) -> Result<Self, CliError> {
        let listener = EnrolmentListener::bind(&authority)?;
        let enrolment = Enrolment::start(listener, outlets.events.clone())
            .map_err(CliError::system("accept tasks"))?;
        let issuer = authority.clone();
        let (due, steps, keys, bundles) = Default::default();
        Ok(Self { is_loss_fatal, enrolment, authority, issuer, due, steps, keys, bundles })
    }

    /// Begins a run with the bundles of its members, which get certificates of this authority.
    pub(super) fn begin_run(
        &mut self,
        authority: Arc<Authority>,
        bundles: impl Iterator<Item = (NodeId, NodeBundle)>,
    ) {
        self.issuer = authority;
        self.bundles = bundles.collect();
    }

    /// Prepares the task of a node that runs this program. The next [`launch`](Self::launch) starts
    /// it.
    pub(super) fn add(
        &mut self,
        node: NodeId,
        program: &Command,
        outlets: &Outlets,
    ) -> Result<Child, CliError> {
        let failed = CliError::system("prepare the start of a task");
        let program = NodeProgram::of(program).map_err(&failed)?;
        let program = serde_json::to_vec(&program).map_err(|error| failed(error.into()))?;
        let (task, streams) = Task::new(node, outlets.events.clone()).map_err(&failed)?;
        let origin = Origin { node, address: None };
        let child = Child::of_task(origin, task.clone(), streams, outlets).map_err(&failed)?;
        // A previous process of the node had another key.
        self.keys.remove(&node);
        self.enrolment.await_task(node, task.clone(), program);
        self.due.insert(node, task);
        Ok(child)
    }

    /// Starts the `srun` of the added tasks, in their allocations. If that fails, the tasks end.
    pub(super) fn launch(
        &mut self,
        allocations: &Allocations,
        outlets: &Outlets,
    ) -> Result<(), CliError> {
        let due = std::mem::take(&mut self.due);
        if due.is_empty() {
            return Ok(());
        }
        let started = self.start(&due, allocations, outlets);
        if started.is_err() {
            due.values().for_each(|task| task.end_awaited(Exit::NotStarted));
        }
        started
    }

    fn start(
        &mut self,
        due: &BTreeMap<NodeId, Arc<Task>>,
        allocations: &Allocations,
        outlets: &Outlets,
    ) -> Result<(), CliError> {
        let nodes: BTreeSet<NodeId> = due.keys().copied().collect();
        let agent = agent(&self.enrolment.port().to_string())?;
        for plan in allocations.steps(&nodes) {
            let secret = EnrolmentSecret::new()?;
            self.enrolment.expect(secret.clone(), &plan.nodes);
            let token = EnrolmentToken::new(secret.clone(), &self.authority);
            let tasks = plan.nodes.iter().filter_map(|(node, _)| due.get(node).cloned()).collect();
            let mut command = Command::new(SRUN);
            command.args(arguments(&plan, self.is_loss_fatal)).args(&agent);
            if !plan.is_of_own_job() {
                forget_own_job(&mut command);
            }
            let step = Step::start(command, &token, &outlets.reports)
                .map_err(|error| CliError::Start { path: SRUN.into(), error })?;
            self.steps.push(StartedStep { step, secret, tasks });
        }
        Ok(())
    }

    /// Ends the tasks that had not enrolled when their `srun` ended.
    pub(super) fn notice_exits(&mut self) {
        self.steps.retain_mut(|started| {
            if started.step.take_exit().is_none() {
                return true;
            }
            self.enrolment.close(&started.secret);
            started.tasks.iter().for_each(|task| task.end_awaited(Exit::NotStarted));
            false
        });
    }

    /// Cancels each `srun` whose tasks were all ended before they enrolled: it may wait
    /// in the queue for as long as the allocation lasts. Returns their nodes.
    pub(super) fn cancel_unneeded(&mut self) -> Vec<Vec<NodeId>> {
        let mut cancelled = Vec::new();
        for StartedStep { step, secret, tasks } in &mut self.steps {
            if tasks.iter().all(|task| task.is_given_up()) && step.cancel() {
                self.enrolment.close(secret);
                cancelled.push(tasks.iter().map(|task| task.node()).collect());
            }
        }
        cancelled
    }

    /// Whether there is an `srun` without an enrolled task.
    pub(super) fn awaits_srun(&self) -> bool {
        let is_silent = |started: &StartedStep| started.tasks.iter().all(|it| it.is_awaited());
        self.steps.iter().any(is_silent)
    }

    /// Notes the key of a task that has enrolled.
    pub(super) fn enrolled(&mut self, node: NodeId, key: NodePublicKey) {
        self.keys.insert(node, key);
    }

    /// Returns the bundle of a node, as a line; `None` if it is no member, or its task has not
    /// enrolled.
    pub(super) fn bundle(&self, node: NodeId) -> Result<Option<String>, CliError> {
        let (Some(bundle), Some(key)) = (self.bundles.get(&node), self.keys.get(&node)) else {
            return Ok(None);
        };
        let mut bundle = bundle.clone();
        let (number, life) = (bundle.identity.node, bundle.identity.incarnation);
        bundle.identity = self.issuer.certify(number, life, key)?;
        let line = bundle.to_line();
        let failed = CliError::system("describe the job to its nodes");
        line.map(Some).map_err(|error| failed(error.into()))
    }

    /// Waits until each `srun` has ended, after its tasks have ended. Cancels each `srun` that has
    /// started no task.
    pub(super) fn end(&mut self) {
        for StartedStep { step, tasks, .. } in &mut self.steps {
            if tasks.iter().all(|task| task.is_awaited() || task.is_given_up()) {
                step.cancel();
            }
        }
        self.steps.iter_mut().for_each(|started| started.step.end());
    }
}

/// Returns the words of the command that each task runs.
fn agent(port: &str) -> Result<[OsString; 4], CliError> {
    let own = std::env::current_exe().map_err(CliError::system("find gridctl's own path"))?;
    Ok([own.into(), "__task".into(), port.into(), machine().into()])
}

/// Lets `srun` use another allocation than that of this launcher: removes the variables of this
/// launcher's allocation, which `srun` would read as options.
fn forget_own_job(command: &mut Command) {
    let is_of_job = |name: &OsString| {
        let name = name.to_string_lossy();
        ["SLURM_", "SRUN_"].iter().any(|begin| name.starts_with(begin)) && name != CONFIGURATION
    };
    let names = std::env::vars_os().map(|(name, _)| name).filter(is_of_job);
    names.for_each(|name| {
        command.env_remove(name);
    });
}

/// Returns each `srun` that starts these nodes of allocations, as words.
pub(crate) fn srun_commands(
    allocations: &Allocations,
    nodes: &BTreeSet<NodeId>,
    is_loss_fatal: bool,
) -> Result<Vec<Vec<OsString>>, CliError> {
    // The system chooses the port when the job starts.
    let agent = agent("PORT")?;
    let words = |plan: StepPlan<'_>| -> Vec<OsString> {
        let options = arguments(&plan, is_loss_fatal).into_iter().map(OsString::from);
        [OsString::from(SRUN)].into_iter().chain(options).chain(agent.clone()).collect()
    };
    Ok(allocations.steps(nodes).into_iter().map(words).collect())
}
