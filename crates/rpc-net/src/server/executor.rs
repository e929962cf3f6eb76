//! The servers of one process: execution of calls and tasks, and their order.

use crate::server::priority_semaphore::{Permit, PrioritySemaphore};
use gridspan_rpc::calls::{Catalogue, GridRpc, RpcError, Signature};
use gridspan_rpc::trace::TraceContext;
use gridspan_runtime::Numbers;
use std::pin::pin;
use std::time::Duration;

/// Executes calls and tasks, at most one per PE at a time. The others wait here and not at the PEs,
/// so that a cancelled call is removed at once, even if all PEs are busy.
pub(crate) struct Executor<C: Catalogue> {
    rpc: GridRpc<C>,
    semaphore: PrioritySemaphore,
    /// Speed of each PE.
    speed: f64,
}

/// Place of calls in the queue: before tasks of groups, because a caller waits for each call.
const CALLS: u32 = 0;

impl<C: Catalogue> Executor<C> {
    /// Creates the executor of `pes` PEs, each with this speed.
    pub(crate) fn new(rpc: GridRpc<C>, pes: u32, speed: f64) -> Self {
        Self { rpc, semaphore: PrioritySemaphore::new(pes), speed }
    }

    /// Executes a call with arguments in JSON, until `unwanted` resolves. Returns results in JSON.
    /// `client`: the context of its client's span.
    pub(crate) async fn call(
        &self,
        client: Option<TraceContext>,
        (function, arguments): (&str, &str),
        unwanted: impl Future<Output = ()>,
    ) -> Result<String, RpcError> {
        let mut unwanted = pin!(unwanted);
        let _permit = self.enter(CALLS, &mut unwanted).await?;
        self.rpc.forward_text_until(client, (function, arguments), unwanted).await
    }

    /// Waits until a task at this place of the queue may be executed, or `unwanted` resolves.
    pub(crate) async fn enter(
        &self,
        place: u32,
        unwanted: impl Future<Output = ()>,
    ) -> Result<Permit, RpcError> {
        tokio::select! {
            permit = self.semaphore.enter(place) => permit.map_err(|reason| RpcError::RpcRefused { reason }),
            () = unwanted => Err(RpcError::SessionFailed { reason: "the call was given up".to_owned() }),
        }
    }

    /// Returns the place of a task of a group, behind calls.
    pub(crate) fn place_of_task(place: u32) -> u32 {
        place.saturating_add(CALLS + 1)
    }

    /// Waits as long as a task that needs `work_s` seconds at speed 1 would compute here. The
    /// task's permit reserves the PE meanwhile, while the PE itself is idle.
    pub(crate) async fn emulate(
        &self,
        work_s: f64,
        unwanted: impl Future<Output = ()>,
    ) -> Result<(), RpcError> {
        let failed = |reason: String| RpcError::SessionFailed { reason };
        let time = Duration::try_from_secs_f64(work_s / self.speed);
        let time = time.map_err(|error| {
            failed(format!("the computing time of the task is not valid: {error}"))
        })?;
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = unwanted => Err(failed("the call was given up".to_owned())),
        }
    }

    /// Executes a function for a task of a group, until `unwanted` resolves. `client`: the context
    /// of its client's span.
    pub(crate) async fn execute(
        &self,
        client: Option<TraceContext>,
        function: (&str, &Signature),
        arguments: Vec<u8>,
        results: u32,
        unwanted: impl Future<Output = ()>,
    ) -> Result<Vec<Numbers<u8>>, RpcError> {
        self.rpc.forward_parts_until(client, function, arguments, results, unwanted).await
    }
}
