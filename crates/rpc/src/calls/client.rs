//! The client: the verbs of the standard, as futures.

use super::catalogue::{CallForm, Catalogue};
use super::config::{Config, FOREVER};
use super::error::{RpcError, error_string};
use super::function::Function;
use super::registry::RegistryMessage;
use super::request::{CallTarget, Caller, SessionMessage};
use super::services::{Services, from_grid};
use super::session_manager::SessionManager;
use super::sessions::{SessionId, Until};
use super::signature::Signature;
use crate::block::{CALL_SEGMENT_BYTES, EncodedBlock};
use crate::trace::{TraceContext, Waits, calling, client_span, context_of, within};
use gridspan_runtime::{Member, Numbers, Reply};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::task::Poll;

/// A function that this client calls, on any server or bound to one (the standard's function
/// handle).
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
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// # let mut client = GridRpc::new(&services);
/// # client.initialize(&Config::default())?;
/// let square: Handle<u64, u64> = client.handle(&SQUARE).await?;
/// assert_eq!((square.name(), square.is_bound()), ("square", false));
/// for n in 1..=3 {
///     assert_eq!(client.call(&square, &n).await?, n * n);
/// }
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Debug)]
pub struct Handle<I, O> {
    owner: u32,
    function: Function<I, O>,
    bound: Option<u32>,
}

impl<I, O> Handle<I, O> {
    /// A handle of the client with number `owner`, bound to the server with number `bound`, if any.
    pub fn new(owner: u32, function: &Function<I, O>, bound: Option<u32>) -> Self {
        Self { owner, function: *function, bound }
    }

    /// The number of the client that owns the handle.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The function.
    pub fn function(&self) -> &Function<I, O> {
        &self.function
    }

    /// The number of the server to which the handle is bound.
    pub fn bound(&self) -> Option<u32> {
        self.bound
    }

    /// The function's name.
    pub fn name(&self) -> &'static str {
        self.function.name()
    }

    /// Whether the handle is bound, so that only one server may execute the function.
    pub fn is_bound(&self) -> bool {
        self.bound.is_some()
    }
}

/// A call that does not block, and the type of its results.
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
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// # let mut client = GridRpc::new(&services);
/// # client.initialize(&Config::default())?;
/// let square = client.handle(&SQUARE).await?;
/// let first: CallSession<u64> = client.call_async(&square, &12).await?;
/// let second = client.call_async(&square, &13).await?; // both calls are under way
/// assert_eq!(client.wait(&first).await?, 144);
/// assert_eq!(client.wait(&second).await?, 169);
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct CallSession<O> {
    owner: u32,
    id: SessionId,
    results: PhantomData<fn() -> O>,
}

impl<O> Clone for CallSession<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for CallSession<O> {}

impl<O> CallSession<O> {
    /// A session of the client with number `owner`.
    pub fn new(owner: u32, id: SessionId) -> Self {
        Self { owner, id, results: PhantomData }
    }

    /// The number of the client that owns the session.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The session's identifier, for verbs that take several sessions.
    pub fn id(&self) -> SessionId {
        self.id
    }
}

