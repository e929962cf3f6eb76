//! Latencies to other sites: from the hierarchy, or as measured by this head if the hierarchy has
//! none.
//!
//! A job may run tasks before its hierarchy is measured. Once a part of its site has reported, a
//! head then asks each other head for an echo, once, and knows the latency after a round trip. Work
//! stays in the site until then.

use super::super::message::StealMessage;
use super::outgoing::Outgoing;
use gridspan_topology::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Latencies to the heads of other sites in one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteLatencies(BTreeMap<NodeId, SiteLatency>);

#[derive(Clone, Copy, Debug)]
enum SiteLatency {
    /// An echo was requested at this time.
    Asked(Time),
    Measured(Duration),
}

impl SiteLatencies {
    /// Returns the latency to another site in one direction; `None` while it is not known.
    pub(super) fn latency(&self, site: usize, post: &Outgoing<'_>) -> Option<Duration> {
        let (own, _) = post.own();
        if let Some(given) = post.places.known_latency(own, site) {
            return Some(given);
        }
        match self.0.get(&post.places.head(site)?)? {
            SiteLatency::Asked(_) => None,
            SiteLatency::Measured(way) => Some(*way),
        }
    }

    /// Asks the heads of other sites for an echo, if their latency is not known.
    pub(super) fn ask(&mut self, post: &mut Outgoing<'_>) {
        let (own, _) = post.own();
        for site in (0..post.places.site_count()).filter(|&site| site != own) {
            let is_given = post.places.known_latency(own, site).is_some();
            let Some(head) = post.places.head(site).filter(|_| !is_given) else { continue };
            if let std::collections::btree_map::Entry::Vacant(way) = self.0.entry(head) {
                way.insert(SiteLatency::Asked(post.now));
                post.send(head, StealMessage::LatencyProbe { is_answer: false });
            }
        }
    }

    /// Handles an echo; one that was not requested is ignored.
    pub(super) fn heard(&mut self, from: NodeId, now: Time) {
        if let Some(way) = self.0.get_mut(&from)
            && let SiteLatency::Asked(at) = *way
        {
            // At least a nanosecond: zero means unknown.
            *way = SiteLatency::Measured((now.since(at) / 2).max(Duration::from_nanos(1)));
        }
    }

    /// Forgets a lost node: another may be the head of its site.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}
