//! The advisor: beliefs and broadcasts in, plans and wishes out.

use super::feedback::Feedback;
use super::predict::Predictor;
use crate::course::Course;
use crate::effort::Effort;
use crate::fluid::EdgeTiming;
use crate::network::{Belief, Network};
use crate::pipeline::{Draft, PlannerConfig, plan_broadcast, plan_static};
use crate::plan::{Plan, PlanError, PlanId};
use gridspan_topology::{LinkEstimate, NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use super::feedback::Wish;

/// How the advisor goes about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdvisorConfig {
    /// What plans may be.
    pub planner: PlannerConfig,
    /// A plan is replaced if the other is faster by more than this share. Default 0.05.
    pub gain_min: f64,
    /// Plans kept for each root; the least used goes first. Default 32: two for each power of two
    /// from 1 KB to 64 MB.
    pub plans_max: usize,
}

impl Default for AdvisorConfig {
    fn default() -> Self {
        Self { planner: PlannerConfig::default(), gain_min: 0.05, plans_max: 32 }
    }
}

/// A broadcast that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast<'a> {
    /// Who sent it.
    pub root: NodeId,
    /// How long the message was.
    pub bytes: u64,
    /// When it began.
    pub began: Time,
    /// The plan it used.
    pub plan: PlanId,
    /// What the edges of the plan showed, in any order, with nodes numbered by their place among the
    /// members; none if nobody watched. Edges inside a cluster may be left out.
    pub edges: &'a [EdgeTiming],
}

/// What the caller is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Hand this plan to all nodes; broadcasts from its root of about this size will name it.
    Publish {
        /// The plan.
        plan: Plan,
        /// The largest message it is for.
        bytes: u64,
    },
    /// Use this plan no more, if it was published: nothing is learned from what it carries.
    Retire(PlanId),
    /// Measure this, and tell [`Advisor::probed`] or [`Advisor::probed_together`].
    Probe(Wish),
}

#[derive(Clone, Debug)]
struct Kept {
    plan: Plan,
    draft: Draft,
    /// The belief that it was last compared under.
    belief: u64,
    /// Whether it came out of a search.
    is_searched: bool,
    used: Time,
}

#[derive(Clone, Debug, Default)]
struct Root {
    sizes: Predictor,
    gaps: Predictor,
    last: Option<Time>,
    version: u64,
    /// By size, in steps of the square root of two.
    plans: BTreeMap<u32, Kept>,
}

/// Advises all roots of a job.
#[derive(Clone, Debug)]
pub struct Advisor {
    members: Vec<NodeId>,
    belief: Belief,
    network: Network,
    /// Counts the changes of the belief.
    changes: u64,
    feedback: Feedback,
    roots: BTreeMap<NodeId, Root>,
    /// Plans that are kept no more and of which nobody was told.
    evicted: Vec<PlanId>,
    config: AdvisorConfig,
}

impl Advisor {
    /// Advises broadcasts over `members`, which the belief numbers in this order.
    pub fn new(members: Vec<NodeId>, belief: Belief, config: AdvisorConfig) -> Self {
        let network = belief.network();
        let (roots, evicted, feedback) = (BTreeMap::new(), Vec::new(), Feedback::default());
        Self { members, network, belief, changes: 0, feedback, roots, evicted, config }
    }

    /// What is believed of the network.
    pub fn belief(&self) -> &Belief {
        &self.belief
    }

    /// The size of the next broadcast from `root` and when it will begin, as far as anything is known.
    pub fn predict(&self, root: NodeId) -> Option<(u64, Option<Time>)> {
        let root = self.roots.get(&root)?;
        let bytes = root.sizes.forecast()?.value as u64;
        let gap = root.gaps.forecast().map(|gap| Duration::from_secs_f64(gap.value.min(1e6)));
        Some((bytes, gap.zip(root.last).map(|(gap, last)| last + gap)))
    }

    /// The plan for a broadcast that begins now. It is answered at once: if there is none for this size,
    /// that of the nearest size within a factor of two, or one without any search.
    pub fn plan(&mut self, now: Time, root: NodeId, bytes: u64) -> Result<&Plan, PlanError> {
        let bucket = bucket(bytes);
        let plans = &self.roots.entry(root).or_default().plans;
        let near = [0, 1, -1, 2, -2].into_iter().map(|step| bucket.saturating_add_signed(step));
        let chosen = near.into_iter().find(|bucket| plans.contains_key(bucket));
        let chosen = match chosen {
            Some(chosen) => chosen,
            None => {
                let place = self.place(root);
                let draft = plan_static(&self.network, place, size(bucket));
                self.keep(now, root, bucket, draft, (f64::NAN, false))?;
                bucket
            }
        };
        let plans = &mut self.roots.entry(root).or_default().plans;
        let kept = plans.entry(chosen).and_modify(|kept| kept.used = now);
        match kept {
            std::collections::btree_map::Entry::Occupied(kept) => Ok(&kept.into_mut().plan),
            std::collections::btree_map::Entry::Vacant(_) => Err(PlanError::Stripes { stripes: 0 }),
        }
    }