struct Open<C: Catalogue> {
    owner: u32,
    session_manager: Member<SessionManager<C>>,
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
    services: Services<C>,
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
        self.open = Some(Open { owner, session_manager });
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
    /// its result once. Main must have given the [`CallSession`]s to
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
                "client {owner} is not one of the services' checkpoint, or was restored before; \
                 remember the services and the client at the same progress point"
            );
            RpcError::Other { reason }
        })?;
        Ok(Self { services: services.clone(), open: Some(Open { owner, session_manager }) })
    }

    fn open(&self) -> Result<&Open<C>, RpcError> {
        self.open.as_ref().ok_or(RpcError::NotInitialized)
    }

    async fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        question: impl FnOnce(Reply<T>) -> SessionMessage + Send + 'static,
    ) -> Result<T, RpcError> {
        self.open()?.session_manager.ask(FOREVER, question).await.map_err(|error| from_grid(&error))
    }

    /// Creates a handle of a function that any server may execute (`grpc_function_handle_default`).
    ///
    /// # Errors
    ///
    /// [`RpcError::NoServers`] if no server takes calls; [`RpcError::FunctionNotFound`] if none
    /// offers a function of this name. The signature is compared when a server executes a call.
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn handle<I, O>(&self, function: &Function<I, O>) -> Result<Handle<I, O>, RpcError> {
        let owner = self.open()?.owner;
        let name = function.name().to_owned();
        let question = |reply| RegistryMessage::Find {
            function: name,
            bytes: 0,
            work_s: None,
            only: None,
            reply,
        };
        let found = self.services.registry().ask(FOREVER, question).await;
        found.map_err(|error| from_grid(&error))??;
        Ok(Handle::new(owner, function, None))
    }

    /// Creates a handle of a function that one server executes (`grpc_function_handle_init`).
    ///
    /// # Errors
    ///
    /// [`RpcError::ServerNotFound`] if no server of this name takes calls;
    /// [`RpcError::FunctionNotFound`] if it does not offer a function of this name.
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn handle_on<I, O>(
        &self,
        function: &Function<I, O>,
        server: &str,
    ) -> Result<Handle<I, O>, RpcError> {
        let owner = self.open()?.owner;
        let (name, server) = (function.name().to_owned(), server.to_owned());
        let question = |reply| RegistryMessage::Bound { function: name, server, reply };
        let found = self.services.registry().ask(FOREVER, question).await;
        let number = found.map_err(|error| from_grid(&error))??;
        Ok(Handle::new(owner, function, Some(number)))
    }

    fn wanted<I, O>(&self, handle: &Handle<I, O>, arguments: &I) -> Result<CallTarget, RpcError>
    where
        I: Serialize + DeserializeOwned + 'static,
        O: DeserializeOwned + 'static,
    {
        if handle.owner != self.open()?.owner {
            return Err(RpcError::InvalidFunctionHandle);
        }
        let other = |reason: String| RpcError::Other { reason };
        let work_s = handle.function.work_s(arguments);
        let work_s = work_s.map_err(|error| other(error.to_string()))?;
        let arguments =
            EncodedBlock::encode("the tuple of its arguments", arguments, CALL_SEGMENT_BYTES)
                .map_err(|reason| RpcError::RpcRefused { reason })?;
        let function = handle.name().to_owned();
        let (form, bound) = (CallForm::Encoded, handle.bound);
        let signature = Some(handle.function.signature());
        Ok(CallTarget { function, arguments, form, signature, work_s, bound, trace: None })
    }

    /// Calls a function and waits for its results (`grpc_call`).
    ///
    /// # Errors
    ///
    /// [`RpcError::NotInitialized`] if the client is not initialised;
    /// [`RpcError::InvalidFunctionHandle`] if the handle is of another client; [`RpcError::Other`]
    /// if the time of the call cannot be [computed](Function::work_s), or if the server of the
    /// handle has not registered since the registry was restarted; [`RpcError::NoServers`] or
    /// [`RpcError::FunctionNotFound`] if no server offers the function; [`RpcError::Grid`] if the
    /// job is ending.
    ///
    /// [`RpcError::RpcRefused`] if the arguments cannot be encoded or exceed 1 GiB, or if the last
    /// server that was tried refused the call; [`RpcError::ServerLeft`] if that server or the
    /// server of the handle has left; [`RpcError::CommunicationFailed`] if that server or the
    /// registry did not answer in time. [`RpcError::SessionFailed`] if the function fails or
    /// panics, if its signature on the server differs, or if its results exceed 1 GiB, or cannot be
    /// encoded or decoded.
    pub async fn call<I, O>(&self, handle: &Handle<I, O>, arguments: &I) -> Result<O, RpcError>
    where
        I: Serialize + DeserializeOwned + 'static,
        O: DeserializeOwned + 'static,
    {
        let mut wanted = self.wanted(handle, arguments)?;
        let span = client_span(handle.name(), None);
        wanted.trace = context_of(&span);
        let called =
            async { decode(&self.ask(|reply| wanted.begin(Caller::Results(reply))).await??) };
        within(span, kind, called).await
    }

    /// Calls a function by name, with arguments in JSON, and waits for the results in JSON, until
    /// `given_up` resolves. Then the call is cancelled, and the future ends with
    /// [`RpcError::SessionFailed`] once no server holds the call any longer: a function that is
    /// already being executed runs to its end. Await this future to its end.
    ///
    /// # Errors
    ///
    /// Those of [`call`](Self::call) that do not concern handles. [`RpcError::SessionFailed`] also
    /// if `arguments` is not the JSON of the function's arguments.
    pub async fn call_text_until(
        &self,
        function: &str,
        arguments: &str,
        given_up: impl Future<Output = ()>,
    ) -> Result<String, RpcError> {
        let span = client_span(function, None);
        let called = self.forward_text_until(context_of(&span), (function, arguments), given_up);
        within(span, kind, called).await
    }

    /// Calls a function as [`call_text_until`](Self::call_text_until) does, for a client outside of
    /// the job, whose span has this context.
    ///
    /// # Errors
    ///
    /// Those of [`call_text_until`](Self::call_text_until).
    pub async fn forward_text_until(
        &self,
        client: Option<TraceContext>,
        (function, arguments): (&str, &str),
        given_up: impl Future<Output = ()>,
    ) -> Result<String, RpcError> {
        let wanted = CallTarget { trace: client, ..wanted_text(function, arguments)? };
        text(&self.call_until(wanted, given_up).await?)
    }

    /// Calls a function of a group by name, with its arguments encoded one after the other, and
    /// waits for `results` results, each encoded separately. When `given_up` resolves, the call is
    /// cancelled as in [`call_text_until`](Self::call_text_until). `client` is the context of the
    /// span of the client outside of the job.
    ///
    /// # Errors
    ///
    /// Those of [`call`](Self::call) that do not concern handles. [`RpcError::SessionFailed`] also
    /// if the function was not added by
    /// [`Functions::with_parts`](crate::calls::Functions::with_parts), or has another number of
    /// results.
    pub async fn forward_parts_until(
        &self,
        client: Option<TraceContext>,
        (function, signature): (&str, &Signature),
        arguments: Vec<u8>,
        results: u32,
        given_up: impl Future<Output = ()>,
    ) -> Result<Vec<Numbers<u8>>, RpcError> {
        let arguments =
            EncodedBlock::cut("the tuple of its arguments", arguments, CALL_SEGMENT_BYTES)
                .map_err(|reason| RpcError::RpcRefused { reason })?;
        let (function, form) = (function.to_owned(), CallForm::Parts(results));
        let signature = Some(signature.clone());
        let wanted = CallTarget {
            function,
            arguments,
            form,
            signature,
            work_s: None,
            bound: None,
            trace: client,
        };
        let made = self.call_until(wanted, given_up).await?.into_segments();
        match made.len() == results as usize {
            true => Ok(made),
            false => Err(RpcError::Other { reason: format!("got {} results", made.len()) }),
        }
    }

    async fn call_until(
        &self,
        wanted: CallTarget,
        given_up: impl Future<Output = ()>,
    ) -> Result<EncodedBlock, RpcError> {
        let id = self.ask(|reply| wanted.begin(Caller::Session(reply))).await??;
        let (ids, mut given_up) = ([id], pin!(given_up));
        let mut waiting = pin!(self.wait_and(&ids));
        let is_given_up = poll_fn(|cx| match waiting.as_mut().poll(cx) {
            // `Take` below returns the outcome.
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending => given_up.as_mut().poll(cx).map(|()| true),
        });
        if is_given_up.await {
            self.ask(move |reply| SessionMessage::GiveUp(id, reply)).await?;
            return Err(RpcError::SessionFailed { reason: "the call was given up".to_owned() });
        }
        self.ask(move |reply| SessionMessage::Take(id, reply)).await?
    }

    /// Starts a call and returns its session once the call is on its way (`grpc_call_async`).
    ///
    /// # Errors
    ///
    /// [`RpcError::NotInitialized`], [`RpcError::InvalidFunctionHandle`], [`RpcError::Other`],
    /// [`RpcError::NoServers`], [`RpcError::FunctionNotFound`] and [`RpcError::Grid`] as from
    /// [`call`](Self::call). [`RpcError::RpcRefused`] if the arguments cannot be encoded or exceed
    /// 1 GiB; [`RpcError::ServerLeft`] if the server of the handle has left;
    /// [`RpcError::CommunicationFailed`] if the registry does not answer in time.
    /// [`wait`](Self::wait) returns the errors of servers.
    pub async fn call_async<I, O>(
        &self,
        handle: &Handle<I, O>,
        arguments: &I,
    ) -> Result<CallSession<O>, RpcError>
    where
        I: Serialize + DeserializeOwned + 'static,
        O: DeserializeOwned + 'static,
    {
        let mut wanted = self.wanted(handle, arguments)?;
        let span = calling(handle.name(), None, Waits::ToTheStart);
        wanted.trace = context_of(&span);
        let begun = async { self.ask(|reply| wanted.begin(Caller::Session(reply))).await? };
        let id = within(span, kind, begun).await?;
        Ok(CallSession::new(handle.owner, id))
    }

    /// The identifier of a session; an error unless this client owns it.
    fn own<O>(&self, session: &CallSession<O>) -> Result<SessionId, RpcError> {
        match session.owner == self.open()?.owner {
            true => Ok(session.id),
            false => Err(RpcError::InvalidSessionId { session: session.id.0 }),
        }
    }

    /// Checks whether a session has ended (`grpc_probe`): [`RpcError::NotCompleted`] if not.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if there is no such session, or its result was taken.
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn probe(&self, session: SessionId) -> Result<(), RpcError> {
        self.ask(move |reply| SessionMessage::Probe(session, reply)).await?
    }

    /// Returns one of the sessions that has ended (`grpc_probe_or`): [`RpcError::NoneCompleted`] if
    /// none has.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if one of the sessions does not exist, or its result was
    /// taken. [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if
    /// the job is ending.
    pub async fn probe_or(&self, sessions: &[SessionId]) -> Result<SessionId, RpcError> {
        let sessions = sessions.to_vec();
        self.ask(move |reply| SessionMessage::ProbeOr(sessions, reply)).await?
    }

    /// Waits for a session and takes its results (`grpc_wait`). The session is invalid afterwards.
    ///
    /// # Errors
    ///
    /// The error with which the call ended: [`RpcError::SessionFailed`], [`RpcError::RpcRefused`],
    /// [`RpcError::ServerLeft`] or [`RpcError::CommunicationFailed`] as from [`call`](Self::call),
    /// and [`RpcError::SessionFailed`] if it was cancelled. [`RpcError::InvalidSessionId`] if the
    /// session is of another client, or its result was taken. [`RpcError::NotInitialized`] if the
    /// client is not initialised; [`RpcError::Grid`] if the job is ending.
    pub async fn wait<O: DeserializeOwned>(&self, session: &CallSession<O>) -> Result<O, RpcError> {
        let id = self.own(session)?;
        let waited = self.wait_and(&[id]).await;
        if let Err(RpcError::InvalidSessionId { .. } | RpcError::Grid(_) | RpcError::Other { .. }) =
            waited
        {
            waited?;
        }
        self.results(session).await
    }

    /// Takes the results of a session that has ended. The session is invalid afterwards.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotCompleted`] if the call has not ended; otherwise the errors of
    /// [`wait`](Self::wait).
    pub async fn results<O: DeserializeOwned>(
        &self,
        session: &CallSession<O>,
    ) -> Result<O, RpcError> {
        let id = self.own(session)?;
        let results = self.ask(move |reply| SessionMessage::Take(id, reply)).await??;
        decode(&results)
    }

    /// Waits until all of the sessions have ended (`grpc_wait_and`). Returns the error of the first
    /// in the list that failed, if any.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if one of the sessions does not exist, or its result was
    /// taken. [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if
    /// the job is ending.
    pub async fn wait_and(&self, sessions: &[SessionId]) -> Result<(), RpcError> {
        let sessions = sessions.to_vec();
        self.ask(move |reply| SessionMessage::Wait(sessions, Until::All, reply)).await?.map(|_| ())
    }

    /// Waits until one of the sessions has ended, and returns it (`grpc_wait_or`), whether it
    /// failed or not.
    ///
    /// # Errors
    ///
    /// [`RpcError::NoneCompleted`] if the list is empty. [`RpcError::InvalidSessionId`] if one of
    /// the sessions does not exist, or its result was taken. [`RpcError::NotInitialized`] if the
    /// client is not initialised; [`RpcError::Grid`] if the job is ending.
    pub async fn wait_or(&self, sessions: &[SessionId]) -> Result<SessionId, RpcError> {
        let sessions = sessions.to_vec();
        let waited =
            self.ask(move |reply| SessionMessage::Wait(sessions, Until::One, reply)).await?;
        waited?.ok_or(RpcError::NoneCompleted)
    }

    /// Waits until all sessions that are running now have ended (`grpc_wait_all`). Returns the
    /// error of the oldest of them that failed, if any.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn wait_all(&self) -> Result<(), RpcError> {
        self.ask(|reply| SessionMessage::WaitOpen(Until::All, reply)).await?.map(|_| ())
    }

    /// Waits until any session has ended, and returns it (`grpc_wait_any`). Skips sessions that an
    /// earlier wait returned.
    ///
    /// # Errors
    ///
    /// [`RpcError::NoneCompleted`] if no other session is left. [`RpcError::NotInitialized`] if the
    /// client is not initialised; [`RpcError::Grid`] if the job is ending.
    pub async fn wait_any(&self) -> Result<SessionId, RpcError> {
        let waited = self.ask(|reply| SessionMessage::WaitOpen(Until::One, reply)).await?;
        waited?.ok_or(RpcError::NoneCompleted)
    }

    /// Cancels a session (`grpc_cancel`). A function that is already being executed runs to its
    /// end, and its results are dropped. A session that has ended stays as it is.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if there is no such session, or its result was taken.
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn cancel(&self, session: SessionId) -> Result<(), RpcError> {
        self.ask(move |reply| SessionMessage::Cancel(session, reply)).await?
    }

    /// Cancels all sessions (`grpc_cancel_all`).
    ///
    /// # Errors
    ///
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn cancel_all(&self) -> Result<(), RpcError> {
        self.ask(SessionMessage::CancelAll).await
    }

    /// Returns the function that a session calls (`grpc_get_handle`).
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if there is no such session, or its result was taken.
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn function_of(&self, session: SessionId) -> Result<String, RpcError> {
        self.ask(move |reply| SessionMessage::Function(session, reply)).await?
    }

    /// Returns the error of a session that failed (`grpc_get_error`); `None` if it did not fail.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotCompleted`] if the call has not ended. [`RpcError::InvalidSessionId`] if
    /// there is no such session, or its result was taken. [`RpcError::NotInitialized`] if the
    /// client is not initialised; [`RpcError::Grid`] if the job is ending.
    pub async fn error(&self, session: SessionId) -> Result<Option<RpcError>, RpcError> {
        self.ask(move |reply| SessionMessage::Error(session, reply)).await?
    }

    /// Returns the next failed session, oldest first and each once (`grpc_get_failed_sessionid`).
    ///
    /// # Errors
    ///
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn failed_session(&self) -> Result<Option<SessionId>, RpcError> {
        self.ask(SessionMessage::Failed).await
    }
}

