//! The interface of main: the whole grid as one computer.
//!
//! Main runs beside PE 0, on its own thread or, in virtual time, between events. It passes actions
//! to PE 0 through a [`MainPort`] and awaits promises that PE 0 resolves.
//!
//! | file | content |
//! | --- | --- |
//! | here | requests of main to the whole job |
//! | `creation` | collections and groups |
//! | `progress` | progress points |
//! | `collection` | what main does with a collection and its members |
//! | `main_handle` | the way from main to PE 0 |

use crate::Actor;
use crate::Published;
use crate::address::collection::PlacementMap;
use crate::address::id::Phase;
use crate::error::GridError;
use crate::job::collection::Collection;
use crate::job::main_handle::{MainHandle, MainPort, wait};
use crate::job::promise::Awaited;
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::message::{MainRequest, PhaseCounts};
use crate::pe::actor::reference::CollectionRef;
use crate::pe::actor::registry::Registry;
use crate::pe::links::{Links, Locality};
use bytes::Bytes;
use gridspan_topology::LinkChange;
use gridspan_topology::{Bandwidth, Layout, NodeId, SiteId, Time};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The grid as seen by main. Operations that main awaits fail with [`GridError::Ending`] once the
/// job is ending.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = u64;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
/// #     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
/// #         self.0 += number;
/// #         cx.contribute(Sum, self.0, To::main());
/// #     }
/// # }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// let pes = grid.layout().pe_count();
/// let cells = grid.create::<Cell>(Ix1::range(4 * pes), |_| ()).await?;
/// cells.broadcast(1);
/// grid.quiescence().await?; // no message is left anywhere
/// println!("{pes} PEs took {}", grid.now().await?);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone)]
pub struct Grid {
    pub(super) main: MainHandle,
    uplinks: Arc<[(SiteId, Bandwidth)]>,
}

impl Grid {
    /// Creates the grid of a job with these types and placement maps. `begun`: the number of phases
    /// that main has begun, and whether the job may go on without lost founders.
    pub(crate) fn new(
        port: MainPort,
        layout: Arc<Layout>,
        registry: Registry,
        maps: Vec<PlacementMap>,
        awaited: Arc<Awaited>,
        begun: (u32, bool),
    ) -> Self {
        let main = MainHandle::new(port, layout, registry, maps, awaited, begun);
        Self { main, uplinks: Arc::default() }
    }

    /// Sets the uplinks that the description of the grid gives.
    pub(crate) fn with_uplinks(mut self, uplinks: Arc<[(SiteId, Bandwidth)]>) -> Self {
        self.uplinks = uplinks;
        self
    }

    /// The founders without which the job goes on.
    pub(crate) async fn lost_founders(&self) -> Result<BTreeSet<NodeId>, GridError> {
        self.main.lost_founders().await
    }

    /// The number of tasks of streams whose outputs main has not taken.
    pub(crate) fn streamed(&self) -> &AtomicU64 {
        self.main.streamed()
    }

    /// Returns the sites, nodes and PEs of the job.
    pub fn layout(&self) -> &Layout {
        self.main.layout()
    }

    /// Returns the rate of each site's uplink that the grid file or the shorthand gives, in the
    /// order of the sites: the rate, each way, that all traffic between the site and other sites
    /// shares. Sites without such a limit are left out.
    pub fn described_uplinks(&self) -> &[(SiteId, Bandwidth)] {
        &self.uplinks
    }

    /// Distributes read-only data to every node, along the trees of a broadcast plan. Fails for a
    /// value of more than 60 MiB.
    pub async fn publish<T: Serialize>(&self, value: &T) -> Result<Published<T>, GridError> {
        let bytes: Bytes = codec::encode(value).into();
        if bytes.len() > PIECE_BYTES_MAX {
            return Err(GridError::TooLarge { bytes: bytes.len(), limit: PIECE_BYTES_MAX });
        }
        Ok(Published::new(self.main.ask_coordinator(MainRequest::Publish { value: bytes }).await?))
    }

