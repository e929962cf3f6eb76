//! The parts of a job with their figures: sites, nodes, PEs, actor types and links, computed from
//! two moments.

use super::figures::{Figures, per_second};
use super::moment::Moment;
use gridspan_runtime::message::telemetry::{
    LinkTelemetry, NodeTelemetry, PeTelemetry, SiteTelemetry, TelemetrySample,
};
use gridspan_topology::{NodeId, PeId, SiteId};
use std::collections::BTreeMap;

/// A site.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SitePart {
    pub(super) site: SiteId,
    /// Number of its nodes that answer, and of their PEs.
    pub(super) nodes: u32,
    pub(super) pes: u32,
    /// Resident memory in bytes, if it is known.
    pub(super) memory: Option<u64>,
    pub(super) figures: Figures,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodePart {
    pub(super) node: NodeId,
    pub(super) site: SiteId,
    pub(super) pes: u32,
    /// Number of its PEs that are inside a long handler.
    pub(super) late_pes: u32,
    /// Resident memory in bytes, if it is known.
    pub(super) memory: Option<u64>,
    pub(super) figures: Figures,
}

/// A PE.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PePart {
    pub(super) pe: PeId,
    /// Whether it is inside a long handler.
    pub(super) is_late: bool,
    pub(super) figures: Figures,
}

/// An actor type, at one site or in the whole job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TypePart {
    pub(super) number: u16,
    /// `None` for the whole job.
    pub(super) site: Option<SiteId>,
    pub(super) actors: u64,
    pub(super) messages: u64,
    pub(super) messages_per_s: Option<f64>,
    pub(super) waiting: u64,
}

/// The link from one site to another, or the links inside one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinkPart {
    pub(super) from: SiteId,
    pub(super) to: SiteId,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) messages_per_s: Option<f64>,
    pub(super) bytes_per_s: Option<f64>,
    /// Bits per second, if they are known and limited.
    pub(super) bandwidth_bps: Option<u64>,
    /// Share of the bandwidth that is used.
    pub(super) used: Option<f64>,
}

/// Two moments of a job, the second of which is shown.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) now: &'a Moment,
    before: Option<&'a TelemetrySample>,
    /// The earlier sample, if it has the same number of nodes. Otherwise a difference of sums over
    /// nodes would include all that a new node has done so far.
    whole: Option<&'a TelemetrySample>,
}

impl<'a> Parts<'a> {
    /// The parts of a job `now`; rates are those since `before`.
    pub(super) fn new(now: &'a Moment, before: Option<&'a Moment>) -> Self {
        let before = before.filter(|before| now.follows(before));
        let before = before.map(|before| &before.sample);
        let whole = before.filter(|before| before.node_count() == now.sample.node_count());
        Self { now, before, whole }
    }

