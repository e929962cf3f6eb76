//! How tree broadcasts travel: the root has an advisor, which plans ahead while nothing waits for it.
//!
//! **Start.** Tree broadcasts travel by the default plan that all relays know. The first makes the
//! root ask for the places; once those are known, there is an advisor.
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

use super::core::Core;
use super::state::{
    Advice, Arrived, Flow, Locality, News, PlanningJob, Purpose, Unconfirmed, edges,
};
use crate::probe::{ProbeKind, Probed};
use crate::relay::default_plan;
use crate::wire::{Arrival, Control, OutgoingControl, Packet, REPORTED_BYTES_MIN, Spread};
use crate::wire::{FlowId, PlanNews, SEGMENT_BYTES, Travel};
use gridspan_bcast::{
    Advisor, AdvisorCommand, AdvisorConfig, NetworkEstimate, PlanId, ProbeRequest, Sharing,
    SubPlan, Tree,
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

impl Core {
    /// Sends a control packet to every PE, this one, the root, as well: `make` is asked for each
    /// copy that moves as a value. Other nodes get it from the relay.
    pub(super) fn post_to_all(&mut self, make: impl Fn() -> Control) {
        for pe in self.pes_here() {
            self.post(pe, make());
        }
        if self.has_others() {
            self.post_to_others(&make());
        }
    }

    /// Whether there are other nodes.
    pub(super) fn has_others(&self) -> bool {
        self.common.layout.node_count() > 1
    }

    /// Sends a control packet to every PE of other nodes. Runs on the root.
    pub(super) fn post_to_others(&mut self, control: &Control) {
        if !self.has_others() {
            return;
        }
        let others = self.common.layout.pe_count() - self.pes_here().len() as u32;
        if control.is_counted() {
            self.created += u64::from(others);
        }
        self.send_over_tree(OutgoingControl::new(control));
    }

    /// The PEs of this node.
    pub(super) fn pes_here(
        &self,
    ) -> impl DoubleEndedIterator<Item = PeId> + ExactSizeIterator + use<> {
        let layout = &self.common.layout;
        layout.place(layout.node_of(self.me)).pes.clone().map(PeId)
    }

    /// Hands a tree broadcast to the relay, with the plan for its size. Runs on the root.
    fn send_over_tree(&mut self, control: OutgoingControl) {
        let me = self.common.layout.node_of(self.me);
        let Some(root) = &mut self.root else { return };
        let advice = &mut root.advice;
        let bytes = control.bytes() as u64;
        let flow = advice.next_flow;
        advice.next_flow += 1;
        let chosen = advice.choose(bytes);
        let plan = chosen.unwrap_or(PlanId { root: me, version: 0 });
        // What the runtime itself announces says nothing of what comes next.
        let is_learning = !control.is_internal();
        self.outbox.packet(self.me, Packet::spread(Spread::TreeBroadcast { control, plan, flow }));
        if is_learning {
            self.note_travel(Travel { flow: FlowId::TreeBroadcast(flow), plan, bytes });
        }
    }

    /// Notes that a broadcast begins, of this node or another. Runs on the root.
    pub(super) fn note_travel(&mut self, Travel { flow, plan, bytes }: Travel) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let (from, me) = (plan.root, layout.node_of(self.me));
        let default_plan =
            (from != me && from.0 < layout.node_count()).then(|| Box::new(self.default_from(from)));
        let Some(root) = self.root.as_mut().filter(|root| !root.advice.is_over) else { return };
        let is_known = root.survey.places.is_some();
        let advice = &mut root.advice;
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
        // Others may have asked for the places. One that is small is no reason to; several are where
        // they can go by another site.
        advice.small += u32::from(!is_large && !advice.is_awaited);
        if is_known || advice.small >= SMALL_MIN && layout.site_count() > 2 {
            self.await_advisor();
        }
        // The trains that show who shares a way delay others, and small ones can do without.
        if is_large {
            self.want_uplinks();
        }
    }

    /// How a large multicast from here goes to other nodes, and under which name the root hears how
    /// that went.
    pub(super) fn sub_plan(
        &mut self,
        bytes: u64,
        targets: BTreeSet<NodeId>,
    ) -> (Arc<SubPlan>, Option<FlowId>) {
        let (now, layout) = (self.now, self.common.layout.clone());
        let by_sites = SubPlan::by_sites(&layout, layout.node_of(self.me), &targets, SEGMENT_BYTES);
        let Some(root) = self.root.as_mut().filter(|root| !root.advice.is_over) else {
            return (Arc::new(by_sites), None);
        };
        let advice = &mut root.advice;
        let sub_plan = advice.sub_plan(bytes, &targets, by_sites);
        let name = FlowId::Multicast(advice.next_cast);
        advice.next_cast += 1;
        let flow = Flow::new(sub_plan.plan().id(), bytes, now, Some(targets.clone()), targets);
        advice.watch(name, flow);
        self.await_advisor();
        (sub_plan, Some(name))
    }

    fn retire_plan(&mut self, plan: PlanId) {
        if let Some(root) = &mut self.root {
            root.advice.retire(plan);
        }
    }

    /// Sees to it that the advisor thinks soon, and first that there is one.
    fn await_advisor(&mut self) {
        let Some(root) = self.root.as_mut().filter(|root| !root.advice.is_over) else {
            return;
        };
        let advice = &mut root.advice;
        if !std::mem::replace(&mut advice.is_awaited, true) {
            return self.await_places(|core, places| core.begin_advice(&places));
        }
        if !advice.leaders.is_empty() && !std::mem::replace(&mut advice.is_scheduled, true) {
            let is_new = advice.planning_jobs < THOUGHTS_AT_ONCE;
            let pause = if is_new { Duration::ZERO } else { PACE };
            self.run_upkeep_after(pause, Self::begin_planning);
        }
    }

    fn begin_advice(&mut self, places: &Locality) {
        let members: Vec<NodeId> = self.common.layout.nodes().collect();
        let Some(root) = &mut self.root else { return };
        // Where nodes of a site were seen to share their way to different sites, all may.
        let sharing = match root.survey.uplinks.values().any(|uplink| uplink.pipes == Pipes::Shared)
        {
            true => Sharing::SiteUplinks,
            false => Sharing::SitePairs,
        };
        let usual = root.survey.usual_send_cost().unwrap_or(INITIATION);
        let costs = &root.survey.send_costs;
        let initiation_s = |node| costs.get(&node).unwrap_or(&usual).as_secs_f64();
        let estimate =
            NetworkEstimate::from_hierarchy(&places.hierarchy, &members, initiation_s, sharing);
        let advice = &mut root.advice;
        let is_first = |cluster: usize| {
            members.iter().copied().find(|node| estimate.cluster_of(node.0) == cluster)
        };
        advice.leaders = (0..estimate.clusters()).filter_map(is_first).collect();
        let mut advisor = Advisor::new(members, estimate, AdvisorConfig::default());
        advisor.introduce(default_plan(&self.common.tree));
        advice.advisor = Some(Box::new(advisor));
        self.await_advisor();
    }

    /// Gives the advisor what there is to think about to the driver.
    fn begin_planning(&mut self) {
        self.note_link_news();
        let now = self.now;
        let Some(root) = &mut self.root else { return };
        let advice = &mut root.advice;
        advice.is_scheduled = false;
        if advice.news.is_empty() {
            return;
        }
        let Some(advisor) = advice.advisor.take() else { return };
        advice.planning_jobs = advice.planning_jobs.saturating_add(1);
        let (news, commands) = (std::mem::take(&mut advice.news), Vec::new());
        self.planning_job = Some(PlanningJob { advisor, news, now, commands });
    }

    /// Tells the advisor of links that are not as it was told.
    fn note_link_news(&mut self) {
        let now = self.now;
        let Some(root) = &mut self.root else { return };
        let Some(places) = root.survey.places.clone() else { return };
        let Advice { leaders, told, news, .. } = &mut root.advice;
        if leaders.len() > CLUSTERS_MAX {
            return;
        }
        for (from, &one) in leaders.iter().enumerate() {
            for (to, &other) in leaders.iter().enumerate().filter(|&(to, _)| to != from) {
                let known = root.survey.link(now, &places.hierarchy, (one, other));
                let Some(estimate) = known else { continue };
                if let Some(estimate) = told.entry((from, to)).or_default().news(estimate) {
                    news.push(News::Link((from, to), estimate));
                }
            }
        }
    }

    /// The planner is done: publishes its plans, and has measured what it wants to know.
    pub fn advised(&mut self, planning_job: PlanningJob) {
        let Some(root) = &mut self.root else { return };
        root.advice.advisor = Some(planning_job.advisor);
        let me = self.common.layout.node_of(self.me);
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
        let has_news = self.root.as_ref().is_some_and(|root| !root.advice.news.is_empty());
        if has_news {
            self.await_advisor();
        }
    }

    /// The advisor will not come back; broadcasts keep the plans that they have.
    pub(crate) fn advisor_lost(&mut self) {
        if let Some(root) = &mut self.root {
            root.advice.is_over = true;
            root.advice.news.clear();
            root.advice.flows.clear();
        }
    }

    /// The PEs beside the root take its node's plans for what they send to all themselves.
    fn tell_neighbours(&mut self, news: impl Fn() -> PlanNews) {
        let me = self.me;
        for pe in self.pes_here().filter(|&pe| pe != me) {
            self.post(pe, Control::OwnPlan(news()));
        }
    }

    fn publish_plan(&mut self, plan: gridspan_bcast::BroadcastPlan, bytes: u64) {
        let me = self.common.layout.node_of(self.me);
        let missing: BTreeSet<NodeId> =
            self.common.layout.nodes().filter(|&node| node != me).collect();
        let Some(root) = &mut self.root else { return };
        tracing::debug!(plan = %plan.id(), bytes, stripes = plan.stripes().len(), segment = plan.segment_bytes(), predicted = ?plan.predicted(), "a plan for broadcasts");
        let advice = &mut root.advice;
        let up_tree = match plan.stripes() {
            [one] if bytes <= CONTRIBUTION_BYTES => Some(one.tree.clone()),
            _ => None,
        };
        advice.unconfirmed.insert(plan.id(), Unconfirmed { bytes, missing, up_tree });
        advice.decide(plan.id(), bytes);
        let retired = std::mem::take(&mut advice.retired);
        self.outbox.packet(self.me, Packet::spread(Spread::Plan { plan: Box::new(plan), retired }));
    }

    fn take_plan(&mut self, plan: PlanId, bytes: u64) {
        let Some(root) = &mut self.root else { return };
        tracing::debug!(%plan, bytes, "broadcasts take a plan that is known");
        root.advice.decide(plan, bytes);
    }

    /// A node knows a plan.
    pub(super) fn handle_plan_known(&mut self, node: NodeId, plan: PlanId) {
        let Some(root) = &mut self.root else { return };
        let advice = &mut root.advice;
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

    /// Contributions take another tree from now on. While not all nodes know it they may go round
    /// in a circle; the latest plan's tree wins everywhere, so that soon all ways lead to the root,
    /// and they are counted there.
    pub(super) fn handle_up_tree(&mut self, plan: PlanId, tree: Tree) {
        let nodes = self.common.layout.nodes();
        let is_sound = tree.root() == self.common.tree.root() && tree.nodes().eq(nodes);
        if is_sound && plan.version > self.up_tree.0 {
            self.up_tree = (plan.version, Arc::new(tree));
        }
    }

    /// A node has all of a tree broadcast or multicast, and has told so after some time, and what it
    /// saw.
    pub(super) fn handle_carried(
        &mut self,
        flow: FlowId,
        (node, after): (NodeId, Duration),
        arrivals: Vec<Arrival>,
    ) {
        let (now, nodes) = (self.now, self.common.layout.node_count());
        let Some(root) = &mut self.root else { return };
        let advice = &mut root.advice;
        let Some(known) = advice.flows.get_mut(&flow) else { return };
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
        let Some(root) = &mut self.root else { return };
        let leaders = &root.advice.leaders;
        let (Some(&one), Some(&other)) = (leaders.get(from), leaders.get(to)) else { return };
        let purpose = Purpose::Broadcast((from, to), now);
        let order = root.survey.order(purpose, ProbeKind::BURST, vec![other]);
        self.send_orders(vec![(one, order)]);
    }

    /// What the advisor wished to know of a pair of clusters.
    pub(super) fn note_pair(&mut self, pair: (usize, usize), found: &[Probed]) {
        let Some(rate) = found.first().and_then(|probed| probed.rate) else { return };
        let Some(root) = &mut self.root else { return };
        let bandwidth = rate.bits_per_second() as f64 / 8.0;
        root.advice.tell(News::Probed(pair, bandwidth));
        self.await_advisor();
    }
}
