//! Requests of main whose answers come one after the other, such as results of reductions. Main
//! may give a request up, by dropping its future; the answer then goes to main's next request.

use crate::job::promise::Promise;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// Requests by a key, with answers of type `T`.
pub(crate) struct Requests<K, T>(Mutex<Known<K, T>>);

struct Known<K, T> {
    /// Number of requests so far.
    made: u64,
    /// The requests that main has given up, by key and number.
    given_up: BTreeMap<(K, u64), Promise<T>>,
}

impl<K: Ord, T> Default for Requests<K, T> {
    fn default() -> Self {
        Self(Mutex::new(Known { made: 0, given_up: BTreeMap::new() }))
    }
}

impl<K: Copy + Ord + Unpin, T> Requests<K, T> {
    /// Awaits the answer to the oldest request of this key that main has given up or, if there is
    /// none, to a new one from `make`. If this future is dropped before it resolves, main has given
    /// the request up. Resolves to `None` if the job ends before the answer.
    pub(crate) async fn await_next(&self, key: K, make: impl FnOnce() -> Promise<T>) -> Option<T> {
        let (number, promise) = match self.take(key) {
            Some(given_up) => given_up,
            None => (self.number(), make()),
        };
        Awaiting { requests: self, request: (key, number), promise: Some(promise) }.await
    }

    /// Whether main has given up requests, and has not asked again since.
    pub(crate) fn are_given_up(&self) -> bool {
        !self.known().given_up.is_empty()
    }

    fn take(&self, key: K) -> Option<(u64, Promise<T>)> {
        let mut known = self.known();
        let (&request, _) = known.given_up.range((key, 0)..=(key, u64::MAX)).next()?;
        Some((request.1, known.given_up.remove(&request)?))
    }

    fn number(&self) -> u64 {
        let mut known = self.known();
        known.made += 1;
        known.made
    }
}

impl<K, T> Requests<K, T> {
    fn known(&self) -> MutexGuard<'_, Known<K, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request whose answer main awaits.
struct Awaiting<'a, K: Copy + Ord, T> {
    requests: &'a Requests<K, T>,
    request: (K, u64),
    /// `None` once main has the answer.
    promise: Option<Promise<T>>,
}

impl<K: Copy + Ord + Unpin, T> Future for Awaiting<'_, K, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(promise) = &mut self.promise else { return Poll::Ready(None) };
        let polled = Pin::new(promise).poll(cx);
        if polled.is_ready() {
            self.promise = None;
        }
        polled
    }
}

impl<K: Copy + Ord, T> Drop for Awaiting<'_, K, T> {
    fn drop(&mut self) {
        if let Some(promise) = self.promise.take() {
            self.requests.known().given_up.insert(self.request, promise);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::promise::{Awaited, Resolve, promise};
    use std::sync::Arc;
    use std::task::Waker;

    #[test]
    fn answers_to_requests_that_were_given_up_come_next_in_order_for_each_key() {
        let requests = Requests::<char, u8>::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut resolves: Vec<Resolve<u8>> = Vec::new();
        let mut ask = |key: char| {
            let made = &mut resolves;
            let make = move || {
                let (resolve, answer) = promise(&Arc::<Awaited>::default());
                made.push(resolve);
                answer
            };
            let mut next = Box::pin(requests.await_next(key, make));
            next.as_mut().poll(&mut context)
        };
        // Each future is dropped at once.
        assert!(['a', 'b', 'a'].into_iter().all(|key| ask(key).is_pending()));
        assert_eq!(resolves.len(), 2, "the second request of a key awaits the first answer");

        for (resolve, answer) in resolves.into_iter().zip(1..) {
            resolve.with(answer);
        }

        let mut taken = |key: char| {
            let make = || -> Promise<u8> { panic!("there is an answer") };
            let mut next = Box::pin(requests.await_next(key, make));
            next.as_mut().poll(&mut context)
        };
        assert_eq!([taken('b'), taken('a')], [Poll::Ready(Some(2)), Poll::Ready(Some(1))]);
    }
}
