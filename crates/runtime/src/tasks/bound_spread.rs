//! Selects the nodes to which an agent sends improvements of its pool's bound.
//!
//! The node on which a task has found an improvement sends it to the nodes of its site and to the
//! first founder of each other site, which sends it to the nodes of that site. So an improvement
//! crosses to each other site once. A guest knows founders only, and sends to the first one of its
//! site, which passes the value on as if it had found it. If the first founder of a site is lost,
//! the next one takes its part. A node passes on only values that are better than all that it has
//! sent or received, so the spread of each improvement ends.

use super::bound::{Bound, NONE};
use gridspan_topology::{Layout, NodeId, SiteId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Time after a message within which improvements are collected and sent together: well below the
/// two milliseconds within which other nodes are to learn of an improvement. So a node sends the
/// improvements found on it to each other node in at most 2,000 messages a second.
const SPREAD_EVERY: Duration = Duration::from_micros(500);

/// The agent's part in spreading the bound of its pool.
pub(super) struct BoundSpread {
    bound: Arc<Bound>,
    me: NodeId,
    layout: Arc<Layout>,
    /// The guests of this site; empty on a guest.
    guests: BTreeSet<NodeId>,
    /// The founders that are lost.
    lost: BTreeSet<NodeId>,
    /// The best value that was sent to other nodes or received from them.
    told: i64,
    /// Time before which nothing is sent.
    not_before: Time,
}

impl BoundSpread {
    pub(super) fn new(bound: Arc<Bound>, me: NodeId, layout: Arc<Layout>) -> Self {
        let (guests, lost) = (BTreeSet::new(), BTreeSet::new());
        Self { bound, me, layout, guests, lost, told: NONE, not_before: Time::ZERO }
    }

    /// Returns the time at which there is a value to send.
    pub(super) fn due(&self) -> Option<Time> {
        let known = (self.bound.best() > self.told).then_some(Time::ZERO);
        let next = known.into_iter().chain(self.bound.next_found()).min();
        next.map(|next| next.max(self.not_before))
    }

    /// Returns the best value found here and the nodes to send it to, if it was not sent yet and
    /// may be sent now.
    pub(super) fn take_found(&mut self, now: Time) -> Option<(i64, Vec<NodeId>)> {
        self.bound.advance(now);
        let best = self.bound.best();
        if best <= self.told || now < self.not_before {
            return None;
        }
        self.told = best;
        self.not_before = now + SPREAD_EVERY;
        Some((best, self.audience(None)))
    }

    /// Takes a value that another node has sent. Returns the nodes to pass it on to.
    pub(super) fn receive(&mut self, from: NodeId, rank: i64) -> Vec<NodeId> {
        self.bound.learn(rank);
        if rank <= self.told {
            return Vec::new();
        }
        self.told = rank;
        let is_passed_on = self.layout.is_guest(from) || self.site(from) != self.site(self.me);
        if is_passed_on { self.audience(Some(from)) } else { Vec::new() }
    }

    /// Adds a guest that has joined. Returns the value to send to it, if any.
    pub(super) fn add(&mut self, guest: NodeId) -> Option<i64> {
        if self.site(guest) != self.site(self.me) || self.layout.is_guest(self.me) {
            return None;
        }
        self.guests.insert(guest);
        (self.first_of(self.site(guest)) == Some(self.me) && self.told != NONE).then_some(self.told)
    }

    /// Removes a guest that is gone, or a founder that is lost.
    pub(super) fn remove(&mut self, node: NodeId) {
        if !self.guests.remove(&node) && !self.layout.is_guest(node) {
            self.lost.insert(node);
        }
    }

    fn site(&self, node: NodeId) -> SiteId {
        self.layout.site_of_node(node)
    }

    /// Returns the first founder of `site` that is not lost.
    fn first_of(&self, site: SiteId) -> Option<NodeId> {
        self.layout.nodes_in(site).find(|node| !self.lost.contains(node))
    }

    /// Returns the nodes to which to send a value that has come from node `from`, or was found
    /// here.
    fn audience(&self, from: Option<NodeId>) -> Vec<NodeId> {
        let layout = &self.layout;
        if layout.is_guest(self.me) {
            return if from.is_none() {
                self.first_of(self.site(self.me)).into_iter().collect()
            } else {
                Vec::new()
            };
        }
        let own = layout.nodes_in(self.site(self.me)).chain(self.guests.iter().copied());
        let is_of_far_site = from.is_some_and(|from| self.site(from) != self.site(self.me));
        let sites = layout.sites().filter(|_| !is_of_far_site);
        let far = sites.filter(|&site| site != self.site(self.me));
        let far = far.filter_map(|site| self.first_of(site));
        let is_wanted =
            |node: &NodeId| *node != self.me && Some(*node) != from && !self.lost.contains(node);
        own.chain(far).filter(is_wanted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Makes a node find a value and all nodes pass it on. Returns how often each node received it,
    /// and how often a link between sites was crossed.
    fn spread(finder: impl Fn(&Layout) -> NodeId) -> (BTreeMap<NodeId, u32>, u32) {
        let site = |name: &str, nodes| (name.to_owned(), vec![1; nodes]);
        let layout = Arc::new(Layout::new(vec![site("a", 3), site("b", 2), site("c", 1)]));
        let guests = [(0, 0), (1, 0), (1, 1)];
        let guests = guests.map(|(site, number)| layout.guest(SiteId(site), number).unwrap());
        let mut nodes: BTreeMap<NodeId, BoundSpread> = BTreeMap::new();
        for node in layout.nodes().chain(guests) {
            let mut spread = BoundSpread::new(Arc::default(), node, layout.clone());
            guests.iter().for_each(|&guest| assert_eq!(spread.add(guest), None));
            nodes.insert(node, spread);
        }
        let finder = finder(&layout);
        let first = nodes.get_mut(&finder).unwrap();
        assert!(first.due().is_none() && first.bound.learn(5));
        let (rank, to) = first.take_found(Time(1)).unwrap();
        let mut told = BTreeMap::new();
        let mut crossings = 0;
        let mut open: Vec<(NodeId, NodeId)> = to.into_iter().map(|to| (finder, to)).collect();
        while let Some((from, to)) = open.pop() {
            *told.entry(to).or_default() += 1;
            crossings += u32::from(layout.site_of_node(from) != layout.site_of_node(to));
            let next = nodes.get_mut(&to).unwrap().receive(from, rank);
            open.extend(next.into_iter().map(|next| (to, next)));
        }
        assert!(nodes.values().all(|node| node.bound.best() == 5 && node.due().is_none()));
        (told, crossings)
    }

    #[test]
    fn each_node_receives_a_value_once_over_one_crossing_to_each_other_site() {
        for node in 0..6 {
            let (told, crossings) = spread(|_| NodeId(node));
            assert_eq!((told.len(), crossings), (8, 2), "from node {node}");
            assert!(told.values().all(|&times| times == 1), "{told:?}");
        }
        for site in [0, 1] {
            let (told, crossings) = spread(|layout| layout.guest(SiteId(site), 0).unwrap());
            assert_eq!((told.len(), crossings), (8, 2), "from a guest of {site}");
            assert!(told.values().all(|&times| times == 1), "{told:?}");
        }
    }

    #[test]
    fn values_found_soon_after_a_message_are_sent_together_within_a_millisecond() {
        let layout = Arc::new(Layout::new(vec![("a".to_owned(), vec![1, 1])]));
        let mut spread = BoundSpread::new(Arc::default(), NodeId(0), layout);
        let begin = Time(1_000_000);
        spread.bound.learn(1);
        assert_eq!(spread.take_found(begin), Some((1, vec![NodeId(1)])));
        for rank in 2..100 {
            spread.bound.learn(rank);
            assert_eq!(spread.take_found(begin), None);
        }
        let due = spread.due().unwrap();
        assert!(due.since(begin) < Duration::from_millis(1));
        assert_eq!(spread.take_found(due), Some((99, vec![NodeId(1)])));
    }

    #[test]
    fn the_next_founder_of_a_site_stands_in_for_one_that_is_lost() {
        let site = |name: &str| (name.to_owned(), vec![1, 1]);
        let layout = Arc::new(Layout::new(vec![site("a"), site("b")]));
        let mut spread = BoundSpread::new(Arc::default(), NodeId(0), layout);
        [1, 2].into_iter().for_each(|node| spread.remove(NodeId(node)));
        spread.bound.learn(5);
        assert_eq!(spread.take_found(Time(1)), Some((5, vec![NodeId(3)])));
    }

    #[test]
    fn guests_exchange_values_with_the_next_founder_if_the_first_one_of_their_site_is_lost() {
        let layout = Arc::new(Layout::new(vec![("a".to_owned(), vec![1, 1])]));
        let guest = layout.guest(SiteId(0), 0).unwrap();
        let mut of_guest = BoundSpread::new(Arc::default(), guest, layout.clone());
        let mut of_founder = BoundSpread::new(Arc::default(), NodeId(1), layout);
        for spread in [&mut of_guest, &mut of_founder] {
            spread.remove(NodeId(0));
        }

        of_guest.bound.learn(5);

        assert_eq!(of_guest.take_found(Time(1)), Some((5, vec![NodeId(1)])));
        of_founder.receive(guest, 5);
        assert_eq!(of_founder.add(guest), Some(5));
    }

    #[test]
    fn a_guest_that_joins_later_receives_the_known_value() {
        let layout = Arc::new(Layout::new(vec![("a".to_owned(), vec![1, 1])]));
        let guest = layout.guest(SiteId(0), 4).unwrap();
        let mut spread = BoundSpread::new(Arc::default(), NodeId(0), layout);
        spread.receive(NodeId(1), 77);
        assert_eq!(spread.add(guest), Some(77));
    }
}
