//! How a node finds its group among those of a sample, by a few probes.
//!
//! One probe to a member of each group is enough for most nodes, since noise hardly ever makes a
//! round trip shorter: the group that answers within the cut is the one. Where none does, or two
//! are alike, the nearest groups are asked again and medians decide. Many groups are asked eight at
//! a time, first those that are as far from the groups asked before as the node was measured to be.

use super::log::Log;
use crate::infer::height::MOST_MS;
use crate::infer::pairs::median;

/// So many groups are asked at once.
const AT_ONCE: usize = 8;
/// In doubt so many of the nearest groups are asked until each has answered so often: first those
/// that a single slow or lost pair may hide, then a few for certain.
const DOUBTS: [(usize, usize); 2] = [(16, 2), (4, 8)];
/// A slow pair is at most this many times slower.
const SLOWEST: f32 = 10.0;
/// A node is asked no more after so many probes, or after so many by nodes in doubt: else all nodes
/// of a region would ask the only member of a small group.
const MOST_LOAD: [u32; 2] = [150, 300];
/// Another group this much further leaves no doubt.
const CLEARLY_FURTHER: f32 = 1.5;
/// This many other groups tell how busy a node is.
const WITNESSES: usize = 3;

/// The groups a node may belong to.
#[derive(Clone, Debug)]
pub(in crate::infer) struct Groups {
    /// Who is known to be in each.
    pub(in crate::infer) members: Vec<Vec<u32>>,
    /// The median round trip between each two, and inside each, in milliseconds; NaN if unknown.
    pub(in crate::infer) between: Vec<Vec<f32>>,
    /// Two nodes of one group are nearer than this.
    pub(in crate::infer) cut_ms: f32,
}

/// One node that looks for its group.
#[derive(Clone, Debug)]
pub(in crate::infer) struct Seeker {
    pub(in crate::infer) node: u32,
    /// Whom it asked, by group.
    asked: Vec<(usize, u32)>,
    /// How often it asked again.
    doubts: usize,
}

/// What a seeker does next.
pub(in crate::infer) enum Next {
    /// Asks these.
    Ask(Vec<u32>),
    /// Belongs to this group, and adds this to its round trips.
    In(usize, f32),
    /// Belongs to none.
    Alone,
}

impl Seeker {
    pub(in crate::infer) fn new(node: u32) -> Self {
        Self { node, asked: Vec::new(), doubts: 0 }
    }

    pub(in crate::infer) fn next(&mut self, groups: &Groups, log: &mut Log) -> Next {
        let readings = self.readings(groups.members.len(), log);
        if self.doubts == 0 {
            if let Some(group) = certain(&readings, groups.cut_ms) {
                return Next::In(group, 0.0);
            }
            let ask = self.unasked(groups, &readings, log);
            let probes = self.ask(&ask, 1, groups, log);
            if !probes.is_empty() {
                return Next::Ask(probes);
            }
        }
        let order = by_reading(&readings);
        if self.doubts > 0
            && let Some(&nearest) = order.first()
        {
            let added = busyness(&readings, nearest, groups);
            if readings[nearest].is_some_and(|ms| ms - added <= groups.cut_ms) {
                return Next::In(nearest, added);
            }
        }
        let Some(&(most, answers)) = DOUBTS.get(self.doubts) else { return Next::Alone };
        self.doubts += 1;
        let may_hide = |group: &usize| {
            readings[*group].is_some_and(|ms| ms <= SLOWEST * (groups.cut_ms + MOST_MS))
        };
        let silent = (0..readings.len()).filter(|&group| readings[group].is_none());
        let doubted: Vec<usize> =
            silent.chain(order.into_iter().filter(may_hide)).take(most).collect();
        let probes = self.ask(&doubted, answers, groups, log);
        if probes.is_empty() { self.next(groups, log) } else { Next::Ask(probes) }
    }

