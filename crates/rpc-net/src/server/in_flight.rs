//! The number of requests in progress, so that a process that is stopped can wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Interval between checks whether all requests are answered.
const POLLING_INTERVAL: Duration = Duration::from_millis(20);

/// A number of requests. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<AtomicUsize>);

/// A request, which counts until this value is dropped, even if answering it fails.
#[derive(Debug)]
pub(crate) struct Open(InFlight);

impl InFlight {
    pub(crate) fn begin(&self) -> Open {
        self.0.fetch_add(1, Ordering::SeqCst);
        Open(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until all requests are answered, or `grace` has passed.
    pub(crate) async fn over(&self, grace: Duration) {
        let begun = Instant::now();
        while self.count() > 0 && begun.elapsed() < grace {
            tokio::time::sleep(POLLING_INTERVAL).await;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_whose_answering_panics_is_no_longer_counted() {
        let counted = InFlight::default();
        let open = counted.begin();
        let failed = tokio::spawn(async move {
            let _open = open;
            panic!("as a defect would");
        });
        assert!(failed.await.is_err());

        let over = tokio::time::timeout(Duration::from_secs(10), counted.over(Duration::MAX)).await;

        assert!(over.is_ok(), "nothing is open");
    }

    #[tokio::test]
    async fn over_waits_for_open_requests_for_a_limited_time() {
        let counted = InFlight::default();
        let (_open, grace) = (counted.begin(), Duration::from_millis(50));
        let begun = Instant::now();

        counted.over(grace).await;

        assert!(begun.elapsed() >= grace);
    }
}
