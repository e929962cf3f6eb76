//! The advisor: takes estimates and observed broadcasts, returns plans and probe requests.

use super::command::AdvisorCommand;
use super::contest::{Contest, Way};
use super::explanation::Explanation;
use super::feedback::Feedback;
use super::root::{Root, bucket, size};
use crate::model::{
    BroadcastPlan, BroadcastPlanError, Draft, EdgeTiming, Network, NetworkEstimate, PlanId,
    Sharing, SubPlan,
};
use crate::pipeline::{PlannerConfig, plan_broadcast, plan_static};
use crate::search_budget::SearchBudget;
use gridspan_topology::{LinkEstimate, NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Settings of the advisor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdvisorConfig {
    /// Limits of the planner.
    pub planner: PlannerConfig,
    /// A plan is replaced if another is faster by more than this share. Default 0.05.
    pub gain_min: f64,
    /// Number of sizes for which plans are kept for each root; the least recently used size is
    /// dropped first. Default 32: two for each power of two from 1 KB to 64 MB.
    pub plans_max: usize,
    /// New plans get versions above this one. Default 0, the version of the default plan.
    pub versions_after: u64,
}

impl Default for AdvisorConfig {
    fn default() -> Self {
        Self { planner: PlannerConfig::default(), gain_min: 0.05, plans_max: 32, versions_after: 0 }
    }
}

/// A message whose time differs from the expected time by at most this factor shows nothing about
/// links: if some of its edges were slower, they waited for something else.
const AS_EXPECTED: f64 = 1.15;

/// A finished broadcast.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast<'a> {
    /// The node that sent it.
    pub root: NodeId,
    /// Size of the message, in bytes.
    pub bytes: u64,
    /// Time at which it began.
    pub began: Time,
    /// Time from its beginning until the last node had the whole message; `None` if unknown.
    pub took: Option<Duration>,
    /// The plan it used.
    pub plan: PlanId,
    /// Measured timings of the plan's edges, in any order, with nodes numbered by their place among
    /// the members; empty if they were not measured. Edges inside a cluster may be left out.
    pub edges: &'a [EdgeTiming],
}

/// Plans the broadcasts of all roots of a job.
#[derive(Clone, Debug)]
pub struct Advisor {
    members: Vec<NodeId>,
    estimate: NetworkEstimate,
    network: Network,
    /// Number of changes of the estimate.
    changes: u64,
    /// Value of `changes` when links last changed; a change of [`Sharing`] alone does not count.
    links_changed: u64,
    feedback: Feedback,
    explanation: Explanation,
    roots: BTreeMap<NodeId, Root>,
    /// Dropped plans for which [`AdvisorCommand::Retire`] is still to be issued.
    evicted: Vec<PlanId>,
    config: AdvisorConfig,
}

impl Advisor {
    /// Advises broadcasts over `members`; the estimate numbers them in this order.
    pub fn new(members: Vec<NodeId>, estimate: NetworkEstimate, config: AdvisorConfig) -> Self {
        let network = estimate.network();
        Self {
            members,
            network,
            estimate,
            changes: 0,
            links_changed: 0,
            feedback: Feedback::default(),
            explanation: Explanation::default(),
            roots: BTreeMap::new(),
            evicted: Vec::new(),
            config,
        }
    }

    /// Sets the default plan: broadcasts from its root use it until the advisor chooses another
    /// plan. The advisor compares other plans with it, and returns to it for sizes at which it is
    /// faster. A root without a default plan begins with a plan that needs no search.
    pub fn introduce(&mut self, default_plan: BroadcastPlan) {
        let root = self.roots.entry(default_plan.id().root).or_default();
        root.default_plan.get_or_insert(default_plan);
    }

    /// The estimate of the network.
    pub fn estimate(&self) -> &NetworkEstimate {
        &self.estimate
    }

