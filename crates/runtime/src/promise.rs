//! A value that another thread, or another turn of this one, will provide.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

struct State<T> {
    value: Option<T>,
    resolver_gone: bool,
    waker: Option<Waker>,
}

/// Resolves to the value, or to `None` once nobody can provide it any more.
pub(crate) struct Promise<T>(Arc<Mutex<State<T>>>);

/// Provides the value of a [`Promise`].
pub(crate) struct Resolve<T>(Arc<Mutex<State<T>>>);

/// A promise and the means to keep it.
pub(crate) fn promise<T>() -> (Resolve<T>, Promise<T>) {
    let state = Arc::new(Mutex::new(State { value: None, resolver_gone: false, waker: None }));
    (Resolve(state.clone()), Promise(state))
}

impl<T> Resolve<T> {
    pub(crate) fn with(self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value = Some(value);
        // Dropping `self` wakes the waiter.
    }
}

impl<T> Drop for Resolve<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.resolver_gone = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Promise<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = state.value.take() {
            return Poll::Ready(Some(value));
        }
        if state.resolver_gone {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    struct Flag(std::sync::atomic::AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    #[test]
    fn resolving_wakes_the_waiter_and_gives_the_value() {
        let flag = Arc::new(Flag(false.into()));
        let waker = Waker::from(flag.clone());
        let (resolve, mut promised) = promise();
        assert!(Pin::new(&mut promised).poll(&mut Context::from_waker(&waker)).is_pending());
        resolve.with(7);
        assert!(flag.0.load(std::sync::atomic::Ordering::SeqCst));
        let value = Pin::new(&mut promised).poll(&mut Context::from_waker(&waker));
        assert_eq!(value, Poll::Ready(Some(7)));
    }

    #[test]
    fn a_promise_that_nobody_can_keep_resolves_to_nothing() {
        let (resolve, mut promised) = promise::<u8>();
        drop(resolve);
        let value = Pin::new(&mut promised).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(value, Poll::Ready(None));
    }
}