    /// Runs the job's strategy, which may move actors, while all PEs continue. Resolves to the
    /// number of actors that have moved, once they have. Fails only if the job is ending.
    pub async fn rebalance(&self) -> Result<usize, GridError> {
        self.main.ask_coordinator(MainRequest::Rebalance).await
    }

    /// Like [`rebalance`](Self::rebalance), for a main that asks at every step: does nothing and
    /// resolves to 0 while the requests that have moved no actor make up more than 2 % of the job's
    /// time. A request takes a round trip to the PE with the largest latency. Fails only if the job
    /// is ending.
    pub async fn rebalance_if_due(&self) -> Result<usize, GridError> {
        self.main.ask_coordinator(MainRequest::RebalanceIfDue).await
    }

    /// Resolves once there was a moment since the call at which no message was in transit, queued,
    /// or being handled anywhere. If the job balances by itself, a rebalance may begin before main
    /// continues, and members that it moves may send messages in
    /// [`Actor::arrived`](crate::Actor::arrived). Fails only if the job is ending.
    pub async fn quiescence(&self) -> Result<(), GridError> {
        self.main.ask_coordinator(MainRequest::Quiescence).await
    }

    /// Begins a phase with `producers` producers. Its [completion](Self::completion) can be awaited
    /// while the rest of the job continues. Send the phase to the actors that take part.
    ///
    /// ```
    /// use gridspan_runtime::{Actor, Collection, CollectionRef, Context, Ix1, Phase};
    /// # use gridspan_runtime::{Grid, GridError};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Walker;
    ///
    /// #[derive(Clone, serde::Serialize, serde::Deserialize)]
    /// enum Message { Start(Phase), Visit(Phase) }
    ///
    /// impl Actor for Walker {
    ///     type Index = Ix1;
    ///     type Init = ();
    ///     type Message = Message;
    ///
    ///     fn create((): (), _cx: &mut Context<Self>) -> Self { Walker }
    ///
    ///     fn handle(&mut self, message: Message, cx: &mut Context<Self>) {
    ///         match message {
    ///             Message::Start(phase) => {
    ///                 let next = cx.collection().at(Ix1((cx.index().0 + 1) % 10));
    ///                 cx.send(&next, Message::Visit(phase));
    ///                 cx.produce(phase, 1);
    ///                 cx.producer_done(phase);
    ///             }
    ///             Message::Visit(phase) => cx.consume(phase, 1),
    ///         }
    ///     }
    /// }
    ///
    /// async fn visit(grid: &Grid, walkers: &Collection<Walker>) -> Result<(), GridError> {
    ///     let phase = grid.phase(10);
    ///     walkers.broadcast(Message::Start(phase));
    ///     grid.completion(phase).await // all ten walkers were visited
    /// }
    /// ```
    pub fn phase(&self, producers: u64) -> Phase {
        Phase { number: self.main.phases().fetch_add(1, Ordering::Relaxed), producers }
    }

    /// Resolves once all producers of a phase are done and all its items are consumed.
    ///
    /// # Errors
    ///
    /// [`GridError::Phase`] if more items were consumed than produced, or more producers were done
    /// than the phase has. If fewer items are consumed, or fewer producers are done, the job
    /// stalls, and its error states that. The counts of a phase stay on the PEs until its
    /// completion is awaited.
    pub async fn completion(&self, phase: Phase) -> Result<(), GridError> {
        let counts: PhaseCounts =
            self.main.ask_coordinator(MainRequest::Completion { phase }).await?;
        let PhaseCounts { produced, consumed, done } = counts;
        let producers = phase.producers;
        match (produced, done) == (consumed, producers) {
            true => Ok(()),
            false => Err(GridError::Phase { producers, done, produced, consumed }),
        }
    }

    /// Resolves after `duration`, in the time of the driver, which is virtual in the simulator.
    /// Fails only if the job is ending.
    pub async fn sleep(&self, duration: Duration) -> Result<(), GridError> {
        let (resolve, over) = self.main.promise();
        let awake = move || {
            let is_awaited = resolve.is_awaited();
            resolve.with(Ok(()));
            is_awaited
        };
        self.main.run(move |core| core.sleep(duration, awake));
        wait(over).await
    }