    /// Returns the plan for a broadcast that begins now, without a search: the plan for this size
    /// or for the nearest size within a factor of two; if there is none, the default plan or one
    /// that needs no search.
    ///
    /// # Errors
    ///
    /// [`BroadcastPlanError::NoMember`] if the advisor does not know `root`.
    pub fn plan(
        &mut self,
        now: Time,
        root: NodeId,
        bytes: u64,
    ) -> Result<&BroadcastPlan, BroadcastPlanError> {
        if self.place(root).is_none() {
            return Err(BroadcastPlanError::NoMember { root });
        }
        let bucket = bucket(bytes);
        let contests = &self.roots.entry(root).or_default().contests;
        let near = [0, 1, -1, 2, -2].into_iter().map(|step| bucket.saturating_add_signed(step));
        let chosen = near.into_iter().find(|bucket| contests.contains_key(bucket));
        let contest = self.contest(now, root, chosen.unwrap_or(bucket))?;
        contest.used = now;
        Ok(&contest.taken().plan)
    }

    /// Returns the sub-plan for a multicast: the part of `plan` that leads to the `targets`, if it
    /// is predicted to take no longer than `other`, otherwise `other`. Takes two simulations.
    pub fn sub_plan(
        &self,
        plan: PlanId,
        targets: &BTreeSet<NodeId>,
        bytes: u64,
        other: SubPlan,
    ) -> SubPlan {
        let Some(way) = self.find(plan) else { return other };
        let pruned = SubPlan::over(&way.plan, targets);
        let takes_s = |sub_plan: &SubPlan| {
            Some(self.draft_of(sub_plan)?.simulate(&self.network, bytes).completion_s)
        };
        // If a target is no member, `plan` does not reach it. Then `other` has no prediction, and
        // is chosen.
        match takes_s(&pruned).zip(takes_s(&other)) {
            Some((pruned_s, other_s)) if pruned_s <= other_s => pruned,
            _ => other,
        }
    }

    /// Learns from a finished broadcast, unless its root is no member.
    pub fn observe(&mut self, now: Time, broadcast: &Broadcast<'_>) {
        if self.place(broadcast.root).is_none() {
            return;
        }
        self.roots.entry(broadcast.root).or_default().note(broadcast.began, broadcast.bytes);
        let Some(draft) = self.find(broadcast.plan).map(|way| way.draft.clone()) else { return };
        // A root's first broadcast is not timed: congestion windows still grow during it.
        let is_first = self.roots.get(&broadcast.root).is_some_and(Root::is_new);
        let took = broadcast.took.filter(|_| !is_first);
        self.learn(now, &Broadcast { took, ..broadcast.clone() }, &draft);
        let Some(took) = took else { return };
        let (bytes, took_s) = (broadcast.bytes, took.as_secs_f64());
        if self.contest(now, broadcast.root, bucket(bytes)).is_err() {
            return;
        }
        let contests = &mut self.roots.entry(broadcast.root).or_default().contests;
        if let Some(contest) = contests.get_mut(&bucket(bytes)) {
            contest.used = now;
            let links = (now, self.links_changed);
            contest.note(links, &self.network, broadcast.plan, (bytes, took_s));
        }
    }

    /// Returns how long a message from `root` took to reach the last node. `report_times` gives,
    /// for each node that has the message, the time from the beginning until the node's report was
    /// back at the root. This function subtracts the latency of the report. `None` without reports
    /// of members.
    pub fn completion(
        &self,
        root: NodeId,
        report_times: &[(NodeId, Duration)],
    ) -> Option<Duration> {
        let to = self.place(root)?;
        let had = report_times.iter().filter_map(|&(node, after)| {
            let back_s = self.network.latency_s(self.place(node)?, to);
            Some(after.saturating_sub(Duration::from_secs_f64(back_s.max(0.0))))
        });
        had.max()
    }

