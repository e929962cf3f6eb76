//! The cluster driver: this process is one node of a job.

use super::main_thread::{block_on, port};
use super::node::{Node, check_pes};
use super::uplink::Uplink;
use crate::Job;
use crate::error::JobError;
use crate::net::TransportLimits;
use crate::net::bootstrap::Joined;
use crate::program::{Program, end};
use gridspan_topology::{NodeId, PeId};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Runs this process's node of a job. On node 0, main runs on the calling thread; on others its
/// definition is not used. Returns when the job has ended on this node, with the outcome that all
/// nodes share.
pub fn run(job: Job, joined: Joined) -> Result<(), JobError> {
    let node = joined.bundle.identity.node;
    check_pes(joined.bundle.spec.layout().place(node).pes.len() as u32)?;
    let program = Program::new(job, joined.bundle.spec.layout().clone())?;
    let net = joined
        .into_loop(TransportLimits::default())
        .map_err(|error| JobError::Failed(format!("cannot join the job: {error}")))?;
    let uplink = Arc::new(Uplink::new(net));
    let begin = Instant::now();
    thread::scope(|scope| {
        let running = Node::start(scope, &program, node, Some(uplink), begin);
        if node == NodeId(0) {
            let main = program.begin_main(port(&running.switch));
            let outcome = block_on(main);
            running.switch.inbox(PeId(0)).push_action(end(outcome));
        }
        running.join()
    })
}
