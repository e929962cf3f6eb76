//! The embedded driver: all PEs are threads of this process.

use super::checkpoints::{CheckpointKeeper, new_run, program};
use super::handle::NodeHandle;
use super::main_thread;
use super::node::{Node, check_pes};
use crate::Job;
use crate::error::JobError;
#[cfg(feature = "net")]
use crate::error::StartError;
use gridspan_topology::{Layout, NodeId, Speed};
use std::thread;
use std::time::Instant;

/// Runs a job on the PEs of one node. Main runs on the calling thread. Returns when the job has
/// ended on all PEs.
///
/// # Errors
///
/// [`JobError`]: why the job failed, or could not start.
pub fn run(job: Job, pes: u32) -> Result<(), JobError> {
    run_with(job, pes, |_| {})
}

/// Like [`run`]; once the job runs, calls `begun` with a handle that cancels it.
///
/// # Errors
///
/// Those of [`run`].
pub fn run_with(job: Job, pes: u32, begun: impl FnOnce(NodeHandle)) -> Result<(), JobError> {
    check_pes(pes)?;
    let keeper = CheckpointKeeper::new(&job, false)?;
    let run = new_run();
    let after = keeper.begin(NodeId(0), run)?;
    let program = program(job, Layout::single(pes), None, &keeper)?.of_run(run, after);
    let keeper = keeper.checking_room(&program, NodeId(0), vec![NodeId(0)]);
    let begin = Instant::now();
    thread::scope(|scope| {
        let node =
            Node::start(scope, (&program, keeper), NodeId(0), None, (begin, Speed::ORDINARY), 1);
        begun(NodeHandle::new(&node.switch));
        main_thread::run(program, &node.switch);
        node.join()
    })
}

/// Runs a job over the nodes of `spec`, all in this process, connected by QUIC over loopback. Links
/// between sites are emulated below QUIC. The slower processors of `spec` are emulated, too. Main
/// runs on the calling thread.
///
/// # Errors
///
/// [`JobError`]: why the job failed, or could not start, for example because no port could be
/// opened.
#[cfg(feature = "net")]
pub fn run_emulated(job: Job, spec: &gridspan_topology::GridSpec) -> Result<(), JobError> {
    run_emulated_with(job, spec, |_| {})
}

/// Like [`run_emulated`]; once the job runs, calls `begun` with a handle that cancels it and
/// reaches all its nodes.
///
/// # Errors
///
/// Those of [`run_emulated`].
#[cfg(feature = "net")]
pub fn run_emulated_with(
    job: Job,
    spec: &gridspan_topology::GridSpec,
    begun: impl FnOnce(NodeHandle),
) -> Result<(), JobError> {
    run_counted(job, spec, begun).map(drop)
}

/// Bytes of frames that one node sent and received.
#[cfg(feature = "net")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Sent to other nodes and acknowledged by them.
    pub sent: u64,
    /// Received from other nodes.
    pub received: u64,
}

/// Like [`run_emulated`]; returns the bytes that each node sent and received.
///
/// # Errors
///
/// Those of [`run_emulated`].
#[cfg(feature = "net")]
pub fn run_emulated_counted(
    job: Job,
    spec: &gridspan_topology::GridSpec,
) -> Result<Vec<Carried>, JobError> {
    run_counted(job, spec, |_| {})
}

#[cfg(feature = "net")]
fn run_counted(
    job: Job,
    spec: &gridspan_topology::GridSpec,
    begun: impl FnOnce(NodeHandle),
) -> Result<Vec<Carried>, JobError> {
    use super::brake::emulated_speed;
    use super::net_driver::NetDriver;
    use crate::net::bootstrap::{Joined, issue};
    use crate::net::{Authority, TransportLimits, UdpPort};
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    check_pes(spec.layout().pe_count())?;
    let no_port = |error: std::io::Error| StartError::Port { reason: error.to_string() };
    let authority = Authority::new("embedded").map_err(StartError::from)?;
    let bundles = issue(&authority, spec).map_err(StartError::from)?;
    let mut ports = Vec::new();
    let mut addresses = Vec::new();
    for _ in &bundles {
        let port = UdpPort::bind((Ipv4Addr::LOCALHOST, 0).into()).map_err(StartError::from)?;
        addresses.push(port.local_address().map_err(no_port)?);
        ports.push(port);
    }
    let run = new_run();
    let (mut keepers, mut after) = (Vec::new(), 0);
    for node in spec.layout().nodes() {
        let keeper = CheckpointKeeper::new(&job, false)?;
        after = keeper.begin(node, run)?.max(after);
        keepers.push(keeper);
    }
    let program = program(job, spec.layout().clone(), None, &keepers[0])?;
    let program = program.of_run(run, after).with_uplinks_of(spec);
    let mut net_drivers = Vec::new();
    for (mut bundle, port) in bundles.into_iter().zip(ports) {
        bundle.emulate = true;
        let joined = Joined { bundle, port, addresses: addresses.clone() };
        let limits = TransportLimits::for_job(&program.limits());
        let net = joined.into_loop(limits, program.lost_after()).map_err(StartError::from)?;
        net_drivers.push(Arc::new(NetDriver::new(net)));
    }
    let (begin, counting) = (Instant::now(), net_drivers.clone());
    let nodes_here = spec.layout().node_count();
    let outcome = thread::scope(|scope| {
        let mut nodes: Vec<_> = program
            .layout()
            .nodes()
            .zip(net_drivers)
            .zip(keepers)
            .map(|((node, net_driver), keeper)| {
                let pace = (begin, emulated_speed(spec, node));
                let keeper = keeper.checking_room(&program, node, spec.layout().nodes().collect());
                Node::start(scope, (&program, keeper), node, Some(net_driver), pace, nodes_here)
            })
            .collect();
        let switch = nodes[0].switch.clone();
        begun(NodeHandle::of_all(&switch, nodes[1..].iter().map(|node| &node.switch)));
        main_thread::run(program, &switch);
        let others = nodes.split_off(1);
        let outcome = nodes.pop().map_or(Ok(()), Node::join);
        others.into_iter().for_each(|node| drop(node.join()));
        outcome
    });
    let carried = counting.iter().map(|net_driver| {
        let (sent, received) = net_driver.carried_bytes();
        Carried { sent, received }
    });
    outcome.map(|()| carried.collect())
}
