//! How tree broadcasts travel: the coordinator has an advisor, which plans ahead while nothing
//! waits for it.
//!
//! **Start.** Tree broadcasts travel by the default plan that all relays know. The first makes the
//! coordinator ask for the places; once those are known, there is an advisor.
//!
//! **Steady state.** Nodes report what they saw of each tree broadcast that is large enough to show
//! what links can do. From that, from what the survey knows of links and from the sizes so far the
//! advisor makes plans, in a planning job that the driver runs off the PE. A plan goes to all
//! relays, and is used once all have confirmed it, so that nobody ever meets a plan it does not
//! know. One that is replaced is forgotten with the next that is made.
//!
//! **Other senders.** A PE of another node says how its broadcast travels as it asks for a number.
//! The advisor plans for its node in the same way, and the PEs there hear of it (`own_plans`).
//!
//! **Failure.** A lost node ends the job. A report that is missing leaves the advisor with what it
//! knew.
//!
//! Source: paper 2's broadcast advisor (section 4), with plans handed out before and not with the
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

/// What it costs a node to begin a message, where none has said yet what a datagram costs.
const INITIATION: Duration = Duration::from_micros(20);
/// The advisor thinks at most this often, so that it takes a small part of a processor; the first
/// times at once, since there is most to learn from the first broadcasts.
const PACE: Duration = Duration::from_millis(200);
const THOUGHTS_AT_ONCE: u32 = 10;
/// After so many small broadcasts it pays to know by which sites they arrive first.
const SMALL_MIN: u32 = 3;
/// A node whose PE is busy takes what has come late and all at once; what it saw for less long than
/// this many seconds may be that.
const SEEN_S: f64 = 0.01;
/// Of more clusters the advisor knows what the hierarchy says: there are too many pairs to look at
/// each again and again.
const CLUSTERS_MAX: usize = 64;
/// Contributions are small, and go up the trees by which broadcasts of at most this size come down:
/// those that are larger come in segments, for which deep trees are best.
const CONTRIBUTION_BYTES: u64 = 4096;

