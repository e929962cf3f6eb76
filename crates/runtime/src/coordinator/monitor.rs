//! Watches the links between groups of nodes while the job runs.
//!
//! **Steady state.** Every node that has sent something reports measurements of its connections
//! twice a second; the coordinator combines them into one estimate for each pair of groups, and
//! announces changes of more than a fifth. It probes a pair of groups without recent measurements.
//! Once, if a plan of broadcasts, a listener or main needs the result, the coordinator orders two
//! nodes of each group to send a train of packets to another group, first each alone and then both
//! together. This shows whether they share a path. The trains delay the job's own messages.
//!
//! **Failure.** If reports are missing, estimates age.

use super::state::survey::{CHANGES_MAX, Purpose, UplinkProbe};
use crate::coordinator::event::Asker;
use crate::coordinator::machine::Coordinator;
use crate::coordinator::state::advice::News;
use crate::coordinator::state::timers::Timer;
use crate::message::probe::{ProbeKind, Probed};
use crate::pe::links::{Links, Locality};
use gridspan_balance::Cause;
use gridspan_topology::{
    Bandwidth, BandwidthRange, GroupId, Hierarchy, LinkChange, LinkEstimate, LinkSample, NodeId,
    PeId, Pipes, Probe, Uplink, WantedProbe,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Time between two checks of the links.
const POLLING_INTERVAL: Duration = Duration::from_millis(500);
/// Time after which listeners receive the links even if none has changed. To a user who watches, a
/// delay of two seconds does not matter.
const TELL: Duration = Duration::from_secs(2);
/// Maximum number of parts of a group between which silent links are probed. In a larger group
/// there are too many pairs, and links are watched only where data flows.
const CHILDREN_MAX: usize = 64;
/// Number of nodes of a group that are tested for a shared path.
const UPLINK_NODES: usize = 2;
/// Number of tests of the nodes together before a path counts as shared, because other traffic may
/// disturb a test.
const UPLINK_TRIES: u32 = 3;

impl Coordinator {
    /// Answers with the estimates of the links, once the places are known.
    pub(in crate::coordinator) fn await_links(&mut self, asker: Asker) {
        self.want_uplinks();
        match self.links() {
            Some(links) => self.answer(asker, links),
            None => {
                self.survey.link_askers.push(asker);
                self.want_places();
            }
        }
    }

    /// Answers with the present estimates of the links. If there are none yet, answers with `None`,
    /// and ensures that the places are measured, for a later request.
    pub(in crate::coordinator) fn tell_known_links(&mut self, asker: Asker) {
        let links = self.links();
        if links.is_none() {
            self.want_places();
        }
        self.answer(asker, links);
    }

    /// Returns the estimates of the links, once the hierarchy is known.
    fn links(&self) -> Option<Links> {
        let (at, survey) = (self.now, &self.survey);
        let groups = |(from, to)| (GroupId(from), GroupId(to));
        let estimates = survey.monitor.estimates(at);
        let estimates: Vec<_> =
            estimates.map(|(pair, estimate)| (groups(pair), estimate)).collect();
        let places = survey.places.as_ref()?;
        let mut places = Locality::clone(places);
        set_bandwidths(&mut places.hierarchy, &estimates);
        let uplinks = survey.uplinks.iter().map(|(&group, &up)| (group, up)).collect();
        Some(Links { at, places: Arc::new(places), estimates, uplinks })
    }

    /// Reports the links to the job's listeners, if a link has changed or a report is due.
    fn tell_links(&mut self, changes: &[LinkChange]) {
        if self.common.on_links.is_empty() {
            return;
        }
        let now = self.now;
        let told = &mut self.survey.told;
        if changes.is_empty() && told.is_some_and(|at| now.since(at) < TELL) {
            return;
        }
        *told = Some(now);
        if let Some(links) = self.links() {
            self.common.on_links.iter().for_each(|tell| tell(&links, changes));
        }
    }

    /// Answers with the next change of a link, or with `None` if there are no links.
    pub(in crate::coordinator) fn await_link_change(&mut self, asker: Asker) {
        if self.common.layout.node_count() < 2 {
            return self.answer(asker, None::<LinkChange>);
        }
        match self.survey.changes.pop_front() {
            Some(change) => self.answer(asker, Some(change)),
            None => {
                self.survey.change_waits.push_back(asker);
                self.want_places();
            }
        }
    }

    pub(in crate::coordinator) fn handle_links(
        &mut self,
        from: PeId,
        samples: &[(NodeId, LinkSample)],
    ) {
        let (now, node) = (self.now, self.common.layout.node_of(from));
        let Some(places) = self.survey.places.clone() else { return };
        for &(target, sample) in samples {
            self.survey.observe(now, &places.hierarchy, (node, target), sample);
        }
    }

    /// Starts the periodic checks of the links, which go on until the end of the job.
    pub(in crate::coordinator) fn begin_watch(&mut self) {
        if self.common.layout.node_count() > 1
            && !std::mem::replace(&mut self.survey.is_watching, true)
        {
            if !self.common.on_links.is_empty() {
                self.want_uplinks();
            }
            self.look_at_links();
        }
    }

    /// Ensures that the nodes are tested once for shared paths.
    pub(in crate::coordinator) fn want_uplinks(&mut self) {
        if self.survey.places.is_some() && !std::mem::replace(&mut self.survey.wants_uplinks, true)
        {
            self.ask_uplinks();
        }
    }

    pub(in crate::coordinator) fn look_at_links(&mut self) {
        let now = self.now;
        let survey = &mut self.survey;
        let changes = survey.monitor.changes(now);
        for &change in &changes {
            tracing::info!(from = change.from, to = change.to, before = %change.before, after = %change.after, "a link has changed");
            self.balancer.link_changed(&change);
            if survey.changes.len() < CHANGES_MAX {
                survey.changes.push_back(change);
            }
        }
        let mut told = Vec::new();
        while !survey.changes.is_empty()
            && let Some(asker) = survey.change_waits.pop_front()
            && let Some(change) = survey.changes.pop_front()
        {
            told.push((asker, change));
        }
        for (asker, change) in told {
            self.answer(asker, Some(change));
        }
        self.tell_links(&changes);
        if !changes.is_empty() {
            self.balance_after(Cause::Link);
        }
        self.probe_silent_links();
        self.run_after(POLLING_INTERVAL, Timer::LookAtLinks);
    }

    fn probe_silent_links(&mut self) {
        let now = self.now;
        let survey = &mut self.survey;
        let Some(places) = survey.places.clone() else { return };
        let hierarchy = &places.hierarchy;
        let mut probes = Vec::new();
        for group in (0..hierarchy.depth()).flat_map(|level| hierarchy.groups_at(level)) {
            let children: Vec<u32> =
                hierarchy.group(group).children().iter().map(|child| child.0).collect();
            if (2..=CHILDREN_MAX).contains(&children.len()) {
                probes.append(&mut survey.plan.due(now, &children, &survey.monitor));
            }
        }
        probes.append(&mut survey.clusters.due(now, hierarchy));
        let mut orders = Vec::new();
        for Probe { from, to, what } in probes {
            let leader = |group| hierarchy.group(GroupId(group)).leader();
            let (kind, purpose) = match what {
                WantedProbe::RoundTrip => (ProbeKind::RoundTrip, Purpose::RoundTrip),
                WantedProbe::Bandwidth => (ProbeKind::BURST, Purpose::Bandwidth(now)),
            };
            orders.push((leader(from), survey.order(purpose, kind, vec![leader(to)])));
        }
        self.send_orders(orders);
    }

    /// Takes the round trips of single packets, or the rates of trains. The round trip of a train
    /// is unusable, because its packets wait behind each other.
    pub(in crate::coordinator) fn note_links(
        &mut self,
        node: NodeId,
        found: &[Probed],
        what: WantedProbe,
    ) {
        let now = self.now;
        let Some(places) = self.survey.places.clone() else { return };
        for probed in found {
            let sample = match what {
                WantedProbe::RoundTrip => {
                    LinkSample { round_trip: probed.round_trip, ..LinkSample::default() }
                }
                WantedProbe::Bandwidth => {
                    LinkSample { rate: probed.rate, is_full: true, ..LinkSample::default() }
                }
            };
            self.survey.observe(now, &places.hierarchy, (node, probed.target), sample);
        }
    }

    /// Starts the test of each group for a shared path to the outside: with one node alone at
    /// first.
    fn ask_uplinks(&mut self) {
        let survey = &mut self.survey;
        let Some(places) = survey.places.clone() else { return };
        let hierarchy = &places.hierarchy;
        let groups: Vec<GroupId> = hierarchy.groups_at(1).collect();
        let mut asked = Vec::new();
        for (at, &group) in groups.iter().enumerate() {
            let nodes = hierarchy.group(group).members().iter().copied().take(UPLINK_NODES);
            let nodes: Vec<NodeId> = nodes.collect();
            if nodes.len() < UPLINK_NODES || groups.len() < 2 {
                continue;
            }
            // Each node sends to a different group, since two groups may be joined by a single
            // pipe. If there is only one other group, the nodes send to different nodes of that
            // group.
            let others = groups.len() - 1;
            let target = |number: usize| {
                let other = groups[(at + 1 + number % others) % groups.len()];
                let members = hierarchy.group(other).members();
                members[(number / others).min(members.len() - 1)]
            };
            let ways = nodes.iter().enumerate().map(|(number, &node)| (node, target(number)));
            survey.asking.insert(group, UplinkProbe { ways: ways.collect(), ..Default::default() });
            asked.push(group);
        }
        for group in asked {
            self.ask_uplink(group);
        }
    }

    fn ask_uplink(&mut self, group: GroupId) {
        let survey = &mut self.survey;
        let next = survey.asking.get(&group).map_or(Vec::new(), UplinkProbe::next);
        let mut orders = Vec::new();
        for (node, target, kind) in next {
            orders.push((node, survey.order(Purpose::Uplink(group), kind, vec![target])));
        }
        self.send_orders(orders);
    }

    pub(in crate::coordinator) fn note_uplink(&mut self, group: GroupId, found: &[Probed]) {
        let now = self.now;
        let survey = &mut self.survey;
        let Some(probe) = survey.asking.get_mut(&group) else { return };
        // A path too fast for a train's measurement cannot be compared.
        let Some((rate, sent)) = found.first().and_then(|probed| Some((probed.rate?, probed.sent)))
        else {
            survey.asking.remove(&group);
            return;
        };
        probe.note(sent, rate);
        if probe.together.len() < probe.ways.len() {
            return self.ask_uplink(group);
        }
        probe.end_try();
        let uplink = Uplink::judge(now, &probe.alone, &probe.best);
        let is_clear = uplink.is_some_and(|uplink| uplink.pipes == Pipes::Separate);
        if !is_clear && probe.tries < UPLINK_TRIES {
            return self.ask_uplink(group);
        }
        survey.asking.remove(&group);
        if let Some(uplink) = uplink {
            survey.uplinks.insert(group, uplink);
            if uplink.pipes == Pipes::Shared {
                self.advice.tell(News::SharedUplinks);
            }
        }
    }
}

/// Sets the bandwidth ranges of groups and levels from the estimates of their links.
fn set_bandwidths(hierarchy: &mut Hierarchy, estimates: &[((GroupId, GroupId), LinkEstimate)]) {
    let mut groups: BTreeMap<GroupId, Vec<Bandwidth>> = BTreeMap::new();
    let mut levels: BTreeMap<usize, Vec<Bandwidth>> = BTreeMap::new();
    for &((from, to), estimate) in estimates {
        let around = if from == to { Some(from) } else { hierarchy.group(from).parent() };
        if let (Some(around), Some(bandwidth)) = (around, estimate.bandwidth) {
            levels.entry(hierarchy.group(around).level()).or_default().push(bandwidth);
            groups.entry(around).or_default().push(bandwidth);
        }
    }
    for (group, range) in
        groups.into_iter().filter_map(|(at, all)| Some((at, BandwidthRange::of(all)?)))
    {
        hierarchy.set_group_bandwidth(group, range);
    }
    for (level, range) in
        levels.into_iter().filter_map(|(at, all)| Some((at, BandwidthRange::of(all)?)))
    {
        hierarchy.set_bandwidth(level, range);
    }
}
