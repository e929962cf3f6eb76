//! Operations that have begun and are not complete.

use crate::error::{CallSite, RankError};
use crate::local::Local;
use crate::local::joined_wait::JoinedWait;
use crate::local::slots::Outcome;
use crate::local::turn::GivenWay;
use crate::ticket::Ticket;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Turns the outcome of an operation into what the program gets.
type Finish<'a, T> = Box<dyn FnOnce(Outcome) -> Result<T, RankError> + Send + 'a>;

enum Stage<'a, T> {
    Waiting { ticket: Ticket, finish: Finish<'a, T> },
    Ended(Result<T, RankError>),
    Taken,
}

/// An operation that goes on while the rank does other things: a send, a receive, or a collective
/// operation.
///
/// Await it to wait for its end, or use [`test`](Self::test), [`wait_all`], [`wait_any`],
/// [`wait_some`] and their relatives. A rank must complete its requests, [cancel](Self::cancel)
/// them or [give them up](Self::free): it is an error to come to a migration point, or to the end
/// of the rank, after dropping a request that was not complete.
///
/// ```
/// use gridspan::ranks::{self, CommRequest, Status};
///
/// let job = ranks::run(2, async |world| {
///     let (mut inbox, other) = ([0.0; 2], 1 - world.rank());
///     let receive: CommRequest<'_, Status> = world.irecv_into(&mut inbox, other, 0)?;
///     world.send(&[1.0, 2.0], other, 0).await?;
///     assert_eq!(receive.await?.count::<f64>(), Some(2));
///     assert_eq!(inbox, [1.0, 2.0]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[must_use = "a request must be completed, cancelled or freed"]
pub struct CommRequest<'a, T> {
    local: Arc<Local>,
    at: CallSite,
    stage: Stage<'a, T>,
    way: GivenWay,
}

impl<T> fmt::Debug for CommRequest<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommRequest({})", self.at)
    }
}

// Nothing points into a request.
impl<T> Unpin for CommRequest<'_, T> {}

impl<'a, T> CommRequest<'a, T> {
    pub(crate) fn later(
        local: &Arc<Local>,
        at: CallSite,
        ticket: Ticket,
        finish: impl FnOnce(Outcome) -> Result<T, RankError> + Send + 'a,
    ) -> Self {
        let stage = Stage::Waiting { ticket, finish: Box::new(finish) };
        Self { local: local.clone(), at, stage, way: GivenWay::default() }
    }

    pub(crate) fn ended(local: &Arc<Local>, at: CallSite, result: Result<T, RankError>) -> Self {
        let stage = Stage::Ended(result);
        Self { local: local.clone(), at, stage, way: GivenWay::default() }
    }

    /// Whether the operation has ended, so that waiting for it takes no time.
    pub fn is_complete(&self) -> bool {
        match &self.stage {
            Stage::Waiting { ticket, .. } => self.local.with(|state| state.slots.is_done(*ticket)),
            _ => true,
        }
    }

    /// Whether it has a result that was not returned yet.
    fn has_result(&self) -> bool {
        !self.is_taken() && self.is_complete()
    }

    fn is_taken(&self) -> bool {
        matches!(self.stage, Stage::Taken)
    }

