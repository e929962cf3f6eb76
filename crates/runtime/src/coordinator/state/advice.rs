//! State of the broadcast advice: plans of tree broadcasts, and broadcasts in progress.

use crate::message::{Arrival, CoordinatorPlace, FlowId};
use crate::pe::nearest;
use gridspan_bcast::{
    Advisor, AdvisorCommand, Broadcast, BroadcastPlan, EdgeTiming, PlanId, SearchBudget, Sharing,
    SubPlan, Tree,
};
use gridspan_topology::{LinkEstimate, NodeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A pair of clusters, by the advisor's numbers.
pub(crate) type ClusterPair = (usize, usize);

/// News for the advisor's next planning job.
pub(crate) enum News {
    /// A tree broadcast or a multicast has arrived at all targets, or is too small to be watched.
    Arrived(Arrived),
    /// Another node sends broadcasts, by this default plan.
    Sender(Box<BroadcastPlan>),
    /// Nodes of a site share their uplink.
    SharedUplinks,
    /// The estimate of a link has changed.
    Link(ClusterPair, LinkEstimate),
    /// The bandwidth that a requested probe measured, in bytes per second.
    Probed(ClusterPair, f64),
}

/// A tree broadcast or multicast that is complete, or too small to be watched.
pub(crate) struct Arrived {
    pub(crate) plan: PlanId,
    pub(crate) bytes: u64,
    pub(crate) began: Time,
    /// The target nodes, if not all nodes.
    pub(crate) targets: Option<BTreeSet<NodeId>>,
    pub(crate) edges: Vec<EdgeTiming>,
    /// Time from the start until the report of each node reached the sender's relay.
    pub(crate) report_times: Vec<(NodeId, Duration)>,
}

/// The advisor with news to plan for. Planning takes tens of milliseconds, so a driver runs it on
/// another thread, and returns the job with
/// [`CoordinatorEvent::Planned`](crate::coordinator::CoordinatorEvent::Planned).
pub struct PlanningJob {
    pub(crate) advisor: Box<Advisor>,
    pub(crate) news: Vec<News>,
    pub(crate) now: Time,
    pub(crate) commands: Vec<AdvisorCommand>,
}

impl PlanningJob {
    /// Plans for about `limit` of time by `clock`, a monotonic clock with any origin.
    pub fn run_for(&mut self, limit: Duration, clock: &dyn Fn() -> Duration) {
        self.run_planner(&SearchBudget::time(limit, clock));
    }

    /// Plans for about `limit` evaluations of a tree, so that the result does not depend on time.
    pub fn run_evaluations(&mut self, limit: u64) {
        self.run_planner(&SearchBudget::evaluations(limit));
    }

    fn run_planner(&mut self, budget: &SearchBudget<'_>) {
        let Self { advisor, news, now, commands } = self;
        for news in news.drain(..) {
            match news {
                News::Arrived(arrived) => tell(advisor, *now, &arrived),
                News::Sender(default_plan) => advisor.introduce(*default_plan),
                News::SharedUplinks => advisor.assume(Sharing::SiteUplinks),
                News::Link((from, to), estimate) => {
                    advisor.link_changed(*now, from, to, &estimate);
                }
                News::Probed((from, to), bandwidth) => advisor.probed(*now, from, to, bandwidth),
            }
        }
        commands.append(&mut advisor.tick(*now, budget));
    }
}

fn tell(advisor: &mut Advisor, now: Time, arrived: &Arrived) {
    let &Arrived { plan, bytes, began, ref targets, ref edges, ref report_times } = arrived;
    let took = advisor.completion(plan.root, report_times);
    let over = Broadcast { root: plan.root, bytes, began, took, plan, edges };
    match targets {
        None => advisor.observe(now, &over),
        Some(targets) => advisor.observe_multicast(now, &over, targets),
    }
}

/// A tree broadcast or a multicast with missing reports.
pub(crate) struct Flow {
    pub(crate) plan: PlanId,
    pub(crate) bytes: u64,
    pub(crate) began: Time,
    /// The target nodes, if not all nodes.
    pub(crate) targets: Option<BTreeSet<NodeId>>,
    /// Nodes that have not reported.
    pub(crate) missing: BTreeSet<NodeId>,
    pub(crate) arrivals: Vec<(NodeId, Arrival)>,
    /// Time from the start until the report of each node reached the sender's relay.
    pub(crate) report_times: Vec<(NodeId, Duration)>,
    /// The trees of the plan, if they are known and the job has listeners to broadcasts.
    pub(crate) trees: Option<Arc<SubPlan>>,
}

impl Flow {
    /// Creates a flow that began at `began`, about which the nodes in `missing` will report.
    pub(crate) fn new(
        plan: PlanId,
        bytes: u64,
        began: Time,
        targets: Option<BTreeSet<NodeId>>,
        missing: BTreeSet<NodeId>,
    ) -> Self {
        let (arrivals, report_times) = (Vec::new(), Vec::new());
        Self { plan, bytes, began, targets, missing, arrivals, report_times, trees: None }
    }
}

/// A plan that some nodes do not know yet.
pub(crate) struct Unconfirmed {
    /// The message size for which the plan was made.
    pub(crate) bytes: u64,
    pub(crate) missing: BTreeSet<NodeId>,
    /// The tree for contributions once all nodes know the plan.
    pub(crate) up_tree: Option<Tree>,
}

/// The coordinator's choice of plans for tree broadcasts.
#[derive(Default)]
pub(crate) struct Advice {
    /// Number of the next tree broadcast from this node. Relays count those of each node
    /// separately.
    pub(crate) next_flow: u64,
    /// Number of the next tree broadcast from each other node on which the coordinator has run.
    flows_elsewhere: BTreeMap<NodeId, u64>,
    /// Lower bound (exclusive) of the versions of new plans.
    pub(crate) versions_after: u64,
    /// Number of small broadcasts before the advisor was requested.
    pub(crate) small: u32,
    /// `None` before the places are known, while a planning job runs, and after the advisor is
    /// lost.
    pub(crate) advisor: Option<Box<Advisor>>,
    /// The first node of each cluster, in the advisor's order.
    pub(crate) leaders: Vec<NodeId>,
    pub(crate) is_awaited: bool,
    pub(crate) is_scheduled: bool,
    /// Number of planning jobs so far.
    pub(crate) planning_jobs: u32,
    /// Whether no advisor is wanted, or the advisor is lost.
    pub(crate) is_over: bool,
    pub(crate) news: Vec<News>,
    /// Estimates of links that the advisor received last.
    pub(crate) told: BTreeMap<ClusterPair, Told>,
    /// Plans in use, by message size. All nodes know them.
    pub(crate) choices: BTreeMap<u64, PlanId>,
    /// Plans to use once all nodes know them, by message size.
    pub(crate) decided: BTreeMap<u64, PlanId>,
    pub(crate) unconfirmed: BTreeMap<PlanId, Unconfirmed>,
    /// Plans that relays know or will know soon, without those known from the start.
    pub(crate) published: BTreeSet<PlanId>,
    /// Plans that tree broadcasts no longer use. Relays forget them with the next new plan.
    pub(crate) retired: Vec<PlanId>,
    /// Other nodes that broadcast and that the advisor knows.
    pub(crate) introduced: BTreeSet<NodeId>,
    pub(crate) flows: BTreeMap<FlowId, Flow>,
    /// Completion time of the last complete flow.
    pub(crate) flow_ended: Time,
    pub(crate) next_cast: u64,
    /// The trees of plans of all senders, if the job has listeners to broadcasts.
    pub(crate) trees: BTreeMap<PlanId, Arc<SubPlan>>,
    /// Sub-plans of large multicasts, by plan and target nodes.
    pub(crate) sub_plans: BTreeMap<(PlanId, BTreeSet<NodeId>), Arc<SubPlan>>,
}

/// Maximum number of pending pieces of news. Further ones are dropped, except estimates of links,
/// because the advisor cannot keep up.
const NEWS_MAX: usize = 256;
/// Maximum number of flows with missing reports. The oldest is dropped first, without a result.
const FLOWS_MAX: usize = 256;
/// Maximum number of cached sub-plans. When it is reached, the cache is cleared.
const SUB_PLANS_MAX: usize = 64;
/// Relative change of a bandwidth or latency below which it is not reported to the advisor again.
/// A latency must also differ by at least [`LATENCY_MIN_S`] seconds.
const NEWS_MIN: f64 = 0.2;
const LATENCY_MIN_S: f64 = 1e-4;

/// The estimate of a link that the advisor received last, in bytes per second and seconds.
#[derive(Default)]
pub(crate) struct Told {
    rate: Option<f64>,
    latency_s: Option<f64>,
}

impl Told {
    /// Returns the parts of an estimate that are news, and records them as reported.
    pub(crate) fn news(&mut self, mut estimate: LinkEstimate) -> Option<LinkEstimate> {
        let differs = |before: Option<f64>, now: f64, least: f64| {
            before.is_none_or(|before| (now - before).abs() > (NEWS_MIN * before).max(least))
        };
        let latency_s = estimate.latency.duration().as_secs_f64();
        let is_later = differs(self.latency_s, latency_s, LATENCY_MIN_S);
        if is_later {
            self.latency_s = Some(latency_s);
        }
        // The advisor may know a newer bandwidth from broadcasts, which an unchanged estimate must
        // not replace.
        estimate.bandwidth = estimate.bandwidth.filter(|rate| {
            let rate = rate.bits_per_second() as f64 / 8.0;
            let is_news = differs(self.rate, rate, 0.0);
            self.rate = if is_news { Some(rate) } else { self.rate };
            is_news
        });
        (is_later || estimate.bandwidth.is_some()).then_some(estimate)
    }
}

/// The part of [`Advice`] that moves with the coordinator.
#[derive(Serialize, Deserialize)]
pub(crate) struct TransferredAdvice {
    next_flow: u64,
    flows_elsewhere: BTreeMap<NodeId, u64>,
    next_cast: u64,
    versions_after: u64,
    small: u32,
    is_awaited: bool,
    is_over: bool,
}

impl Advice {
    /// Creates an empty state. It stays empty unless plans are wanted.
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self { is_over: !is_wanted, ..Self::default() }
    }

    /// Whether no planning job runs, and all nodes know all plans.
    pub(crate) fn is_settled(&self) -> bool {
        let is_planning = self.advisor.is_none() && !self.leaders.is_empty() && !self.is_over;
        !is_planning && self.unconfirmed.is_empty()
    }

    /// Extracts the part that moves with the coordinator to another node.
    pub(crate) fn into_transferred(
        mut self,
        from: NodeId,
        to: CoordinatorPlace,
    ) -> TransferredAdvice {
        self.flows_elsewhere.insert(from, self.next_flow);
        TransferredAdvice {
            next_flow: self.flows_elsewhere.remove(&to.node).unwrap_or(0),
            flows_elsewhere: self.flows_elsewhere,
            next_cast: self.next_cast,
            versions_after: to.versions_after(),
            small: self.small,
            is_awaited: self.is_awaited,
            is_over: self.is_over,
        }
    }

    /// Restores the state from the part that moved from another node.
    pub(crate) fn from_transferred(transferred: TransferredAdvice) -> Self {
        let TransferredAdvice { next_flow, flows_elsewhere, next_cast, .. } = transferred;
        let TransferredAdvice { versions_after, small, is_awaited, is_over, .. } = transferred;
        Self {
            next_flow,
            flows_elsewhere,
            next_cast,
            versions_after,
            small,
            is_awaited,
            is_over,
            ..Self::default()
        }
    }

    /// Keeps news for the next planning job. If too much is pending, drops the news, because more
    /// will follow.
    pub(crate) fn tell(&mut self, news: News) {
        if !self.is_over && self.news.len() < NEWS_MAX {
            self.news.push(news);
        }
    }

    /// Whether a large broadcast or multicast was in progress at any time since `since`.
    pub(crate) fn is_disturbed(&self, since: Time) -> bool {
        !self.flows.is_empty() || self.flow_ended >= since
    }

    /// Registers a flow, about which nodes will report.
    pub(crate) fn watch(&mut self, id: FlowId, flow: Flow) {
        self.flows.insert(id, flow);
        if self.flows.len() > FLOWS_MAX {
            let oldest = self.flows.iter().min_by_key(|(_, flow)| flow.began).map(|(&id, _)| id);
            oldest.and_then(|id| self.flows.remove(&id));
        }
    }

    /// Returns the plan in use for the message size that is nearest to `bytes`, within a factor of
    /// two.
    pub(crate) fn choose(&self, bytes: u64) -> Option<PlanId> {
        nearest(&self.choices, bytes)
    }

    /// Decides on a plan for messages of about this size, which is used once all nodes know it.
    pub(crate) fn decide(&mut self, plan: PlanId, bytes: u64) {
        self.decided.insert(bytes, plan);
        if !self.unconfirmed.contains_key(&plan) {
            self.confirm(plan, bytes);
        }
    }

    /// Puts a plan that all nodes know into use, unless another was decided on meanwhile.
    pub(crate) fn confirm(&mut self, plan: PlanId, bytes: u64) {
        self.sub_plans.clear();
        if self.decided.get(&bytes) == Some(&plan) {
            self.choices.insert(bytes, plan);
        }
    }

    /// Retires a plan that the advisor has dropped: it is not chosen again, and relays forget it
    /// with the next new plan.
    pub(crate) fn retire(&mut self, plan: PlanId) {
        self.sub_plans.retain(|(other, _), _| *other != plan);
        self.choices.retain(|_, chosen| *chosen != plan);
        self.decided.retain(|_, chosen| *chosen != plan);
        self.retired.push(plan);
    }

    /// Returns the sub-plan of a large multicast to these nodes: by the plan for its size or by
    /// sites, whichever has the shorter predicted time. Returns the sub-plan by sites if there is
    /// no plan for the size, or if a planning job runs and the result is not cached.
    pub(crate) fn sub_plan(
        &mut self,
        bytes: u64,
        targets: &BTreeSet<NodeId>,
        by_sites: SubPlan,
    ) -> Arc<SubPlan> {
        let Some(plan) = self.choose(bytes) else { return Arc::new(by_sites) };
        let name = (plan, targets.clone());
        if let Some(sub_plan) = self.sub_plans.get(&name) {
            return sub_plan.clone();
        }
        let Some(advisor) = &self.advisor else { return Arc::new(by_sites) };
        let sub_plan = Arc::new(advisor.sub_plan(plan, targets, bytes, by_sites));
        if self.sub_plans.len() >= SUB_PLANS_MAX {
            self.sub_plans.clear();
        }
        self.sub_plans.insert(name, sub_plan.clone());
        sub_plan
    }
}

