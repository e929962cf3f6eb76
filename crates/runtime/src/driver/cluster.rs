//! The cluster driver: this process is one node of a job.

use super::brake::emulated_speed;
use super::main_thread;
use super::net_driver::NetDriver;
use super::node::{Node, check_pes};
use super::switch::Switch;
use crate::Job;
use crate::error::{JobError, StartError};
use crate::job::program::Program;
use crate::net::TransportLimits;
use crate::net::bootstrap::Joined;
use crate::pe::Core;
use gridspan_topology::{NodeId, Speed};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

/// Makes a guest node in this process leave the job.
#[derive(Clone)]
pub struct Leaver(Weak<Switch>);

impl Leaver {
    /// Makes the node hand back its tasks and leave. Does nothing if the node is not a guest or has
    /// ended.
    pub fn leave(&self) {
        if let Some(switch) = self.0.upgrade().filter(|switch| switch.layout.is_guest(switch.node))
        {
            let leader = switch.layout.leader(switch.node);
            switch.inbox(leader).push_action(Box::new(Core::leave));
        }
    }
}

/// Runs this process's node of a job. On node 0, main runs on the calling thread; other nodes
/// ignore the definition of main. Returns when the job has ended on this node, with the outcome
/// that all nodes share.
pub fn run(job: Job, joined: Joined) -> Result<(), JobError> {
    run_with(job, joined, |_| {})
}

/// Like [`run`]; once the node runs, calls `begun` with a handle that makes the node leave.
pub fn run_with(job: Job, joined: Joined, begun: impl FnOnce(Leaver)) -> Result<(), JobError> {
    let node = joined.bundle.identity.node;
    let layout = joined.bundle.spec.layout().clone();
    let program = match joined.bundle.guest {
        Some(pes) => Program::guest(job, layout, node, pes),
        None => Program::new(job, layout),
    }?;
    let speed = match joined.bundle.emulate {
        true => emulated_speed(&joined.bundle.spec, node),
        false => Speed::ORDINARY,
    };
    check_pes(program.layout().place(node).pes.len() as u32)?;
    let net = joined
        .into_loop(TransportLimits::for_job(&program.limits()))
        .map_err(|error| StartError::Join { reason: error.to_string() })?;
    let net_driver = Arc::new(NetDriver::new(net).telling(program.on_failure()));
    let begin = Instant::now();
    thread::scope(|scope| {
        let running = Node::start(scope, &program, node, Some(net_driver), (begin, speed));
        begun(Leaver(Arc::downgrade(&running.switch)));
        if node == NodeId(0) {
            main_thread::run(program, &running.switch);
        }
        running.join()
    })
}
