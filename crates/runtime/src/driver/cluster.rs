//! The cluster driver: this process is one node of a job.

use super::brake::emulated_speed;
use super::checkpoints::{CheckpointKeeper, program};
use super::handle::NodeHandle;
use super::loss::Needed;
use super::main_thread;
use super::memory::Memory;
use super::net_driver::NetDriver;
use super::node::{Node, check_pes};
use crate::Job;
use crate::address::id::MAIN_PE;
use crate::error::{JobError, StartError, Warning};
use crate::job::program::Program;
use crate::net::TransportLimits;
use crate::net::bootstrap::Joined;
use crate::pe::Checkpoints;
use gridspan_topology::{GridSpec, NodeId, Speed};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Time for which nodes wait for a node that reads parts of a checkpoint from a folder or object
/// store, and then count it as lost. It is as long as the coordinator waits until a part is stored.
const READING_MAX: Duration = Duration::from_secs(300);

/// Runs this process's node of a job. On node 0, main runs on the calling thread; other nodes
/// ignore the definition of main. Returns when the job has ended on this node, with the outcome
/// that all nodes share.
///
/// # Errors
///
/// [`JobError`]: why the job failed, or could not start on this node.
pub fn run(job: Job, joined: Joined) -> Result<(), JobError> {
    run_with(job, joined, |_| {})
}

/// Like [`run`]; once the node runs, calls `begun` with its handle.
///
/// # Errors
///
/// Those of [`run`].
pub fn run_with(job: Job, joined: Joined, begun: impl FnOnce(NodeHandle)) -> Result<(), JobError> {
    let keeper = match joined.bundle.guest {
        // Guests have no actors.
        Some(_) => CheckpointKeeper::default(),
        None => CheckpointKeeper::new(&job, joined.bundle.restore.is_some())?,
    };
    run_keeping(job, joined, keeper, begun)
}

/// Like [`run_with`], with a `keeper` of this node's parts of checkpoints. If the bundle orders the
/// job to continue from a checkpoint, the keeper or the job's folder or object store must have the
/// parts that PEs of this node read.
///
/// # Errors
///
/// Those of [`run_with`]; also [`StartError::Checkpoint`] if parts that PEs of this node read are
/// missing or damaged, or do not fit the job.
pub fn run_keeping(
    job: Job,
    joined: Joined,
    keeper: CheckpointKeeper,
    begun: impl FnOnce(NodeHandle),
) -> Result<(), JobError> {
    let node = joined.bundle.identity.node;
    let layout = joined.bundle.spec.layout().clone();
    let keeper = keeper.warning(&job);
    let after = keeper.begin(node, joined.bundle.run)?;
    let program = match (joined.bundle.guest, &joined.bundle.restore) {
        (Some(pes), _) => Program::guest(job, layout, node, pes),
        (None, Some(order)) => keeper.recover(job, (layout, node), order),
        (None, None) => program(job, layout, Some(node), &keeper),
    }?
    .of_run(joined.bundle.run, after)
    .having_used(keeper.time_used())
    .on_hosts(Checkpoints::first_on_hosts(&joined.bundle.spec))
    .with_uplinks_of(&joined.bundle.spec);
    keeper.drop_incomplete();
    let machine = nodes_beside(&joined.bundle.spec, node, joined.bundle.emulate);
    let keeper = match program.is_restored() {
        true => {
            warn_of_shortage(&program, node, &machine);
            keeper
        }
        false => keeper.checking_room(&program, node, machine),
    };
    let speed = match joined.bundle.emulate {
        true => emulated_speed(&joined.bundle.spec, node),
        false => Speed::ORDINARY,
    };
    check_pes(program.layout().place(node).pes.len() as u32)?;
    let mut limits = TransportLimits::for_job(&program.limits());
    if joined.bundle.restore.as_ref().is_some_and(|order| order.reads_stored) {
        limits.connect_patience = READING_MAX;
    }
    let net = joined
        .into_loop(limits, program.lost_after())
        .map_err(|error| StartError::Join { reason: error.to_string() })?;
    let needed = program
        .recovers_tasks()
        .then(|| Needed::new(program.layout().node_of(MAIN_PE), program.coordinator_node()));
    let net_driver = NetDriver::new(net).telling(program.on_failure()).needing(needed);
    let net_driver = Arc::new(net_driver);
    let begin = Instant::now();
    thread::scope(|scope| {
        let running =
            Node::start(scope, (&program, keeper), node, Some(net_driver), (begin, speed), 1);
        begun(NodeHandle::new(&running.switch));
        if node == NodeId(0) {
            main_thread::run(program, &running.switch);
        }
        running.join()
    })
}

/// Warns before a job continues from a checkpoint if the memory of the machine is probably too
/// small for its actors and checkpoints. `nodes`: the nodes on this machine, the first of which
/// warns.
fn warn_of_shortage(program: &Program, node: NodeId, nodes: &[NodeId]) {
    let restored = program.restored_bytes(nodes).filter(|_| nodes.first() == Some(&node));
    let Some((memory, (bytes, copies))) = Memory::of_machine().zip(restored) else { return };
    if let Some(reason) = memory.shortage(bytes, copies) {
        let warning = Warning::ScarceMemory { reason };
        program.watch().on_warning.iter().for_each(|tell| tell(&warning));
    }
}

/// Returns the nodes on the machine of a node, with the node itself. An emulated grid is on one
/// machine.
fn nodes_beside(spec: &GridSpec, node: NodeId, is_emulated: bool) -> Vec<NodeId> {
    let hosts = Checkpoints::first_on_hosts(spec);
    let own = hosts.get(node.index());
    let is_beside = |(_, host): &(NodeId, &NodeId)| is_emulated || Some(*host) == own;
    (0..).map(NodeId).zip(&hosts).filter(is_beside).map(|(other, _)| other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_on_one_host_are_known_by_its_name() {
        let sites = "[site.a]\nhosts = [\"a1\", \"me@a1\", \"a2\"]\n[site.b]\nhosts = [\"b1\"]\n";
        let spec = GridSpec::from_toml(sites).unwrap();
        assert_eq!(Checkpoints::first_on_hosts(&spec), [0, 0, 2, 3].map(NodeId));
        let beside = |node, is_emulated| nodes_beside(&spec, NodeId(node), is_emulated);
        assert_eq!(beside(1, false), [0, 1].map(NodeId));
        assert_eq!(beside(2, false), [NodeId(2)]);
        assert_eq!(beside(2, true), [0, 1, 2, 3].map(NodeId));
        assert_eq!(beside(9, false), [], "a guest");
    }
}
