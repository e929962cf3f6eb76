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
use std::collections::BinaryHeap;

/// One transfer, by its position.
pub(super) type TransferId = u32;

/// Number of missing bytes at which a transfer counts as complete, because times are rounded.
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
    numbers: Vec<Option<u32>>,
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
            numbers: vec![None; platform.endpoints().pow(2)],
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
        debug_assert!(end.0 - pair.got <= ROUNDING_BYTES.max(end.0 * 1e-9), "it has all bytes");
        if pair.ends.is_empty() {
            self.active.retain(|&other| other != number);
        }
        self.shares.end(number);
        self.settle(now_s);
        Some(transfer)
    }

    fn number(&mut self, from: Endpoint, to: Endpoint) -> u32 {
        let platform = self.platform;
        let place = platform.position(from) * platform.endpoints() + platform.position(to);
        *self.numbers[place].get_or_insert_with(|| {
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
