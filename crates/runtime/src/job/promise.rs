//! A value that another thread, or a later turn of this thread, provides.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// Counts the promises that main waits for. If they are the only holders of main's waker, main
/// waits for promises only.
#[derive(Default)]
pub struct Awaited {
    main: OnceLock<Waker>,
    /// Promises that hold main's waker.
    promises: AtomicUsize,
    /// Promises that hold another waker: main waits for them together with futures unknown here.
    hidden: AtomicUsize,
}

impl Awaited {
    /// Sets main's waker. Further calls change nothing.
    pub fn set_waker(&self, main: &Waker) {
        let _ = self.main.set(main.clone());
    }

    /// Whether main waits for promises only, if its waker has `holders` holders.
    pub fn is_all(&self, holders: usize) -> bool {
        let hidden = self.hidden.load(Ordering::SeqCst);
        hidden == 0 && self.promises.load(Ordering::SeqCst) == holders
    }
}

/// A waker that is counted while it is held.
struct Held {
    waker: Waker,
    awaited: Arc<Awaited>,
    is_main: bool,
}

impl Held {
    fn new(waker: &Waker, awaited: &Arc<Awaited>) -> Self {
        let is_main = awaited.main.get().is_some_and(|main| main.will_wake(waker));
        let held = Self { waker: waker.clone(), awaited: awaited.clone(), is_main };
        held.count().fetch_add(1, Ordering::SeqCst);
        held
    }

    fn count(&self) -> &AtomicUsize {
        if self.is_main { &self.awaited.promises } else { &self.awaited.hidden }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::SeqCst);
    }
}

struct State<T> {
    value: Option<T>,
    resolver_gone: bool,
    waker: Option<Held>,
    awaited: Arc<Awaited>,
}

/// Resolves to the value, or to `None` once its [`Resolve`] is dropped.
pub(crate) struct Promise<T>(Arc<Mutex<State<T>>>);

/// Provides the value of a [`Promise`].
pub(crate) struct Resolve<T>(Arc<Mutex<State<T>>>);

/// Creates a promise and its resolver.
pub(crate) fn promise<T>(awaited: &Arc<Awaited>) -> (Resolve<T>, Promise<T>) {
    let awaited = awaited.clone();
    let state = State { value: None, resolver_gone: false, waker: None, awaited };
    let state = Arc::new(Mutex::new(state));
    (Resolve(state.clone()), Promise(state))
}

impl<T> Resolve<T> {
    /// Whether the promise still exists: main may drop it without waiting for the value.
    pub(crate) fn is_awaited(&self) -> bool {
        // The promise and its resolver are the only holders.
        Arc::strong_count(&self.0) > 1
    }

    pub(crate) fn with(self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value = Some(value);
        // Dropping `self` wakes the waiter.
    }
}

impl<T> Drop for Resolve<T> {
    fn drop(&mut self) {
        let held = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.resolver_gone = true;
            state.waker.take()
        };
        if let Some(held) = held {
            held.waker.wake_by_ref();
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
        let held = Held::new(cx.waker(), &state.awaited);
        // The previous `Held` is dropped afterwards, so that at every moment at least one is
        // counted.
        state.waker = Some(held);
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
        let (resolve, mut promised) = promise(&Arc::default());
        assert!(Pin::new(&mut promised).poll(&mut Context::from_waker(&waker)).is_pending());
        resolve.with(7);
        assert!(flag.0.load(std::sync::atomic::Ordering::SeqCst));
        let value = Pin::new(&mut promised).poll(&mut Context::from_waker(&waker));
        assert_eq!(value, Poll::Ready(Some(7)));
    }

    #[test]
    fn main_waits_for_promises_only_if_no_other_future_holds_its_waker() {
        let flag = Arc::new(Flag(false.into()));
        let waker = Waker::from(flag.clone());
        let awaited = Arc::<Awaited>::default();
        awaited.set_waker(&waker);
        // Held by this test, by `waker` and by `awaited`.
        let holders = || Arc::strong_count(&flag) - 3;
        assert!(awaited.is_all(holders()), "no promise holds it");

        let (resolve, mut one) = promise::<u8>(&awaited);
        let (_other, mut two) = promise::<u8>(&awaited);
        let poll = |promised: &mut Promise<u8>| {
            let polled = Pin::new(promised).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        };
        poll(&mut one);
        poll(&mut two);
        poll(&mut one);
        assert!(awaited.is_all(holders()), "two promises, one of them polled twice");

        let outside = waker.clone();
        assert!(!awaited.is_all(holders()), "something else may wake main");
        drop(outside);
        resolve.with(1);
        assert!(awaited.is_all(holders()), "one promise is left");

        let (_third, mut wrapped) = promise::<u8>(&awaited);
        let polled = Pin::new(&mut wrapped).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        assert!(!awaited.is_all(holders()), "its waker is unknown");
    }

    #[test]
    fn a_promise_that_is_dropped_is_not_awaited() {
        let (resolve, promised) = promise::<u8>(&Arc::default());
        assert!(resolve.is_awaited());
        drop(promised);
        assert!(!resolve.is_awaited());
    }

    #[test]
    fn a_promise_whose_resolver_is_dropped_resolves_to_none() {
        let (resolve, mut promised) = promise::<u8>(&Arc::default());
        drop(resolve);
        let value = Pin::new(&mut promised).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(value, Poll::Ready(None));
    }
}
