//! Plans of tree broadcasts: the coordinator has an advisor, which plans ahead without delaying
//! any broadcast.
//!
//! **Start.** Tree broadcasts use the default plan, which all relays know. The first large one
//! makes the coordinator request a survey of the places, and so do the first [`SMALL_MIN`] small
//! ones in a job with more than two sites. Once the places are known, the coordinator creates the
//! advisor.
//!
//! **Steady state.** Nodes report their observations of each tree broadcast that is large enough to
//! show the capacity of links. From these reports, the survey's link estimates and the sizes of
//! earlier broadcasts, the advisor makes plans, in a planning job that the driver runs off the PE.
//! A plan goes to all relays, and is used once all have confirmed it, so that no relay meets a plan
//! that it does not know. Relays forget a replaced plan when the next new plan arrives.
//!
//! **Other senders.** When a PE of another node requests the number of a broadcast, it states the
//! plan and the size of the broadcast. The advisor plans for that node in the same way, and sends
//! the plans to the PEs there (`own_plans`).
//!
//! **Failure.** A lost node ends the job, unless the job has only pools of tasks (`losses`). If a
//! report is missing, the advisor keeps its earlier estimates.
//!
//! Source: the broadcast advisor of Gupta and Vadhiyar, "Application-Oriented Adaptive MPI_Bcast
//! for Grids" (2006), section 4. Unlike there, plans are distributed in advance and not with the
//! message.

use super::event::CoordinatorCommand;
use super::machine::Coordinator;
use super::state::advice::{Advice, Arrived, Flow, News, PlanningJob, Unconfirmed, edges};
use super::state::survey::Purpose;
use super::state::timers::Timer;
use crate::message::default_plan;
use crate::message::probe::{ProbeKind, Probed};
use crate::message::{
    Arrival, Control, FlowId, Multicast, OutgoingControl, PlanNews, REPORTED_BYTES_MIN,
    SEGMENT_BYTES, Spread, Travel,
};
use gridspan_bcast::{
    Advisor, AdvisorCommand, AdvisorConfig, NetworkEstimate, PlanId, ProbeRequest, Sharing, SubPlan,
};
use gridspan_topology::{NodeId, PeId, Pipes};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Cost of starting a message at a node, assumed while no node has reported the cost of a datagram.
const INITIATION: Duration = Duration::from_micros(20);
/// Pause between planning jobs, so that planning takes a small part of a processor. The first
/// [`THOUGHTS_AT_ONCE`] jobs start at once, because the first broadcasts teach the most.
const PACE: Duration = Duration::from_millis(200);
const THOUGHTS_AT_ONCE: u32 = 10;
/// Number of small broadcasts after which the places are requested and the advisor is created, in a
/// job with more than two sites.
const SMALL_MIN: u32 = 3;
/// Minimum time, in seconds, that the data of a report must have taken to flow in. A node whose PE
/// is busy reads data late and all at once, so shorter times may say nothing about the link.
const SEEN_S: f64 = 0.01;
/// Maximum number of clusters for which the links between clusters are checked for changes. With
/// more clusters the advisor uses the hierarchy alone, because there are too many pairs to check
/// repeatedly.
const CLUSTERS_MAX: usize = 64;
/// Maximum size, in bytes, of a broadcast whose tree also carries the contributions to reductions.
/// Contributions are small; larger broadcasts come in segments, for which deep trees are best.
const CONTRIBUTION_BYTES: u64 = 4096;

