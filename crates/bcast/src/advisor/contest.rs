//! The ways (plans with their results) that compete for messages of about one size from one root.
//!
//! **Start.** The first way is the default plan of the caller, which all nodes know from the
//! beginning, or else a plan that needs no search. The planner adds others.
//!
//! **Trial.** A plan is tried if its predicted time is below the best measured time of the others
//! by more than the least gain. So a wrong model costs only a few broadcasts.
//!
//! **Verdict.** A tried plan is judged by the least of its last measured times, since other load,
//! new connections and busy receivers only add to the time. The best of the tried plans is taken.
//!
//! **When links change**, the measured time of the taken plan stays valid until the next
//! measurement. For the other plans, the ratio of measured to predicted time is kept and multiplied
//! by the new prediction. If that makes a plan worse than it was, its old time still counts, since
//! an apparent change of a link may not be real; if it is real, the plan fails one more trial.

use super::command::AdvisorCommand;
use crate::model::{BroadcastPlan, Draft, Network, PlanId};
use gridspan_topology::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A plan counts as tried after this number of broadcasts: the first may have to open connections.
const TRIAL: usize = 2;
/// Number of broadcasts of a plan that are remembered. With more, a link that became slow is
/// noticed late.
const SEEN_MAX: usize = 3;
/// Number of plans that compete for one size; the worst is dropped first.
const WAYS_MAX: usize = 5;
/// Share by which a tried plan has to be better than the taken one, so that they do not alternate.
const BETTER: f64 = 0.01;
/// Age at which times from before the last change of links are forgotten, so that the plan may be
/// tried again: other load may have slowed its trial.
const AGE_MAX: Duration = Duration::from_secs(60);

/// A plan and its results.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) plan: BroadcastPlan,
    pub(super) draft: Draft,
    /// Whether the nodes know the plan.
    pub(super) is_published: bool,
    /// Predicted time for the contest's size, in seconds.
    predicted_s: f64,
    /// The last broadcasts since links changed, the latest at the end; if there were none since,
    /// those before the change.
    seen: VecDeque<Seen>,
    last: Time,
    /// The number of the last change of links before these broadcasts.
    links: u64,
}

/// A finished broadcast.
#[derive(Clone, Copy, Debug)]
struct Seen {
    bytes: u64,
    /// Measured time in seconds.
    took_s: f64,
    /// Ratio of the measured to the predicted time.
    ratio: f64,
    /// Time that a message of the contest's size would have taken, in seconds.
    scaled_s: f64,
}

impl Way {
    pub(super) fn new(plan: BroadcastPlan, draft: Draft, is_published: bool) -> Self {
        let (seen, last, links) = (VecDeque::new(), Time::ZERO, 0);
        Self { plan, draft, is_published, predicted_s: f64::INFINITY, seen, last, links }
    }

    /// The least of the last measured times, in seconds; `None` if the plan was never tried.
    fn took_s(&self) -> Option<f64> {
        self.seen.iter().map(|seen| seen.scaled_s).reduce(f64::min)
    }

    /// The predicted time under the present estimate, corrected by the least ratio of the last
    /// broadcasts, in seconds.
    fn related_s(&self) -> f64 {
        let ratios = self.seen.iter().map(|seen| seen.ratio);
        self.predicted_s * ratios.reduce(f64::min).unwrap_or(1.0)
    }

    fn predict(&mut self, network: &Network, bytes: u64) {
        self.predicted_s = self.draft.simulate(network, bytes).completion_s;
    }
}

/// The ways for one size.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    bytes: u64,
    /// At least one; the first needs no search and is never dropped.
    ways: Vec<Way>,
    taken: usize,
    /// The number of changes of the estimate when plans were last searched.
    pub(super) searched: Option<u64>,
    /// The number of the last change of links that this contest knows.
    links: u64,
    /// Time at which a message of this size was last sent.
    pub(super) used: Time,
    /// Whether a broadcast was observed since the last decision.
    pub(super) is_open: bool,
    /// Whether no command was issued for this size yet, so that nodes take the plan of another
    /// size.
    is_untold: bool,
}

impl Contest {
    /// A contest for messages of `bytes`, which take the `first` way until another is better.
    pub(super) fn new(bytes: u64, mut first: Way, network: &Network, now: Time) -> Self {
        first.predict(network, bytes);
        Self {
            bytes,
            ways: vec![first],
            taken: 0,
            searched: None,
            links: 0,
            used: now,
            is_open: false,
            is_untold: true,
        }
    }

    /// The way that is taken.
    pub(super) fn taken(&self) -> &Way {
        &self.ways[self.taken]
    }

    pub(super) fn ways(&self) -> &[Way] {
        &self.ways
    }

    pub(super) fn find(&self, plan: PlanId) -> Option<&Way> {
        self.ways.iter().find(|way| way.plan.id() == plan)
    }

    /// The least expected time of all ways, in seconds.
    pub(super) fn best_s(&self) -> f64 {
        (0..self.ways.len()).map(|place| self.expected_s(place)).fold(f64::INFINITY, f64::min)
    }

