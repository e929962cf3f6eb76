//! Decides whether a plan is worth its cost, and checks afterwards whether it was.
//!
//! Balancing must never make a job slower, and six rules serve this aim. The [`Gate`] stands
//! between a strategy and the runtime that moves actors, and applies rules 2 to 5. Rules 1 (measure
//! work and speed, not load averages) and 6 (choose the target that is least loaded in the long
//! run) are for snapshots and strategies.
//!
//! Start: the gate has seen nothing, trusts predictions in full, and requires the longest wait.
//! Steady state: the runtime calls [`Gate::consider`] with each proposed plan. The plan passes if
//!
//! - (2) the predicted gain is above noise,
//! - (3) the gain, over the expected duration of its cause, is well above the cost of moving,
//! - (4) its cause is likely to last, or waiting has already cost a part of the cost of moving (ski
//!   rental), and
//! - (5) the cost of balancing that has not been recovered stays a small part of the job (a budget
//!   of regret), or the gain is large, is expected to save more than the cost at stake, and no plan
//!   has been a mistake since the last good one.
//!
//! Then the runtime moves actors, reports the cost to [`Gate::carried_out`] or
//! [`Gate::progressed_meanwhile`], and reports the steps that follow to [`Gate::observe`]. Failure:
//! if steps became slower by more than their usual variation, and their median is above the third
//! quartile of the steps before the plan, the gate requests the inverse plan
//! ([`Plan::inverse`](crate::Plan::inverse)), and waits longer after each mistake in a row. The
//! gate multiplies later predictions by the part of predicted gains that was realised, and later
//! estimates of cost by the ratio of past costs to their estimates.

mod appraisal;
mod learned;
pub(crate) mod step_times;
mod verdict;

pub use appraisal::Appraisal;
pub use verdict::{GateConfig, Outcome, Proposal, Refusal, Verdict};

use crate::gate::step_times::StepTimes;
use gridspan_topology::{Bandwidth, SiteId, Time};
use learned::Learned;
use std::collections::BTreeMap;
use std::time::Duration;

/// Passes plans that pay, one at a time, and judges them afterwards.
#[derive(Clone, Debug)]
pub struct Gate {
    config: GateConfig,
    learned: Learned,
    /// The present *episode*, a period in which each proposal has had a gain: its beginning, and
    /// the time of its last proposal.
    episode: Option<(Time, Time)>,
    /// Time lost in this episode by not moving.
    lost: Duration,
    /// Cost of moving in seconds, less the seconds that shorter steps have saved.
    owed: f64,
    /// Cost of measuring and planning in seconds, less the seconds that shorter steps have saved.
    planning: f64,
    judgement: Option<Judgement>,
    /// The rate at which state moves between nodes of a site, for the sites where it is known.
    rates: BTreeMap<SiteId, Bandwidth>,
    /// Time before which no plan passes.
    not_before: Time,
    /// Number of mistakes in a row.
    mistakes: u32,
}

/// A plan that passed and is being judged.
#[derive(Clone, Debug)]
struct Judgement {
    before: f64,
    predicted: f64,
    /// Cost expected from the plan's bytes alone.
    estimate: Duration,
    /// The rate inside the slowest site when the estimate was made.
    inside: Bandwidth,
    /// Seconds for which the steps after it must be watched.
    watch: f64,
    /// Steps longer than this many seconds are slower than those before.
    slow: f64,
    carried_out: Option<Time>,
    /// Upper bound of the time that the job lost, if it continued while actors moved.
    pause: Option<Duration>,
    /// Whether the first observation after the moves is over.
    is_settled: bool,
    after: StepTimes,
}

/// The first observation after a move counts only if it has at least this number of steps: messages
/// that were under way still arrive in it.
const SETTLED: f64 = 4.0;
/// Maximum time for which a plan must be watched, in usual steps.
const ENOUGH_STEPS: u32 = 50;
/// Upper limit of the pause after a mistake, before it is doubled, as a multiple of the time for
/// which the plan was in effect.
const IN_EFFECT: u32 = 10;
/// Steps count as slower if they are longer by more than this multiple of their usual variation.
const NOISE: f64 = 2.0;

