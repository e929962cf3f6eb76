//! The client-side record of the servers that were started and that left, of clients, and of
//! running groups. A main that begins again from a checkpoint gets it back with its services.

use gridspan_runtime::PeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// Number of restorations that attempt numbers can distinguish. Restorations count modulo this.
const RESTORATIONS: u32 = 1 << 11;
/// Number of attempt numbers between two restorations. Each window counts its attempts from 1.
const ATTEMPTS: u32 = 1 << 20;

/// The number before the first attempt of an order after this many restorations. It is below the
/// attempt numbers of shared data.
fn attempts_after(restorations: u32) -> u32 {
    restorations % RESTORATIONS * ATTEMPTS
}

/// Whether an attempt of an order is from before the last of the restorations that a server has
/// counted. Servers drop such orders, since no client waits for their outcome. Numbers wrap around,
/// and a server that was started after a restoration has counted fewer than main. So an attempt
/// counts as outdated if it is behind by less than half of [`RESTORATIONS`].
pub(super) fn is_outdated(attempt: u32, restorations: u32) -> bool {
    let behind = restorations.wrapping_sub(attempt / ATTEMPTS) % RESTORATIONS;
    (1..RESTORATIONS / 2).contains(&behind)
}

/// The state of a server when main no longer waits for its handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaveOutcome {
    /// As far as main knows, the registry still lists it.
    Listed,
    /// It has to hand over to this successor, and may not have done so.
    Unfinished(u32),
    /// It has left, with its successor if it has one.
    Left(Option<u32>),
}

/// Servers, clients and groups of one set of services.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Membership {
    /// Number of servers that were created with their group. Each is closed until it is started.
    created: u32,
    /// Servers below this number may be on another PE than that of their number.
    placed: u32,
    started: BTreeSet<u32>,
    /// Names of the servers that the registry has accepted.
    names: BTreeMap<u32, String>,
    /// Names of servers that are joining.
    #[serde(skip)]
    reserved: BTreeSet<String>,
    /// Successor of each server that left; `None` if its data is lost.
    left: BTreeMap<u32, Option<u32>>,
    /// Servers that have to hand over and for which main no longer waits, and their successors.
    unfinished: BTreeMap<u32, u32>,
    /// Number of the next client.
    clients: u32,
    /// Number of the next group.
    groups: u32,
    /// Clients that have not ended, and whether main goes on with them if it begins again.
    open_clients: BTreeMap<u32, bool>,
    /// The same for groups.
    going_on: BTreeMap<u32, bool>,
    /// Number of times that main has restored this record.
    restorations: u32,
    /// Whether this is the record of the present run, and not that of a checkpoint.
    #[serde(skip)]
    is_present: bool,
    /// Clients and groups that are from before the restoration and that main has not claimed yet.
    #[serde(skip)]
    unclaimed: [BTreeSet<u32>; 2],
    /// Number of servers that are handing over.
    handing_over: u32,
    /// Number of servers that have ever started to hand over.
    handed_over: u64,
    #[serde(skip)]
    waiting: Vec<Waker>,
    /// Wakers of the questions that end when a server is lost, by the number of the watch.
    #[serde(skip)]
    watches: BTreeMap<u64, Waker>,
    /// Number of the next watch.
    #[serde(skip)]
    next_watch: u64,
}

impl Membership {
    /// The record of services whose group of servers has this many members.
    pub(super) fn new(created: u32) -> Self {
        Self { created, is_present: true, ..Self::default() }
    }

    /// Makes the record of a checkpoint the record of the present run. Returns the clients and the
    /// groups with which main does not go on. Changes nothing if it is that record already.
    pub(super) fn restore(&mut self) -> [Vec<u32>; 2] {
        if std::mem::replace(&mut self.is_present, true) {
            return [Vec::new(), Vec::new()];
        }
        self.restorations = self.restorations.wrapping_add(1);
        // The servers may have other PEs now.
        self.placed = self.created;
        self.handing_over = 0;
        self.waiting.clear();
        self.watches.clear();
        let both = [&self.open_clients, &self.going_on];
        let those = |all: &BTreeMap<u32, bool>, goes_on: bool| -> Vec<u32> {
            let those = all.iter().filter(|(_, is_remembered)| **is_remembered == goes_on);
            those.map(|(number, _)| *number).collect()
        };
        let forgotten = both.map(|all| those(all, false));
        self.unclaimed = both.map(|all| those(all, true).into_iter().collect());
        forgotten
    }

