//! The session manager's handling of answers from servers: results, refusals, and timeouts.

use super::catalogue::Catalogue;
use super::error::RpcError;
use super::registry::RegistryMessage;
use super::request::Asked;
use super::server::{Answer, ServerMessage};
use super::session_manager::{PendingCall, SessionManager};
use super::sessions::SessionId;
use crate::block::Arriving;
use gridspan_runtime::{Context, Ix1, Numbers};

impl<C: Catalogue> SessionManager<C> {
    /// Handles a server's answer to an attempt, or its timeout.
    pub(super) fn has_answered(
        &mut self,
        id: SessionId,
        attempt: u32,
        answer: Option<Answer>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(ongoing) = self.calls.get_mut(&id).filter(|call| call.attempt == attempt) else {
            return;
        };
        let took_s = cx.now().since(ongoing.begun).as_secs_f64();
        if let (Some(Answer::Results { .. }), Some(offer), true) =
            (&answer, ongoing.current, ongoing.was_alone)
        {
            let (function, bytes) =
                (ongoing.wanted.function.clone(), ongoing.wanted.arguments.len());
            let (number, bytes) = (offer.number, bytes as u64);
            cx.send(&self.registry, RegistryMessage::Took { function, number, bytes, took_s });
        }
        let problem = match answer {
            Some(Answer::Results { first, count }) => return self.collect(id, first, count, cx),
            Some(Answer::Failed(reason)) => {
                self.answered_by(id, cx);
                return self.end(id, Err(RpcError::SessionFailed { reason }), cx);
            }
            Some(Answer::Refused(reason)) => RpcError::RpcRefused { reason },
            Some(Answer::Gone) => RpcError::ServerLeft,
            None => return self.handle_timeout(id, cx),
        };
        ongoing.problem = Some(problem);
        self.answered_by(id, cx);
        self.look_up(id, cx);
    }

    /// Handles the timeout of the current server.
    fn handle_timeout(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        let Some(ongoing) = self.calls.get_mut(&id) else { return };
        ongoing.problem = Some(RpcError::CommunicationFailed);
        // Further segments may be missing too; handle the timeout once.
        ongoing.results = None;
        if let Some(offer) = &mut ongoing.current {
            offer.is_late = true;
            cx.send(&self.registry, RegistryMessage::Late(offer.number));
        }
        self.cancel_attempt(id, cx);
        self.look_up(id, cx);
    }

    /// Requests the segments of the results that did not come with the answer.
    fn collect(
        &mut self,
        id: SessionId,
        first: Numbers<u8>,
        count: u32,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(results) = Arriving::new(count) else { return self.handle_timeout(id, cx) };
        let Some(ongoing) = self.calls.get_mut(&id) else { return };
        ongoing.results = Some(results);
        let (attempt, server) = (ongoing.attempt, ongoing.current.map(|offer| offer.number));
        if let Some(number) = server.filter(|_| count > 1) {
            let ticket = self.ticket(id, attempt, cx);
            let server = self.servers.at(Ix1(number as i32));
            for index in 1..count {
                let take = move |reply| ServerMessage::Take(ticket, index, reply);
                let tag = self.question(Asked::Segment(id, attempt, index));
                cx.ask_tagged(&server, self.timeout, tag, take);
            }
        }
        self.take_segment((id, attempt), 0, Some(first), cx);
    }

    /// Handles a segment of the results, or its absence.
    pub(super) fn take_segment(
        &mut self,
        (id, attempt): (SessionId, u32),
        index: u32,
        segment: Option<Numbers<u8>>,
        cx: &mut Context<'_, Self>,
    ) {
        let ongoing = self.calls.get_mut(&id).filter(|call| call.attempt == attempt);
        let Some(PendingCall { results: Some(results), .. }) = ongoing else { return };
        match segment.map(|segment| results.arrive(index as usize, segment)) {
            Some(None) => {}
            Some(Some(results)) => {
                self.answered_by(id, cx);
                self.end(id, Ok(results), cx);
            }
            None => self.handle_timeout(id, cx),
        }
    }
}