impl Coordinator {
    /// Notes that a broadcast begins, of this node or another.
    pub(in crate::coordinator) fn note_travel(&mut self, Travel { flow, plan, bytes }: Travel) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let (from, me) = (plan.root, self.node);
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
        let is_large = bytes >= REPORTED_BYTES_MIN;
        if is_large {
            let missing: BTreeSet<NodeId> = layout.nodes().filter(|&node| node != from).collect();
            advice.watch(flow, Flow::new(plan, bytes, now, None, missing));
        } else if advice.is_awaited {
            let (targets, edges, words) = (None, Vec::new(), Vec::new());
            advice.tell(News::Arrived(Arrived { plan, bytes, began: now, targets, edges, words }));
        }
        // Others may have asked for the places. One that is small is no reason to; several are
        // where they can go by another site.
        advice.small += u32::from(!is_large && !advice.is_awaited);
        if is_known || advice.small >= SMALL_MIN && layout.site_count() > 2 {
            self.await_advisor();
        }
        // The trains that show who shares a way delay others, and small ones can do without.
        if is_large {
            self.want_uplinks();
        }
    }

    /// Sends a large multicast of a PE of this node to other nodes, in segments: by the plan for
    /// its size or by sites, whatever is predicted to take less.
    pub(in crate::coordinator) fn send_multicast(&mut self, from: PeId, multicast: Multicast) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let targets: BTreeSet<NodeId> =
            multicast.targets.iter().map(|target| layout.node_of(target.pe)).collect();
        let multicast = OutgoingControl::new(&Control::Multicast(multicast));
        let bytes = multicast.bytes() as u64;
        let by_sites = SubPlan::by_sites(&layout, self.node, &targets, SEGMENT_BYTES);
        let (mut sub_plan, mut report) = (Arc::new(by_sites.clone()), None);
        if !self.advice.is_over {
            let advice = &mut self.advice;
            sub_plan = advice.sub_plan(bytes, &targets, by_sites);
            let name = FlowId::Multicast(advice.next_cast);
            advice.next_cast += 1;
            let plan = sub_plan.plan().id();
            advice.watch(name, Flow::new(plan, bytes, now, Some(targets.clone()), targets));
            report = Some(name);
            self.await_advisor();
        }
        self.spread(from, Spread::SegmentedMulticast { multicast, sub_plan, report });
    }

    fn retire_plan(&mut self, plan: PlanId) {
        self.advice.retire(plan);
    }

    /// Sees to it that the advisor thinks soon, and first that there is one.
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

    /// The coordinator has come to this node: makes another advisor, if there was one.
    pub(in crate::coordinator) fn resume_advice(&mut self) {
        if !self.advice.is_over {
            self.begin_advice();
        }
    }

    /// Makes the advisor, if one is awaited and the places are known.
    pub(in crate::coordinator) fn begin_advice(&mut self) {
        let Some(places) = self.survey.places.clone() else { return };
        if !self.advice.is_awaited || !self.advice.leaders.is_empty() {
            return;
        }
        let members: Vec<NodeId> = self.common.layout.nodes().collect();
        // Where nodes of a site were seen to share their way to different sites, all may.
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

    /// Gives the advisor what there is to think about to the driver.
    pub(in crate::coordinator) fn begin_planning(&mut self) {
        self.note_link_news();
        let (now, is_to_move) = (self.now, self.is_to_move());
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

    /// Tells the advisor of links that are not as it was told.
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

    /// The planner is done: publishes its plans, and has measured what it wants to know.
    pub(in crate::coordinator) fn planned(&mut self, planning_job: PlanningJob) {
        self.advice.advisor = Some(planning_job.advisor);
        let me = self.node;
        for command in planning_job.commands {
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
                // Whether nodes share a way is the survey's question.
                AdvisorCommand::Probe(ProbeRequest::Together { .. }) => {}
            }
        }
        if !self.advice.news.is_empty() {
            self.await_advisor();
        }
    }

    /// The advisor will not come back; broadcasts keep the plans that they have.
    pub(in crate::coordinator) fn planner_lost(&mut self) {
        self.advice.is_over = true;
        self.advice.news.clear();
        self.advice.flows.clear();
    }

    /// The PEs of this node take its plans for what they send to all themselves.
    fn tell_neighbours(&mut self, news: impl Fn() -> PlanNews) {
        self.tell_own_plan(self.node, news);
    }

    /// Tells the PEs of a node what concerns its plans.
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
        tracing::debug!(plan = %plan.id(), bytes, stripes = plan.stripes().len(), segment = plan.segment_bytes(), predicted = ?plan.predicted(), "a plan for broadcasts");
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
        tracing::debug!(%plan, bytes, "broadcasts take a plan that is known");
        self.advice.decide(plan, bytes);
    }

    /// A node knows a plan.
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

    /// A node has all of a tree broadcast or multicast, and has told so after some time, and what
    /// it saw.
    pub(in crate::coordinator) fn handle_carried(
        &mut self,
        flow: FlowId,
        (from, node, after): (PeId, NodeId, Duration),
        arrivals: Vec<Arrival>,
    ) {
        let (now, nodes) = (self.now, self.common.layout.node_count());
        let advice = &mut self.advice;
        // Two nodes may use the same number.
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
        known.words.push((node, after));
        if !known.missing.is_empty() {
            return;
        }
        advice.flow_ended = now;
        if let Some(known) = advice.flows.remove(&flow) {
            let Flow { plan, bytes, began, targets, arrivals, words, .. } = known;
            let edges = edges(&arrivals);
            advice.tell(News::Arrived(Arrived { plan, bytes, began, targets, edges, words }));
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

    /// What the advisor wished to know of a pair of clusters.
    pub(in crate::coordinator) fn note_pair(&mut self, pair: (usize, usize), found: &[Probed]) {
        let Some(rate) = found.first().and_then(|probed| probed.rate) else { return };
        let bandwidth = rate.bits_per_second() as f64 / 8.0;
        self.advice.tell(News::Probed(pair, bandwidth));
        self.await_advisor();
    }
}
