//! A job together with the places it runs on: what every driver begins with.

use crate::coordinator::CoordinatorHost;
use crate::error::JobError;
use crate::job::grid::{Grid, MainPort};
use crate::job::promise::Awaited;
use crate::pe::links::OnFailure;
use crate::pe::watch::Watch;
use crate::pe::{Action, Common, Pe};
use crate::relay::Relay;
use crate::{Job, MainFuture};
use gridspan_topology::{Layout, NodeId, PeId};
use std::sync::Arc;

/// A job on a layout. Drivers take the PEs and the main function from it and connect them.
pub struct Program {
    layout: Arc<Layout>,
    common: Common,
    job: Job,
}

impl Program {
    /// Checks a job and lays it out.
    pub fn new(job: Job, layout: Layout) -> Result<Self, JobError> {
        job.check(&layout)?;
        let layout = Arc::new(layout);
        let common = job.common(&layout);
        Ok(Self { layout, common, job })
    }

    /// The same for a guest of the job with so many PEs: its layout is that of the founders.
    pub fn guest(job: Job, founders: Layout, guest: NodeId, pes: u32) -> Result<Self, JobError> {
        Self::new(job, founders.for_guest(guest, pes))
    }

    /// The places.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        self.job.name()
    }

    /// The byte budgets of a PE.
    pub fn limits(&self) -> crate::Limits {
        self.common.limits
    }

    /// Who hears of a failure that PEs may be too busy for.
    pub(crate) fn on_failure(&self) -> &[OnFailure] {
        self.job.listens_to_failure()
    }

    /// Makes one of the PEs.
    pub fn pe(&self, pe: PeId) -> Pe {
        Pe::new(pe, self.common.clone())
    }

    /// Makes the PEs, the relay and the host of the coordinator of a guest, in a process that has
    /// the founders too.
    pub fn guest_node(&self, guest: NodeId, pes: u32) -> (Vec<Pe>, Relay, CoordinatorHost) {
        let layout = Layout::clone(&self.layout).for_guest(guest, pes);
        let place = layout.place(guest).pes.clone();
        let common = Common { layout: Arc::new(layout), ..self.common.clone() };
        let machines = place.map(|pe| Pe::new(PeId(pe), common.clone())).collect();
        (machines, relay(&common, guest), CoordinatorHost::new(guest, common))
    }

    /// Makes the relay of a node.
    pub fn relay(&self, node: NodeId) -> Relay {
        relay(&self.common, node)
    }

    /// The node that the coordinator runs on when the job begins.
    pub fn coordinator_node(&self) -> NodeId {
        self.common.coordinator
    }

    /// Makes the host of the coordinator on a node. On one node it has the coordinator.
    pub fn coordinator_host(&self, node: NodeId) -> CoordinatorHost {
        CoordinatorHost::new(node, self.common.clone())
    }

    /// The main function, which hands its work to PE 0 through `port`. Its outcome goes to PE 0 as
    /// an [`end`]; `awaited` shows what main waits for.
    pub fn begin_main(self, port: MainPort, awaited: Arc<Awaited>) -> MainFuture {
        let (registry, maps, main) = self.job.into_main();
        main.begin(Grid::new(port, self.layout, registry, maps, awaited))
    }

    /// What is done about a job that does not end.
    pub(crate) fn watch(&self) -> &Watch {
        &self.common.watch
    }
}

fn relay(common: &Common, node: NodeId) -> Relay {
    let Common { layout, broadcasts, tree, limits, .. } = common;
    Relay::new(node, layout.clone(), (*broadcasts, tree), limits.hard_bytes as u64)
}

/// Tells PE 0 how main ended; the job stops on all PEs.
pub fn end(outcome: Result<(), JobError>) -> Action {
    Box::new(move |core| core.end(outcome))
}