    fn take(&mut self) -> Option<Result<T, RankError>> {
        if let Stage::Waiting { ticket, .. } = &self.stage {
            let outcome = self.local.with(|state| state.slots.take(*ticket))?;
            return self.finish(outcome);
        }
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Ended(result) => Some(result),
            _ => None,
        }
    }

    fn finish(&mut self, outcome: Outcome) -> Option<Result<T, RankError>> {
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Waiting { finish, .. } => Some(finish(outcome)),
            _ => None,
        }
    }

    /// Returns the result if the operation has ended; `None` if it has not, or if the result was
    /// returned before. If the operation has not ended, first lets the PE handle other messages
    /// once, so that a loop of tests makes progress. It also does so if the rank has sent messages,
    /// so that they leave.
    ///
    /// # Errors
    ///
    /// Those of the operation.
    pub async fn test(&mut self) -> Result<Option<T>, RankError> {
        if !self.is_complete() || has_unsent(&self.local) {
            go_on(&self.local).await;
        }
        self.take().transpose()
    }

    /// The result, once the operation has ended.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, RankError>> {
        if let Stage::Waiting { ticket, .. } = &self.stage {
            let polled = self.local.with(|state| state.slots.poll(*ticket, cx));
            let Poll::Ready(outcome) = polled else { return Poll::Pending };
            let at = self.at;
            let result = self.finish(outcome);
            return Poll::Ready(result.unwrap_or(Err(RankError::Cancelled { at })));
        }
        let at = self.at;
        Poll::Ready(self.take().unwrap_or(Err(RankError::AlreadyReturned { at })))
    }

    /// Cancels a receive that has no message yet. Returns whether it did; waiting for the receive
    /// then gives [`RankError::Cancelled`]. Sends and collective operations cannot be cancelled.
    pub fn cancel(&mut self) -> bool {
        match &self.stage {
            Stage::Waiting { ticket, .. } => self.local.with(|state| state.cancel(*ticket)),
            _ => false,
        }
    }

    /// Gives the request up. A send completes by itself; a receive is cancelled or, if it has its
    /// message, gives it back.
    pub fn free(mut self) {
        if let Stage::Waiting { ticket, .. } = &self.stage {
            self.local.with(|state| state.forget(*ticket));
        }
        self.stage = Stage::Taken;
    }
}

impl<T> Future for CommRequest<'_, T> {
    type Output = Result<T, RankError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_complete() {
            let Self { local, way, .. } = &mut *self;
            if local.with(|state| way.gives(state, cx.waker())) {
                return Poll::Pending;
            }
        }
        self.poll_end(cx)
    }
}

impl<T> Drop for CommRequest<'_, T> {
    fn drop(&mut self) {
        if let Stage::Waiting { ticket, .. } = &self.stage {
            self.local.with(|state| {
                if !state.slots.is_done(*ticket) {
                    state.abandoned.push(self.at);
                }
                state.forget(*ticket);
            });
        }
    }
}

/// Whether the rank has sent something that leaves only once the rank waits.
pub(crate) fn has_unsent(local: &Local) -> bool {
    local.with(|state| state.has_unsent())
}

/// Lets the PE handle other messages before the rank goes on.
pub(crate) async fn go_on(local: &Arc<Local>) {
    let mut is_asked = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_asked, true) {
            return Poll::Ready(());
        }
        local.with(|state| state.go_on(cx.waker()));
        Poll::Pending
    })
    .await;
}

/// Waits for all requests, and returns their results in order, without those that
/// [`test`](CommRequest::test) has already returned.
///
/// # Errors
///
/// The first error in the order of the requests; the others have ended, too.
pub async fn wait_all<T>(
    requests: impl IntoIterator<Item = CommRequest<'_, T>>,
) -> Result<Vec<T>, RankError> {
    let requests: Vec<_> = requests.into_iter().filter(|request| !request.is_taken()).collect();
    // For the search for deadlocks, until all have ended.
    let _all = joined(&requests);
    let mut results = Vec::with_capacity(requests.len());
    for request in requests {
        results.push(request.await);
    }
    results.into_iter().collect()
}

/// A wait for all of these requests, if several of them have not ended.
fn joined<T>(requests: &[CommRequest<'_, T>]) -> Option<JoinedWait> {
    let ticket = |request: &CommRequest<'_, T>| match &request.stage {
        Stage::Waiting { ticket, .. } => Some(*ticket),
        _ => None,
    };
    let (first, others) = requests.split_first()?;
    if others.is_empty() {
        return None;
    }
    JoinedWait::new(&first.local, requests.iter().filter_map(ticket).collect())
}

