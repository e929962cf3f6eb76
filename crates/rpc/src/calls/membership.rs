//! The client-side record of the servers that were started and that left, and of running groups.

use gridspan_runtime::PeId;
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// Servers, clients and groups of one set of services.
#[derive(Debug, Default)]
pub(super) struct Membership {
    started: BTreeMap<PeId, u32>,
    /// Names of the servers that the registry has accepted.
    names: BTreeMap<u32, String>,
    /// Successor of each server that left; `None` if its data is lost.
    left: BTreeMap<u32, Option<u32>>,
    clients: u32,
    groups: u32,
    going_on: BTreeSet<u32>,
    /// Number of servers that are handing over.
    handing_over: u32,
    /// Number of servers that have ever started to hand over.
    handed_over: u64,
    waiting: Vec<Waker>,
}

impl Membership {
    /// Counts a server that starts on a PE; returns the number of earlier ones there.
    pub(super) fn start(&mut self, pe: PeId) -> u32 {
        let count = self.started.entry(pe).or_default();
        *count += 1;
        *count - 1
    }

    /// Records the name of a server that joins.
    pub(super) fn name(&mut self, number: u32, name: String) {
        self.names.insert(number, name);
    }

    /// Removes the name of a server whose registration failed.
    pub(super) fn forget_name(&mut self, number: u32) {
        self.names.remove(&number);
    }

    /// The number of the server of this name that has not left.
    pub(super) fn named(&self, name: &str) -> Option<u32> {
        let named = self.names.iter().filter(|(_, of)| *of == name);
        named.map(|(number, _)| *number).find(|number| !self.left.contains_key(number))
    }

    /// The numbers of all servers that were started, in a job with `pe_count` PEs.
    pub(super) fn ever_started(&self, pe_count: u32) -> Vec<u32> {
        let of_pe = |(pe, count): (&PeId, &u32)| {
            let first = pe.0;
            (0..*count).map(move |round| first + round * pe_count)
        };
        self.started.iter().flat_map(of_pe).collect()
    }

    /// The names of the servers that have not left, by number, in a job with `pe_count` PEs.
    pub(super) fn standing_servers(&self, pe_count: u32) -> BTreeMap<u32, String> {
        // A server that has not joined yet has no name.
        let name = |number: u32| {
            let name = self.names.get(&number).cloned();
            (number, name.unwrap_or_else(|| format!("server {number}")))
        };
        let started = self.ever_started(pe_count).into_iter();
        started.filter(|number| !self.left.contains_key(number)).map(name).collect()
    }

    /// Records that a server starts to leave. Until [`end_leave`](Self::end_leave), the registry
    /// may have removed it although its successor does not have all of its data.
    pub(super) fn begin_leave(&mut self) {
        self.handing_over += 1;
        self.handed_over += 1;
    }

    /// A handover has ended: `outcome` is the successor, or `Some(None)` if the server is lost, or
    /// `None` if the registry has not removed the server.
    pub(super) fn end_leave(&mut self, number: u32, outcome: Option<Option<u32>>) {
        if let Some(successor) = outcome {
            self.leave(number, successor);
        }
        self.handing_over -= 1;
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Number of handovers so far, if none is in progress; otherwise `waker` is woken when one
    /// ends.
    pub(super) fn settled(&mut self, waker: &Waker) -> Option<u64> {
        if self.handing_over == 0 {
            return Some(self.handed_over);
        }
        self.waiting.push(waker.clone());
        None
    }

    /// Records that a server has left, with its successor if it has one.
    pub(super) fn leave(&mut self, number: u32, successor: Option<u32>) {
        self.left.insert(number, successor);
    }

    /// Number of servers that have left.
    pub(super) fn departures(&self) -> usize {
        self.left.len()
    }

    /// The server that has the data of this one: itself, or its last successor; `None` if the data
    /// is lost.
    pub(super) fn standing(&self, mut number: u32) -> Option<u32> {
        while let Some(successor) = self.left.get(&number) {
            number = (*successor)?;
        }
        Some(number)
    }

    /// Returns a new client number.
    pub(super) fn client(&mut self) -> u32 {
        self.clients += 1;
        self.clients - 1
    }

    /// Starts a group and returns its number.
    pub(super) fn begin(&mut self) -> u32 {
        let group = self.groups;
        self.groups += 1;
        self.going_on.insert(group);
        group
    }

    /// Ends a group; returns the number below which all groups have ended.
    pub(super) fn end(&mut self, group: u32) -> u32 {
        self.going_on.remove(&group);
        self.going_on.first().copied().unwrap_or(self.groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_a_server_is_at_its_last_successor() {
        let mut membership = Membership::default();
        membership.leave(1, Some(2));
        membership.leave(2, Some(3));
        membership.leave(4, None);

        assert_eq!(
            [1, 2, 3, 4].map(|number| membership.standing(number)),
            [Some(3), Some(3), Some(3), None]
        );
    }

    #[test]
    fn all_groups_before_the_first_running_one_have_ended() {
        let mut membership = Membership::default();
        let [first, second, third] = [(); 3].map(|()| membership.begin());

        assert_eq!(
            [membership.end(second), membership.end(first), membership.end(third)],
            [first, third, 3]
        );
    }

    #[test]
    fn a_name_finds_the_server_that_has_not_left() {
        let mut membership = Membership::default();
        (0..3).for_each(|number| membership.name(number, "same".to_owned()));
        membership.leave(0, Some(1));
        membership.leave(1, None);

        assert_eq!((membership.named("same"), membership.named("other")), (Some(2), None));
    }

    #[test]
    fn servers_are_numbered_by_pe_and_round() {
        let mut membership = Membership::default();
        assert_eq!([PeId(1), PeId(1), PeId(3)].map(|pe| membership.start(pe)), [0, 1, 0]);

        assert_eq!(membership.ever_started(4), [1, 5, 3]);
    }
}
