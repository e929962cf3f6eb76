//! The API with which `main` ends servers: they hand over their data, or are lost.

use super::catalogue::Catalogue;
use super::config::FOREVER;
use super::directory::ServerCard;
use super::error::RpcError;
use super::membership::LeaveOutcome;
use super::registry::RegistryMessage;
use super::server::ServerMessage;
use super::services::{Services, from_grid};
use std::future::poll_fn;
use std::task::Poll;

impl<C: Catalogue> Services<C> {
    /// Makes a server leave. It takes no more calls, and those in its queue go to other servers.
    /// Its data and orders for groups go to a server that offers all of its functions, at the same
    /// site if possible. If there is none, or if the server communicates with the client only, they
    /// are lost as with [`lose`](Self::lose). Resolves once the server has finished its current
    /// call and the successor has all data. Windows of groups are not mapped meanwhile. If this
    /// future is dropped before it resolves, the server may still leave. Groups then wait for it
    /// before they map a window, and another call of this function waits for it, too. If that call
    /// fails, the registry has removed the server without notifying it; then end it with
    /// [`lose`](Self::lose).
    ///
    /// # Errors
    ///
    /// [`RpcError::ServerNotFound`] if no server of this name has joined, or it has left;
    /// [`RpcError::Other`] if it is leaving already, or has not registered since the registry was
    /// restarted; [`RpcError::Grid`] if the job is ending.
    pub async fn leave(&self, name: &str) -> Result<(), RpcError> {
        self.end_server(name, true).await
    }

    /// Makes a server leave without a successor: data of groups that only this server has is lost,
    /// windows are mapped without it at once, and groups that wait for it go on. Use it for servers
    /// that have failed, and for those whose [`leave`](Self::leave) has failed.
    ///
    /// # Errors
    ///
    /// [`RpcError::ServerNotFound`] if no server of this name has joined, or it has left;
    /// [`RpcError::Grid`] if the job is ending.
    pub async fn lose(&self, name: &str) -> Result<(), RpcError> {
        self.end_server(name, false).await
    }

    async fn end_server(&self, name: &str, hands_over: bool) -> Result<(), RpcError> {
        // The registry's list may lack a server that is stuck.
        let number = self.membership().named(name);
        let number = number.ok_or_else(|| RpcError::ServerNotFound { server: name.to_owned() })?;
        let registry = self.registry();
        let unfinished = self.membership().unfinished(number);
        if let Some(successor) = unfinished.filter(|_| hands_over) {
            return self.finish_leave(number, successor).await;
        }
        self.membership().begin_leave();
        let mut leaving = Leaving { services: self, number, outcome: LeaveOutcome::Listed };
        // First, the registry stops sending new calls to the server and naming it as a successor.
        let question = move |reply| RegistryMessage::Leave { number, hands_over, reply };
        let successor =
            registry.ask(FOREVER, question).await.map_err(|error| from_grid(&error))??;
        // The successor may have been lost since.
        let standing = successor.filter(|&successor| self.successor_of(successor).is_some());
        let Some(successor) = standing else {
            // The server's data is lost from now on. Mapping must not wait for the server's answer,
            // because the server may be stuck.
            leaving.outcome = LeaveOutcome::Left(None);
            drop(leaving);
            return self.make_leave(number, None).await;
        };
        leaving.outcome = LeaveOutcome::Unfinished(successor);
        self.make_leave(number, Some(successor)).await?;
        leaving.outcome = LeaveOutcome::Left(Some(successor));
        Ok(())
    }

    /// Makes a server leave that the registry has removed, and waits until it has left.
    async fn make_leave(&self, number: u32, successor: Option<u32>) -> Result<(), RpcError> {
        // This question postpones checkpoints, because main keeps no record of a leave in progress.
        let question = move |reply| ServerMessage::Leave(successor, reply);
        let left = self.ask_server_once(number, question).await;
        self.registry().send(RegistryMessage::Left(number));
        left
    }

    /// Waits for the handover of a server for which an earlier call no longer waits.
    async fn finish_leave(&self, number: u32, successor: u32) -> Result<(), RpcError> {
        let question = move |reply| ServerMessage::Leave(Some(successor), reply);
        let handed: Option<()> = self.ask_standing(number, question).await?;
        if handed.is_some() {
            self.membership().leave(number, Some(successor));
        }
        self.registry().send(RegistryMessage::Left(number));
        Ok(())
    }

    /// Waits for the handovers for which earlier calls no longer wait.
    async fn finish_leaves(&self) -> Result<(), RpcError> {
        loop {
            let unfinished = self.membership().first_unfinished();
            let Some((number, successor)) = unfinished else { return Ok(()) };
            self.finish_leave(number, successor).await?;
        }
    }

    /// The servers that take calls, at a time when none of them is handing over.
    pub(crate) async fn settled_list(&self) -> Result<Vec<ServerCard>, RpcError> {
        loop {
            self.finish_leaves().await?;
            let before = poll_fn(|cx| self.poll_settled(cx)).await;
            let cards = self.list().await?;
            let after = poll_fn(|cx| self.poll_settled(cx)).await;
            // A leave that was under way may have been dropped meanwhile.
            if after == before && self.membership().first_unfinished().is_none() {
                return Ok(cards);
            }
        }
    }

    fn poll_settled(&self, cx: &std::task::Context<'_>) -> Poll<u64> {
        self.membership().settled(cx.waker()).map_or(Poll::Pending, Poll::Ready)
    }
}

/// Marks a server as handing over until this value is dropped.
struct Leaving<'a, C: Catalogue> {
    services: &'a Services<C>,
    number: u32,
    outcome: LeaveOutcome,
}

impl<C: Catalogue> Drop for Leaving<'_, C> {
    fn drop(&mut self) {
        self.services.membership().end_leave(self.number, self.outcome);
    }
}
