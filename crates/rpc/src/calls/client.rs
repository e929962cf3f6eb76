//! The client: how it begins, goes on after a restoration, and ends. Its other verbs are in
//! `typed_calls`, `forwarding` and `waiting`.

use super::catalogue::Catalogue;
use super::config::{Config, FOREVER};
use super::error::RpcError;
use super::request::{SessionMessage, WaitNumber};
use super::services::{Services, from_grid};
use super::session_manager::SessionManager;
use gridspan_runtime::{Member, Reply};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of an initialised client.
pub(super) struct Open<C: Catalogue> {
    /// The number of the client.
    pub(super) owner: u32,
    session_manager: Member<SessionManager<C>>,
    waits: Mutex<OngoingWaits>,
}

/// The waits for sessions of a client.
struct OngoingWaits {
    /// Number of the next wait.
    next: u64,
    /// The numbers of those that have not ended.
    ongoing: BTreeSet<u64>,
}

impl<C: Catalogue> Open<C> {
    /// `first_attempt` is the number before that of an order's first attempt. It grows with each
    /// restoration of the services.
    fn new(owner: u32, session_manager: Member<SessionManager<C>>, first_attempt: u32) -> Self {
        // A client that goes on after a restoration uses none of its numbers again.
        let next = u64::from(first_attempt) << 32;
        let waits = Mutex::new(OngoingWaits { next, ongoing: BTreeSet::new() });
        Self { owner, session_manager, waits }
    }

    fn waits(&self) -> MutexGuard<'_, OngoingWaits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a wait for sessions.
    pub(super) fn begin_wait(&self) -> WaitNumber {
        let mut waits = self.waits();
        let number = waits.next;
        waits.next += 1;
        waits.ongoing.insert(number);
        let ended_below = waits.ongoing.first().copied().unwrap_or(number);
        WaitNumber { number, ended_below }
    }

    /// Ends a wait for sessions. If its answer did not come, tell the session manager before.
    pub(super) fn end_wait(&self, number: u64) {
        self.waits().ongoing.remove(&number);
    }

    /// Sends the session manager a message without an answer.
    pub(super) fn tell(&self, message: SessionMessage) {
        self.session_manager.send(message);
    }
}

/// A reference to a [`GridRpc`], which main gives to
/// [`Grid::progress`](gridspan_runtime::Grid::progress) together with the
/// [services](crate::calls::ServicesRef) of the client.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_runtime::{CheckpointEvery, Checkpoints, Grid, Job, driver};
/// # use serde::{Deserialize, Serialize};
/// # const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with(&SQUARE) }
/// # }
/// #[derive(Serialize, Deserialize)]
/// struct At {
///     services: ServicesRef<Numbers>,
///     client: ClientRef,
///     /// The calls that are under way.
///     calls: Vec<CallSession<u64>>,
/// }
///
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// let (client, calls) = match grid.restored::<At>().await? {
///     Some(At { services, client, calls }) => {
///         let services = Services::restored(grid, &services);
///         (GridRpc::restored(&services, &client)?, calls)
///     }
///     None => {
///         let services: Services<Numbers> = Services::on_all_pes(grid).await?;
///         let mut client = GridRpc::new(&services);
///         client.initialize(&Config::default())?;
///         let square = client.handle(&SQUARE).await?;
///         let calls = vec![client.call_async(&square, &3).await?];
///         let (services, reference) = (services.reference(), client.reference()?);
///         let at = At { services, client: reference, calls };
///         grid.progress(&at).await?;
///         (client, at.calls)
///     }
/// };
/// assert_eq!(client.wait(&calls[0]).await?, 9);
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(1)));
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRef {
    owner: u32,
}

/// A client of servers. Dropping it [finalises](Self::finalize) it. The results of a session are
/// kept until they are taken or the client ends.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with(&SQUARE) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// let mut client = GridRpc::new(&services);
/// client.initialize(&Config::default())?;
/// let square = client.handle(&SQUARE).await?;
/// assert_eq!(client.call(&square, &12).await?, 144);
/// client.finalize().await?;
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
pub struct GridRpc<C: Catalogue> {
    pub(super) services: Services<C>,
    open: Option<Open<C>>,
}

impl<C: Catalogue> GridRpc<C> {
    /// A client that is not initialised.
    pub fn new(services: &Services<C>) -> Self {
        Self { services: services.clone(), open: None }
    }

    /// Initialises the client (`grpc_initialize`).
    ///
    /// # Errors
    ///
    /// [`RpcError::AlreadyInitialized`] if the client is initialised; [`RpcError::ConfigFileError`]
    /// if a setting is out of its bounds.
    pub fn initialize(&mut self, config: &Config) -> Result<(), RpcError> {
        if self.open.is_some() {
            return Err(RpcError::AlreadyInitialized);
        }
        config.check()?;
        let (owner, session_manager) = self.services.session_manager(config);
        self.open = Some(Open::new(owner, session_manager, self.services.first_attempt()));
        Ok(())
    }

    /// Ends the client and cancels its running calls (`grpc_finalize`). Its handles and sessions
    /// are invalid from then on.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn finalize(&mut self) -> Result<(), RpcError> {
        self.ask(|reply| SessionMessage::Close(Some(reply))).await?;
        if let Some(open) = self.open.take() {
            self.services.end_client(open.owner);
        }
        Ok(())
    }

    /// A reference for [`Grid::progress`](gridspan_runtime::Grid::progress), with which a main that
    /// begins again from the checkpoint [goes on](Self::restored) with this client and its calls.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotInitialized`] if the client is not initialised.
    pub fn reference(&self) -> Result<ClientRef, RpcError> {
        let owner = self.open()?.owner;
        self.services.remember_client(owner);
        Ok(ClientRef { owner })
    }

    /// The client of a checkpoint, in a main that begins again from there, with the
    /// [services](Services::restored) of that checkpoint. Its calls go on, and each session gives
    /// its result once. Main must have given the [`CallSession`](super::handle::CallSession)s to
    /// [`Grid::progress`](gridspan_runtime::Grid::progress) too, and must create handles again.
    ///
    /// # Errors
    ///
    /// [`RpcError::Other`] if the client is not of these services, had ended by then, or was
    /// restored before.
    pub fn restored(services: &Services<C>, reference: &ClientRef) -> Result<Self, RpcError> {
        let owner = reference.owner;
        let session_manager = services.claim_client(owner).ok_or_else(|| {
            let reason = format!(
                "client {owner} is not in the checkpoint of these services, or was restored before; \
                 remember the services and the client at the same progress point"
            );
            RpcError::Other { reason }
        })?;
        let open = Open::new(owner, session_manager, services.first_attempt());
        Ok(Self { services: services.clone(), open: Some(open) })
    }

    pub(super) fn open(&self) -> Result<&Open<C>, RpcError> {
        self.open.as_ref().ok_or(RpcError::NotInitialized)
    }

    /// Asks the session manager.
    pub(super) async fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        question: impl FnOnce(Reply<T>) -> SessionMessage + Send + 'static,
    ) -> Result<T, RpcError> {
        self.open()?.session_manager.ask(FOREVER, question).await.map_err(|error| from_grid(&error))
    }
}

impl<C: Catalogue> Drop for GridRpc<C> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.tell(SessionMessage::Close(None));
            self.services.end_client(open.owner);
        }
    }
}