    /// Expected time of a way, in seconds.
    fn expected_s(&self, place: usize) -> f64 {
        let way = &self.ways[place];
        let is_current = place == self.taken || way.links == self.links;
        match way.took_s() {
            Some(took_s) if is_current => took_s,
            // The estimate may be worse than the links are: one more broadcast shows it.
            Some(took_s) => took_s.min(way.related_s()),
            None => way.related_s(),
        }
    }

    /// Whether a way has exactly these trees and segments.
    pub(super) fn has(&self, draft: &Draft) -> bool {
        self.ways.iter().any(|way| way.draft == *draft)
    }

    /// Adds a way. Returns the plan that is dropped to make room, if nodes know it.
    pub(super) fn add(&mut self, mut way: Way, network: &Network) -> Option<PlanId> {
        way.predict(network, self.bytes);
        self.ways.push(way);
        if self.ways.len() <= WAYS_MAX {
            return None;
        }
        let last = self.ways.len() - 1;
        let others = (1..last).filter(|&place| place != self.taken);
        let worst = others
            .max_by(|&one, &other| self.expected_s(one).total_cmp(&self.expected_s(other)))?;
        let dropped = self.ways.remove(worst);
        self.taken -= usize::from(self.taken > worst);
        dropped.is_published.then(|| dropped.plan.id())
    }

    /// Notes that a broadcast of `bytes` by this plan took `took_s` seconds. Ignores a time of
    /// zero, which only shows that the latency subtracted from a node's report was too high.
    pub(super) fn note(
        &mut self,
        (now, links): (Time, u64),
        network: &Network,
        plan: PlanId,
        (bytes, took_s): (u64, f64),
    ) {
        let Some(way) = self.ways.iter_mut().find(|way| way.plan.id() == plan) else { return };
        // Predicted by the present estimate, which the broadcast itself may have changed.
        let predicted_s = |bytes| way.draft.simulate(network, bytes).completion_s;
        let (its_s, usual_s) = (predicted_s(bytes), predicted_s(self.bytes));
        if its_s <= 0.0 || took_s <= 0.0 {
            return;
        }
        self.is_open = true;
        if way.links != links {
            way.seen.clear();
        }
        if way.seen.len() == SEEN_MAX {
            way.seen.pop_front();
        }
        let ratio = took_s / its_s;
        way.seen.push_back(Seen { bytes, took_s, ratio, scaled_s: ratio * usual_s });
        (way.last, way.links, self.links) = (now, links, links);
    }

    /// Whether the plan's last broadcast had about this ratio of measured to predicted time.
    pub(super) fn is_usual(&self, plan: PlanId, ratio: f64, tolerance: f64) -> bool {
        let seen = self.find(plan).and_then(|way| way.seen.back());
        seen.is_some_and(|seen| (1.0 / tolerance..=tolerance).contains(&(ratio / seen.ratio)))
    }

    /// Predicts again under a changed estimate. Computes the ratios of broadcasts since the last
    /// change of links again, for example if only the assumed sharing has changed, and forgets
    /// older broadcasts after [`AGE_MAX`].
    pub(super) fn predict(&mut self, (now, links): (Time, u64), network: &Network) {
        self.links = links;
        for way in &mut self.ways {
            way.predict(network, self.bytes);
            if way.links == links {
                for seen in &mut way.seen {
                    let predicted_s = way.draft.simulate(network, seen.bytes).completion_s;
                    seen.ratio = seen.took_s / predicted_s.max(f64::MIN_POSITIVE);
                }
            } else if now.since(way.last) > AGE_MAX {
                way.seen.clear();
            }
        }
    }

    /// Chooses the way to take from now on, and returns a command if the way changes. An untried
    /// way has to be better by the share `gain_min`.
    pub(super) fn decide(&mut self, gain_min: f64) -> Option<AdvisorCommand> {
        self.is_open = false;
        let least = |places: &mut dyn Iterator<Item = usize>, time_s: &dyn Fn(usize) -> f64| {
            places.min_by(|&one, &other| time_s(one).total_cmp(&time_s(other)))
        };
        let all = 0..self.ways.len();
        let is_seen = |place: &usize| !self.ways[*place].seen.is_empty();
        let best = least(&mut all.clone().filter(is_seen), &|place| self.expected_s(place));
        let untried = |place: &usize| self.ways[*place].seen.len() < TRIAL;
        let hope = least(&mut all.filter(untried), &|place| self.ways[place].predicted_s);
        let standard_s = match best {
            Some(best) => self.expected_s(best),
            None => self.taken().predicted_s,
        };
        let next = match (hope, best) {
            (Some(hope), _) if self.ways[hope].predicted_s < (1.0 - gain_min) * standard_s => hope,
            (_, Some(best)) => {
                let is_better = standard_s < (1.0 - BETTER) * self.expected_s(self.taken);
                if is_better || self.taken().seen.is_empty() { best } else { self.taken }
            }
            _ => self.taken,
        };
        let is_news = std::mem::take(&mut self.is_untold) || next != self.taken;
        if !is_news && self.ways[next].is_published {
            return None;
        }
        self.taken = next;
        let way = &mut self.ways[next];
        match std::mem::replace(&mut way.is_published, true) {
            true => Some(AdvisorCommand::Take { plan: way.plan.id(), bytes: self.bytes }),
            false => Some(AdvisorCommand::Publish { plan: way.plan.clone(), bytes: self.bytes }),
        }
    }
}
