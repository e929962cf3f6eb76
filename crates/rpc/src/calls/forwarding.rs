//! Calls of functions by name, on behalf of clients outside of the job. The code here does not know
//! the functions' types. The caller may give up such a call.

use super::catalogue::{CallForm, Catalogue};
use super::client::GridRpc;
use super::error::{RpcError, kind};
use super::request::{CallTarget, Caller, SessionMessage};
use super::signature::Signature;
use crate::block::{CALL_SEGMENT_BYTES, EncodedBlock};
use crate::trace::{TraceContext, client_span, context_of, within};
use gridspan_runtime::Numbers;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

impl<C: Catalogue> GridRpc<C> {
    /// Calls a function by name, with arguments in JSON, and waits for the results in JSON, until
    /// `given_up` resolves. Then the call is cancelled, and the future ends with
    /// [`RpcError::SessionFailed`] once no server holds the call any longer: a function that is
    /// already being executed runs to its end. Await this future to its end.
    ///
    /// # Errors
    ///
    /// Those of [`call`](Self::call) that do not concern handles. [`RpcError::SessionFailed`] also
    /// if `arguments` is not the JSON of the function's arguments, or if the results have numbers
    /// that JSON does not have.
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
    /// the job. `client` is the context of that client's span.
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
            false => {
                let reason = format!("the server sent {} results, not {results}", made.len());
                Err(RpcError::Other { reason })
            }
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
