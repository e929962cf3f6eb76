//! The data that the client relays between servers of which one does not reach the other: wanted,
//! requested and received.

use crate::id::{DataId, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of relayed data in transit to the client at once: more would share the client's
/// link, and delay the first.
const AT_ONCE: usize = 8;
/// Maximum number of bytes held or in transit, which occupy the client's memory. It is exceeded
/// only if nothing would progress otherwise.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// The pairs of servers of which one does not reach the other, and the data that the client relays
/// between them.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// The pairs of servers of which the second does not reach the first.
    apart: BTreeSet<(ServerId, ServerId)>,
    /// Data that the second server could not fetch from the first.
    unreached: BTreeSet<(DataId, ServerId, ServerId)>,
    /// Data that tasks wait for, task by task.
    wanted: Vec<DataId>,
    /// Data in transit, and the server from which it was requested.
    asked: BTreeMap<DataId, ServerId>,
    /// Data that the client has received, with its size in bytes.
    here: BTreeMap<DataId, u64>,
}

impl Relays {
    pub(super) fn new(apart: BTreeSet<(ServerId, ServerId)>) -> Self {
        Self { apart, ..Self::default() }
    }

    pub(super) fn has(&self, data: DataId) -> bool {
        self.here.contains_key(&data)
    }

    /// Whether no data is held or wanted.
    pub(super) fn is_idle(&self) -> bool {
        self.here.is_empty() && self.wanted.is_empty()
    }

    /// Clears the wanted data that is not requested yet; the caller adds data that is still wanted.
    pub(super) fn reconsider(&mut self) {
        self.wanted.clear();
    }

    pub(super) fn want(&mut self, data: DataId) {
        self.wanted.push(data);
    }

    /// Notes that a server does not have data that was requested from it.
    pub(super) fn missing(&mut self, data: DataId, from: ServerId) {
        if self.asked.get(&data) == Some(&from) {
            self.asked.remove(&data);
        }
    }

    /// Notes that server `to` does not reach server `from`, which has data.
    pub(super) fn part(&mut self, data: DataId, from: ServerId, to: ServerId) {
        self.apart.insert((from, to));
        self.unreached.insert((data, from, to));
    }

    /// Whether server `to` failed to reach a server that has data and is not lost.
    pub(super) fn is_unreached(&self, data: DataId, to: ServerId) -> bool {
        let (first, last) = (ServerId(0), ServerId(u32::MAX));
        let all = self.unreached.range((data, first, first)..=(data, last, last));
        all.into_iter().any(|(_, _, by)| *by == to)
    }

    pub(super) fn are_apart(&self, from: ServerId, to: ServerId) -> bool {
        self.apart.contains(&(from, to))
    }

    /// Takes the data to request now: first the data that tasks wait for and then `others`, if
    /// `holder` names a server that has it. `bytes` returns the size of data. `goes` returns
    /// whether the client will be able to release held data even if it fetches nothing more.
    pub(super) fn take(
        &mut self,
        others: impl Iterator<Item = DataId>,
        holder: impl Fn(DataId) -> Option<ServerId>,
        bytes: impl Fn(DataId) -> u64,
        goes: impl Fn(DataId) -> bool,
    ) -> Vec<(DataId, ServerId)> {
        let asked = self.asked.keys().map(|&data| bytes(data));
        let mut held = self.here.values().copied().chain(asked).fold(0, u64::saturating_add);
        let mut taken = Vec::new();
        for data in std::mem::take(&mut self.wanted).into_iter().chain(others) {
            let Some(server) = holder(data).filter(|_| !self.asked.contains_key(&data)) else {
                continue;
            };
            held = held.saturating_add(bytes(data));
            // Exceed the limit if nothing would progress otherwise: a task may need more bytes than
            // that, or several tasks may each wait for a part of their arguments.
            let would_stop = || self.asked.is_empty() && !self.here.keys().any(|&data| goes(data));
            // Small data does not overtake large data, because the large data would wait for ever.
            if self.asked.len() >= AT_ONCE || (held > HELD_BYTES_MAX && !would_stop()) {
                break;
            }
            self.asked.insert(data, server);
            taken.push((data, server));
        }
        taken
    }

    /// Notes that data of `bytes` bytes has arrived.
    pub(super) fn came(&mut self, data: DataId, bytes: u64) {
        self.asked.remove(&data);
        self.here.insert(data, bytes);
    }

    /// Returns the held data for which `is_spent` is true.
    pub(super) fn spent(&self, is_spent: impl Fn(DataId) -> bool) -> Vec<DataId> {
        self.here.keys().copied().filter(|&data| is_spent(data)).collect()
    }

    pub(super) fn let_go(&mut self, data: DataId) {
        self.here.remove(&data);
    }

    pub(super) fn lost(&mut self, server: ServerId) {
        self.asked.retain(|_, asked| *asked != server);
        // The server was unreached because it was lost; another holder may be reached.
        self.unreached.retain(|(_, from, _)| *from != server);
    }
}
