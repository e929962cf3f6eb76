//! The ways that messages of about one size from one root can take, and which of them is taken.
//!
//! **Start.** There is the default plan, which all nodes know from the
//! beginning, if the caller has named it. Others come from the planner.
//!
//! **Trial.** A plan is tried if it is predicted to take less, by more than the least gain, than
//! the best of the others has shown. So a model that is wrong costs a few broadcasts and no more.
//!
//! **Verdict.** A plan that was tried counts by what it took. The least of its last times counts,
//! since other load, connections that are new, and busy receivers only add to it. The best of those
//! that were tried is taken.
//!
//! **When links change**, what the taken plan took stays true until it takes something else. Of the
//! others it is known how that was related to the prediction: when the prediction changes, the
//! relation stays. Where that makes them worse than they were they count as before, since not all
//! that seems to be a change is one; should it be, they are tried once in vain.

use super::command::AdvisorCommand;
use crate::model::{BroadcastPlan, Draft, Network, PlanId};
use gridspan_topology::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Broadcasts that decide about a plan: the first may meet connections that have just begun.
const TRIAL: usize = 2;
/// Broadcasts of a plan that are looked back on. With more, a link that got slow shows late.
const SEEN_MAX: usize = 3;
/// Plans that are compared for one size; the worst goes first.
const WAYS_MAX: usize = 5;
/// A plan that was tried has to be better than another that was by this share, or both would take
/// turns.
const BETTER: f64 = 0.01;
/// What a plan took before the estimate changed is forgotten after so long, if it was not used
/// since: it may have been tried while something else was in its way.
const AGE_MAX: Duration = Duration::from_secs(60);

/// A plan, and what it has shown.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) plan: BroadcastPlan,
    pub(super) draft: Draft,
    /// Whether the nodes know it or were told of it.
    pub(super) is_published: bool,
    /// What it is predicted to take for the contest's size, in seconds.
    predicted_s: f64,
    /// The last broadcasts since links have changed, the latest at the end; if there were none,
    /// those before.
    seen: VecDeque<Seen>,
    last: Time,
    /// Which change of links came last before them.
    links: u64,
}

/// A broadcast that is over.
#[derive(Clone, Copy, Debug)]
struct Seen {
    bytes: u64,
    /// What it took, in seconds, and how many times the predicted time that was.
    took_s: f64,
    ratio: f64,
    /// What a message of the contest's size would have taken, in seconds.
    scaled_s: f64,
}

impl Way {
    pub(super) fn new(plan: BroadcastPlan, draft: Draft, is_published: bool) -> Self {
        let (seen, last, links) = (VecDeque::new(), Time::ZERO, 0);
        Self { plan, draft, is_published, predicted_s: f64::INFINITY, seen, last, links }
    }

    /// What it last took, in seconds; none if it was never tried.
    fn took_s(&self) -> Option<f64> {
        self.seen.iter().map(|seen| seen.scaled_s).reduce(f64::min)
    }

    /// What it is expected to take by what is believed now, in seconds.
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
    /// The estimate under which plans were last searched.
    pub(super) searched: Option<u64>,
    /// The last change of links that is known here.
    links: u64,
    /// When a message of this size was last sent.
    pub(super) used: Time,
    /// Something was seen since the last decision.
    pub(super) is_open: bool,
    /// Nobody was told what is taken for this size: what is for another size would be.
    is_untold: bool,
}

impl Contest {
    /// For messages of so many bytes, which take the `first` way until another is better.
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

    /// All ways.
    pub(super) fn ways(&self) -> &[Way] {
        &self.ways
    }

    pub(super) fn find(&self, plan: PlanId) -> Option<&Way> {
        self.ways.iter().find(|way| way.plan.id() == plan)
    }

    /// The least time that any plan is expected to take, in seconds.
    pub(super) fn best_s(&self) -> f64 {
        (0..self.ways.len()).map(|place| self.expected_s(place)).fold(f64::INFINITY, f64::min)
    }

    /// What a way is expected to take, in seconds.
    fn expected_s(&self, place: usize) -> f64 {
        let way = &self.ways[place];
        let is_current = place == self.taken || way.links == self.links;
        match way.took_s() {
            Some(took_s) if is_current => took_s,
            // What is believed may be worse than what is: one more broadcast tells.
            Some(took_s) => took_s.min(way.related_s()),
            None => way.related_s(),
        }
    }

    /// Whether there is a way with just these trees and segments.
    pub(super) fn has(&self, draft: &Draft) -> bool {
        self.ways.iter().any(|way| way.draft == *draft)
    }

    /// Adds a way. Returns the plan that there is no more room for, if nodes know it.
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

    /// A broadcast of so many bytes by this plan took so long, in seconds.
    pub(super) fn note(
        &mut self,
        (now, links): (Time, u64),
        network: &Network,
        plan: PlanId,
        (bytes, took_s): (u64, f64),
    ) {
        let Some(way) = self.ways.iter_mut().find(|way| way.plan.id() == plan) else { return };
        // By the present estimate, which the broadcast itself may have changed.
        let predicted_s = |bytes| way.draft.simulate(network, bytes).completion_s;
        let (its_s, usual_s) = (predicted_s(bytes), predicted_s(self.bytes));
        if its_s <= 0.0 {
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

    /// Whether the plan was tried and a broadcast that was so many times as long as predicted is no
    /// news.
    pub(super) fn is_usual(&self, plan: PlanId, ratio: f64, tolerance: f64) -> bool {
        let seen = self.find(plan).and_then(|way| way.seen.back());
        seen.is_some_and(|seen| (1.0 / tolerance..=tolerance).contains(&(ratio / seen.ratio)))
    }

    /// The estimate has changed. If only what is shared is believed otherwise, and not what links
    /// can do, then what was seen is compared with the new prediction.
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

    /// Chooses what is taken from now on, if that is another way. One that was not tried has to be
    /// better by `gain_min`, a share.
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