impl Gate {
    /// Creates a gate that has seen nothing.
    pub fn new(config: GateConfig) -> Self {
        Self {
            config,
            learned: Learned::default(),
            episode: None,
            lost: Duration::ZERO,
            owed: 0.0,
            planning: 0.0,
            judgement: None,
            rates: BTreeMap::new(),
            not_before: Time::ZERO,
            mistakes: 0,
        }
    }

    /// Sets the known rates at which state moves between nodes of a site. Unknown rates, and those
    /// above [`GateConfig::inside`], count as `inside`. Forgets the learned cost of plans if the
    /// lowest rate has changed much since it was learned.
    pub fn state_moves_at(&mut self, rates: BTreeMap<SiteId, Bandwidth>) {
        self.rates = rates;
        self.learned.estimates_at(self.rate_in_slowest());
    }

    /// Returns the rate inside a site for estimates.
    fn rate_in(&self, site: SiteId) -> Bandwidth {
        self.rates.get(&site).map_or(self.config.inside, |&rate| rate.min(self.config.inside))
    }

    fn rate_in_slowest(&self) -> Bandwidth {
        self.rates.values().copied().fold(self.config.inside, Bandwidth::min)
    }

    /// Returns the cost of a plan, estimated from its bytes. Sites move state in parallel.
    fn estimate(&self, proposal: &Proposal) -> Duration {
        let in_site = |(&site, &bytes): (&SiteId, &u64)| self.rate_in(site).time_for(bytes);
        let inside = proposal.bytes_inside.iter().map(in_site).max().unwrap_or_default();
        let between = self.config.between_sites.time_for(proposal.bytes_between_sites);
        self.config.fixed_cost.saturating_add(inside.max(between))
    }

    /// Returns whether a plan should be carried out, and records a plan that passes. Call it with
    /// each proposed plan, even without a gain: such a plan ends the episode.
    pub fn consider(&mut self, proposal: &Proposal) -> Verdict {
        let estimate = self.estimate(proposal);
        let cost = part_of(estimate, self.learned.cost_factor());
        let gain = proposal.gain() * self.learned.trust();
        if self.judgement.is_some() {
            return Verdict::Refuse(Refusal::StillJudging);
        }
        self.learned.saw_step(proposal.step);
        if gain < self.config.gain_min {
            self.learned.doubts(proposal.gain() >= self.config.gain_min);
            if let Some((begin, last)) = self.episode.take() {
                self.learned.episode_ended(last.since(begin));
            }
            self.lost = Duration::ZERO;
            return Verdict::Refuse(Refusal::TooLittle { gain });
        }
        // The measurements show that the cause already existed at the beginning of the window.
        let measured = Time(proposal.now.0.saturating_sub(proposal.window.as_nanos() as u64));
        let (begin, last) = self.episode.unwrap_or((measured, measured));
        self.episode = Some((begin, proposal.now));
        // The time that a plan would have saved since the last proposal.
        let seconds = |duration: Duration| duration.as_secs_f64();
        let missed = part_of(proposal.now.since(last).min(proposal.window), gain.min(1.0));
        self.lost = self.lost.saturating_add(missed);
        if proposal.now < self.not_before {
            return Verdict::Refuse(Refusal::AfterMistake { until: self.not_before });
        }
        let lasting = self.lasting(proposal, proposal.now.since(begin));
        let expected = part_of(lasting, gain.min(1.0));
        if seconds(expected) <= self.config.safety * seconds(cost) {
            return Verdict::Refuse(Refusal::DoesNotPay { expected, cost });
        }
        let needed = part_of(cost, self.learned.wait(&self.config));
        if proposal.is_passing && self.lost < needed {
            return Verdict::Refuse(Refusal::Waiting { lost: self.lost, needed });
        }
        let budget = part_of(proposal.now.since(Time::ZERO), self.config.regret_max);
        let at_stake = self.owed + self.planning + 2.0 * seconds(cost);
        let at_stake = part_of(Duration::from_secs(1), at_stake);
        if at_stake > budget && !self.is_worth_it(proposal, expected, at_stake) {
            return Verdict::Refuse(Refusal::OverBudget { at_stake, budget });
        }
        self.judgement = Some(Judgement {
            before: seconds(proposal.step_usual),
            slow: seconds(proposal.step_slow),
            predicted: proposal.gain(),
            estimate,
            inside: self.rate_in_slowest(),
            watch: seconds(
                proposal
                    .window
                    .min(self.config.time_to_judge)
                    .min(proposal.step_usual.saturating_mul(ENOUGH_STEPS)),
            ),
            carried_out: None,
            pause: None,
            is_settled: false,
            after: StepTimes::default(),
        });
        self.learned.forget_step();
        self.lost = Duration::ZERO;
        Verdict::Pass { expected, cost }
    }

