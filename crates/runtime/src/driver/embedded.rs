//! The embedded driver: one node, whose PEs are threads of this process.

use super::inbox::Inbox;
use super::main_thread::{block_on, port};
use super::switch::Switch;
use super::worker::{self, Park};
use crate::Job;
use crate::error::JobError;
use crate::program::{Program, end_packet};
use gridspan_topology::{Layout, NodeId, PeId};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Runs a job on the PEs of one node, each a thread of this process. Main runs on the calling
/// thread. Returns when the job has ended on all PEs.
pub fn run(job: Job, pes: u32) -> Result<(), JobError> {
    let program = Program::new(job, Layout::single(pes))?;
    let begin = Instant::now();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let spin = (pes as usize) < cores.max(2);
    thread::scope(|scope| {
        let (handles, inboxes): (Vec<_>, Vec<_>) = program
            .layout()
            .pes()
            .map(|pe| {
                let machine = program.pe(pe);
                // Each thread waits for the switch, which needs to know all threads first.
                let (give, take) = std::sync::mpsc::channel::<Arc<Switch>>();
                let handle = scope.spawn(move || match take.recv() {
                    Ok(switch) => worker::run(machine, &switch, begin, &mut Park { spin }),
                    Err(_) => Ok(()),
                });
                let thread = handle.thread().clone();
                ((handle, give), Inbox::new(Box::new(move || thread.unpark())))
            })
            .unzip();
        let layout = program.layout().clone();
        let switch = Arc::new(Switch::new(layout, NodeId(0), inboxes, None));
        for (_, give) in &handles {
            // A thread that is gone has panicked outside of all handlers; joining it reports that.
            let _ = give.send(switch.clone());
        }
        let main = program.begin_main(port(&switch));
        let outcome = block_on(main);
        switch.inbox(PeId(0)).push([(PeId(0), end_packet(outcome))]);
        let mut outcomes = handles.into_iter().map(|(handle, _)| handle.join());
        let first = outcomes.next();
        outcomes.for_each(drop);
        switch.close();
        match first {
            Some(Ok(outcome)) => outcome,
            _ => Err(JobError::Failed("the thread of pe0 died; this is a bug in Gridspan".into())),
        }
    })
}