    /// The record for a checkpoint of this run. A main that begins again may pass on a reference
    /// that it has not used: then servers have counted one restoration more than the record.
    pub(super) fn for_checkpoint(&self) -> Self {
        let missed = u32::from(!self.is_present);
        Self { restorations: self.restorations.wrapping_add(missed), ..self.clone() }
    }

    /// The number before the first attempt of an order.
    pub(super) fn first_attempt(&self) -> u32 {
        attempts_after(self.restorations)
    }

    /// Starts a server on a PE; returns its number, and whether it has to be inserted. In a job
    /// with `pe_count` PEs, its home is this PE as well, so that messages to it pass through no
    /// other PE.
    pub(super) fn start(&mut self, pe: PeId, pe_count: u32) -> (u32, bool) {
        let mut number = pe.0;
        while number < self.placed || self.started.contains(&number) {
            number += pe_count;
        }
        self.started.insert(number);
        (number, number >= self.created)
    }

    /// Reserves a name for a server that is to join, until [`release_name`](Self::release_name).
    /// Returns whether the name was free.
    pub(super) fn reserve_name(&mut self, name: &str) -> bool {
        self.named(name).is_none() && self.reserved.insert(name.to_owned())
    }

    /// Ends the reservation of a name.
    pub(super) fn release_name(&mut self, name: &str) {
        self.reserved.remove(name);
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

    /// The numbers of all servers that were started.
    pub(super) fn ever_started(&self) -> Vec<u32> {
        self.started.iter().copied().collect()
    }

    /// The names of the servers that have not left, by number.
    pub(super) fn standing_servers(&self) -> BTreeMap<u32, String> {
        // A server that has not joined yet has no name.
        let name = |number: u32| {
            let name = self.names.get(&number).cloned();
            (number, name.unwrap_or_else(|| format!("server {number}")))
        };
        let started = self.started.iter().copied();
        started.filter(|number| !self.left.contains_key(number)).map(name).collect()
    }

    /// Records that a server starts to leave. Until [`end_leave`](Self::end_leave), the registry
    /// may have removed it although its successor does not have all of its data.
    pub(super) fn begin_leave(&mut self) {
        self.handing_over += 1;
        self.handed_over += 1;
    }

    /// Ends the wait for a handover.
    pub(super) fn end_leave(&mut self, number: u32, outcome: LeaveOutcome) {
        match outcome {
            LeaveOutcome::Listed => {}
            LeaveOutcome::Unfinished(_) if self.left.contains_key(&number) => {}
            LeaveOutcome::Unfinished(successor) if self.standing(successor).is_some() => {
                self.unfinished.insert(number, successor);
            }
            // What a lost successor has not received is lost with it.
            LeaveOutcome::Unfinished(successor) => self.leave(number, Some(successor)),
            LeaveOutcome::Left(successor) => self.leave(number, successor),
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

    /// The successor of a server that has to hand over and for which main no longer waits.
    pub(super) fn unfinished(&self, number: u32) -> Option<u32> {
        self.unfinished.get(&number).copied()
    }

    /// A server that has to hand over and for which main no longer waits, and its successor.
    pub(super) fn first_unfinished(&self) -> Option<(u32, u32)> {
        self.unfinished.first_key_value().map(|(number, successor)| (*number, *successor))
    }

    /// A server with an unfinished handover to a successor whose data is lost, and that successor.
    fn lost_handover(&self) -> Option<(u32, u32)> {
        let mut unfinished =
            self.unfinished.iter().map(|(&number, &successor)| (number, successor));
        unfinished.find(|&(_, successor)| self.standing(successor).is_none())
    }

    /// Records that a server has left, with its successor if it has one. A loss is final: if a
    /// handover ends after the loss of its server, the successor may lack data. Unfinished
    /// handovers to a lost successor end here too, with the loss of their data: a successor that is
    /// stuck would never report their end.
    pub(super) fn leave(&mut self, number: u32, successor: Option<u32>) {
        self.unfinished.remove(&number);
        if self.left.get(&number) != Some(&None) {
            self.left.insert(number, successor);
        }
        while let Some((number, successor)) = self.lost_handover() {
            self.unfinished.remove(&number);
            self.left.insert(number, Some(successor));
        }
        std::mem::take(&mut self.watches).into_values().for_each(Waker::wake);
    }

    /// Begins to watch for the loss of servers; returns the number of the watch.
    pub(super) fn begin_watch(&mut self) -> u64 {
        let watch = self.next_watch;
        self.next_watch += 1;
        watch
    }

    /// Whether the data of this server is lost; otherwise `waker` is woken when the next server
    /// leaves.
    pub(super) fn watch_loss(&mut self, watch: u64, number: u32, waker: &Waker) -> bool {
        let is_lost = self.standing(number).is_none();
        if !is_lost {
            self.watches.insert(watch, waker.clone());
        }
        is_lost
    }

    /// Ends a watch.
    pub(super) fn end_watch(&mut self, watch: u64) {
        self.watches.remove(&watch);
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
        let client = self.clients;
        self.clients += 1;
        self.open_clients.insert(client, false);
        client
    }

    /// Records that main goes on with this client if it begins again.
    pub(super) fn remember_client(&mut self, client: u32) {
        self.open_clients.entry(client).and_modify(|is_remembered| *is_remembered = true);
    }

    /// Claims a client for main, which goes on with it. Returns whether it is from before the
    /// restoration, and was not claimed yet.
    pub(super) fn claim_client(&mut self, client: u32) -> bool {
        self.unclaimed[0].remove(&client)
    }

    pub(super) fn end_client(&mut self, client: u32) {
        self.open_clients.remove(&client);
    }

    /// Starts a group and returns its number.
    pub(super) fn begin(&mut self) -> u32 {
        let group = self.groups;
        self.groups += 1;
        self.going_on.insert(group, false);
        group
    }

    /// Records that main goes on with this group if it begins again.
    pub(super) fn remember_group(&mut self, group: u32) {
        self.going_on.entry(group).and_modify(|is_remembered| *is_remembered = true);
    }

    /// Claims a group for main, which goes on with it. Returns whether it is from before the
    /// restoration, and was not claimed yet.
    pub(super) fn claim_group(&mut self, group: u32) -> bool {
        self.unclaimed[1].remove(&group)
    }

    /// Ends a group; returns the number below which all groups have ended.
    pub(super) fn end(&mut self, group: u32) -> u32 {
        self.going_on.remove(&group);
        self.going_on.first_key_value().map_or(self.groups, |(first, _)| *first)
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
    fn a_server_that_is_lost_during_its_handover_has_no_successor() {
        let mut membership = Membership::default();
        // The handover, and the loss, which ends at once.
        membership.begin_leave();
        membership.begin_leave();
        membership.leave(1, None);
        membership.end_leave(1, LeaveOutcome::Left(None));
        assert_eq!(membership.settled(Waker::noop()), None);

        membership.end_leave(1, LeaveOutcome::Left(Some(2)));

        assert_eq!(membership.settled(Waker::noop()), Some(2));
        assert_eq!((membership.standing(1), membership.departures()), (None, 1));
    }

    #[test]
    fn a_server_has_its_data_until_its_handover_is_finished() {
        let mut membership = Membership::default();
        membership.begin_leave();
        membership.end_leave(1, LeaveOutcome::Unfinished(2));

        let mut membership = stored(&membership);
        assert_eq!(
            (membership.standing(1), membership.first_unfinished()),
            (Some(1), Some((1, 2)))
        );
        membership.begin_leave();
        membership.leave(1, Some(2));
        membership.end_leave(1, LeaveOutcome::Unfinished(2));

        assert_eq!((membership.standing(1), membership.first_unfinished()), (Some(2), None));
    }

    #[test]
    fn unfinished_handovers_end_with_the_loss_of_the_last_successor() {
        let mut membership = Membership::default();
        for (number, successor) in [(1, 2), (2, 3), (4, 5)] {
            membership.begin_leave();
            membership.end_leave(number, LeaveOutcome::Unfinished(successor));
        }
        let watch = membership.begin_watch();
        assert!(!membership.watch_loss(watch, 1, Waker::noop()));

        membership.leave(3, None);
        membership.begin_leave();
        membership.end_leave(6, LeaveOutcome::Unfinished(3));

        assert!(membership.watch_loss(watch, 1, Waker::noop()));
        let standing = [1, 2, 4, 6].map(|number| membership.standing(number));
        assert_eq!(standing, [None, None, Some(4), None]);
        membership.leave(4, Some(5));
        assert_eq!(membership.first_unfinished(), None);
    }

    #[test]
    fn a_watch_sees_the_loss_of_the_last_successor() {
        let waker = Waker::noop();
        let mut membership = Membership::default();
        let watches = [(); 2].map(|()| membership.begin_watch());
        assert_ne!(watches[0], watches[1]);
        assert!(watches.iter().all(|&watch| !membership.watch_loss(watch, 1, waker)));

        membership.leave(1, Some(2));
        assert!(membership.watches.is_empty(), "both were woken");
        assert!(!membership.watch_loss(watches[0], 1, waker), "server 2 has the data");
        membership.leave(2, None);

        assert!(membership.watch_loss(watches[0], 1, waker));
        assert!(!membership.watch_loss(watches[1], 3, waker));
        membership.end_watch(watches[1]);
        assert!(membership.watches.is_empty());
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
    fn a_name_is_reserved_once_and_free_again_after_its_release() {
        let mut membership = Membership::default();
        assert_eq!([(); 2].map(|()| membership.reserve_name("same")), [true, false]);
        assert!(membership.reserve_name("other"));
        assert_eq!(membership.named("same"), None, "it has not joined");

        membership.release_name("same");
        assert!(membership.reserve_name("same"));
        membership.name(0, "same".to_owned());
        membership.release_name("same");

        assert!(!membership.reserve_name("same"), "a server has it");
        membership.leave(0, None);
        assert!(membership.reserve_name("same"));
    }

    /// A record as a checkpoint has it.
    fn stored(membership: &Membership) -> Membership {
        postcard::from_bytes(&postcard::to_stdvec(membership).unwrap()).unwrap()
    }

    #[test]
    fn servers_are_numbered_by_pe_and_round() {
        let mut membership = Membership::new(4);
        let started = [PeId(1), PeId(1), PeId(3)].map(|pe| membership.start(pe, 4));

        assert_eq!(started, [(1, false), (5, true), (3, false)]);
        assert_eq!(membership.ever_started(), [1, 3, 5]);
    }

    #[test]
    fn a_restored_main_starts_servers_under_new_numbers() {
        let mut membership = Membership::new(4);
        for pe in [PeId(1), PeId(1)] {
            membership.start(pe, 4);
        }

        // Three PEs are left. Server 5, and all that were created, may be on any of them.
        let mut membership = stored(&membership);
        assert_eq!(membership.restore(), [Vec::<u32>::new(), Vec::new()]);

        assert_eq!(
            [2, 2, 1].map(|pe| membership.start(PeId(pe), 3)),
            [(8, true), (11, true), (4, true)]
        );
        assert_eq!(membership.first_attempt(), ATTEMPTS);
    }

    #[test]
    fn what_main_does_not_remember_is_given_up_at_a_restoration() {
        let mut membership = Membership::default();
        let clients = [(); 3].map(|()| membership.client());
        let groups = [(); 3].map(|()| membership.begin());
        membership.remember_client(clients[2]);
        membership.remember_group(groups[0]);
        membership.end_client(clients[0]);
        membership.end(groups[1]);
        // An ended group does not come back.
        membership.remember_group(groups[1]);

        let mut membership = stored(&membership);
        let forgotten = membership.restore();

        assert_eq!(forgotten, [vec![clients[1]], vec![groups[2]]]);
        assert!(membership.claim_client(clients[2]) && membership.claim_group(groups[0]));
        assert!(!membership.claim_client(clients[1]) && !membership.claim_group(groups[2]));
        assert!(!membership.claim_group(groups[0]), "once");
        // A checkpoint of the same run is restored once only.
        assert_eq!(membership.restore(), [Vec::<u32>::new(), Vec::new()]);
        assert_eq!(membership.first_attempt(), ATTEMPTS);
        assert_eq!((membership.client(), membership.begin()), (3, 3));
    }

    #[test]
    fn a_record_that_main_passes_on_unused_counts_the_restoration() {
        let first = Membership::new(4).for_checkpoint();
        let passed_on = stored(&first).for_checkpoint();

        let mut restored = stored(&passed_on);
        restored.restore();

        // Servers have counted both.
        assert_eq!(restored.first_attempt(), attempts_after(2));
        assert_eq!(restored.for_checkpoint().first_attempt(), attempts_after(2));
    }

    #[test]
    fn attempts_stay_below_those_of_shared_data() {
        assert!((0..RESTORATIONS).all(|times| attempts_after(times) < (1 << 31) - ATTEMPTS + 1));
        assert_eq!(attempts_after(RESTORATIONS), 0);
    }

    #[test]
    fn only_attempts_from_before_the_last_restoration_are_outdated_also_when_numbers_wrap() {
        let is_late = |of_main, of_server| is_outdated(attempts_after(of_main) + 7, of_server);
        for restorations in [1, 5, RESTORATIONS - 1, RESTORATIONS, RESTORATIONS + 1] {
            assert!(is_late(restorations - 1, restorations), "{restorations}");
            // A server that was started after some restorations has counted fewer.
            for fewer in (0..=restorations).take(9) {
                assert!(!is_late(restorations, restorations - fewer), "{restorations} {fewer}");
            }
        }
    }
}
