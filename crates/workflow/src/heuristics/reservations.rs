//! The remaining bandwidth of links, in the course of a mapping.
//!
//! Time is divided into slices of equal length. A transfer takes, slice by slice, the remaining
//! bandwidth of the links on its path, so that it may flow before a transfer that was reserved
//! earlier in the mapping. The slices are lengthened when the group exceeds them.

use crate::platform::Platform;

/// Maximum number of slices: more slices find gaps more exactly, and take longer.
const SLICES_MAX: usize = 2048;

/// Reserved bytes, by capacity and slice.
#[derive(Clone, Debug)]
pub(super) struct Reservations {
    capacities: Vec<f64>,
    used: Vec<Vec<f64>>,
    slice_s: f64,
    /// Reservations since the last `keep`, which can be given back.
    log: Vec<(usize, usize, f64)>,
}

impl Reservations {
    /// Creates an empty set of reservations. A group that takes `guess_s` seconds uses a quarter of
    /// the initial slices.
    pub(super) fn new(platform: &Platform, guess_s: f64) -> Self {
        let capacities = platform.capacities().to_vec();
        let used = vec![Vec::new(); capacities.len()];
        let slice_s = (guess_s * 4.0 / SLICES_MAX as f64).max(1e-6);
        Self { capacities, used, slice_s, log: Vec::new() }
    }

    /// Reserves the path for `bytes` bytes from a time on; returns the time in seconds at which the
    /// last byte has passed.
    pub(super) fn reserve(&mut self, path: &[usize], from_s: f64, bytes: u64) -> f64 {
        let rate =
            path.iter().map(|&capacity| self.capacities[capacity]).fold(f64::INFINITY, f64::min);
        let mut left = bytes as f64;
        if left == 0.0 || path.is_empty() || !from_s.is_finite() {
            return from_s;
        }
        let mut now_s = from_s;
        loop {
            let slice = (now_s / self.slice_s) as usize;
            if slice >= SLICES_MAX {
                self.lengthen();
                continue;
            }
            let end_s = (slice + 1) as f64 * self.slice_s;
            let free = path.iter().map(|&capacity| self.free(capacity, slice));
            let some = free.fold(rate * (end_s - now_s), f64::min).max(0.0);
            let takes = some.min(left);
            if takes > 0.0 {
                for &capacity in path {
                    self.take(capacity, slice, takes);
                }
            }
            left -= takes;
            if left <= 0.0 {
                return now_s + takes / rate;
            }
            now_s = end_s.max(now_s + self.slice_s * 1e-9);
        }
    }

    /// Cancels all reservations since the last [`keep`](Self::keep).
    pub(super) fn give_back(&mut self) {
        for (capacity, slice, bytes) in self.log.drain(..).rev() {
            self.used[capacity][slice] -= bytes;
        }
    }

    /// Makes the reservations so far permanent.
    pub(super) fn keep(&mut self) {
        self.log.clear();
    }

    fn free(&self, capacity: usize, slice: usize) -> f64 {
        let used = self.used[capacity].get(slice).copied().unwrap_or(0.0);
        let free = self.capacities[capacity] * self.slice_s - used;
        // A remainder due to rounding counts as zero.
        if free > self.capacities[capacity] * self.slice_s * 1e-9 { free } else { 0.0 }
    }

    fn take(&mut self, capacity: usize, slice: usize, bytes: f64) {
        let slices = &mut self.used[capacity];
        if slices.len() <= slice {
            slices.resize(slice + 1, 0.0);
        }
        slices[slice] += bytes;
        self.log.push((capacity, slice, bytes));
    }

    /// Merges pairs of slices.
    fn lengthen(&mut self) {
        self.slice_s *= 2.0;
        for slices in &mut self.used {
            *slices = slices.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        for (_, slice, _) in &mut self.log {
            *slice /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservations(capacities: &[f64]) -> Reservations {
        let used = vec![Vec::new(); capacities.len()];
        Reservations { capacities: capacities.to_vec(), used, slice_s: 1.0, log: Vec::new() }
    }

    #[test]
    fn later_reservations_get_the_remaining_bandwidth() {
        let mut links = reservations(&[10.0, 20.0]);

        assert_eq!(links.reserve(&[0, 1], 0.0, 30), 3.0);
        // The second link has 10 bytes left in each of the first three seconds, and is free in the
        // fourth.
        assert_eq!(links.reserve(&[1], 0.0, 50), 4.0);
        assert_eq!(links.reserve(&[0], 0.0, 10), 4.0);
    }

    #[test]
    fn an_earlier_gap_is_used() {
        let mut links = reservations(&[10.0]);

        assert_eq!(links.reserve(&[0], 5.0, 30), 8.0);
        assert_eq!(links.reserve(&[0], 0.0, 30), 3.0);
        assert_eq!(links.reserve(&[0], 0.0, 30), 9.0);
    }

    #[test]
    fn cancelled_reservations_leave_no_trace() {
        let mut links = reservations(&[10.0]);
        links.reserve(&[0], 0.0, 10);
        links.keep();

        links.reserve(&[0], 0.0, 100);
        links.give_back();

        assert_eq!(links.reserve(&[0], 0.0, 10), 2.0);
    }

    #[test]
    fn slices_are_lengthened_when_time_exceeds_them() {
        let mut links = reservations(&[1.0]);

        assert_eq!(links.reserve(&[0], 0.0, 10_000), 10_000.0);
        assert!(links.slice_s > 1.0);
    }
}