    /// The median answer of each group.
    fn readings(&self, groups: usize, log: &Log) -> Vec<Option<f32>> {
        let mut answers = vec![Vec::new(); groups];
        for &(group, member) in &self.asked {
            if let Some(ms) = log.known(self.node, member) {
                answers[group].push((ms - log.added_ms[member as usize]).max(0.2 * ms));
            }
        }
        answers.iter_mut().map(|answers| median(answers)).collect()
    }

    /// The next groups to ask for the first time, the most likely first.
    fn unasked(&self, groups: &Groups, readings: &[Option<f32>], log: &Log) -> Vec<usize> {
        let is_able = |&member: &u32| log.load()[member as usize] < MOST_LOAD[0];
        let mut rest: Vec<(f32, usize)> = (0..groups.members.len())
            .filter(|group| self.asked.iter().all(|(asked, _)| asked != group))
            .filter(|&group| groups.members[group].iter().any(is_able))
            .map(|group| (misfit(groups, readings, group), group))
            .collect();
        rest.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        rest.into_iter().take(AT_ONCE).map(|(_, group)| group).collect()
    }

    /// Chooses members of each of these groups that did little so far, up to so many of each.
    fn ask(&mut self, ask: &[usize], times: usize, groups: &Groups, log: &mut Log) -> Vec<u32> {
        let mut probes = Vec::new();
        let most_load = MOST_LOAD[self.doubts.min(1)];
        for &group in ask {
            let before = self.asked.iter().filter(|(asked, _)| *asked == group).count();
            for _ in before..times {
                let is_new = |member: &&u32| self.asked.iter().all(|(_, asked)| asked != *member);
                let is_able = |member: &&u32| log.load()[**member as usize] < most_load;
                let members = groups.members[group].iter().filter(is_new).filter(is_able);
                let Some(&member) = members.min_by_key(|&&member| log.reluctance(member)) else {
                    break;
                };
                self.asked.push((group, member));
                log.burden(self.node, member);
                probes.push(member);
            }
        }
        probes
    }
}

/// The only group within the cut, or the nearest if it is clearly so.
fn certain(readings: &[Option<f32>], cut_ms: f32) -> Option<usize> {
    let order = by_reading(readings);
    let &nearest = order.first()?;
    let ms = readings[nearest]?;
    let second = order.get(1).and_then(|&group| readings[group]).unwrap_or(f32::INFINITY);
    (ms <= cut_ms && second >= CLEARLY_FURTHER * ms).then_some(nearest)
}

/// The groups that answered, nearest first.
fn by_reading(readings: &[Option<f32>]) -> Vec<usize> {
    let mut order: Vec<(f32, usize)> =
        readings.iter().enumerate().filter_map(|(group, ms)| Some(((*ms)?, group))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.into_iter().map(|(_, group)| group).collect()
}

/// How little the answers of other groups look like those to a member of this one.
fn misfit(groups: &Groups, readings: &[Option<f32>], group: usize) -> f32 {
    let mut errors: Vec<f32> = readings
        .iter()
        .enumerate()
        .filter_map(|(other, ms)| Some((*ms)?.ln() - groups.between[group][other].ln()))
        .filter(|error| !error.is_nan())
        .map(f32::abs)
        .collect();
    median(&mut errors).unwrap_or(0.0)
}

/// How much further all other groups are than they are from members of the nearest.
fn busyness(readings: &[Option<f32>], nearest: usize, groups: &Groups) -> f32 {
    let mut witnesses: Vec<(f32, f32)> = readings
        .iter()
        .enumerate()
        .filter(|&(other, _)| other != nearest)
        .filter_map(|(other, ms)| Some((groups.between[nearest][other], (*ms)?)))
        .filter(|(between, _)| !between.is_nan() && *between < 10.0 * MOST_MS)
        .collect();
    witnesses.sort_by(|a, b| a.0.total_cmp(&b.0));
    witnesses.truncate(WITNESSES);
    let mut excess: Vec<f32> = witnesses.iter().map(|(between, ms)| ms - between).collect();
    median(&mut excess).map_or(0.0, |excess| excess.clamp(0.0, MOST_MS))
}
