//! Questions to servers that may be [lost](Services::lose) before they answer. A server that is
//! lost may be stuck in a call and never answer, so such a question ends with the loss.

use super::catalogue::Catalogue;
use super::error::RpcError;
use super::server::ServerMessage;
use super::services::Services;
use gridspan_runtime::Reply;
use serde::de::DeserializeOwned;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};

impl<C: Catalogue> Services<C> {
    /// Asks the server of this number, or its successor once it has left. Returns `None` if the
    /// server was or is lost without an answer. If main begins again from a checkpoint, it asks
    /// again.
    pub(crate) async fn ask_standing<T: DeserializeOwned + Send + 'static>(
        &self,
        number: u32,
        question: impl FnOnce(Reply<T>) -> ServerMessage + Send + 'static,
    ) -> Result<Option<T>, RpcError> {
        let mut asked = pin!(self.ask_server(number, question));
        let watch = LossWatch { services: self, id: self.membership().begin_watch() };
        let outcome = poll_fn(|cx| match asked.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer.map(Some)),
            Poll::Pending if watch.is_lost(number, cx.waker()) => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        });
        outcome.await
    }
}

/// Watches for the loss of servers until this value is dropped.
struct LossWatch<'a, C: Catalogue> {
    services: &'a Services<C>,
    id: u64,
}

impl<C: Catalogue> LossWatch<'_, C> {
    /// Whether the data of the server is lost; otherwise `waker` is woken when a server leaves.
    fn is_lost(&self, number: u32, waker: &Waker) -> bool {
        self.services.membership().watch_loss(self.id, number, waker)
    }
}

impl<C: Catalogue> Drop for LossWatch<'_, C> {
    fn drop(&mut self) {
        self.services.membership().end_watch(self.id);
    }
}