    /// How a multicast goes: as this plan does, where it leads to the `targets`, if that is predicted to take no longer
    /// than the `other` course. Takes two simulations.
    pub fn course(
        &self,
        plan: PlanId,
        targets: &BTreeSet<NodeId>,
        bytes: u64,
        other: Course,
    ) -> Course {
        let plans = self.roots.get(&plan.root).map(|root| &root.plans);
        let kept = plans.into_iter().flatten().find(|(_, kept)| kept.plan.id() == plan);
        let Some(pruned) = kept.map(|(_, kept)| Course::over(&kept.plan, targets)) else {
            return other;
        };
        let takes_s = |course: &Course| {
            course.draft(|node| self.place(node)).simulate(&self.network, bytes).completion_s
        };
        if takes_s(&pruned) <= takes_s(&other) { pruned } else { other }
    }

    /// A broadcast is over.
    pub fn observe(&mut self, now: Time, broadcast: &Broadcast<'_>) {
        self.observe_over(now, broadcast, None);
    }

    /// A multicast to these nodes is over, which took the plan's [`Course`] to them.
    pub fn observe_multicast(
        &mut self,
        now: Time,
        multicast: &Broadcast<'_>,
        targets: &BTreeSet<NodeId>,
    ) {
        self.observe_over(now, multicast, Some(targets));
    }

    fn observe_over(
        &mut self,
        now: Time,
        broadcast: &Broadcast<'_>,
        targets: Option<&BTreeSet<NodeId>>,
    ) {
        let root = self.roots.entry(broadcast.root).or_default();
        root.sizes.observe(broadcast.bytes as f64);
        if let Some(last) = root.last {
            root.gaps.observe(broadcast.began.since(last).as_secs_f64());
        }
        root.last = Some(broadcast.began);
        let used = root.plans.values_mut().find(|kept| kept.plan.id() == broadcast.plan);
        let Some(kept) = used else { return };
        kept.used = now;
        if broadcast.edges.is_empty() {
            return;
        }
        let draft = match targets {
            None => kept.draft.clone(),
            Some(targets) => {
                let course = Course::over(&kept.plan, targets);
                course.draft(|node| self.place(node))
            }
        };
        let expected = draft.simulate(&self.network, broadcast.bytes).edges;
        let belief = &mut self.belief;
        if self.feedback.compare(now, belief, &expected, broadcast.edges) {
            self.changed();
        }
    }

    /// A broadcast is under way: `part` says what its edges showed for the bytes sent so far. The plan for the
    /// `rest`, which begins at a segment boundary, if what they showed was not as expected and another
    /// plan is faster for it by more than the least gain, its beginning included. The rest then is
    /// a message of its own.
    pub fn midway(
        &mut self,
        now: Time,
        part: &Broadcast<'_>,
        rest: u64,
        effort: &Effort<'_>,
    ) -> Result<Option<Plan>, PlanError> {
        let plans = self.roots.get(&part.root).map(|root| &root.plans);
        let used = plans.into_iter().flatten().find(|(_, kept)| kept.plan.id() == part.plan);
        let Some(draft) = used.map(|(_, kept)| kept.draft.clone()) else { return Ok(None) };
        let expected = draft.simulate(&self.network, part.bytes).edges;
        if !self.feedback.compare(now, &mut self.belief, &expected, part.edges) {
            return Ok(None);
        }
        self.changed();
        let place = self.place(part.root);
        let (other, time_s) =
            plan_broadcast(&self.network, place, rest, self.config.planner, effort);
        let before_s = draft.simulate(&self.network, rest).completion_s;
        if time_s >= before_s * (1.0 - self.config.gain_min) {
            return Ok(None);
        }
        self.keep(now, part.root, bucket(rest), other, (time_s, true)).map(Some)
    }

    /// A link between clusters was measured in some other way.
    pub fn link_changed(&mut self, now: Time, from: usize, to: usize, estimate: &LinkEstimate) {
        self.belief.set_latency(from, to, estimate.latency.duration().as_secs_f64());
        if let Some(bandwidth) = estimate.bandwidth {
            let bandwidth = bandwidth.bits_per_second() as f64 / 8.0;
            self.belief.set_bandwidth(now, from, to, bandwidth);
        }
        self.feedback.suspect(from, to);
        self.changed();
    }

    /// A wished probe of a pair got so many bytes per second.
    pub fn probed(&mut self, now: Time, from: usize, to: usize, bandwidth: f64) {
        let before = self.belief.bandwidth(from, to);
        self.belief.set_bandwidth(now, from, to, bandwidth);
        self.feedback.probed((from, to), before, bandwidth);
        // Noise of a few percent is no reason to plan anew.
        if (bandwidth / before - 1.0).abs() > self.config.gain_min {
            self.changed();
        }
    }

