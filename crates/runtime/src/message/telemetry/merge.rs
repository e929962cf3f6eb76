//! Merges samples. The result does not depend on the order and the grouping of the samples.
//!
//! Sums, maxima and lists of disjoint elements have this property. Of the nodes, a merge keeps
//! those with the highest and the lowest loads. A node with one of the highest loads of a union has
//! one of the highest loads of its part, too, so no merge drops it too early.

use super::bounds::TelemetryBounds;
use super::sample::{LinkTelemetry, NodeTelemetry, SiteTelemetry, TelemetrySample, TypeTelemetry};
use gridspan_topology::SiteId;
use std::collections::BTreeSet;

impl TelemetrySample {
    /// Adds the counts of other nodes.
    pub(crate) fn merge(&mut self, other: &Self, bounds: TelemetryBounds) {
        let &Self {
            tick,
            at_us,
            depth,
            received,
            received_bytes,
            newest_step,
            telemetry_ns,
            telemetry_ns_max,
            processor_ns,
            processor_ns_max,
            ref sites,
            ref nodes,
            ref pes,
            ref types,
            ref links,
            type_names: _,
        } = other;
        self.tick = self.tick.max(tick);
        self.at_us = self.at_us.max(at_us);
        self.depth = self.depth.max(depth);
        self.received = self.received.max(received);
        self.received_bytes = self.received_bytes.max(received_bytes);
        self.newest_step = self.newest_step.max(newest_step);
        self.telemetry_ns = self.telemetry_ns.saturating_add(telemetry_ns);
        self.telemetry_ns_max = self.telemetry_ns_max.max(telemetry_ns_max);
        self.processor_ns = self.processor_ns.saturating_add(processor_ns);
        self.processor_ns_max = self.processor_ns_max.max(processor_ns_max);
        join(&mut self.sites, sites, |site| site.site, add_site);
        // No two samples have the same node or PE, unless one is of a faulty node.
        join(&mut self.nodes, nodes, |node| node.node, |_, _| {});
        keep_extremes(&mut self.nodes, bounds);
        join(&mut self.pes, pes, |pe| pe.pe, |_, _| {});
        self.pes.truncate(bounds.pes_max());
        join(&mut self.types, types, type_key, add_type);
        join(&mut self.links, links, link_key, add_link);
    }

    /// Sorts the types and the links of one node, and unites those that count as one.
    pub(crate) fn unite_equal(&mut self) {
        unite(&mut self.types, type_key, add_type);
        unite(&mut self.links, link_key, add_link);
    }
}

fn type_key(it: &TypeTelemetry) -> (u16, SiteId) {
    (it.number, it.site)
}

fn link_key(link: &LinkTelemetry) -> (SiteId, SiteId) {
    (link.from, link.to)
}

/// Adds elements to a list that is sorted by key; `add` adds an element to another one with the
/// same key.
fn join<T: Copy, K: Ord>(
    all: &mut Vec<T>,
    more: &[T],
    key: impl Fn(&T) -> K,
    add: impl Fn(&mut T, T),
) {
    if more.is_empty() {
        return;
    }
    all.extend_from_slice(more);
    unite(all, key, add);
}

/// Sorts a list by key; `add` adds an element to another one with the same key.
fn unite<T: Copy, K: Ord>(all: &mut Vec<T>, key: impl Fn(&T) -> K, add: impl Fn(&mut T, T)) {
    // The list of one node usually is in order, and so are those of nodes with rising numbers.
    if all.is_sorted_by(|one, next| key(one) < key(next)) {
        return;
    }
    // Stable, and fast for lists that consist of sorted parts.
    all.sort_by_key(&key);
    all.dedup_by(|later, earlier| {
        let is_same = key(later) == key(earlier);
        if is_same {
            add(earlier, *later);
        }
        is_same
    });
}

fn add_site(sum: &mut SiteTelemetry, more: SiteTelemetry) {
    sum.nodes = sum.nodes.saturating_add(more.nodes);
    sum.pes = sum.pes.saturating_add(more.pes);
    sum.counts += more.counts;
    sum.memory_bytes = sum.memory_bytes.saturating_add(more.memory_bytes);
}

fn add_type(sum: &mut TypeTelemetry, more: TypeTelemetry) {
    sum.actors = sum.actors.saturating_add(more.actors);
    sum.handled = sum.handled.saturating_add(more.handled);
    sum.waiting = sum.waiting.saturating_add(more.waiting);
}

fn add_link(sum: &mut LinkTelemetry, more: LinkTelemetry) {
    sum.messages = sum.messages.saturating_add(more.messages);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}

/// Keeps only the nodes that compute most and those that compute least, of each site or of the job.
fn keep_extremes(nodes: &mut Vec<NodeTelemetry>, bounds: TelemetryBounds) {
    let Some(each) = bounds.extremes else { return };
    if nodes.len() <= 2 * each {
        return;
    }
    let group = |node: &NodeTelemetry| if bounds.are_by_site { node.site } else { SiteId(0) };
    let mut order: Vec<_> =
        nodes.iter().map(|node| (group(node), node.busy_permille, node.node)).collect();
    order.sort_unstable();
    let mut kept = BTreeSet::new();
    for of_group in order.chunk_by(|one, next| one.0 == next.0) {
        let idle = of_group.iter().take(each);
        let busy = of_group.iter().rev().take(each);
        kept.extend(idle.chain(busy).map(|&(_, _, node)| node));
    }
    nodes.retain(|node| node.is_focus || kept.contains(&node.node));
}

#[cfg(test)]
mod tests;
