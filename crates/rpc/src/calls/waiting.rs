//! The verbs of a client for sessions: waiting, results, errors and cancellation.

use super::catalogue::Catalogue;
use super::client::{GridRpc, Open};
use super::error::RpcError;
use super::handle::CallSession;
use super::request::{SessionMessage, WaitNumber};
use super::sessions::{SessionId, Until, Waited};
use super::typed_calls::decode;
use gridspan_runtime::Reply;
use serde::de::DeserializeOwned;

/// A wait for sessions. If the client stops waiting, the session manager learns of it.
struct OngoingWait<'a, C: Catalogue> {
    open: &'a Open<C>,
    number: u64,
    is_answered: bool,
}

impl<C: Catalogue> Drop for OngoingWait<'_, C> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.open.tell(SessionMessage::Withdraw(self.number));
        }
        self.open.end_wait(self.number);
    }
}

impl<C: Catalogue> GridRpc<C> {
    /// The identifier of a session; an error unless this client owns it.
    fn own<O>(&self, session: &CallSession<O>) -> Result<SessionId, RpcError> {
        match session.owner() == self.open()?.owner {
            true => Ok(session.id()),
            false => Err(RpcError::InvalidSessionId { session: session.id().0 }),
        }
    }

    /// Asks the session manager to answer when a wait is over.
    async fn wait_for(
        &self,
        question: impl FnOnce(WaitNumber, Reply<Waited>) -> SessionMessage + Send + 'static,
    ) -> Waited {
        let open = self.open()?;
        let wait = open.begin_wait();
        let mut ongoing = OngoingWait { open, number: wait.number, is_answered: false };
        let waited = self.ask(move |reply| question(wait, reply)).await;
        ongoing.is_answered = true;
        waited?
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
        let all = move |wait, reply| SessionMessage::Wait(wait, sessions, Until::All, reply);
        self.wait_for(all).await.map(|_| ())
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
        let one = move |wait, reply| SessionMessage::Wait(wait, sessions, Until::One, reply);
        self.wait_for(one).await?.ok_or(RpcError::NoneCompleted)
    }

    /// Waits until all sessions that are running now have ended (`grpc_wait_all`). Returns the
    /// error of the oldest of them that failed, if any.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotInitialized`] if the client is not initialised; [`RpcError::Grid`] if the job
    /// is ending.
    pub async fn wait_all(&self) -> Result<(), RpcError> {
        self.wait_for(SessionMessage::WaitAll).await.map(|_| ())
    }

    /// Waits until any session has ended, and returns it (`grpc_wait_any`). Skips sessions that an
    /// earlier wait returned: take their results by [`results`](Self::results). A wait of any kind
    /// whose future was dropped has returned no session.
    ///
    /// # Errors
    ///
    /// [`RpcError::NoneCompleted`] if no other session is left. [`RpcError::NotInitialized`] if the
    /// client is not initialised; [`RpcError::Grid`] if the job is ending.
    pub async fn wait_any(&self) -> Result<SessionId, RpcError> {
        self.wait_for(SessionMessage::WaitAny).await?.ok_or(RpcError::NoneCompleted)
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