/// Returns the timings of the edges of a tree broadcast. A receiver observes when segments arrive.
/// If they arrive no slower than at the node that passes them on, the edge between the two nodes
/// may be faster than this timing, so the result omits it.
pub(crate) fn edges(arrivals: &[(NodeId, Arrival)]) -> Vec<EdgeTiming> {
    /// Ratio of rates below which an edge counts as slower than the one before it.
    const SLOWER: f64 = 0.9;
    let rate = |arrival: &Arrival| arrival.bytes as f64 / arrival.flowing_s.max(1e-9);
    let rates: BTreeMap<(NodeId, u32), f64> =
        arrivals.iter().map(|(node, arrival)| ((*node, arrival.stripe), rate(arrival))).collect();
    let is_limiting = |arrival: &Arrival| {
        let before = rates.get(&(arrival.from, arrival.stripe));
        before.is_none_or(|&before| rate(arrival) < SLOWER * before)
    };
    let limiting = arrivals.iter().filter(|(_, arrival)| is_limiting(arrival));
    let timing = |(to, arrival): &(NodeId, Arrival)| EdgeTiming {
        from: arrival.from.0,
        to: to.0,
        bytes: arrival.bytes as f64,
        flowing_s: arrival.flowing_s,
        span_s: (0.0, arrival.flowing_s),
        later: (arrival.bytes as f64, arrival.flowing_s),
    };
    limiting.map(timing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(version: u64) -> PlanId {
        PlanId { root: NodeId(0), version }
    }

    #[test]
    fn the_plan_of_the_nearest_size_within_a_factor_of_two_is_chosen() {
        let mut advice = Advice::default();
        advice.decide(plan(1), 1024);
        advice.decide(plan(2), 4096);

        let chosen = [400, 512, 1500, 2048, 3000, 8192, 9000].map(|bytes| advice.choose(bytes));

        let [one, two] = [Some(plan(1)), Some(plan(2))];
        assert_eq!(chosen, [None, one, one, one, two, two, None]);
        advice.decide(plan(3), 1024);
        assert_eq!(advice.choose(1024), Some(plan(3)));
    }

    #[test]
    fn a_plan_is_used_once_all_nodes_know_it_unless_a_later_one_was_decided() {
        let mut advice = Advice::default();
        let unconfirmed =
            || Unconfirmed { bytes: 1024, missing: BTreeSet::from([NodeId(1)]), up_tree: None };
        advice.decide(plan(1), 1024);
        for version in [2, 3] {
            advice.unconfirmed.insert(plan(version), unconfirmed());
        }
        advice.decide(plan(2), 1024);
        advice.decide(plan(3), 1024);
        assert_eq!(advice.choose(1024), Some(plan(1)));

        for version in [2, 3] {
            advice.unconfirmed.remove(&plan(version));
            advice.confirm(plan(version), 1024);
        }
        assert_eq!(advice.choose(1024), Some(plan(3)));

        // All nodes know the default plan from the start.
        advice.decide(plan(0), 1024);
        assert_eq!(advice.choose(1024), Some(plan(0)));
    }

    #[test]
    fn a_retired_plan_is_not_chosen_and_is_listed_for_relays() {
        let mut advice = Advice::default();
        advice.decide(plan(1), 1024);
        advice.decide(plan(2), 4096);

        advice.retire(plan(1));

        assert_eq!([512, 4096].map(|bytes| advice.choose(bytes)), [None, Some(plan(2))]);
        assert_eq!(advice.retired, [plan(1)]);
    }

    #[test]
    fn an_edge_behind_a_slower_one_gives_no_timing() {
        let arrival =
            |from, flowing_s| Arrival { from: NodeId(from), stripe: 0, bytes: 1000, flowing_s };
        let arrivals = [
            (NodeId(1), arrival(0, 1.0)),
            (NodeId(2), arrival(1, 1.02)),
            (NodeId(3), arrival(1, 4.0)),
            (NodeId(4), arrival(3, 3.9)),
        ];

        let seen: Vec<(u32, u32)> =
            edges(&arrivals).iter().map(|edge| (edge.from, edge.to)).collect();

        assert_eq!(seen, [(0, 1), (1, 3)]);
    }
}