    fn sample(&self) -> &'a TelemetrySample {
        &self.now.sample
    }

    /// Microseconds between the two moments; 0 if there is only one.
    fn time_us(&self) -> u64 {
        self.before.map_or(0, |before| self.sample().at_us.saturating_sub(before.at_us))
    }

    /// The whole job, as a site.
    pub(super) fn total(&self) -> SitePart {
        let (now, before) = (self.sample().total(), self.whole.map(TelemetrySample::total));
        let figures = Figures::new(&now.counts, before.as_ref().map(|it| &it.counts), now.pes);
        let memory = known(now.memory_bytes);
        SitePart { site: now.site, nodes: now.nodes, pes: now.pes, memory, figures }
    }

    /// Steps per second, if messages of the job belong to steps.
    pub(super) fn steps_per_s(&self) -> Option<f64> {
        let now = self.sample().newest_step;
        let before = self.before.map(|before| before.newest_step);
        per_second(now, before, self.time_us()).filter(|_| now > 0)
    }

    /// The sites.
    pub(super) fn sites(&self) -> Vec<SitePart> {
        let before =
            by_key(self.before, |it| it.sites.iter().map(|it| ((it.site, it.nodes), &it.counts)));
        let part = |now: &SiteTelemetry| SitePart {
            site: now.site,
            nodes: now.nodes,
            pes: now.pes,
            memory: known(now.memory_bytes),
            figures: Figures::new(
                &now.counts,
                before.get(&(now.site, now.nodes)).copied(),
                now.pes,
            ),
        };
        self.sample().sites.iter().map(part).collect()
    }

    /// The listed nodes of a site, or of all sites.
    pub(super) fn nodes(&self, of: Option<SiteId>) -> Vec<NodePart> {
        let before = by_key(self.before, |it| it.nodes.iter().map(|it| (it.node, &it.counts)));
        let nodes = self.sample().nodes.iter().filter(|node| of.is_none_or(|of| node.site == of));
        let part = |now: &NodeTelemetry| NodePart {
            node: now.node,
            site: now.site,
            pes: now.pes,
            late_pes: now.late_pes,
            memory: known(now.memory_bytes),
            figures: Figures::new(&now.counts, before.get(&now.node).copied(), now.pes),
        };
        nodes.map(part).collect()
    }

    /// The listed PEs of a node, or of all nodes.
    pub(super) fn pes(&self, of: Option<NodeId>) -> Vec<PePart> {
        let before = by_key(self.before, |it| it.pes.iter().map(|it| (it.pe, &it.counts)));
        let layout = self.now.grid.layout();
        let pes = self.sample().pes.iter();
        let pes = pes.filter(|pe| of.is_none_or(|of| layout.node_of(pe.pe) == of));
        let part = |now: &PeTelemetry| PePart {
            pe: now.pe,
            is_late: now.is_late,
            figures: Figures::new(&now.counts, before.get(&now.pe).copied(), 1),
        };
        pes.map(part).collect()
    }

    /// The actor types of the whole job, or one of them by site.
    pub(super) fn types(&self, of: Option<u16>) -> Vec<TypePart> {
        let time_us = self.time_us();
        let before = self.whole.map(|before| sums(before, of));
        let part = |(key, (actors, messages, waiting)): (TypeKey, (u64, u64, u64))| {
            let earlier = before.as_ref().and_then(|sums| sums.get(&key));
            let messages_per_s = per_second(messages, earlier.map(|it| it.1), time_us);
            let (number, site) = key;
            TypePart { number, site, actors, messages, messages_per_s, waiting }
        };
        sums(self.sample(), of).into_iter().map(part).collect()
    }

    /// The links between sites, and inside them.
    pub(super) fn links(&self) -> Vec<LinkPart> {
        let time_us = self.time_us();
        let key = |it: &LinkTelemetry| (it.from, it.to);
        let before: BTreeMap<_, _> = self
            .whole
            .into_iter()
            .flat_map(|before| &before.links)
            .map(|link| (key(link), (link.messages, link.bytes)))
            .collect();
        let part = |now: &LinkTelemetry| {
            let earlier = before.get(&key(now));
            let bytes_per_s = per_second(now.bytes, earlier.map(|it| it.1), time_us);
            let bandwidth = self.now.bandwidth(now.from, now.to);
            let bandwidth_bps =
                bandwidth.filter(|it| !it.is_unlimited()).map(|it| it.bits_per_second());
            LinkPart {
                from: now.from,
                to: now.to,
                messages: now.messages,
                bytes: now.bytes,
                messages_per_s: per_second(now.messages, earlier.map(|it| it.0), time_us),
                bytes_per_s,
                bandwidth_bps,
                used: bytes_per_s.zip(bandwidth_bps).map(|(bytes, bps)| bytes * 8.0 / bps as f64),
            }
        };
        self.sample().links.iter().map(part).collect()
    }
}

/// Returns a number of bytes; `None` for 0, which means that the system does not report it.
fn known(bytes: u64) -> Option<u64> {
    (bytes > 0).then_some(bytes)
}

/// Returns the elements of the earlier sample by their keys.
fn by_key<'a, K: Ord, V, I: Iterator<Item = (K, V)>>(
    before: Option<&'a TelemetrySample>,
    elements: impl Fn(&'a TelemetrySample) -> I,
) -> BTreeMap<K, V> {
    before.into_iter().flat_map(elements).collect()
}

