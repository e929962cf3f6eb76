//! Awaits many futures at once.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Futures that go on side by side, until all have ended.
pub(super) struct AllOf<F: Future> {
    going: Vec<Option<Pin<Box<F>>>>,
    outcomes: Vec<Option<F::Output>>,
}

impl<F: Future> AllOf<F> {
    pub(super) fn new(futures: Vec<F>) -> Self {
        let outcomes = futures.iter().map(|_| None).collect();
        Self { going: futures.into_iter().map(|future| Some(Box::pin(future))).collect(), outcomes }
    }
}

impl<F: Future> Future for AllOf<F>
where
    F::Output: Unpin,
{
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { going, outcomes } = &mut *self;
        let mut is_over = true;
        for (slot, outcome) in going.iter_mut().zip(outcomes.iter_mut()) {
            let Some(future) = slot else { continue };
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => (*outcome, *slot) = (Some(value), None),
                Poll::Pending => is_over = false,
            }
        }
        match is_over {
            true => Poll::Ready(outcomes.drain(..).flatten().collect()),
            false => Poll::Pending,
        }
    }
}
