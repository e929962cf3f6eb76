//! Passes actions from main's interfaces to PE 0, and awaits promises that PE 0 resolves.

use crate::Actor;
use crate::address::collection::PlacementMap;
use crate::address::id::KindId;
use crate::error::GridError;
use crate::job::promise::{Awaited, Promise, Resolve, promise};
use crate::job::requests::Requests;
use crate::message::{MainRequest, ReductionGroup};
use crate::pe::actor::registry::Registry;
use crate::pe::{Action, Core};
use crate::reduce::{Op, Value};
use gridspan_topology::{Layout, LinkChange, NodeId};
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Accepts actions for PE 0. The driver that created it runs each on that PE, in order.
pub type MainPort = Arc<dyn Fn(Action) + Send + Sync>;

/// The way from main to PE 0. Clones share it.
#[derive(Clone)]
pub(crate) struct MainHandle {
    shared: Arc<Shared>,
}

struct Shared {
    port: MainPort,
    layout: Arc<Layout>,
    registry: Registry,
    maps: Vec<PlacementMap>,
    awaited: Arc<Awaited>,
    /// Whether the job may go on without lost founders.
    recovers_tasks: bool,
    phases: AtomicU32,
    streamed: AtomicU64,
    reductions: Requests<ReductionGroup, Result<Option<(Op, Value)>, GridError>>,
    link_changes: Requests<(), Result<Option<LinkChange>, GridError>>,
}

impl MainHandle {
    /// Creates the handle of a job with these types and placement maps. `phases` is the number of
    /// phases that main has begun so far, and `recovers_tasks` says whether the job may go on
    /// without lost founders.
    pub(crate) fn new(
        port: MainPort,
        layout: Arc<Layout>,
        registry: Registry,
        maps: Vec<PlacementMap>,
        awaited: Arc<Awaited>,
        (phases, recovers_tasks): (u32, bool),
    ) -> Self {
        let (phases, streamed) = (AtomicU32::new(phases), AtomicU64::new(0));
        let shared = Shared {
            port,
            layout,
            registry,
            maps,
            awaited,
            recovers_tasks,
            phases,
            streamed,
            reductions: Requests::default(),
            link_changes: Requests::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    pub(crate) fn maps(&self) -> &[PlacementMap] {
        &self.shared.maps
    }

    /// The founders without which the job goes on.
    pub(crate) async fn lost_founders(&self) -> Result<BTreeSet<NodeId>, GridError> {
        if !self.shared.recovers_tasks {
            return Ok(BTreeSet::new());
        }
        let (resolve, lost) = self.promise();
        self.run(move |core| {
            resolve.with(Ok(core.membership.lost_founders(&core.common.layout).collect()));
        });
        wait(lost).await
    }

    /// Number of phases so far.
    pub(crate) fn phases(&self) -> &AtomicU32 {
        &self.shared.phases
    }

    /// Number of tasks of streams whose outputs main has not taken.
    pub(crate) fn streamed(&self) -> &AtomicU64 {
        &self.shared.streamed
    }

    pub(crate) fn promise<T>(&self) -> (Resolve<T>, Promise<T>) {
        promise(&self.shared.awaited)
    }

    /// Runs an action on PE 0, after earlier ones.
    pub(crate) fn run(&self, action: impl FnOnce(&mut Core) + Send + 'static) {
        (self.shared.port)(Box::new(move |core: &mut Core| core.act_for_main(Box::new(action))));
    }

    /// Sends a request to the coordinator, and awaits its answer.
    pub(crate) async fn ask_coordinator<T: DeserializeOwned + Send + 'static>(
        &self,
        request: MainRequest,
    ) -> Result<T, GridError> {
        wait(self.request(request)).await
    }

    fn request<T: DeserializeOwned + Send + 'static>(
        &self,
        request: MainRequest,
    ) -> Promise<Result<T, GridError>> {
        let (resolve, answer) = self.promise();
        self.run(move |core| {
            core.ask_coordinator(request, move |_, found| resolve.with(Ok(found)))
        });
        answer
    }

    /// The next result that the members of a group send to main; `None` if there is no such group.
    /// If the future is dropped before it resolves, the next call gets its result.
    pub(crate) async fn next_reduced(
        &self,
        group: ReductionGroup,
    ) -> Result<Option<(Op, Value)>, GridError> {
        let make = || self.request(MainRequest::Reduction { group });
        let next = self.shared.reductions.await_next(group, make).await;
        next.unwrap_or(Err(GridError::Ending))
    }

    /// Whether main has given up a request for a result of a reduction or a change of a link, and
    /// has not asked again since. The answer may have arrived.
    pub(crate) fn has_given_up(&self) -> bool {
        self.shared.reductions.are_given_up() || self.shared.link_changes.are_given_up()
    }

    /// The next change of a link; `None` if there are no links. If the future is dropped before it
    /// resolves, the next call gets its change.
    pub(crate) async fn next_link_change(&self) -> Result<Option<LinkChange>, GridError> {
        let make = || self.request(MainRequest::LinkChange);
        let next = self.shared.link_changes.await_next((), make).await;
        next.unwrap_or(Err(GridError::Ending))
    }

    /// The number of an actor type, if the job has it.
    pub(crate) fn kind<A: Actor>(&self) -> Result<KindId, GridError> {
        self.shared
            .registry
            .find::<A>()
            .ok_or(GridError::NotRegistered(type_name::<A>().to_owned()))
    }
}

/// Awaits a promise. Fails if the driver has dropped it, which it does when it ends.
pub(crate) async fn wait<T>(promised: Promise<Result<T, GridError>>) -> Result<T, GridError> {
    promised.await.unwrap_or(Err(GridError::Ending))
}