    /// Learns from a finished multicast to `targets` that used the plan's [`SubPlan`] to them.
    pub fn observe_multicast(
        &mut self,
        now: Time,
        multicast: &Broadcast<'_>,
        targets: &BTreeSet<NodeId>,
    ) {
        if self.place(multicast.root).is_none() {
            return;
        }
        self.roots.entry(multicast.root).or_default().note(multicast.began, multicast.bytes);
        let Some(way) = self.find(multicast.plan) else { return };
        let Some(draft) = self.draft_of(&SubPlan::over(&way.plan, targets)) else { return };
        self.learn(now, multicast, &draft);
    }

    /// Learns from a message that travelled along this draft.
    fn learn(&mut self, now: Time, message: &Broadcast<'_>, draft: &Draft) {
        if let Some(took) = message.took {
            self.explanation.note(draft, message.bytes, took.as_secs_f64());
            if let Some(sharing) = self.explanation.better(&self.estimate) {
                self.assume(sharing);
            }
        }
        if message.edges.is_empty() {
            return;
        }
        let expected = draft.simulate(&self.network, message.bytes);
        let ratio = message.took.map(|took| took.as_secs_f64() / expected.completion_s);
        // A plan that takes as long as before shows nothing about links either: the prediction is
        // wrong, and the links have not changed.
        let is_usual = |ratio: &f64| {
            let root = self.roots.get(&message.root);
            let contest = root.and_then(|root| root.contests.get(&bucket(message.bytes)));
            (1.0 / AS_EXPECTED..=AS_EXPECTED).contains(ratio)
                || contest.is_some_and(|one| one.is_usual(message.plan, *ratio, AS_EXPECTED))
        };
        if ratio.as_ref().is_some_and(is_usual) {
            return;
        }
        if self.feedback.compare(now, &mut self.estimate, &expected.edges, message.edges) {
            self.links_changed();
        }
    }

    /// Returns another plan for the `rest` of a broadcast that is under way. `part` gives the
    /// timings of its edges for the bytes sent so far. `rest` is the number of remaining bytes.
    /// They begin at a segment boundary, and are sent as a separate message. Returns `None` if the
    /// timings were as expected, or if the other plan is not faster for the rest by more than
    /// [`AdvisorConfig::gain_min`].
    ///
    /// # Errors
    ///
    /// [`BroadcastPlanError`] if the other plan is invalid.
    pub fn midway(
        &mut self,
        now: Time,
        part: &Broadcast<'_>,
        rest: u64,
        budget: &SearchBudget<'_>,
    ) -> Result<Option<BroadcastPlan>, BroadcastPlanError> {
        let Some(draft) = self.find(part.plan).map(|way| way.draft.clone()) else {
            return Ok(None);
        };
        let expected = draft.simulate(&self.network, part.bytes).edges;
        if !self.feedback.compare(now, &mut self.estimate, &expected, part.edges) {
            return Ok(None);
        }
        self.links_changed();
        let Some(place) = self.place(part.root) else { return Ok(None) };
        let (other, time_s) =
            plan_broadcast(&self.network, place, rest, self.config.planner, budget);
        let before_s = draft.simulate(&self.network, rest).completion_s;
        if time_s >= before_s * (1.0 - self.config.gain_min) {
            return Ok(None);
        }
        let way = self.way(part.root, other, time_s)?;
        let plan = way.plan.clone();
        self.contest(now, part.root, bucket(rest))?;
        self.add(part.root, bucket(rest), way);
        Ok(Some(plan))
    }

    /// Records another measurement of a link between clusters.
    pub fn link_changed(&mut self, now: Time, from: usize, to: usize, estimate: &LinkEstimate) {
        self.estimate.set_latency(from, to, estimate.latency.duration().as_secs_f64());
        if let Some(bandwidth) = estimate.bandwidth {
            let bandwidth = bandwidth.bits_per_second() as f64 / 8.0;
            self.estimate.set_bandwidth(now, from, to, bandwidth);
        }
        self.feedback.suspect(from, to);
        self.links_changed();
    }

