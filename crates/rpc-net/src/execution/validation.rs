//! Checks whether a server's report on an executed task is plausible, because the server is a
//! foreign program. The module performs no I/O.

use crate::wire::messages::Times;
use crate::wire::transfer::BYTES_MAX;

/// Share of the time by which the clock of a server may be ahead of that of the client.
const CLOCK_DRIFT: f64 = 0.01;
/// Seconds by which the server's clock may be ahead in addition.
const CLOCK_STEP_S: f64 = 1.0;

/// Checks whether a task with `outputs` results, ordered `elapsed_s` seconds ago, can have been
/// executed as reported. Returns the reason if it cannot.
pub(crate) fn check(times: &Times, outputs: usize, elapsed_s: f64) -> Result<(), String> {
    let sizes = &times.sizes;
    if sizes.len() != outputs {
        return Err(format!("its server reports {} results, not {outputs}", sizes.len()));
    }
    if let Some(bytes) = sizes.iter().find(|bytes| **bytes > BYTES_MAX) {
        return Err(format!("its server reports a result of {bytes} bytes, above {BYTES_MAX}"));
    }
    let latest_s = elapsed_s * (1.0 + CLOCK_DRIFT) + CLOCK_STEP_S;
    let can_be = |start_s: f64, end_s: f64| 0.0 <= start_s && start_s <= end_s && end_s <= latest_s;
    let fetched = times.fetched.iter().map(|fetched| (fetched.start_s, fetched.end_s));
    let mut ranges = fetched.chain([(times.start_s, times.end_s)]);
    match ranges.find(|&(start_s, end_s)| !can_be(start_s, end_s)) {
        None => Ok(()),
        Some((start_s, end_s)) => Err(format!(
            "its server reports times from {start_s} s to {end_s} s, {elapsed_s} s after the order"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::Fetched;

    fn times(span: (f64, f64), sizes: &[u64]) -> Times {
        Times { start_s: span.0, end_s: span.1, fetched: Vec::new(), sizes: sizes.to_vec() }
    }

    #[test]
    fn plausible_reports_are_accepted() {
        assert_eq!(check(&times((1.0, 2.0), &[8, 0]), 2, 2.5), Ok(()));
        assert_eq!(check(&times((0.0, 0.0), &[]), 0, 0.0), Ok(()));
        // The server's clock is slightly faster.
        assert_eq!(check(&times((0.0, 1001.0), &[]), 0, 1000.0), Ok(()));
    }

    #[test]
    fn reports_with_a_wrong_number_or_size_of_results_are_refused() {
        for sizes in [&[][..], &[8], &[8, 8, 8], &[8, u64::MAX], &[u64::MAX, u64::MAX]] {
            assert!(check(&times((0.0, 1.0), sizes), 2, 1.0).is_err(), "{sizes:?}");
        }
    }

    #[test]
    fn reports_with_impossible_times_are_refused() {
        for span in [(2.0, 1.0), (-1.0, 1.0), (0.0, 1e300), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert!(check(&times(span, &[]), 0, 10.0).is_err(), "{span:?}");
            let fetched = vec![Fetched { data: 0, start_s: span.0, end_s: span.1 }];
            let with_transfer = Times { fetched, ..times((0.0, 1.0), &[]) };
            assert!(check(&with_transfer, 0, 10.0).is_err(), "{span:?}");
        }
    }
}
