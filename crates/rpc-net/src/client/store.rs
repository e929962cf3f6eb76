//! What a client keeps for its groups: values that servers may fetch, sizes of data, and pairs of
//! servers of which one does not reach the other.

use crate::client::task_client::Supply;
use crate::lock::lock;
use bytes::Bytes;
use gridspan_rpc::calls::ServerCard;
use gridspan_rpc::group::{Encoded, Freed};
use gridspan_workflow::ServerId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time for which a server that did not reach another does not try again, because each attempt
/// takes some seconds.
const APART: Duration = Duration::from_secs(300);

/// Data by the numbers that servers use for the group and the datum.
type Values = BTreeMap<(u64, u32), Encoded>;

/// The store of a client, in which groups have local numbers.
pub(crate) struct ClientStore {
    /// Difference between the numbers that servers use for groups and the local ones.
    first: u64,
    values: Arc<Mutex<Values>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    groups: u32,
    /// Sizes of data in bytes, by the local numbers of the group and the datum.
    sizes: BTreeMap<(u32, u32), u64>,
    /// Pairs of servers of which the second did not reach the first, and the time of the attempt.
    apart: BTreeMap<(u32, u32), Instant>,
}

impl ClientStore {
    pub(crate) fn new(first: u64) -> Self {
        Self { first, values: Arc::default(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the function that supplies values to servers.
    pub(crate) fn supply(&self) -> Supply {
        let values = self.values.clone();
        Arc::new(move |group, data| {
            let value = lock(&values).get(&(group, data)).cloned()?;
            Some(value.into_segments().map(Bytes::from_owner).collect())
        })
    }

    /// Starts a group, and returns its number.
    pub(crate) fn begin(&self) -> u32 {
        let mut state = self.state();
        state.groups += 1;
        state.groups
    }

    /// Returns the number that servers use for a group.
    pub(crate) fn wire(&self, group: u32) -> u64 {
        self.first.wrapping_add(u64::from(group))
    }

    /// Lets servers fetch a value.
    pub(crate) fn offer(&self, group: u32, data: u32, value: Encoded) {
        self.state().sizes.insert((group, data), value.bytes());
        lock(&self.values).insert((self.wire(group), data), value);
    }

    /// Stops servers from fetching a value.
    pub(crate) fn withdraw(&self, group: u32, data: u32) {
        lock(&self.values).remove(&(self.wire(group), data));
    }

    pub(crate) fn size(&self, group: u32, data: u32) -> Option<u64> {
        self.state().sizes.get(&(group, data)).copied()
    }

    /// Records the size of data that servers have made.
    pub(crate) fn made(&self, group: u32, data: u32, bytes: u64) {
        self.state().sizes.insert((group, data), bytes);
    }

    /// Drops those data of a group that are no longer needed.
    pub(crate) fn free(&self, group: u32, data: &Freed) {
        let wire = self.wire(group);
        let (mut state, mut values) = (self.state(), lock(&self.values));
        for version in data.ranges().flatten() {
            state.sizes.remove(&(group, version));
            values.remove(&(wire, version));
        }
    }

    /// Drops all data of a group that has ended.
    pub(crate) fn end(&self, group: u32) {
        let wire = self.wire(group);
        // Only this group's entries are visited: there may be many other groups.
        let mut state = self.state();
        let sizes = state.sizes.range((group, 0)..=(group, u32::MAX));
        for key in sizes.map(|(key, _)| *key).collect::<Vec<_>>() {
            state.sizes.remove(&key);
        }
        let mut values = lock(&self.values);
        let of_group = values.range((wire, 0)..=(wire, u32::MAX));
        for key in of_group.map(|(key, _)| *key).collect::<Vec<_>>() {
            values.remove(&key);
        }
    }

    /// Records that the server with number `to` cannot fetch data from the server with number
    /// `from`.
    pub(crate) fn part(&self, from: u32, to: u32) {
        self.state().apart.insert((from, to), Instant::now());
    }

    /// Returns the pairs of servers of which the second is known not to reach the first, by their
    /// positions.
    pub(crate) fn apart(&self, cards: &[ServerCard]) -> Vec<(ServerId, ServerId)> {
        let mut state = self.state();
        state.apart.retain(|_, since| since.elapsed() < APART);
        let places = cards.iter().map(|card| card.number).zip((0..).map(ServerId));
        let places: BTreeMap<u32, ServerId> = places.collect();
        let of_both = |(from, to): &(u32, u32)| Some((*places.get(from)?, *places.get(to)?));
        state.apart.keys().filter_map(of_both).collect()
    }
}