/// Waits until one request of several has ended, removes it, and returns its former position and
/// its result. `None` if there are none. Requests whose results [`test`](CommRequest::test) has
/// returned stay where they are.
///
/// ```
/// use gridspan::ranks::{self, wait_any};
///
/// let job = ranks::run(3, async |world| {
///     if world.rank() > 0 {
///         return world.send(&[world.rank()], 0, 0).await;
///     }
///     let mut requests = vec![world.irecv::<u32>(1, 0)?, world.irecv::<u32>(2, 0)?];
///     let mut sum = 0;
///     while let Some((_, received)) = wait_any(&mut requests).await {
///         sum += received?.0[0];
///     }
///     assert_eq!(sum, 3);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
///
/// # Errors
///
/// The inner result is that of the operation. The other requests remain.
pub async fn wait_any<T>(
    requests: &mut Vec<CommRequest<'_, T>>,
) -> Option<(usize, Result<T, RankError>)> {
    let mut way = GivenWay::default();
    poll_fn(|cx| {
        let Some(open) = requests.iter().find(|request| !request.is_taken()) else {
            return Poll::Ready(None);
        };
        // Yields at most once in this call: a later call may yield for messages sent in between.
        let may_take = requests.iter().any(CommRequest::has_result);
        if may_take && open.local.with(|state| way.gives(state, cx.waker())) {
            return Poll::Pending;
        }
        for at in 0..requests.len() {
            if requests[at].is_taken() {
                continue;
            }
            if let Poll::Ready(result) = requests[at].poll_end(cx) {
                drop(requests.remove(at));
                return Poll::Ready(Some((at, result)));
            }
        }
        Poll::Pending
    })
    .await
}

/// Waits until at least one request has ended, removes all that have, and returns their former
/// positions and results. Empty if there are none. Requests whose results
/// [`test`](CommRequest::test) has returned stay where they are.
///
/// # Errors
///
/// Each inner result is that of its operation. The other requests remain.
pub async fn wait_some<T>(
    requests: &mut Vec<CommRequest<'_, T>>,
) -> Vec<(usize, Result<T, RankError>)> {
    let first = wait_any(requests).await;
    let Some((first_at, result)) = first else { return Vec::new() };
    let mut ended = vec![(first_at, result)];
    // Positions after the first one have moved up.
    ended.extend(
        take_ended(requests)
            .into_iter()
            .map(|(at, result)| (if at >= first_at { at + 1 } else { at }, result)),
    );
    ended.sort_by_key(|(at, _)| *at);
    ended
}

fn take_ended<T>(requests: &mut Vec<CommRequest<'_, T>>) -> Vec<(usize, Result<T, RankError>)> {
    let mut ended = Vec::new();
    let mut position = 0;
    requests.retain_mut(|request| {
        let result = request.take();
        let is_left = result.is_none();
        ended.extend(result.map(|result| (position, result)));
        position += 1;
        is_left
    });
    ended
}

/// Like [`wait_any`] without waiting: `None` if none has ended. Requests whose results
/// [`test`](CommRequest::test) has returned stay where they are.
///
/// # Errors
///
/// The inner result is that of the operation.
pub async fn test_any<T>(
    requests: &mut Vec<CommRequest<'_, T>>,
) -> Option<(usize, Result<T, RankError>)> {
    let has_ended = requests.iter().any(CommRequest::has_result);
    look_after_others(requests, has_ended).await;
    let at = requests.iter().position(CommRequest::has_result)?;
    let result = requests.remove(at).take()?;
    Some((at, result))
}

/// Like [`wait_some`] without waiting: empty if none has ended. Requests whose results
/// [`test`](CommRequest::test) has returned stay where they are.
///
/// # Errors
///
/// Each inner result is that of its operation.
pub async fn test_some<T>(
    requests: &mut Vec<CommRequest<'_, T>>,
) -> Vec<(usize, Result<T, RankError>)> {
    let has_ended = requests.iter().any(CommRequest::has_result);
    look_after_others(requests, has_ended).await;
    take_ended(requests)
}

/// Whether all requests have ended. Waiting for them then takes no time.
pub async fn test_all<T>(requests: &mut [CommRequest<'_, T>]) -> bool {
    let has_ended = requests.iter().all(CommRequest::is_complete);
    look_after_others(requests, has_ended).await;
    requests.iter().all(CommRequest::is_complete)
}

/// Lets the PE of these requests handle other messages once, unless `has_ended` is true and the
/// rank has no unsent messages.
async fn look_after_others<T>(requests: &mut [CommRequest<'_, T>], has_ended: bool) {
    let local = requests.first().map(|request| request.local.clone());
    if let Some(local) = local
        && (!has_ended || has_unsent(&local))
    {
        go_on(&local).await;
    }
}
