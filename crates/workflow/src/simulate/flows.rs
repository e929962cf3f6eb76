//! Concurrent transfers, each with its fair share of the links on its path.
//!
//! Transfers between the same two endpoints have the same rate. So each such pair counts the bytes
//! that a transfer would have received since the pair was first used, and a transfer ends when this
//! count has grown by the size of the transfer.

use super::time::SimTime;
use crate::id::Endpoint;
use crate::platform::Platform;
use gridspan_topology::FairShares;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A transfer, by its index among all transfers of the simulated platform.
pub(super) type TransferId = u32;

/// Maximum number of bytes that a complete transfer may lack, because times are rounded.
const ROUNDING_BYTES: f64 = 1e-3;

struct Pair {
    /// Bytes that a transfer would have received since the pair was first used.
    got: f64,
    since_s: f64,
    rate: f64,
    /// The count at which each transfer ends.
    ends: BinaryHeap<Reverse<(SimTime, TransferId)>>,
}

impl Pair {
    fn next_s(&self) -> f64 {
        match self.ends.peek() {
            Some(Reverse((end, _))) => self.since_s + (end.0 - self.got).max(0.0) / self.rate,
            None => f64::INFINITY,
        }
    }
}

/// All flowing transfers.
pub(super) struct Flows<'a> {
    platform: &'a Platform,
    shares: FairShares,
    pairs: Vec<Pair>,
    /// The numbers of the pairs used so far, by sender and receiver.
    numbers: BTreeMap<(Endpoint, Endpoint), u32>,
    /// The pairs with transfers.
    active: Vec<u32>,
    /// The pair of the transfer that ends next, and the time of its end.
    next: Option<(f64, u32)>,
}

impl<'a> Flows<'a> {
    pub(super) fn new(platform: &'a Platform) -> Self {
        Self {
            platform,
            shares: FairShares::new(platform.capacities(), Vec::new()),
            pairs: Vec::new(),
            numbers: BTreeMap::new(),
            active: Vec::new(),
            next: None,
        }
    }

    /// Returns the time at which the next transfer ends.
    pub(super) fn next_s(&self) -> f64 {
        self.next.map_or(f64::INFINITY, |(at_s, _)| at_s)
    }

    /// Begins the flow of a transfer of at least one byte.
    pub(super) fn begin(
        &mut self,
        now_s: f64,
        (from, to): (Endpoint, Endpoint),
        bytes: u64,
        transfer: TransferId,
    ) {
        let number = self.number(from, to);
        self.advance(number, now_s);
        let pair = &mut self.pairs[number as usize];
        if pair.ends.is_empty() {
            self.active.push(number);
        }
        pair.ends.push(Reverse((SimTime(pair.got + bytes as f64), transfer)));
        self.shares.begin(number);
        self.settle(now_s);
    }

    /// Ends the transfer that is due.
    pub(super) fn end(&mut self, now_s: f64) -> Option<TransferId> {
        let (_, number) = self.next?;
        self.advance(number, now_s);
        let pair = &mut self.pairs[number as usize];
        let Reverse((end, transfer)) = pair.ends.pop()?;
        // On a link without a limit, the rounding error of a late time corresponds to some bytes.
        let rounding = ROUNDING_BYTES.max(end.0 * 1e-9).max(pair.rate * now_s * 1e-15);
        debug_assert!(end.0 - pair.got <= rounding, "it has all bytes");
        if pair.ends.is_empty() {
            self.active.retain(|&other| other != number);
        }
        self.shares.end(number);
        self.settle(now_s);
        Some(transfer)
    }

    fn number(&mut self, from: Endpoint, to: Endpoint) -> u32 {
        let platform = self.platform;
        *self.numbers.entry((from, to)).or_insert_with(|| {
            let ends = BinaryHeap::new();
            self.pairs.push(Pair { got: 0.0, since_s: 0.0, rate: 0.0, ends });
            self.shares.add(platform.path(from, to).map(|capacity| capacity as u32).collect())
        })
    }

    fn advance(&mut self, number: u32, now_s: f64) {
        let pair = &mut self.pairs[number as usize];
        pair.got += pair.rate * (now_s - pair.since_s).max(0.0);
        pair.since_s = now_s;
    }

    /// Applies the rates that have changed.
    fn settle(&mut self, now_s: f64) {
        for at in 0..self.shares.changed().len() {
            let number = self.shares.changed()[at];
            self.advance(number, now_s);
            self.pairs[number as usize].rate = self.shares.rate(number);
        }
        let times =
            self.active.iter().map(|&number| (self.pairs[number as usize].next_s(), number));
        self.next = times.min_by(|one, other| one.0.total_cmp(&other.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ServerId;
    use crate::platform::{ClientSpec, ServerSpec, Site};
    use gridspan_topology::{Bandwidth, Latency, Link};

    #[test]
    fn memory_grows_with_the_pairs_used_not_with_the_square_of_the_endpoints() {
        let servers = vec![ServerSpec::new("one of many", 0, 1.0); 200_000];
        let site = Site::new("site", Link::lan(), Link::wan());
        let platform = Platform::new(servers, vec![site], ClientSpec::outside(Link::wan()));
        let mut flows = Flows::new(&platform);

        flows.begin(0.0, (Endpoint::Client, Endpoint::Server(ServerId(199_999))), 1000, 7);

        let ends_s = flows.next_s();
        assert!(ends_s > 0.0 && ends_s.is_finite(), "{ends_s}");
        assert_eq!(flows.end(ends_s), Some(7));
        assert_eq!(flows.next_s(), f64::INFINITY);
    }

    #[test]
    fn a_few_bytes_over_links_without_a_limit_end_at_any_time() {
        let free = Link::new(Latency::ZERO, Bandwidth::UNLIMITED);
        let server = ServerSpec::new("server", 0, 1.0);
        let site = Site::new("site", free, free);
        let platform = Platform::new(vec![server], vec![site], ClientSpec::outside(free));
        for now_s in [0.0, 0.3, 100.0, 1e6] {
            for bytes in [1, 7, 1000, 123_456] {
                let mut flows = Flows::new(&platform);
                flows.begin(now_s, (Endpoint::Client, Endpoint::Server(ServerId(0))), bytes, 3);
                let ends_s = flows.next_s();
                assert!((ends_s - now_s).abs() < 1e-6, "{ends_s}");
                assert_eq!(flows.end(ends_s), Some(3));
            }
        }
    }
}