    /// All nodes of a cluster sent and received so many bytes per second together.
    pub fn probed_together(&mut self, cluster: usize, out: f64, into: f64) {
        let (sent, received) = self.belief.together(cluster);
        let is_news = |before: f64, now: f64| (now - before).abs() > self.config.gain_min * before;
        self.belief.set_together(cluster, out, into);
        if is_news(sent, out) || is_news(received, into) {
            self.changed();
        }
    }

    /// Works ahead while nothing is to be sent, for as long as `effort` allows; call it again later for the
    /// rest.
    pub fn tick(&mut self, now: Time, effort: &Effort<'_>) -> Vec<Command> {
        let wishes = self.feedback.wishes(now, &self.belief);
        let mut commands: Vec<Command> = wishes.into_iter().map(Command::Probe).collect();
        while !effort.is_over() {
            let Some((root, bucket)) = self.most_urgent() else { break };
            match self.improve(now, root, bucket, effort) {
                Ok(Some(plan)) => commands.push(Command::Publish { plan, bytes: size(bucket) }),
                Ok(None) => {}
                // A plan that cannot be made now cannot be made in the next round either; the one that there
                // is goes on being used.
                Err(_) => break,
            }
        }
        commands.extend(std::mem::take(&mut self.evicted).into_iter().map(Command::Retire));
        commands
    }

    fn changed(&mut self) {
        self.changes += 1;
        self.network = self.belief.network();
    }

    fn place(&self, root: NodeId) -> u32 {
        self.members.iter().position(|&member| member == root).unwrap_or(0) as u32
    }

    /// A size of which there is no plan for the present belief: what is predicted next, then what lies
    /// around it, then what was used before.
    fn most_urgent(&self) -> Option<(NodeId, u32)> {
        for (&name, root) in &self.roots {
            let is_due = |bucket: &u32| {
                root.plans
                    .get(bucket)
                    .is_none_or(|kept| !kept.is_searched || kept.belief != self.changes)
            };
            let next = root.sizes.forecast().map(|forecast| bucket(forecast.value as u64));
            let around = next.into_iter().flat_map(|next| {
                [0, -1, 1].into_iter().map(move |step| next.saturating_add_signed(step))
            });
            if let Some(bucket) = around.chain(root.plans.keys().copied()).find(is_due) {
                return Some((name, bucket));
            }
        }
        None
    }

    /// Plans anew for one size; the plan, if it is better than the one that there is.
    fn improve(
        &mut self,
        now: Time,
        root: NodeId,
        bucket: u32,
        effort: &Effort<'_>,
    ) -> Result<Option<Plan>, PlanError> {
        let place = self.place(root);
        let bytes = size(bucket);
        let (draft, time_s) =
            plan_broadcast(&self.network, place, bytes, self.config.planner, effort);
        let plans = &mut self.roots.entry(root).or_default().plans;
        if let Some(kept) = plans.get_mut(&bucket) {
            let before_s = kept.draft.simulate(&self.network, bytes).completion_s;
            (kept.belief, kept.is_searched) = (self.changes, true);
            if time_s >= before_s * (1.0 - self.config.gain_min) {
                return Ok(None);
            }
        }
        self.keep(now, root, bucket, draft, (time_s, true)).map(Some)
    }

    fn keep(
        &mut self,
        now: Time,
        root: NodeId,
        bucket: u32,
        draft: Draft,
        (time_s, is_searched): (f64, bool),
    ) -> Result<Plan, PlanError> {
        let state = self.roots.entry(root).or_default();
        state.version += 1;
        let id = PlanId { root, version: state.version };
        let predicted = Duration::try_from_secs_f64(time_s).unwrap_or_default();
        let plan = Plan::from_draft(id, &draft, &self.members, predicted)?;
        let kept = Kept { plan: plan.clone(), draft, belief: self.changes, is_searched, used: now };
        state.plans.insert(bucket, kept);
        if state.plans.len() > self.config.plans_max {
            let others = state.plans.iter().filter(|(other, _)| **other != bucket);
            let oldest = others.min_by_key(|(_, kept)| kept.used).map(|(&oldest, _)| oldest);
            let evicted = oldest.and_then(|oldest| state.plans.remove(&oldest));
            self.evicted.extend(evicted.map(|kept| kept.plan.id()));
        }
        Ok(plan)
    }
}

/// Sizes in steps of the square root of two.
fn bucket(bytes: u64) -> u32 {
    (2.0 * (bytes.max(1) as f64).log2()).round() as u32
}

/// The size that a bucket is planned for.
fn size(bucket: u32) -> u64 {
    2_f64.powf(f64::from(bucket) / 2.0).round() as u64
}

#[cfg(test)]
mod tests;