impl Coordinator {
    /// Notes the start of a broadcast from this or another node. Requests the places, the advisor
    /// or a test for shared uplinks if broadcasts need them.
    pub(in crate::coordinator) fn note_travel(&mut self, Travel { flow, plan, bytes }: Travel) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let (from, me) = (plan.root, self.node);
        let is_large = bytes >= REPORTED_BYTES_MIN;
        if is_large && (!self.advice.is_over || self.reports_broadcasts()) {
            let missing: BTreeSet<NodeId> = layout.nodes().filter(|&node| node != from).collect();
            let trees = self.trees_of(plan);
            let sent = Flow { trees, ..Flow::new(plan, bytes, now, None, missing) };
            self.advice.watch(flow, sent);
        }
        if self.advice.is_over {
            return;
        }
        let is_other = from != me && from.0 < layout.node_count();
        let default_plan = is_other.then(|| Box::new(self.common.default_plan_from(from)));
        let is_known = self.survey.places.is_some();
        let advice = &mut self.advice;
        if let Some(default_plan) = default_plan
            && advice.introduced.insert(from)
        {
            advice.tell(News::Sender(default_plan));
        }
        if !is_large && advice.is_awaited {
            let (targets, edges, report_times) = (None, Vec::new(), Vec::new());
            advice.tell(News::Arrived(Arrived {
                plan,
                bytes,
                began: now,
                targets,
                edges,
                report_times,
            }));
        }
        // Another part of the coordinator may have requested the places already. One small
        // broadcast is no reason to request them; several are, if they can travel through a third
        // site.
        advice.small += u32::from(!is_large && !advice.is_awaited);
        if is_known || advice.small >= SMALL_MIN && layout.site_count() > 2 {
            self.await_advisor();
        }
        // Packet trains that detect shared uplinks delay other traffic, and small broadcasts do not
        // need the result.
        if is_large {
            self.want_uplinks();
        }
    }

    /// Sends a large multicast of a PE of this node to other nodes, in segments: by the plan for
    /// its size or by sites, whichever has the shorter predicted time.
    pub(in crate::coordinator) fn send_multicast(&mut self, from: PeId, multicast: Multicast) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let targets: BTreeSet<NodeId> =
            multicast.targets.iter().map(|target| layout.node_of(target.pe)).collect();
        let multicast = OutgoingControl::new(&Control::Multicast(multicast));
        let bytes = multicast.bytes() as u64;
        let by_sites = SubPlan::by_sites(&layout, self.node, &targets, SEGMENT_BYTES);
        let (mut sub_plan, mut report) = (Arc::new(by_sites.clone()), None);
        let has_listeners = self.reports_broadcasts();
        let advice = &mut self.advice;
        if !advice.is_over {
            sub_plan = advice.sub_plan(bytes, &targets, by_sites);
        }
        if !advice.is_over || has_listeners {
            let name = FlowId::Multicast(advice.next_cast);
            advice.next_cast += 1;
            let plan = sub_plan.plan().id();
            let trees = has_listeners.then(|| sub_plan.clone());
            let sent = Flow::new(plan, bytes, now, Some(targets.clone()), targets);
            advice.watch(name, Flow { trees, ..sent });
            report = Some(name);
            self.await_advisor();
        }
        self.spread(from, Spread::SegmentedMulticast { multicast, sub_plan, report });
    }

    fn retire_plan(&mut self, plan: PlanId) {
        self.advice.retire(plan);
    }

    /// Schedules a planning job, unless one is scheduled. The first call requests the places
    /// instead, and the advisor is created once they are known.
    fn await_advisor(&mut self) {
        let advice = &mut self.advice;
        if advice.is_over {
            return;
        }
        if !std::mem::replace(&mut advice.is_awaited, true) {
            self.want_places();
            return self.begin_advice();
        }
        if !advice.leaders.is_empty() && !std::mem::replace(&mut advice.is_scheduled, true) {
            let is_new = advice.planning_jobs < THOUGHTS_AT_ONCE;
            let pause = if is_new { Duration::ZERO } else { PACE };
            self.run_after(pause, Timer::BeginPlanning);
        }
    }

    /// Called when the coordinator has moved to this node: creates another advisor, if the
    /// coordinator had one before.
    pub(in crate::coordinator) fn resume_advice(&mut self) {
        if !self.advice.is_over {
            self.begin_advice();
        }
    }

    /// Creates the advisor, if one is awaited and the places are known.
    pub(in crate::coordinator) fn begin_advice(&mut self) {
        let Some(places) = self.survey.places.clone() else { return };
        if !self.advice.is_awaited || !self.advice.leaders.is_empty() {
            return;
        }
        let members: Vec<NodeId> = self.common.layout.nodes().collect();
        // If the nodes of one site share an uplink, those of other sites may, too.
        let sharing = match self.survey.uplinks.values().any(|uplink| uplink.pipes == Pipes::Shared)
        {
            true => Sharing::SiteUplinks,
            false => Sharing::SitePairs,
        };
        let usual = self.survey.usual_send_cost().unwrap_or(INITIATION);
        let costs = &self.survey.send_costs;
        let initiation_s = |node| costs.get(&node).unwrap_or(&usual).as_secs_f64();
        let estimate =
            NetworkEstimate::from_hierarchy(&places.hierarchy, &members, initiation_s, sharing);
        let advice = &mut self.advice;
        let is_first = |cluster: usize| {
            members.iter().copied().find(|node| estimate.cluster_of(node.0) == cluster)
        };
        advice.leaders = (0..estimate.clusters()).filter_map(is_first).collect();
        let versions_after = advice.versions_after;
        let config = AdvisorConfig { versions_after, ..AdvisorConfig::default() };
        let mut advisor = Advisor::new(members, estimate, config);
        advisor.introduce(default_plan(&self.common.tree));
        advice.advisor = Some(Box::new(advisor));
        self.await_advisor();
    }

    /// Hands a planning job with the pending news to the driver.
    pub(in crate::coordinator) fn begin_planning(&mut self) {
        self.note_link_news();
        let (now, is_to_move) = (self.now, self.is_to_pause());
        let advice = &mut self.advice;
        advice.is_scheduled = false;
        if advice.news.is_empty() || is_to_move {
            return;
        }
        let Some(advisor) = advice.advisor.take() else { return };
        advice.planning_jobs = advice.planning_jobs.saturating_add(1);
        let (news, commands) = (std::mem::take(&mut advice.news), Vec::new());
        self.out.push(CoordinatorCommand::Plan(PlanningJob { advisor, news, now, commands }));
    }

    /// Notes links whose estimates differ from the last ones that the advisor received.
    fn note_link_news(&mut self) {
        let now = self.now;
        let Some(places) = self.survey.places.clone() else { return };
        let Advice { leaders, told, news, .. } = &mut self.advice;
        if leaders.len() > CLUSTERS_MAX {
            return;
        }
        for (from, &one) in leaders.iter().enumerate() {
            for (to, &other) in leaders.iter().enumerate().filter(|&(to, _)| to != from) {
                let known = self.survey.link(now, &places.hierarchy, (one, other));
                let Some(estimate) = known else { continue };
                if let Some(estimate) = told.entry((from, to)).or_default().news(estimate) {
                    news.push(News::Link((from, to), estimate));
                }
            }
        }
    }

    /// Called when a planning job is done: publishes its plans and starts the probes it requests.
    pub(in crate::coordinator) fn planned(&mut self, planning_job: PlanningJob) {
        self.advice.advisor = Some(planning_job.advisor);
        let me = self.node;
        for command in planning_job.commands {
            self.note_trees(&command);
            match command {
                AdvisorCommand::Publish { plan, bytes } if plan.id().root != me => {
                    let new = || PlanNews::New { plan: Box::new(plan.clone()), bytes };
                    self.tell_own_plan(plan.id().root, new);
                }
                AdvisorCommand::Take { plan, bytes } if plan.root != me => {
                    self.tell_own_plan(plan.root, || PlanNews::Take { plan, bytes });
                }
                AdvisorCommand::Retire(plan) if plan.root != me => {
                    self.tell_own_plan(plan.root, || PlanNews::Retire(plan));
                }
                AdvisorCommand::Publish { plan, bytes } => {
                    self.tell_neighbours(|| PlanNews::New { plan: Box::new(plan.clone()), bytes });
                    self.publish_plan(plan, bytes);
                }
                AdvisorCommand::Take { plan, bytes } => {
                    self.tell_neighbours(|| PlanNews::Take { plan, bytes });
                    self.take_plan(plan, bytes);
                }
                AdvisorCommand::Retire(plan) => {
                    self.tell_neighbours(|| PlanNews::Retire(plan));
                    self.retire_plan(plan);
                }
                AdvisorCommand::Probe(ProbeRequest::Pair { from, to }) => {
                    self.probe_pair((from, to))
                }
                // The survey finds out which nodes share a path.
                AdvisorCommand::Probe(ProbeRequest::Together { .. }) => {}
            }
        }
        if !self.advice.news.is_empty() {
            self.await_advisor();
        }
    }

    /// Called when the advisor is lost: broadcasts keep their present plans.
    pub(in crate::coordinator) fn planner_lost(&mut self) {
        self.advice.is_over = true;
        self.advice.news.clear();
        self.advice.flows.clear();
    }

    /// Sends plan news to the PEs of this node, which use the node's plans for their own
    /// broadcasts.
    fn tell_neighbours(&mut self, news: impl Fn() -> PlanNews) {
        self.tell_own_plan(self.node, news);
    }

    /// Sends news about a node's plans to the PEs of that node.
    fn tell_own_plan(&mut self, node: NodeId, news: impl Fn() -> PlanNews) {
        let pes = self.common.layout.place(node).pes.clone();
        for pe in pes.map(PeId) {
            self.post(pe, Control::OwnPlan(news()));
        }
    }

    fn publish_plan(&mut self, plan: gridspan_bcast::BroadcastPlan, bytes: u64) {
        let me = self.node;
        let missing: BTreeSet<NodeId> =
            self.common.layout.nodes().filter(|&node| node != me).collect();
        tracing::debug!(plan = %plan.id(), bytes, stripes = plan.stripes().len(), segment = plan.segment_bytes(), predicted = ?plan.predicted(), "new plan for broadcasts");
        let advice = &mut self.advice;
        let up_tree = match plan.stripes() {
            [one] if bytes <= CONTRIBUTION_BYTES => Some(one.tree.clone()),
            _ => None,
        };
        advice.unconfirmed.insert(plan.id(), Unconfirmed { bytes, missing, up_tree });
        advice.decide(plan.id(), bytes);
        let retired = std::mem::take(&mut advice.retired);
        retired.iter().for_each(|plan| _ = advice.published.remove(plan));
        advice.published.insert(plan.id());
        self.spread_own(Spread::Plan { plan: Some(Box::new(plan)), retired });
    }

    fn take_plan(&mut self, plan: PlanId, bytes: u64) {
        tracing::debug!(%plan, bytes, "broadcasts use a known plan");
        self.advice.decide(plan, bytes);
    }

    /// Handles a node's confirmation that it knows a plan.
    pub(in crate::coordinator) fn handle_plan_known(&mut self, node: NodeId, plan: PlanId) {
        let advice = &mut self.advice;
        let Some(unconfirmed) = advice.unconfirmed.get_mut(&plan) else { return };
        unconfirmed.missing.remove(&node);
        if !unconfirmed.missing.is_empty() {
            return;
        }
        let Some(Unconfirmed { bytes, up_tree, .. }) = advice.unconfirmed.remove(&plan) else {
            return;
        };
        advice.confirm(plan, bytes);
        if let Some(tree) = up_tree {
            self.post_to_all(|| Control::UpTree { plan, tree: tree.clone() });
        }
    }

    /// Handles a node's report that it has received all of a tree broadcast or multicast. `after`
    /// is the time from the start until the report reached the sender's relay.
    pub(in crate::coordinator) fn handle_carried(
        &mut self,
        flow: FlowId,
        (from, node, after): (PeId, NodeId, Duration),
        arrivals: Vec<Arrival>,
    ) {
        let (now, nodes) = (self.now, self.common.layout.node_count());
        let advice = &mut self.advice;
        // Two nodes may use the same flow number.
        let root = self.common.node_of(from);
        let Some(known) = advice.flows.get_mut(&flow).filter(|known| known.plan.root == root)
        else {
            return;
        };
        if !known.missing.remove(&node) {
            return;
        }
        let is_sound = |arrival: &Arrival| {
            arrival.from.0 < nodes && arrival.flowing_s.is_finite() && arrival.flowing_s >= SEEN_S
        };
        let arrivals = arrivals.into_iter().filter(is_sound).map(|arrival| (node, arrival));
        known.arrivals.extend(arrivals);
        known.report_times.push((node, after));
        if !known.missing.is_empty() {
            return;
        }
        advice.flow_ended = now;
        if let Some(known) = advice.flows.remove(&flow) {
            self.report_broadcast(&known);
            let Flow { plan, bytes, began, targets, arrivals, report_times, .. } = known;
            let edges = edges(&arrivals);
            let arrived = Arrived { plan, bytes, began, targets, edges, report_times };
            self.advice.tell(News::Arrived(arrived));
            self.await_advisor();
        }
    }

    fn probe_pair(&mut self, (from, to): (usize, usize)) {
        let now = self.now;
        let leaders = &self.advice.leaders;
        let (Some(&one), Some(&other)) = (leaders.get(from), leaders.get(to)) else { return };
        let purpose = Purpose::Broadcast((from, to), now);
        let order = self.survey.order(purpose, ProbeKind::BURST, vec![other]);
        self.send_orders(vec![(one, order)]);
    }

    /// Handles the result of a probe that the advisor requested for a pair of clusters.
    pub(in crate::coordinator) fn note_pair(&mut self, pair: (usize, usize), found: &[Probed]) {
        let Some(rate) = found.first().and_then(|probed| probed.rate) else { return };
        let bandwidth = rate.bits_per_second() as f64 / 8.0;
        self.advice.tell(News::Probed(pair, bandwidth));
        self.await_advisor();
    }
}
