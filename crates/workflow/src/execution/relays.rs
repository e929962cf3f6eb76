//! Data that goes by way of the client, between servers of which one does not reach the other: what
//! is wanted, and what has come.

use crate::id::{DataId, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// So much data is on its way to the client at the same time: more would share its link, and the
/// first would come later.
const AT_ONCE: usize = 8;
/// So many bytes are there or on their way, unless nothing would go on otherwise: they are in the
/// client's memory.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// Who does not reach whom, and what the client brings therefore.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// Servers, of which each second does not reach the first.
    apart: BTreeSet<(ServerId, ServerId)>,
    /// Data that the second server could not have from the first.
    unreached: BTreeSet<(DataId, ServerId, ServerId)>,
    /// What tasks wait for, one task after the other.
    wanted: Vec<DataId>,
    /// What is on its way, and the server that was asked for it.
    asked: BTreeMap<DataId, ServerId>,
    /// What the client has, and how many bytes that is.
    here: BTreeMap<DataId, u64>,
}

impl Relays {
    pub(super) fn new(apart: BTreeSet<(ServerId, ServerId)>) -> Self {
        Self { apart, ..Self::default() }
    }

    pub(super) fn has(&self, data: DataId) -> bool {
        self.here.contains_key(&data)
    }

    /// Whether nothing is here, nor wanted.
    pub(super) fn is_idle(&self) -> bool {
        self.here.is_empty() && self.wanted.is_empty()
    }

    /// What was wanted and is not asked for is not wanted any more, unless somebody says so again.
    pub(super) fn reconsider(&mut self) {
        self.wanted.clear();
    }

    pub(super) fn want(&mut self, data: DataId) {
        self.wanted.push(data);
    }

    /// A server was asked for data and does not give it.
    pub(super) fn missing(&mut self, data: DataId, from: ServerId) {
        if self.asked.get(&data) == Some(&from) {
            self.asked.remove(&data);
        }
    }

    /// A server does not reach another that has data.
    pub(super) fn part(&mut self, data: DataId, from: ServerId, to: ServerId) {
        self.apart.insert((from, to));
        self.unreached.insert((data, from, to));
    }

    /// Whether a server that is not lost has data and was not reached by the one that needed it.
    pub(super) fn is_unreached(&self, data: DataId, to: ServerId) -> bool {
        let (first, last) = (ServerId(0), ServerId(u32::MAX));
        let all = self.unreached.range((data, first, first)..=(data, last, last));
        all.into_iter().any(|(_, _, by)| *by == to)
    }

    pub(super) fn are_apart(&self, from: ServerId, to: ServerId) -> bool {
        self.apart.contains(&(from, to))
    }

    /// What is to be asked for now, of those that `holder` names, of what tasks wait for and then
    /// of `others`. `bytes` says how large data is, and `goes` whether some that is here will go
    /// without any more.
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
            // A task may need more than this at once, or several may each wait for the half of it
            // that is missing.
            let would_stop = || self.asked.is_empty() && !self.here.keys().any(|&data| goes(data));
            // What is small does not pass what is large, which would wait for ever.
            if self.asked.len() >= AT_ONCE || (held > HELD_BYTES_MAX && !would_stop()) {
                break;
            }
            self.asked.insert(data, server);
            taken.push((data, server));
        }
        taken
    }

    /// Data of so many bytes has come.
    pub(super) fn came(&mut self, data: DataId, bytes: u64) {
        self.asked.remove(&data);
        self.here.insert(data, bytes);
    }

    /// What is here and not needed any more.
    pub(super) fn spent(&self, is_spent: impl Fn(DataId) -> bool) -> Vec<DataId> {
        self.here.keys().copied().filter(|&data| is_spent(data)).collect()
    }

    pub(super) fn let_go(&mut self, data: DataId) {
        self.here.remove(&data);
    }

    pub(super) fn lost(&mut self, server: ServerId) {
        self.asked.retain(|_, asked| *asked != server);
        // Nobody reached it for that reason, and others may.
        self.unreached.retain(|(_, from, _)| *from != server);
    }
}
