//! A job together with the layout on which it runs; the input of every driver.

use crate::coordinator::CoordinatorHost;
use crate::error::{CheckpointError, JobError, StartError};
use crate::job::grid::Grid;
use crate::job::main_handle::MainPort;
use crate::job::promise::Awaited;
use crate::job::restoring::restoration;
use crate::message::{Image, RestorePlan, Segment};
use crate::pe::links::OnFailure;
use crate::pe::watch::Watch;
use crate::pe::{Action, Common, Pe, Records, Restoration, RunOfJob};
use crate::relay::Relay;
use crate::{Job, MainFuture};
use gridspan_topology::{Bandwidth, GridSpec, Layout, NodeId, PeId, SiteId};
use std::sync::Arc;

/// A job on a layout. Drivers create the PEs and the main function from it and connect them.
pub struct Program {
    layout: Arc<Layout>,
    common: Common,
    job: Job,
    restoring: Option<Arc<Restoring>>,
    /// Number of the last checkpoint in the folder.
    numbered_after: u64,
    /// The uplinks that the description of the grid gives, in the order of the sites.
    uplinks: Arc<[(SiteId, Bandwidth)]>,
}

/// The image from which a job continues, and the plan.
struct Restoring {
    image: Image,
    plan: RestorePlan,
    restoration: Arc<Restoration>,
}

impl Program {
    /// Checks a job and binds it to a layout.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the job or its settings are invalid, or do not fit the layout.
    pub fn new(job: Job, layout: Layout) -> Result<Self, StartError> {
        job.check(&layout)?;
        let layout = Arc::new(layout);
        let common = job.common(&layout);
        let uplinks = Arc::default();
        Ok(Self { layout, common, job, restoring: None, numbered_after: 0, uplinks })
    }

    /// Like [`new`](Self::new), for a job that continues from an image on another layout, by a
    /// plan. The image has at least the parts that PEs of this process read.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new), and the variants of [`StartError`] about checkpoints if the job
    /// or its layout differs too much from that of the image.
    pub fn restored(
        job: Job,
        layout: Layout,
        image: Image,
        plan: RestorePlan,
    ) -> Result<Self, StartError> {
        let program = Self::new(job.coordinator_within(&layout), layout)?;
        let restoration = Arc::new(restoration(&image, &program.common, &plan)?);
        Ok(Self { restoring: Some(Arc::new(Restoring { image, plan, restoration })), ..program })
    }

    /// Sets the number of this run, equal on all nodes, and the number after which checkpoints are
    /// numbered.
    pub(crate) fn of_run(mut self, run: u64, numbered_after: u64) -> Self {
        self.common.run = Arc::new(RunOfJob { number: run, ..RunOfJob::clone(&self.common.run) });
        self.numbered_after = numbered_after;
        self
    }

    /// Sets the uplinks of sites that main knows, to those of this description of the grid.
    pub fn with_uplinks_of(mut self, spec: &GridSpec) -> Self {
        let limited = spec.layout().sites().filter_map(|site| Some((site, spec.uplink(site)?)));
        self.uplinks = limited.collect();
        self
    }

    /// Sets the part of the time limit that earlier runs of the job in this process have used.
    #[cfg(feature = "net")]
    pub(crate) fn having_used(mut self, time: std::time::Duration) -> Self {
        self.common.watch.time_used = time;
        self
    }

    /// Sets for each node the first one on the same host: copies of checkpoints go to other hosts.
    #[cfg(feature = "net")]
    pub(crate) fn on_hosts(mut self, hosts: Vec<NodeId>) -> Self {
        let hosts = hosts.into();
        self.common.run = Arc::new(RunOfJob { hosts, ..RunOfJob::clone(&self.common.run) });
        self
    }