    /// Assumes this sharing between sites from now on, until broadcasts show another.
    pub fn assume(&mut self, sharing: Sharing) {
        if self.estimate.sharing() != sharing {
            self.estimate = self.estimate.with_sharing(sharing);
            self.changes += 1;
            self.network = self.estimate.network();
        }
    }

    /// Records the result of a requested probe of a pair, in bytes per second.
    pub fn probed(&mut self, now: Time, from: usize, to: usize, bandwidth: f64) {
        let before = self.estimate.bandwidth(from, to);
        self.estimate.set_bandwidth(now, from, to, bandwidth);
        self.feedback.probed((from, to), before, bandwidth);
        // Noise of a few percent is no reason to plan again.
        if (bandwidth / before - 1.0).abs() > self.config.gain_min {
            self.links_changed();
        }
    }

    /// Records the result of a requested probe: the bytes per second that all nodes of a cluster
    /// together sent and received.
    pub fn probed_together(&mut self, cluster: usize, out: f64, into: f64) {
        let (sent, received) = self.estimate.together(cluster);
        let is_news = |before: f64, now: f64| (now - before).abs() > self.config.gain_min * before;
        self.estimate.set_together(cluster, out, into);
        if is_news(sent, out) || is_news(received, into) {
            self.links_changed();
        }
    }

    /// Chooses plans by the times of the observed broadcasts, then plans ahead for as long as
    /// `budget` allows. Call it repeatedly in idle time; each call continues the work of the last
    /// one.
    pub fn tick(&mut self, now: Time, budget: &SearchBudget<'_>) -> Vec<AdvisorCommand> {
        let probe_requests = self.feedback.probe_requests(now, &self.estimate);
        let mut commands: Vec<AdvisorCommand> =
            probe_requests.into_iter().map(AdvisorCommand::Probe).collect();
        let gain_min = self.config.gain_min;
        commands.extend(self.roots.values_mut().flat_map(|root| root.decide(gain_min)));
        let mut failed = BTreeSet::new();
        while !budget.is_over() {
            let Some((root, bucket)) = self.most_urgent(now, &failed) else { break };
            match self.improve(now, root, bucket, budget) {
                Ok(decided) => commands.extend(decided),
                // A plan that cannot be made now cannot be made in the next round either. The
                // root's present plan stays in use, and other roots get their turn.
                Err(_) => _ = failed.insert(root),
            }
        }
        commands.extend(std::mem::take(&mut self.evicted).into_iter().map(AdvisorCommand::Retire));
        commands
    }

    fn links_changed(&mut self) {
        self.changes += 1;
        self.links_changed = self.changes;
        self.network = self.estimate.network();
        self.explanation.forget();
    }

    /// The number of a node in the estimate; `None` if it is no member.
    fn place(&self, node: NodeId) -> Option<u32> {
        self.members.iter().position(|&member| member == node).map(|place| place as u32)
    }

    /// The draft of a sub-plan; `None` if one of its nodes is no member.
    fn draft_of(&self, sub_plan: &SubPlan) -> Option<Draft> {
        let mut nodes = sub_plan.trees().iter().flat_map(|tree| tree.nodes());
        let has_all = nodes.all(|node| self.place(node).is_some());
        has_all.then(|| sub_plan.draft(|node| self.place(node).unwrap_or_default()))
    }

    fn find(&self, plan: PlanId) -> Option<&Way> {
        let root = self.roots.get(&plan.root)?;
        root.contests.values().find_map(|contest| contest.find(plan))
    }

