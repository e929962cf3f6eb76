//! A node's part in the telemetry of a job that someone watches: it samples its own counters,
//! merges them with the samples of the nodes below it in the tree, and sends the result to the node
//! above. See [`telemetry`](crate::message::telemetry).
//!
//! The relay does this, so that sampling continues while all PEs are inside handlers. It asks the
//! PEs for their counters a moment before it takes the sample, and they need not answer.

use super::agents::Post;
use super::command::RelayCommand;
use crate::message::SpreadFrame;
use crate::message::codec::DecodeError;
use crate::message::telemetry::{
    LinkTelemetry, NodeReading, NodeReadings, NodeTelemetry, PeTelemetry, SiteTelemetry,
    TelemetryBounds, TelemetryCounts, TelemetryLease, TelemetryMessage, TelemetrySample,
    TelemetryTime, TelemetryTree, TypeTelemetry,
};
use gridspan_topology::{NodeId, PeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Time that PEs have to answer before the sample is taken: many turns of a PE, and a small part of
/// a period.
const ANSWER: Duration = Duration::from_millis(50);
/// Divisor of a lease that gives the time after which the root renews it. The root does not renew
/// it at each request for a sample, since a renewal is a message to every node.
const RENEWAL: u32 = 3;
/// Number of periods after which the sample of a silent child is dropped.
const KEPT_PERIODS: u32 = 3;
/// Divisor of a period that gives the time by which a node samples earlier than its parent.
const AHEAD: u32 = 16;
/// Level below which nodes sample no earlier: eight levels take half a period.
const LEVELS: u32 = 8;

/// The telemetry of one node.
#[derive(Default)]
pub(super) struct Telemetry {
    /// The counters of this node; `None` if its driver keeps none.
    readings: Option<Arc<dyn NodeReadings>>,
    /// Names of the actor types, by number.
    type_names: Vec<&'static str>,
    /// The founders that are lost or suspended. The tree leaves them out.
    lost: BTreeSet<NodeId>,
    /// `None` if there is no lease.
    watched: Option<Watched>,
}

/// The state of a node with a lease.
struct Watched {
    tree: TelemetryTree,
    bounds: TelemetryBounds,
    lease: TelemetryLease,
    until: Time,
    /// When the next sample is taken.
    sample_at: Time,
    /// Whether the PEs have been asked for their counters for that sample.
    is_ordered: bool,
    /// The latest sample of each child, and when it came.
    children: BTreeMap<NodeId, (Time, TelemetrySample)>,
    /// Number and bytes of the samples of children since the last sample of this node.
    received: (u32, u64),
    /// The counts of the PEs in the last sample.
    before: TelemetryCounts,
    /// Time that this lease has taken here, without the PEs.
    spent: TelemetryTime,
    /// Time that telemetry had taken here at the last sample, with the PEs.
    spent_before: Option<TelemetryTime>,
    /// The latest sample of the job, at the root, without the names of actor types.
    latest: Option<TelemetrySample>,
    ticks: u64,
}

impl Telemetry {
    /// Sets the source of the counters of this node.
    pub(super) fn set_readings(&mut self, readings: Arc<dyn NodeReadings>) {
        self.readings = Some(readings);
    }

    /// Sets the names of the actor types, by number.
    pub(super) fn set_type_names(&mut self, names: Vec<&'static str>) {
        self.type_names = names;
    }

    /// At the root: begins or renews the lease, and returns the latest sample of the job.
    pub(super) fn sample(
        &mut self,
        lease: TelemetryLease,
        post: &mut Post<'_>,
    ) -> Option<TelemetrySample> {
        let readings = self.readings.clone()?;
        let begin = readings.clock();
        if self.is_renewal_due(lease, post.now) {
            self.renew(lease, post);
        }
        let watched = self.watched.as_mut()?;
        let names = self.type_names.iter().map(|&name| name.to_owned());
        let latest = watched
            .latest
            .as_ref()
            .map(|latest| TelemetrySample { type_names: names.collect(), ..latest.clone() });
        watched.spend(begin, &*readings);
        latest
    }

    /// Handles the loss or suspension of a founder: others take its place in the tree.
    pub(super) fn lose(&mut self, node: NodeId, post: &Post<'_>) {
        if post.layout.is_guest(node) || !self.lost.insert(node) {
            return;
        }
        if let Some(watched) = &mut self.watched {
            watched.tree = TelemetryTree::of(post.layout, post.node, &self.lost);
            watched.children.remove(&node);
        }
    }

    /// Handles a message of another node. Drops it if that node is no neighbour in the tree: one of
    /// the two may not know of a loss yet.
    ///
    /// # Errors
    ///
    /// Fails if the message does not decode.
    pub(super) fn receive(
        &mut self,
        from: NodeId,
        message: &[u8],
        post: &mut Post<'_>,
    ) -> Result<(), DecodeError> {
        let Some(readings) = self.readings.clone() else { return Ok(()) };
        let begin = readings.clock();
        match TelemetryMessage::decode(message)? {
            TelemetryMessage::Lease(lease) => {
                let parent = match &self.watched {
                    Some(watched) => watched.tree.parent,
                    None => TelemetryTree::of(post.layout, post.node, &self.lost).parent,
                };
                if parent != Some(from) {
                    tracing::debug!(%from, "a lease of a node that is not above this one");
                    return Ok(());
                }
                self.renew(lease, post);
            }
            TelemetryMessage::Sample(sample) => {
                // A child may notice the end of the lease later.
                let Some(watched) = &mut self.watched else { return Ok(()) };
                if !watched.tree.children.contains(&from) {
                    tracing::debug!(%from, "a sample of a node that is not below this one");
                    return Ok(());
                }
                watched.received.0 += 1;
                watched.received.1 += message.len() as u64;
                watched.children.insert(from, (post.now, *sample));
            }
        }
        if let Some(watched) = &mut self.watched {
            watched.spend(begin, &*readings);
        }
        Ok(())
    }

    /// Returns the time at which to call [`wake`](Self::wake).
    pub(super) fn due(&self) -> Option<Time> {
        let watched = self.watched.as_ref()?;
        Some(watched.next_step().min(watched.until))
    }

    /// Takes the step that is due, if one is.
    pub(super) fn wake(&mut self, post: &mut Post<'_>) {
        let Self { readings: Some(readings), watched: held, .. } = self else { return };
        let Some(watched) = held else { return };
        if watched.until <= post.now {
            *held = None;
            return;
        }
        if watched.next_step() > post.now {
            return;
        }
        let begin = readings.clock();
        if watched.is_ordered {
            let reading = readings.read();
            watched.take_sample(&reading, post);
        } else {
            watched.is_ordered = true;
            readings.order();
        }
        watched.spend(begin, &**readings);
    }

    /// Whether there is no such lease, or it is time to renew it.
    fn is_renewal_due(&self, lease: TelemetryLease, now: Time) -> bool {
        let Some(watched) = &self.watched else { return true };
        let left = watched.until.since(now);
        watched.lease != lease || left <= lease.lasts() * (RENEWAL - 1) / RENEWAL
    }

    /// Begins or renews a lease here and below.
    fn renew(&mut self, lease: TelemetryLease, post: &mut Post<'_>) {
        let (now, types) = (post.now, self.type_names.len());
        let watched = self.watched.get_or_insert_with(|| {
            let tree = TelemetryTree::of(post.layout, post.node, &self.lost);
            let ahead = lease.period() / AHEAD * tree.depth.min(LEVELS);
            Watched {
                bounds: TelemetryBounds::new(post.layout, types),
                lease,
                until: now,
                sample_at: now + (lease.period() / 2).saturating_sub(ahead),
                is_ordered: false,
                children: BTreeMap::new(),
                received: (0, 0),
                before: TelemetryCounts::default(),
                spent: TelemetryTime::default(),
                spent_before: None,
                latest: None,
                ticks: 0,
                tree,
            }
        });
        watched.lease = lease;
        watched.until = now + lease.lasts();
        // The new period may be shorter than the wait for the next sample.
        watched.sample_at = watched.sample_at.min(now + lease.period());
        let message = TelemetryMessage::Lease(lease).encode();
        for &to in &watched.tree.children {
            let frame = SpreadFrame::telemetry(post.layout.leader(post.node), message.clone());
            post.out.push(RelayCommand::Send { to, frame, is_bulk: false });
        }
    }
}

impl Watched {
    /// Counts the time since `begin`.
    fn spend(&mut self, begin: TelemetryTime, readings: &dyn NodeReadings) {
        self.spent += readings.clock().since(begin);
    }

    /// When the PEs are asked, or the sample is taken.
    fn next_step(&self) -> Time {
        match self.is_ordered {
            true => self.sample_at,
            false => Time(self.sample_at.0.saturating_sub(ANSWER.as_nanos() as u64)),
        }
    }

    /// Completes the sample of this period, and sends it to the parent, or keeps it at the root.
    fn take_sample(&mut self, reading: &NodeReading, post: &mut Post<'_>) {
        let (now, period) = (post.now, self.lease.period());
        self.is_ordered = false;
        self.sample_at = (self.sample_at + period).max(now + period / 2);
        self.ticks += 1;
        let mut sample = self.own_sample(reading, post);
        self.children.retain(|_, (came, _)| now.since(*came) < period * KEPT_PERIODS);
        for (_, below) in self.children.values() {
            sample.merge(below, self.bounds);
            sample.depth = sample.depth.max(below.depth.saturating_add(1));
        }
        let (received, received_bytes) = std::mem::take(&mut self.received);
        match self.tree.parent {
            Some(to) => {
                let message = TelemetryMessage::Sample(Box::new(sample)).encode();
                let frame = SpreadFrame::telemetry(post.layout.leader(post.node), message);
                post.out.push(RelayCommand::Send { to, frame, is_bulk: false });
            }
            None => {
                (sample.tick, sample.at_us) = (self.ticks, now.0 / 1000);
                (sample.received, sample.received_bytes) = (received, received_bytes);
                self.latest = Some(sample);
            }
        }
    }

    /// The sample of this node alone.
    fn own_sample(&mut self, reading: &NodeReading, post: &Post<'_>) -> TelemetrySample {
        let bounds = self.bounds;
        let place = post.layout.place(post.node);
        let (site, pes) = (bounds.site(place.site), reading.pes.len() as u32);
        let mut counts = TelemetryCounts::default();
        reading.pes.iter().for_each(|pe| counts += pe.counts);
        let is_focus = self.lease.focus == Some(post.node);
        let node = NodeTelemetry {
            node: post.node,
            site: place.site,
            pes,
            counts,
            memory_bytes: reading.memory_bytes,
            busy_permille: busy_permille(&self.before, &counts),
            late_pes: reading.pes.iter().filter(|pe| pe.is_late).count() as u32,
            is_focus,
        };
        self.before = counts;
        let numbered = place.pes.clone().map(PeId).zip(&reading.pes);
        let listed = numbered.take(bounds.pes_listed(is_focus));
        let pes_listed = listed.map(|(pe, of_pe)| PeTelemetry {
            pe,
            counts: of_pe.counts,
            is_late: of_pe.is_late,
        });
        let cost = self.take_spent(reading.spent);
        let memory_bytes = reading.memory_bytes;
        let links = reading.links.iter().map(|link| LinkTelemetry {
            from: site,
            to: bounds.link_to(link.to),
            messages: link.messages,
            bytes: link.bytes,
        });
        let types = types(reading).into_iter().enumerate().map(|(position, it)| TypeTelemetry {
            number: bounds.type_number(position),
            site: bounds.type_site(place.site),
            ..it
        });
        let mut sample = TelemetrySample {
            depth: 1,
            newest_step: reading.pes.iter().map(|pe| pe.newest_step).max().unwrap_or_default(),
            telemetry_ns: cost.wall_ns,
            telemetry_ns_max: cost.wall_ns,
            processor_ns: cost.processor_ns,
            processor_ns_max: cost.processor_ns,
            sites: vec![SiteTelemetry { site, nodes: 1, pes, counts, memory_bytes }],
            nodes: vec![node],
            pes: pes_listed.collect(),
            links: links.collect(),
            types: types.collect(),
            ..TelemetrySample::default()
        };
        // Several types, or links, may count as one.
        sample.unite_equal();
        sample
    }

    /// The time that telemetry has taken on this node since the last sample, including the PEs.
    /// `by_pes`: the time that the PEs have spent on telemetry so far, perhaps in earlier leases.
    fn take_spent(&mut self, by_pes: TelemetryTime) -> TelemetryTime {
        let mut spent = self.spent;
        spent += by_pes;
        match self.spent_before.replace(spent) {
            Some(before) => spent.since(before),
            None => self.spent,
        }
    }
}

/// Sums over the PEs of a node, by actor type.
fn types(reading: &NodeReading) -> Vec<TypeTelemetry> {
    let number = reading.pes.iter().map(|pe| pe.types.len()).max().unwrap_or_default();
    let mut sums = vec![TypeTelemetry::default(); number];
    for pe in &reading.pes {
        for (sum, of_type) in sums.iter_mut().zip(&pe.types) {
            sum.actors += of_type.actors;
            sum.handled += of_type.handled;
            sum.waiting += of_type.waiting;
        }
    }
    sums
}

/// The share of the time between two samples in which PEs were busy, in thousandths.
fn busy_permille(before: &TelemetryCounts, now: &TelemetryCounts) -> u16 {
    let busy = now.busy_us.saturating_sub(before.busy_us);
    let time = now.time_us().saturating_sub(before.time_us());
    (busy.saturating_mul(1000).checked_div(time).unwrap_or_default()).min(1000) as u16
}

#[cfg(test)]
mod tests;