    /// Like [`new`](Self::new), for a guest with `pes` PEs: its layout has the founders and this
    /// guest.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn guest(job: Job, founders: Layout, guest: NodeId, pes: u32) -> Result<Self, StartError> {
        Self::new(job, founders.for_guest(guest, pes))
    }

    /// Returns the layout.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Returns the job's name.
    pub fn name(&self) -> &str {
        self.job.name()
    }

    /// Returns the byte budgets of a PE.
    pub fn limits(&self) -> crate::Limits {
        self.common.limits
    }

    /// Returns the time limit of the job, if it has one.
    pub fn time_limit(&self) -> Option<std::time::Duration> {
        self.common.watch.time_limit
    }

    /// Returns the silence after which a node is lost, if the job sets one.
    #[cfg(feature = "net")]
    pub(crate) fn lost_after(&self) -> Option<std::time::Duration> {
        self.common.watch.lost_after
    }

    /// Returns the listeners for failures that PEs may be too busy to handle.
    pub(crate) fn on_failure(&self) -> &[OnFailure] {
        self.job.listens_to_failure()
    }

    /// Whether the coordinator decides if the job goes on without a lost founder.
    #[cfg(feature = "net")]
    pub(crate) fn recovers_tasks(&self) -> bool {
        self.common.recovers_tasks
    }

    /// Returns the processors to which a PE is bound, if it is.
    pub(crate) fn cpus_of(&self, pe: PeId) -> Option<&[u32]> {
        self.job.cpus_of(pe)
    }

    /// Returns the longest time that an idle PE spins, if the job sets it.
    pub(crate) fn spin_limit(&self) -> Option<std::time::Duration> {
        self.job.spins_at_most()
    }

    /// Creates one of the PEs.
    pub fn pe(&self, pe: PeId) -> Pe {
        let mut machine = Pe::new(pe, self.common.clone());
        if let Some(restoring) = &self.restoring {
            let Restoring { image, plan, restoration } = &**restoring;
            machine.prepare_to_restore(restoration);
            let parts = image.layout().pes().zip(plan.readers.iter().zip(&plan.targets));
            let checkpoint = image.number();
            for (part, (_, target)) in parts.filter(|(_, (reader, _))| **reader == pe) {
                let positions = image.segments_of(part);
                let (end, copies) = (positions.end, self.copies_again(restoring, part));
                for position in positions {
                    match image.segment(part, position) {
                        Some(bytes) => {
                            machine.restore(part, bytes, target);
                            let is_last = position + 1 == end;
                            let segment = Segment { checkpoint, part, position, is_last };
                            machine.copy_again(segment, bytes, &copies);
                        }
                        None => {
                            let error =
                                CheckpointError::MissingSegment { part, position, checkpoint };
                            machine.fail(StartError::from(error).into());
                        }
                    }
                }
            }
        }
        machine
    }

    /// Creates the PEs, the relay and the host of the coordinator of a guest, in a process that
    /// also has the founders.
    pub fn guest_node(&self, guest: NodeId, pes: u32) -> (Vec<Pe>, Relay, CoordinatorHost) {
        let layout = Layout::clone(&self.layout).for_guest(guest, pes);
        let place = layout.place(guest).pes.clone();
        let common = Common { layout: Arc::new(layout), ..self.common.clone() };
        let machines = place.map(|pe| Pe::new(PeId(pe), common.clone())).collect();
        (machines, relay(&common, guest), CoordinatorHost::new(guest, common))
    }

    /// Creates the relay of a node.
    pub fn relay(&self, node: NodeId) -> Relay {
        relay(&self.common, node)
    }

    /// Returns the node on which the coordinator runs when the job begins.
    pub fn coordinator_node(&self) -> NodeId {
        self.common.coordinator
    }

    /// Creates the coordinator host of a node. The host of the
    /// [coordinator's node](Self::coordinator_node) has the coordinator.
    pub fn coordinator_host(&self, node: NodeId) -> CoordinatorHost {
        let mut host = CoordinatorHost::new(node, self.common.clone());
        host.number_checkpoints_after(self.numbered_after);
        if let Some(restoring) = &self.restoring {
            let copies = |part| {
                let nodes = self.copies_again(restoring, part).into_iter();
                nodes.map(move |node| (part, node))
            };
            let copied = || restoring.image.layout().pes().flat_map(copies).collect();
            host.restore(&restoring.restoration.manifest, copied);
        }
        host
    }

    /// The nodes to which the reader of a part of the image copies it again.
    fn copies_again(&self, restoring: &Restoring, part: PeId) -> Vec<NodeId> {
        let (run, RestorePlan { readers, holders, .. }) = (&self.common.run, &restoring.plan);
        let known = readers.get(part.index()).zip(holders.get(part.index()));
        known.map_or_else(Vec::new, |(reader, holders)| {
            let (grid, reader) = ((&*self.layout, &*run.hosts), self.layout.node_of(*reader));
            run.checkpoints.partners_again(grid, reader, holders)
        })
    }

    /// Starts the main function, which passes its requests to PE 0 through `port`. Its outcome goes
    /// to PE 0 as an [`end`]; `awaited` counts the promises that main waits for.
    pub fn begin_main(self, port: MainPort, awaited: Arc<Awaited>) -> MainFuture {
        let (registry, maps, main) = self.job.into_main();
        let phases = self.restoring.as_ref().map_or(0, |it| it.image.inner().phases);
        let begun = (phases, self.common.recovers_tasks);
        let grid = Grid::new(port, self.layout, registry, maps, awaited, begun);
        main.begin(grid.with_uplinks(self.uplinks))
    }

    /// Whether the job is to make checkpoints.
    pub(crate) fn makes_checkpoints(&self) -> bool {
        self.common.run.checkpoints.every.is_some()
    }

    /// The bytes of the parts from which PEs of these nodes continue, and the number of copies that
    /// the job keeps of each part. `None` if the job continues from no image.
    #[cfg(feature = "net")]
    pub(crate) fn restored_bytes(&self, nodes: &[NodeId]) -> Option<(u64, u32)> {
        let Restoring { image, plan, .. } = &**self.restoring.as_ref()?;
        let is_here = |reader: PeId| nodes.contains(&self.layout.node_of(reader));
        let parts = image.inner().parts.iter().zip(&plan.readers);
        let parts = parts.filter(|(_, reader)| is_here(**reader)).map(|(part, _)| part.bytes());
        let copies = if self.makes_checkpoints() { self.common.run.checkpoints.copies } else { 0 };
        let copies = copies.min(self.layout.node_count());
        Some((parts.fold(0, u64::saturating_add), copies))
    }

    /// Returns the recording of the job, if it is recorded.
    pub(crate) fn records(&self) -> Option<&Records> {
        self.common.records.as_ref()
    }

    /// Whether the job continues from a checkpoint.
    #[cfg(feature = "net")]
    pub(crate) fn is_restored(&self) -> bool {
        self.restoring.is_some()
    }

    /// Returns the settings of this run.
    pub(crate) fn run(&self) -> &Arc<RunOfJob> {
        &self.common.run
    }

    /// Returns the measures against a job that does not end.
    pub(crate) fn watch(&self) -> &Watch {
        &self.common.watch
    }
}

fn relay(common: &Common, node: NodeId) -> Relay {
    let Common { layout, broadcasts, tree, limits, kinds, .. } = common;
    let relay = Relay::new(node, layout.clone(), (*broadcasts, tree), limits.hard_bytes as u64);
    relay.with_type_names(kinds.iter().map(|kind| kind.name()).collect())
}

/// Returns an action that sets the outcome of main at PE 0 and stops the job on all PEs.
pub fn end(outcome: Result<(), JobError>) -> Action {
    Box::new(move |core| core.end(outcome))
}