    /// Tells the [listeners](crate::Job::on_progress) of the job that `done` parts of `total` are
    /// done, in units of the program's choice.
    ///
    /// ```
    /// use gridspan::embed::{Event, Runner};
    /// use gridspan::prelude::*;
    ///
    /// let running = Runner::on_threads(2).start(Job::new("steps"), async |grid: Grid| {
    ///     for step in 1..=3 {
    ///         grid.report_progress(step, 3);
    ///     }
    ///     Ok(())
    /// });
    /// let done = running.events().filter_map(|event| match event {
    ///     Event::Progress { done, .. } => Some(done),
    ///     _ => None,
    /// });
    /// assert_eq!(done.collect::<Vec<u64>>(), [1, 2, 3]);
    /// ```
    pub fn report_progress(&self, done: u64, total: u64) {
        self.main.run(move |core| {
            core.common.watch.on_progress.iter().for_each(|tell| tell(done, total));
        });
    }

    /// Returns which nodes are near each other. Drivers with a network measure this when the job
    /// begins; the simulator measures it at the first request. Fails only if the job is ending.
    pub async fn places(&self) -> Result<Arc<Locality>, GridError> {
        self.main.ask_coordinator(MainRequest::Places).await
    }

    /// Returns the estimates of the links between groups of nodes. The first call also makes nodes
    /// send trains of packets to detect which nodes share a link out of their group; later calls
    /// reuse the result. Fails only if the job is ending.
    pub async fn links(&self) -> Result<Links, GridError> {
        self.main.ask_coordinator(MainRequest::Links).await
    }

    /// Returns the estimates of the links as they are known now, or `None` if the places are not
    /// known yet. Unlike [`links`](Self::links), it waits for no measurement, and nodes send no
    /// trains of packets for it. Fails only if the job is ending.
    pub async fn known_links(&self) -> Result<Option<Links>, GridError> {
        self.main.ask_coordinator(MainRequest::KnownLinks).await
    }

    /// Resolves to the next link whose latency or bandwidth has changed by more than a fifth, or
    /// whose losses have changed. Groups are numbered as in the hierarchy of
    /// [`places`](Self::places). Fails with [`GridError::NoLinks`] if the job has one node only.
    /// Cancel safe: if the future is dropped before it resolves, the next call resolves to its
    /// change. Until then, [`progress`](Self::progress) fails.
    pub async fn link_change(&self) -> Result<LinkChange, GridError> {
        self.main.next_link_change().await?.ok_or(GridError::NoLinks)
    }

    /// Moves the coordinator to another node. Resolves once it runs there; the job continues
    /// meanwhile. A rebalance or a measurement that is under way completes first. From then on,
    /// listeners such as [`Job::on_links`](crate::Job::on_links) are called on that node, and
    /// balancing and broadcasts begin to learn again. The note on insertions at
    /// [`Job::coordinator_on`](crate::Job::coordinator_on) applies to any node other than main's,
    /// also to insertions that main has requested before the move. Fails for a node that is not a
    /// founder of the job.
    pub async fn move_coordinator(&self, to: NodeId) -> Result<(), GridError> {
        let nodes = self.layout().node_count();
        if to.0 >= nodes {
            return Err(GridError::NoSuchNode { node: to, nodes });
        }
        self.main.ask_coordinator(MainRequest::MoveCoordinator { to }).await
    }

    /// Returns the collection of a reference, such as one that main has got back from a checkpoint.
    pub fn collection<A: Actor>(&self, reference: CollectionRef<A>) -> Collection<A> {
        Collection::new(self.main.clone(), reference)
    }

    /// Returns the time since the job began, in the time of the driver. Fails only if the job is
    /// ending.
    pub async fn now(&self) -> Result<Time, GridError> {
        let (resolve, now) = self.main.promise();
        self.main.run(move |core| resolve.with(Ok(core.now)));
        wait(now).await
    }
}
