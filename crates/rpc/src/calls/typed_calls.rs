//! Methods of a client that create handles, and that call functions whose types the client knows.

use super::catalogue::{CallForm, Catalogue};
use super::client::GridRpc;
use super::config::FOREVER;
use super::error::{RpcError, kind};
use super::function::Function;
use super::handle::{CallSession, Handle};
use super::registry::RegistryMessage;
use super::request::{CallTarget, Caller};
use super::services::from_grid;
use crate::block::{CALL_SEGMENT_BYTES, EncodedBlock};
use crate::trace::{Waits, calling, client_span, context_of, within};
use serde::Serialize;
use serde::de::DeserializeOwned;

impl<C: Catalogue> GridRpc<C> {
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
    /// [`RpcError::FunctionNotFound`] if the server does not offer a function of this name.
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
        if handle.owner() != self.open()?.owner {
            return Err(RpcError::InvalidFunctionHandle);
        }
        let other = |reason: String| RpcError::Other { reason };
        let work_s = handle.function().work_s(arguments);
        let work_s = work_s.map_err(|error| other(error.to_string()))?;
        let arguments =
            EncodedBlock::encode("the tuple of its arguments", arguments, CALL_SEGMENT_BYTES)
                .map_err(|reason| RpcError::RpcRefused { reason })?;
        let function = handle.name().to_owned();
        let (form, bound) = (CallForm::Encoded, handle.bound());
        let signature = Some(handle.function().signature());
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
        Ok(CallSession::new(handle.owner(), id))
    }
}

/// Decodes the results of a call.
pub(super) fn decode<O: DeserializeOwned>(results: &EncodedBlock) -> Result<O, RpcError> {
    postcard::from_bytes(&results.contiguous()).map_err(|error| {
        let reason = format!("the results are not those of the function: {error}");
        RpcError::SessionFailed { reason }
    })
}
