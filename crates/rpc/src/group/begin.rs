//! Starts groups, and fetches results to the client.

use super::given_graph::GivenGraph;
use super::keyed_mutex::KeyedMutex;
use super::lazy::Lazy;
use super::map::{CallGroup, Draft, LockKey, Mapper, failed, nowhere, other};
use super::windows::Execute;
use crate::block::EncodedBlock;
use crate::calls::RpcError;
use gridspan_workflow::TaskGraph;
use gridspan_workflow::heuristics::Heuristic;
use serde::de::DeserializeOwned;
use std::cell::RefCell;

/// A group whose calls have not been gathered yet.
pub(super) struct Begun<'a> {
    pub(super) number: u32,
    pub(super) draft: Draft,
    pub(super) heuristic: &'a dyn Heuristic,
    /// The graph along which it is mapped, if there is one.
    pub(super) along: Option<GivenGraph>,
}

impl<S: Execute> Mapper<S> {
    /// Maps the calls that `body` makes by a heuristic, window by window, and executes them. Ends
    /// when all calls have ended, with the value of `body` or with the first error.
    ///
    /// # Errors
    ///
    /// The error of `body`, after which calls that were not executed are dropped; otherwise those
    /// of [`CallGroup::run`].
    pub async fn map<R>(
        &self,
        heuristic: &dyn Heuristic,
        body: impl AsyncFnOnce(&CallGroup<'_, S>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        self.map_as(heuristic, None, body).await
    }

    /// Like [`map`](Self::map), but maps the group along a given graph that resembles it: each call
    /// goes to the server to which the heuristic has mapped the next task with the function's name.
    /// Use it for groups whose calls depend on results: these otherwise form many small windows
    /// (Brady et al. (2010), section 4). The graph's data is at the client or on servers, which the
    /// graph identifies by their positions in the list of servers.
    ///
    /// # Errors
    ///
    /// Those of [`map`](Self::map); [`RpcError::NoServers`] if there is no server, and
    /// [`RpcError::Other`] if the heuristic cannot map the graph, such as because no server offers
    /// the function of a task.
    pub async fn map_along<R>(
        &self,
        heuristic: &dyn Heuristic,
        graph: &TaskGraph,
        body: impl AsyncFnOnce(&CallGroup<'_, S>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        let cards = self.services.cards().await?;
        if cards.is_empty() {
            return Err(RpcError::NoServers);
        }
        let platform = self.platform(&cards).await?;
        let along = GivenGraph::new(graph, heuristic, &platform, &cards);
        self.map_as(heuristic, Some(along.map_err(|error| other(&error))?), body).await
    }

    async fn map_as<R>(
        &self,
        heuristic: &dyn Heuristic,
        along: Option<GivenGraph>,
        body: impl AsyncFnOnce(&CallGroup<'_, S>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        let number = self.services.begin_group();
        self.run_group(Begun { number, draft: Draft::default(), heuristic, along }, body).await
    }

    /// Executes a group to its end.
    pub(super) async fn run_group<R>(
        &self,
        begun: Begun<'_>,
        body: impl AsyncFnOnce(&CallGroup<'_, S>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        let Begun { number, draft, heuristic, along } = begun;
        let (draft, locks, along) =
            (RefCell::new(draft), KeyedMutex::default(), RefCell::new(along));
        let group = CallGroup { mapper: self, heuristic, number, draft, locks, along };
        let given = body(&group).await;
        if given.is_ok() {
            group.draft.borrow().sequence.check_end()?;
            group.run().await?;
        }
        given
    }
}

impl<S: Execute> CallGroup<'_, S> {
    /// Executes the gathered calls, and fetches a result to the client. A failed call fails only
    /// the calls that depend on it: `get` returns an error only if the requested result was not
    /// made or cannot be fetched, whatever the outcome of other calls.
    ///
    /// # Errors
    ///
    /// [`RpcError::Other`] if the result is of another group, or was lost with its servers. If it
    /// was not made, the error of [`run`](Self::run) for its call. [`RpcError::SessionFailed`] if
    /// it is not a `T`, and the errors of [`ServerPool::fetch`](crate::group::ServerPool::fetch).
    pub async fn get<T: DeserializeOwned>(&self, lazy: &Lazy<T>) -> Result<T, RpcError> {
        if lazy.token.0 != self.number {
            return Err(RpcError::Other { reason: "the data belongs to another group".to_owned() });
        }
        self.draft.borrow().sequence.check()?;
        let data = lazy.token.1;
        if let Err(error) = self.run_for(Some(data)).await {
            let failure = self.draft.borrow().known.get(&data).map(|known| known.failure.clone());
            match failure {
                Some(None) => tracing::info!(%error, "another call of the group failed"),
                Some(Some(failure)) => return Err(failure),
                None => return Err(error),
            }
        }
        let _turn = self.locks.take(LockKey::Data(data)).await;
        let held = self.draft.borrow().values.get(&data).cloned();
        let block = match held {
            Some(block) => block,
            None => self.fetch(data).await?,
        };
        self.draft.borrow_mut().remember(data, &block);
        postcard::from_bytes(&block.contiguous()).map_err(|error| failed(error.to_string()))
    }

    async fn fetch(&self, data: u32) -> Result<EncodedBlock, RpcError> {
        let known = self.draft.borrow().known.get(&data).cloned().unwrap_or_default();
        if let Some(failure) = known.failure {
            return Err(failure);
        }
        let services = &self.mapper.services;
        for server in known.maker.into_iter().chain(known.servers) {
            let Some(server) = services.standing(server) else { continue };
            let fetched = self.fetch_from(server, data).await;
            // A server that was lost meanwhile does not answer, or says that the data was freed.
            if fetched.is_ok() || services.standing(server).is_some() {
                return fetched;
            }
        }
        Err(nowhere(data))
    }
}