impl<C: Catalogue> Drop for GridRpc<C> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.session_manager.send(SessionMessage::Close(None));
            self.services.end_client(open.owner);
        }
    }
}

/// The name of an error, for spans.
fn kind(error: &RpcError) -> &'static str {
    error_string(error.code())
}

fn wanted_text(function: &str, arguments: &str) -> Result<CallTarget, RpcError> {
    let arguments = arguments.as_bytes().to_vec();
    let arguments = EncodedBlock::cut("the text of its arguments", arguments, CALL_SEGMENT_BYTES)
        .map_err(|reason| RpcError::RpcRefused { reason })?;
    let function = function.to_owned();
    // JSON needs no signature: its structure is checked as it is read.
    let (form, signature) = (CallForm::Text, None);
    Ok(CallTarget { function, arguments, form, signature, work_s: None, bound: None, trace: None })
}

fn text(results: &EncodedBlock) -> Result<String, RpcError> {
    String::from_utf8(results.contiguous().into_owned())
        .map_err(|error| RpcError::Other { reason: error.to_string() })
}

fn decode<O: DeserializeOwned>(results: &EncodedBlock) -> Result<O, RpcError> {
    postcard::from_bytes(&results.contiguous()).map_err(|error| {
        let reason = format!("the results are not those of the function: {error}");
        RpcError::SessionFailed { reason }
    })
}
