//! Requests for samples of the job's counters, which the node of main answers.

use gridspan_runtime::message::telemetry::TelemetryLease;
use gridspan_runtime::net::bootstrap::SampleOrder;
use std::collections::VecDeque;

/// Largest number of requests that wait for the node of main. That node answers at once unless its
/// process is stopped. If more requests come, the oldest gets an answer without a sample.
const OPEN_MAX: usize = 16;

/// The requests that wait.
#[derive(Default)]
pub(super) struct Sampling {
    /// The number of each order to the node, and that of the request.
    open: VecDeque<(u64, u64)>,
    /// Number of orders so far.
    orders: u64,
}

impl Sampling {
    /// Adds a request. Returns the order for the node of main and, if too many requests wait, the
    /// oldest, which no longer waits.
    pub(super) fn add(
        &mut self,
        request: u64,
        lease: TelemetryLease,
    ) -> (SampleOrder, Option<u64>) {
        self.orders += 1;
        let number = self.orders;
        self.open.push_back((number, request));
        let is_full = self.open.len() > OPEN_MAX;
        let given_up = if is_full { self.open.pop_front() } else { None };
        (SampleOrder { number, lease }, given_up.map(|(_, request)| request))
    }

    /// Removes the request for which an order was made; `None` if it does not wait.
    pub(super) fn take(&mut self, number: u64) -> Option<u64> {
        let at = self.open.iter().position(|&(order, _)| order == number)?;
        self.open.remove(at).map(|(_, request)| request)
    }

    /// Removes all requests.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        self.open.drain(..).map(|(_, request)| request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: TelemetryLease = TelemetryLease { period_ms: 1000, focus: None };

    #[test]
    fn an_answer_is_for_the_request_of_its_number() {
        let mut sampling = Sampling::default();
        let numbers = [70, 71].map(|request| sampling.add(request, LEASE).0.number);
        assert_eq!(numbers, [1, 2]);
        assert_eq!(sampling.take(2), Some(71));
        assert_eq!(sampling.take(2), None, "it is answered");
        assert_eq!(sampling.take_all(), [70]);
        assert_eq!(sampling.take(1), None);
    }

    #[test]
    fn requests_that_wait_are_limited() {
        let mut sampling = Sampling::default();
        let given_up: Vec<u64> =
            (0..20).filter_map(|request| sampling.add(request, LEASE).1).collect();
        assert_eq!(given_up, [0, 1, 2, 3]);
        assert_eq!(sampling.take_all().len(), OPEN_MAX);
    }
}
