//! The messages that a sequential actor has received and its method has not taken.

use std::collections::VecDeque;
use std::task::Waker;

/// The messages that the method has not taken, in the order of their arrival.
pub(super) struct Unread<M> {
    messages: VecDeque<M>,
    /// Whether this run has taken a message.
    has_taken: bool,
    /// The futures that wait for a message.
    wakers: Vec<Waker>,
}

impl<M> Unread<M> {
    pub(super) fn new(messages: VecDeque<M>) -> Self {
        Self { messages, has_taken: false, wakers: Vec::new() }
    }

    pub(super) fn messages(&self) -> &VecDeque<M> {
        &self.messages
    }

    /// Adds a message, and wakes the futures that wait for one.
    pub(super) fn arrive(&mut self, message: M) {
        self.messages.push_back(message);
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Wakes a future when the next message arrives.
    pub(super) fn wake_on_arrival(&mut self, waker: &Waker) {
        self.wakers.push(waker.clone());
    }

    /// Notes that the method begins a run.
    pub(super) fn begin_run(&mut self) {
        self.has_taken = false;
    }

    /// Whether messages are left, and the last run has taken one.
    pub(super) fn has_more(&self) -> bool {
        self.has_taken && !self.messages.is_empty()
    }

    /// Lends the messages, so that the program's code looks at them without a lock.
    pub(super) fn lend(&mut self) -> VecDeque<M> {
        std::mem::take(&mut self.messages)
    }

    /// Takes back the messages, of which one was taken if `has_taken`.
    pub(super) fn give_back(&mut self, mut lent: VecDeque<M>, has_taken: bool) {
        lent.append(&mut self.messages);
        self.messages = lent;
        self.has_taken |= has_taken;
    }
}

/// Takes the first message from which `take` makes a value.
pub(super) fn take_first<M, T>(
    messages: &mut VecDeque<M>,
    mut take: impl FnMut(M) -> Result<T, M>,
) -> Option<T> {
    for at in 0..messages.len() {
        let message = messages.remove(at)?;
        match take(message) {
            Ok(value) => return Some(value),
            Err(message) => messages.insert(at, message),
        }
    }
    None
}