    /// Returns a reason not to plan, or `None` if planning may pay. `best` is the proposal of the
    /// best possible plan. `planning` is the time that the job loses by planning; it may be zero.
    pub fn rules_out(&mut self, best: &Proposal, planning: Duration) -> Option<Refusal> {
        let gain = best.gain() * self.learned.trust();
        if gain < self.config.gain_min {
            self.learned.doubts(best.gain() >= self.config.gain_min);
            return Some(Refusal::TooLittle { gain });
        }
        let moving = part_of(self.estimate(best), self.learned.cost_factor());
        let cost = moving.saturating_add(planning);
        let likely = gain.min(1.0) * self.learned.attained();
        let expected = part_of(self.lasting(best, Duration::ZERO), likely);
        let pays = expected.as_secs_f64() > self.config.safety * cost.as_secs_f64();
        (!planning.is_zero() && !pays).then_some(Refusal::DoesNotPay { expected, cost })
    }

    /// Records the predicted gain of a plan, and `best`, the gain of the best possible plan.
    pub fn planned(&mut self, gain: f64, best: f64) {
        self.learned.attains(gain, best);
    }

    /// Returns whether a plan may put more than the budget at stake: its gain is large, it is
    /// expected to save more than `return_min` times the cost at stake, and no plan has been a
    /// mistake since the last good one.
    fn is_worth_it(&self, proposal: &Proposal, expected: Duration, at_stake: Duration) -> bool {
        let returned = expected.as_secs_f64() > self.config.return_min * at_stake.as_secs_f64();
        self.mistakes == 0 && proposal.gain() >= self.config.gain_large && returned
    }

    /// Returns the time for which the cause of the gain is expected to last.
    fn lasting(&self, proposal: &Proposal, age: Duration) -> Duration {
        // Without better data, a passing cause is expected to last as long again as it has lasted,
        // and the job to run as long again as it has run.
        match proposal.is_passing {
            true => self.learned.rest_of_episode(age).unwrap_or(age),
            false => proposal.now.since(Time::ZERO),
        }
    }

    /// Records that the plan that passed has been carried out, and that the job stood still for
    /// `pause`.
    pub fn carried_out(&mut self, now: Time, pause: Duration) {
        self.owed += pause.as_secs_f64();
        match &mut self.judgement {
            Some(judgement) => {
                judgement.carried_out = Some(now);
                self.learned.cost(judgement.estimate, judgement.inside, pause);
            }
            None => self.episode = None,
        }
    }

    /// Records that the plan that passed has been carried out in `took` while the job went on;
    /// [`progressed_meanwhile`](Self::progressed_meanwhile) reports the cost.
    pub fn carried_out_meanwhile(&mut self, now: Time, took: Duration) {
        match &mut self.judgement {
            Some(judgement) => (judgement.carried_out, judgement.pause) = (Some(now), Some(took)),
            None => self.carried_out(now, took),
        }
    }

