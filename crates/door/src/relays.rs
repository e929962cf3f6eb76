//! Data that goes by way of the client, between servers of which one does not reach the other: what is wanted, and what has come. Pure.

use gridspan_rpc::{DataId, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// So much data is on its way to the client at the same time: more would share its link, and the first would come later.
const AT_ONCE: usize = 8;

/// Who does not reach whom, and what the client brings therefore.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// Servers, of which each second does not reach the first.
    apart: BTreeSet<(ServerId, ServerId)>,
    /// Data that the second server could not have from the first.
    unreached: BTreeSet<(DataId, ServerId, ServerId)>,
    /// What tasks wait for, and the server that is asked for it.
    wanted: BTreeMap<DataId, Option<ServerId>>,
    /// What the client has.
    here: BTreeSet<DataId>,
}

impl Relays {
    pub(super) fn new(apart: &BTreeSet<(ServerId, ServerId)>) -> Self {
        Self { apart: apart.clone(), ..Self::default() }
    }

    pub(super) fn has(&self, data: DataId) -> bool {
        self.here.contains(&data)
    }

    /// What was wanted and is not asked for is not wanted any more, unless somebody says so again.
    pub(super) fn reconsider(&mut self) {
        self.wanted.retain(|_, asked| asked.is_some());
    }

    pub(super) fn want(&mut self, data: DataId) {
        self.wanted.entry(data).or_default();
    }

    /// A server was asked for data and does not give it.
    pub(super) fn missing(&mut self, data: DataId, from: ServerId) {
        if self.wanted.get(&data) == Some(&Some(from)) {
            self.wanted.remove(&data);
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

    /// What is to be asked for now, of those that `holder` names.
    pub(super) fn take(
        &mut self,
        holder: impl Fn(DataId) -> Option<ServerId>,
    ) -> Vec<(DataId, ServerId)> {
        let asked = self.wanted.values().flatten().count();
        let open = self.wanted.iter_mut().filter(|(_, asked)| asked.is_none());
        let mut taken = Vec::new();
        for (&data, asked_of) in open.take(AT_ONCE.saturating_sub(asked)) {
            *asked_of = holder(data);
            taken.extend(asked_of.map(|server| (data, server)));
        }
        taken
    }

    /// Data has come.
    pub(super) fn came(&mut self, data: DataId) {
        self.wanted.remove(&data);
        self.here.insert(data);
    }

    /// What is not needed any more.
    pub(super) fn take_spent(&mut self, is_spent: impl Fn(DataId) -> bool) -> Vec<DataId> {
        let spent: Vec<DataId> = self.here.iter().copied().filter(|&data| is_spent(data)).collect();
        for data in &spent {
            self.here.remove(data);
        }
        spent
    }

    pub(super) fn lost(&mut self, server: ServerId) {
        self.wanted.retain(|_, asked| *asked != Some(server));
        // Nobody reached it for that reason, and others may.
        self.unreached.retain(|(_, from, _)| *from != server);
    }
}
