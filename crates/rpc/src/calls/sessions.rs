//! The sessions of one client: their states and outcomes, and the waits for them.

use super::error::RpcError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Identifier of a call that does not block. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

/// Which sessions of a wait must end before the wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Until {
    /// All of them.
    All,
    /// One of them.
    One,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum State<R> {
    Running,
    Ended(Result<R, RpcError>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry<R> {
    state: State<R>,
    /// Number of waits that returned the session. A wait for any session returns only those with 0.
    named: u32,
    /// The function that was called.
    function: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiter<W> {
    id: W,
    sessions: Vec<SessionId>,
    until: Until,
}

/// Outcome of a wait. With [`Until::One`]: the session that has ended. With [`Until::All`]: the
/// last session in the list (`None` if the list is empty), or the error of the first in the list
/// that failed.
pub type Waited = Result<Option<SessionId>, RpcError>;

/// A wait that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedWait<W> {
    /// The waiter.
    pub waiter: W,
    /// The outcome of the wait.
    pub waited: Waited,
    /// The sessions that it returned. If the outcome is not delivered, [give them
    /// back](Sessions::give_back).
    pub named: Vec<SessionId>,
}

/// All sessions of a client, with results `R` and waiters `W`. Its methods record events and return
/// the waits that they end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sessions<R, W> {
    next: u64,
    entries: BTreeMap<SessionId, Entry<R>>,
    failed: VecDeque<SessionId>,
    waiters: Vec<Waiter<W>>,
}

/// Number of failed sessions that are remembered for [`Sessions::pop_failed`]; the oldest are
/// dropped.
const FAILED_MAX: usize = 10_000;

impl<R, W: Clone> Sessions<R, W> {
    /// The sessions of a client. Its number makes their identifiers unique.
    pub fn new(client: u32) -> Self {
        let next = (u64::from(client) << 32) + 1;
        Self { next, entries: BTreeMap::new(), failed: VecDeque::new(), waiters: Vec::new() }
    }

    /// Reserves a session number.
    pub fn reserve(&mut self) -> SessionId {
        let id = SessionId(self.next);
        self.next += 1;
        id
    }

    /// Starts a session with a reserved number.
    pub fn open(&mut self, id: SessionId, function: String) {
        self.entries.insert(id, Entry { state: State::Running, named: 0, function });
    }

    /// The function that a session calls.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if there is no such session, or its result was taken.
    pub fn function(&self, id: SessionId) -> Result<String, RpcError> {
        Ok(self.entry(id)?.function.clone())
    }

    fn entry(&self, id: SessionId) -> Result<&Entry<R>, RpcError> {
        self.entries.get(&id).ok_or(RpcError::InvalidSessionId { session: id.0 })
    }

    /// Whether a session runs.
    pub fn is_running(&self, id: SessionId) -> bool {
        self.entry(id).is_ok_and(|entry| matches!(entry.state, State::Running))
    }

    /// The sessions that run.
    pub fn running(&self) -> Vec<SessionId> {
        self.entries.keys().copied().filter(|&id| self.is_running(id)).collect()
    }

    /// Ends a running session; returns the waits that end with it.
    pub fn end(&mut self, id: SessionId, outcome: Result<R, RpcError>) -> Vec<EndedWait<W>> {
        let Some(entry) = self.entries.get_mut(&id) else { return Vec::new() };
        if !matches!(entry.state, State::Running) {
            return Vec::new();
        }
        if outcome.is_err() {
            self.failed.push_back(id);
            if self.failed.len() > FAILED_MAX {
                self.failed.pop_front();
            }
        }
        entry.state = State::Ended(outcome);
        let mut over = Vec::new();
        for waiter in std::mem::take(&mut self.waiters) {
            if self.goes_on(&waiter, id) {
                self.waiters.push(waiter);
                continue;
            }
            // Sessions that have ended and were taken meanwhile no longer count.
            let sessions = waiter.sessions.iter().copied();
            let left: Vec<SessionId> =
                sessions.filter(|id| self.entries.contains_key(id)).collect();
            match self.waited(&left, waiter.until) {
                Some((waited, named)) => over.push(EndedWait { waiter: waiter.id, waited, named }),
                None => self.waiters.push(waiter),
            }
        }
        over
    }

    /// Whether the end of a session certainly does not end a wait. This check must be cheap, since
    /// a program may wait for many thousand sessions. It begins with the last sessions of the wait,
    /// because these often end last.
    fn goes_on(&self, waiter: &Waiter<W>, ended: SessionId) -> bool {
        let mut latest = waiter.sessions.iter().rev();
        (waiter.until == Until::All && latest.any(|&id| self.is_running(id)))
            || !waiter.sessions.contains(&ended)
    }

    /// Removes and returns the waiters that `is_it` selects: those that have given up.
    pub fn forget(&mut self, is_it: impl Fn(&W) -> bool) -> Vec<W> {
        let given_up = self.waiters.extract_if(.., |waiter| is_it(&waiter.id));
        given_up.map(|waiter| waiter.id).collect()
    }

    /// Undoes the return of these sessions by a wait whose outcome was not delivered: a wait for
    /// any session may return them again.
    pub fn give_back(&mut self, named: &[SessionId]) {
        for id in named {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.named = entry.named.saturating_sub(1);
            }
        }
    }

    /// Checks that a session has ended.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotCompleted`] if the session runs. [`RpcError::InvalidSessionId`] if there is
    /// no such session, or its result was taken.
    pub fn probe(&self, id: SessionId) -> Result<(), RpcError> {
        match self.entry(id)?.state {
            State::Running => Err(RpcError::NotCompleted),
            State::Ended(_) => Ok(()),
        }
    }

    /// The first of these that has ended.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if one of the sessions does not exist, or its result was
    /// taken. [`RpcError::NoneCompleted`] if none has ended.
    pub fn probe_or(&self, ids: &[SessionId]) -> Result<SessionId, RpcError> {
        for &id in ids {
            self.entry(id)?;
        }
        let ended = ids.iter().copied().find(|&id| !self.is_running(id));
        ended.ok_or(RpcError::NoneCompleted)
    }

    /// Waits for sessions; returns the wait if it is over already.
    ///
    /// # Errors
    ///
    /// The outcome is [`RpcError::InvalidSessionId`] if one of the sessions does not exist, or its
    /// result was taken; [`RpcError::NoneCompleted`] if the list is empty and `until` is
    /// [`Until::One`]; with [`Until::All`], the error of the first in the list that failed.
    pub fn wait(
        &mut self,
        waiter: W,
        sessions: Vec<SessionId>,
        until: Until,
    ) -> Option<EndedWait<W>> {
        match self.waited(&sessions, until) {
            Some((waited, named)) => Some(EndedWait { waiter, waited, named }),
            None => {
                self.waiters.push(Waiter { id: waiter, sessions, until });
                None
            }
        }
    }

    /// The sessions that no wait has returned yet, running or ended. A wait for any session waits
    /// for one of them.
    pub fn unnamed(&self) -> Vec<SessionId> {
        let unnamed = self.entries.iter().filter(|(_, entry)| entry.named == 0);
        unnamed.map(|(id, _)| *id).collect()
    }

    /// The outcome of a wait with the sessions that it returns; `None` if it is not over.
    fn waited(&mut self, ids: &[SessionId], until: Until) -> Option<(Waited, Vec<SessionId>)> {
        if let Some(error) = ids.iter().find_map(|&id| self.entry(id).err()) {
            return Some((Err(error), Vec::new()));
        }
        let ended: Vec<SessionId> =
            ids.iter().copied().filter(|&id| !self.is_running(id)).collect();
        match until {
            Until::One if ids.is_empty() => Some((Err(RpcError::NoneCompleted), Vec::new())),
            Until::One => {
                let &first = ended.first()?;
                Some((Ok(Some(first)), self.name(&[first])))
            }
            Until::All if ended.len() < ids.len() => None,
            Until::All => {
                let failed = ids.iter().find_map(|id| match &self.entries.get(id)?.state {
                    State::Ended(Err(error)) => Some(error.clone()),
                    _ => None,
                });
                Some((failed.map_or(Ok(ended.last().copied()), Err), self.name(ids)))
            }
        }
    }

    fn name(&mut self, ids: &[SessionId]) -> Vec<SessionId> {
        for id in ids {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.named += 1;
            }
        }
        ids.to_vec()
    }

    /// Takes the result of a session that has ended, and forgets the session.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotCompleted`] if the session runs. [`RpcError::InvalidSessionId`] if there is
    /// no such session, or its result was taken. Otherwise the error with which the session ended.
    pub fn take(&mut self, id: SessionId) -> Result<R, RpcError> {
        self.probe(id)?;
        match self.entries.remove(&id).map(|entry| entry.state) {
            Some(State::Ended(outcome)) => outcome,
            _ => Err(RpcError::InvalidSessionId { session: id.0 }),
        }
    }

    /// The error of a session that has ended; `None` if it did not fail.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotCompleted`] if the session runs. [`RpcError::InvalidSessionId`] if there is
    /// no such session, or its result was taken.
    pub fn error(&self, id: SessionId) -> Result<Option<RpcError>, RpcError> {
        match &self.entry(id)?.state {
            State::Running => Err(RpcError::NotCompleted),
            State::Ended(outcome) => Ok(outcome.as_ref().err().cloned()),
        }
    }

    /// Removes and returns the oldest failed session, if any.
    pub fn pop_failed(&mut self) -> Option<SessionId> {
        self.failed.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(count: usize) -> (Sessions<u8, &'static str>, Vec<SessionId>) {
        let mut sessions = Sessions::new(0);
        let ids: Vec<SessionId> = (0..count).map(|_| sessions.reserve()).collect();
        ids.iter().for_each(|&id| sessions.open(id, "f".to_owned()));
        (sessions, ids)
    }

    fn failure() -> RpcError {
        RpcError::SessionFailed { reason: "so".to_owned() }
    }

    #[test]
    fn taking_a_session_does_not_end_a_wait_for_all() {
        let (mut sessions, ids) = sessions(3);
        assert_eq!(sessions.wait("all", ids.clone(), Until::All), None);

        assert!(sessions.end(ids[0], Ok(1)).is_empty());
        assert_eq!(sessions.take(ids[0]), Ok(1));
        assert!(sessions.end(ids[1], Ok(2)).is_empty());
        let over = sessions.end(ids[2], Ok(3));

        assert_eq!(over.len(), 1);
        assert_eq!(over[0].waited, Ok(Some(ids[2])));
    }

    #[test]
    fn waiting_for_all_ends_with_the_last_and_for_one_with_the_first() {
        let (mut sessions, ids) = sessions(2);
        assert_eq!(sessions.wait("all", ids.clone(), Until::All), None);
        assert_eq!(sessions.wait("one", ids.clone(), Until::One), None);

        let over = |waiter, named: &[SessionId]| {
            [EndedWait { waiter, waited: Ok(Some(ids[1])), named: named.to_vec() }]
        };
        assert_eq!(sessions.end(ids[1], Ok(1)), over("one", &ids[1..]));
        assert_eq!(sessions.end(ids[0], Ok(0)), over("all", &ids));
    }

    /// If the end of each session caused a check of all awaited sessions, this test would take many
    /// minutes.
    #[test]
    fn waits_for_many_sessions_end_with_the_last() {
        let (mut sessions, ids) = sessions(50_000);
        assert_eq!(sessions.wait("all", ids.clone(), Until::All), None);
        assert_eq!(sessions.wait("last", vec![ids[49_999]], Until::One), None);

        let over: Vec<_> = ids.iter().flat_map(|&id| sessions.end(id, Ok(1))).collect();

        let waiters: Vec<_> = over.iter().map(|over| over.waiter).collect();
        assert_eq!(waiters, ["all", "last"]);
        assert!(over.iter().all(|over| over.waited == Ok(Some(ids[49_999]))));
    }

    #[test]
    fn a_failure_is_returned_by_a_wait_for_all_and_listed() {
        let (mut sessions, ids) = sessions(2);
        sessions.end(ids[0], Err(failure()));
        sessions.end(ids[1], Ok(1));

        let over = sessions.wait("", ids.clone(), Until::All).unwrap();
        assert_eq!((over.waited, over.named), (Err(failure()), ids.clone()));
        assert_eq!(sessions.error(ids[0]), Ok(Some(failure())));
        assert_eq!((sessions.pop_failed(), sessions.pop_failed()), (Some(ids[0]), None));
    }

    #[test]
    fn waiting_for_any_gives_each_session_once() {
        let (mut sessions, ids) = sessions(2);
        sessions.end(ids[0], Ok(0));
        let any = sessions.unnamed();
        let over = sessions.wait("", any, Until::One).unwrap();
        assert_eq!((over.waited, over.named), (Ok(Some(ids[0])), vec![ids[0]]));

        assert_eq!(sessions.unnamed(), [ids[1]]);
    }

    #[test]
    fn an_undelivered_session_is_returned_again_unless_another_wait_returned_it() {
        let (mut sessions, ids) = sessions(1);
        for waiter in ["one", "other", "third"] {
            assert_eq!(sessions.wait(waiter, ids.clone(), Until::One), None);
        }
        assert_eq!(sessions.forget(|waiter| *waiter == "third"), ["third"]);
        let over = sessions.end(ids[0], Ok(0));
        assert_eq!(over.iter().map(|over| over.waiter).collect::<Vec<_>>(), ["one", "other"]);

        sessions.give_back(&over[0].named);
        assert_eq!(sessions.unnamed(), []);
        sessions.give_back(&over[1].named);
        assert_eq!(sessions.unnamed(), ids);
    }

    #[test]
    fn a_result_is_taken_once() {
        let (mut sessions, ids) = sessions(1);
        assert_eq!(sessions.take(ids[0]), Err(RpcError::NotCompleted));
        sessions.end(ids[0], Ok(7));
        sessions.end(ids[0], Ok(8));

        assert_eq!(sessions.take(ids[0]), Ok(7));
        assert_eq!(sessions.take(ids[0]), Err(RpcError::InvalidSessionId { session: 1 }));
    }
}