    /// Returns the contest for one size from one root. If there is none, begins one with the
    /// default plan, or with a plan that needs no search.
    fn contest(
        &mut self,
        now: Time,
        root: NodeId,
        bucket: u32,
    ) -> Result<&mut Contest, BroadcastPlanError> {
        let state = self.roots.entry(root).or_default();
        if !state.contests.contains_key(&bucket) {
            let strange = BroadcastPlanError::NoMember { root };
            let first = match state.default_plan.clone() {
                Some(plan) => {
                    let draft = self.draft_of(&SubPlan::whole(&plan)).ok_or(strange)?;
                    Way::new(plan, draft, true)
                }
                None => {
                    let place = self.place(root).ok_or(strange)?;
                    let draft = plan_static(&self.network, place, size(bucket));
                    self.way(root, draft, f64::NAN)?
                }
            };
            let contest = Contest::new(size(bucket), first, &self.network, now);
            let dropped =
                self.roots.entry(root).or_default().keep(bucket, contest, self.config.plans_max);
            self.evicted.extend(dropped);
        }
        let contests = &mut self.roots.entry(root).or_default().contests;
        Ok(contests.get_mut(&bucket).expect("the contest existed or was just added"))
    }

    /// Returns the size to plan for next, from the root that is predicted to broadcast first. Only
    /// sizes without a plan for the present estimate count, in this order: the predicted size, its
    /// neighbours, the sizes used before. Roots whose plan has `failed` are left out.
    fn most_urgent(&self, now: Time, failed: &BTreeSet<NodeId>) -> Option<(NodeId, u32)> {
        let mut roots: Vec<(&NodeId, &Root)> =
            self.roots.iter().filter(|(root, _)| !failed.contains(root)).collect();
        roots.sort_by_key(|(_, root)| root.due(now));
        let sizes_max = self.config.plans_max;
        let urgent =
            |(name, root): (&NodeId, &Root)| Some((*name, root.urgent(self.changes, sizes_max)?));
        roots.into_iter().find_map(urgent)
    }

    /// Plans for one size and decides which plan is taken.
    fn improve(
        &mut self,
        now: Time,
        root: NodeId,
        bucket: u32,
        budget: &SearchBudget<'_>,
    ) -> Result<Option<AdvisorCommand>, BroadcastPlanError> {
        let (changes, links_changed) = (self.changes, self.links_changed);
        let place = self.place(root).ok_or(BroadcastPlanError::NoMember { root })?;
        // This fails if the default plan is invalid, so it comes before the search, which takes
        // budget that other roots could use.
        self.contest(now, root, bucket)?;
        let planner = self.config.planner;
        let (draft, time_s) = plan_broadcast(&self.network, place, size(bucket), planner, budget);
        let network = &self.network;
        let contests = &mut self.roots.entry(root).or_default().contests;
        let Some(contest) = contests.get_mut(&bucket) else { return Ok(None) };
        if contest.searched.replace(changes) != Some(changes) {
            contest.predict((now, links_changed), network);
        }
        if time_s < contest.best_s() * (1.0 - self.config.gain_min) && !contest.has(&draft) {
            let way = self.way(root, draft, time_s)?;
            self.add(root, bucket, way);
        }
        let gain_min = self.config.gain_min;
        let contest = self.contest(now, root, bucket)?;
        Ok(contest.decide(gain_min))
    }

    /// Makes a plan of this draft, under the root's next version.
    fn way(&mut self, root: NodeId, draft: Draft, time_s: f64) -> Result<Way, BroadcastPlanError> {
        let state = self.roots.entry(root).or_default();
        state.version = state.version.max(self.config.versions_after) + 1;
        let id = PlanId { root, version: state.version };
        let predicted = Duration::try_from_secs_f64(time_s).unwrap_or_default();
        let plan = BroadcastPlan::from_draft(id, &draft, &self.members, predicted)?;
        Ok(Way::new(plan, draft, false))
    }

    fn add(&mut self, root: NodeId, bucket: u32, way: Way) {
        let contests = &mut self.roots.entry(root).or_default().contests;
        let Some(contest) = contests.get_mut(&bucket) else { return };
        self.evicted.extend(contest.add(way, &self.network));
    }
}

#[cfg(test)]
mod tests;