/// Number of an actor type, and the site, if types are listed by site.
type TypeKey = (u16, Option<SiteId>);

/// Returns the numbers of actors, handled messages and waiting messages of each actor type in the
/// whole job, or of one type at each site.
fn sums(sample: &TelemetrySample, of: Option<u16>) -> BTreeMap<TypeKey, (u64, u64, u64)> {
    let mut sums = BTreeMap::<_, (u64, u64, u64)>::new();
    for it in sample.types.iter().filter(|it| of.is_none_or(|of| it.number == of)) {
        let sum = sums.entry((it.number, of.map(|_| it.site))).or_default();
        sum.0 = sum.0.saturating_add(it.actors);
        sum.1 = sum.1.saturating_add(it.handled);
        sum.2 = sum.2.saturating_add(it.waiting);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::moment;
    use super::*;

    #[test]
    fn rates_are_differences_between_two_moments() {
        let (before, now) = (moment(10), moment(12));
        let parts = Parts::new(&now, Some(&before));

        assert_eq!(parts.steps_per_s(), Some(5.0));
        let total = parts.total();
        assert_eq!((total.nodes, total.pes, total.memory), (4, 4, Some(209_600_000)));
        assert_eq!(total.figures.messages_per_s, Some(10_000.0));
        assert_eq!(total.figures.busy, Some(0.4));
        let sites = parts.sites();
        assert_eq!(
            sites.iter().map(|it| it.figures.busy).collect::<Vec<_>>(),
            [0.2, 0.6].map(Some)
        );
        let nodes: Vec<NodeId> = parts.nodes(Some(SiteId(1))).iter().map(|it| it.node).collect();
        assert_eq!(nodes, [NodeId(2), NodeId(3)]);
        let pes = parts.pes(Some(NodeId(3)));
        assert_eq!((pes.len(), pes[0].is_late, pes[0].figures.busy), (1, true, Some(0.7)));
        assert_eq!((parts.nodes(None).len(), parts.pes(None).len()), (4, 4));
    }

    #[test]
    fn types_are_summed_over_sites_or_listed_by_site() {
        let (before, now) = (moment(10), moment(12));
        let parts = Parts::new(&now, Some(&before));

        let types = parts.types(None);
        let rates = types.iter().map(|it| (it.number, it.actors, it.messages_per_s));
        assert_eq!(rates.collect::<Vec<_>>(), [(0, 60, Some(8970.0)), (1, 4, Some(30.0))]);
        let of_clock = parts.types(Some(1));
        let rates = of_clock.iter().map(|it| (it.site, it.actors, it.messages_per_s));
        let expected = [(Some(SiteId(0)), 2, Some(10.0)), (Some(SiteId(1)), 2, Some(20.0))];
        assert_eq!(rates.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn links_are_compared_with_their_bandwidth() {
        let (before, now) = (moment(10), moment(12));
        let links = Parts::new(&now, Some(&before)).links();

        let there = &links[1];
        assert_eq!((there.from, there.to), (SiteId(0), SiteId(1)));
        assert_eq!((there.messages_per_s, there.bytes_per_s), (Some(1000.0), Some(5e6)));
        assert_eq!((there.bandwidth_bps, there.used), (Some(100_000_000), Some(0.4)));
        assert_eq!((links[2].bandwidth_bps, links[2].used), (None, None));
    }

    #[test]
    fn without_an_earlier_moment_of_the_run_there_are_no_rates() {
        let (now, later) = (moment(10), moment(12));
        for parts in [Parts::new(&now, None), Parts::new(&now, Some(&later))] {
            assert_eq!(parts.steps_per_s(), None);
            assert_eq!(parts.total().figures.busy, None);
            assert_eq!(parts.links()[1].bytes_per_s, None);
            assert_eq!(parts.types(None)[0].messages, 10 * 2990 * 3);
        }
    }
}
