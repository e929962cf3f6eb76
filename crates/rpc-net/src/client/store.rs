//! What a client keeps of its groups: values that servers may fetch, how large data is, and which
//! servers are apart.

use crate::client::task_client::Supply;
use bytes::Bytes;
use gridspan_rpc::calls::ServerCard;
use gridspan_rpc::group::{Encoded, Freed};
use gridspan_workflow::ServerId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Servers that did not reach each other are not to try again for this time: each time takes some
/// seconds.
const APART: Duration = Duration::from_secs(300);

/// Data by group and number, as servers know both.
type Values = BTreeMap<(u64, u32), Encoded>;

/// Groups are known by their numbers here.
pub(crate) struct ClientStore {
    /// What servers call the first group; those of others follow.
    first: u64,
    values: Arc<Mutex<Values>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    groups: u32,
    /// How large data is that was made.
    sizes: BTreeMap<(u32, u32), u64>,
    /// Servers of which the second did not reach the first, and when.
    apart: BTreeMap<(u32, u32), Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientStore {
    pub(crate) fn new(first: u64) -> Self {
        Self { first, values: Arc::default(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// What servers may fetch.
    pub(crate) fn supply(&self) -> Supply {
        let values = self.values.clone();
        Arc::new(move |group, data| {
            let value = lock(&values).get(&(group, data)).cloned()?;
            Some(value.into_segments().map(Bytes::from_owner).collect())
        })
    }

    /// A group begins.
    pub(crate) fn begin(&self) -> u32 {
        let mut state = self.state();
        state.groups += 1;
        state.groups
    }

    /// What servers call a group.
    pub(crate) fn wire(&self, group: u32) -> u64 {
        self.first.wrapping_add(u64::from(group))
    }

    /// Servers may fetch a value from now on.
    pub(crate) fn offer(&self, group: u32, data: u32, value: Encoded) {
        self.state().sizes.insert((group, data), value.bytes());
        lock(&self.values).insert((self.wire(group), data), value);
    }

    /// They may not any more.
    pub(crate) fn withdraw(&self, group: u32, data: u32) {
        lock(&self.values).remove(&(self.wire(group), data));
    }

    pub(crate) fn size(&self, group: u32, data: u32) -> Option<u64> {
        self.state().sizes.get(&(group, data)).copied()
    }

    /// Servers have made data of this size.
    pub(crate) fn made(&self, group: u32, data: u32, bytes: u64) {
        self.state().sizes.insert((group, data), bytes);
    }

    /// Nobody needs this data of a group any more.
    pub(crate) fn free(&self, group: u32, data: &Freed) {
        let wire = self.wire(group);
        let (mut state, mut values) = (self.state(), lock(&self.values));
        for version in data.ranges().flatten() {
            state.sizes.remove(&(group, version));
            values.remove(&(wire, version));
        }
    }

    /// A group has ended.
    pub(crate) fn end(&self, group: u32) {
        let wire = self.wire(group);
        // Of this group only: there may be many others.
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

    /// A server does not reach another that has data; both by their numbers.
    pub(crate) fn part(&self, from: u32, to: u32) {
        self.state().apart.insert((from, to), Instant::now());
    }

    /// Servers that are known not to reach each other, by their positions.
    pub(crate) fn apart(&self, cards: &[ServerCard]) -> Vec<(ServerId, ServerId)> {
        let mut state = self.state();
        state.apart.retain(|_, since| since.elapsed() < APART);
        let places = cards.iter().map(|card| card.number).zip((0..).map(ServerId));
        let places: BTreeMap<u32, ServerId> = places.collect();
        let of_both = |(from, to): &(u32, u32)| Some((*places.get(from)?, *places.get(to)?));
        state.apart.keys().filter_map(of_both).collect()
    }
}