    /// Records that the job made `steps` steps in `time` while the plan was made and actors moved.
    /// The plan's cost is the time lost compared with the steps before, but at most the time that
    /// moving took.
    pub fn progressed_meanwhile(&mut self, time: Duration, steps: f64) {
        let Some(judgement) = &mut self.judgement else { return };
        let Some(pause) = judgement.pause.take() else { return };
        let lost = (time.as_secs_f64() - steps * judgement.before).max(0.0);
        let cost = part_of(Duration::from_secs(1), lost).min(pause);
        self.owed += cost.as_secs_f64();
        self.learned.cost(judgement.estimate, judgement.inside, cost);
    }

    /// Records that the plan that passed was not carried out.
    pub fn withdrawn(&mut self) {
        self.judgement = None;
    }

    /// Ends the judgement of the plan that passed, without an outcome, because the steps after it
    /// have become longer for another reason.
    pub fn disturbed(&mut self) {
        (self.judgement, self.episode) = (None, None);
    }

    /// Records that `steps` steps took `time` together. Returns the outcome of the last plan once
    /// its steps have been watched for long enough.
    pub fn observe(&mut self, now: Time, time: Duration, steps: f64) -> Option<Outcome> {
        let judgement = self.judgement.as_mut()?;
        let begin = judgement.carried_out?;
        if !std::mem::replace(&mut judgement.is_settled, true) && steps < SETTLED {
            return None;
        }
        judgement.after.add(time.as_secs_f64(), steps);
        let watched = &judgement.after;
        if watched.steps() < f64::from(self.config.steps_to_judge)
            || watched.seconds() < judgement.watch
        {
            return None;
        }
        let Judgement { before, predicted, slow, .. } = *judgement;
        let (steps, after) = (watched.steps(), watched.quantile(0.5));
        self.judgement = None;
        self.episode = None;
        let realised = if before > 0.0 { 1.0 - after / before } else { 0.0 };
        self.learned.came_true(predicted, realised);
        let is_slower = realised < -self.config.gain_min.max(NOISE * self.learned.noise());
        // The median is above the third quartile of the steps before.
        let is_worse = is_slower && after > slow;
        if is_worse {
            self.mistakes += 1;
            let doubled = 1 << self.mistakes.min(10);
            let pause = self.config.pause_after_mistake.min(now.since(begin) * IN_EFFECT);
            self.not_before = now + pause.saturating_mul(doubled);
        } else {
            self.mistakes = 0;
        }
        match steps * before * realised {
            saved @ 0.0.. => self.recover_cost(part_of(Duration::from_secs(1), saved)),
            lost => self.owed -= lost,
        }
        let step = part_of(Duration::from_secs(1), after);
        Some(Outcome { predicted, realised, step, should_undo: is_worse })
    }

    /// Returns whether a plan is being judged, so that no other would pass.
    pub fn is_judging(&self) -> bool {
        self.judgement.is_some()
    }

    /// Returns whether measuring and planning have cost little enough that another plan may be
    /// made.
    pub fn has_room(&self, now: Time) -> bool {
        self.planning <= now.since(Time::ZERO).as_secs_f64() * self.config.planning_max
    }

    /// Records the cost of measuring and planning, whether or not a plan results.
    pub fn spent(&mut self, time: Duration) {
        self.planning += time.as_secs_f64();
    }

    /// Records that the last plan was not a mistake: its moves are not the reason for longer steps.
    pub fn pardon(&mut self) {
        self.mistakes = self.mistakes.saturating_sub(1);
        self.not_before = Time::ZERO;
    }

    /// Reduces the cost of balancing by the time that shorter steps have saved.
    fn recover_cost(&mut self, saved: Duration) {
        let left = self.owed - saved.as_secs_f64();
        self.owed = left.max(0.0);
        self.planning = (self.planning + left.min(0.0)).max(0.0);
    }

    /// Returns the part of predicted gains that has been realised, `0.1..=1.0`.
    pub fn trust(&self) -> f64 {
        self.learned.trust()
    }
}

/// Returns `factor` times a duration, or the longest duration if the product does not fit. A
/// negative factor or NaN counts as 0.
fn part_of(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
