//! Finds the group of a node among the groups of a sample, by a few probes.
//!
//! One probe to a member of each group is enough for most nodes, since noise rarely makes a round
//! trip shorter: the group whose answer is within the cut is the right one. If no group or two
//! similar groups are within the cut, the nearest groups are probed again and medians decide. If
//! there are many groups, eight at a time are probed, starting with those whose distances to the
//! groups probed before match the measurements.

use super::log::Log;
use crate::infer::height::MOST_MS;
use crate::infer::pairs::median;

/// Maximum number of groups that are probed at once.
const AT_ONCE: usize = 8;
/// What a node in doubt probes, first and then again: the number of nearest groups, and the number
/// of members of each that it has then probed. First these are the groups that a single slow or
/// lost pair may hide, then a few for certainty.
const DOUBTS: [(usize, usize); 2] = [(16, 2), (4, 8)];
/// Maximum factor by which a slow pair is slower than others.
const SLOWEST: f32 = 10.0;
/// Maximum number of probes of a member: for seekers, and for seekers in doubt. Without a limit all
/// nodes of a region would probe the only member of a small group.
const MOST_LOAD: [u32; 2] = [150, 300];
/// Ratio of the distances to the second and the nearest group beyond which the nearest is certain.
const CLEARLY_FURTHER: f32 = 1.5;
/// Number of other groups from which the delay of a busy node is estimated.
const WITNESSES: usize = 3;

/// The groups to which a node may belong.
#[derive(Clone, Debug)]
pub(in crate::infer) struct Groups {
    /// The known members of each group.
    pub(in crate::infer) members: Vec<Vec<u32>>,
    /// The median round trip between each pair of groups, and within each group, in milliseconds;
    /// NaN if unknown.
    pub(in crate::infer) between: Vec<Vec<f32>>,
    /// Maximum round trip between two nodes of one group, in milliseconds.
    pub(in crate::infer) cut_ms: f32,
}

/// A node that searches for its group.
#[derive(Clone, Debug)]
pub(in crate::infer) struct Seeker {
    pub(in crate::infer) node: u32,
    /// The members that it probed, with their groups.
    asked: Vec<(usize, u32)>,
    /// Number of times that the node was in doubt and probed again.
    doubts: usize,
}

/// The next step of a seeker.
pub(in crate::infer) enum Next {
    /// It probes these nodes.
    Ask(Vec<u32>),
    /// It belongs to this group, and adds this delay in milliseconds to its round trips.
    In(usize, f32),
    /// It belongs to no group.
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

    /// Returns the median answer of each group, in milliseconds.
    fn readings(&self, groups: usize, log: &Log) -> Vec<Option<f32>> {
        let mut answers = vec![Vec::new(); groups];
        for &(group, member) in &self.asked {
            if let Some(ms) = log.known(self.node, member) {
                answers[group].push((ms - log.added_ms[member as usize]).max(0.2 * ms));
            }
        }
        answers.iter_mut().map(|answers| median(answers)).collect()
    }

    /// Returns the next groups to probe for the first time, the most likely first.
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

    /// Chooses members with few probes so far, until the node has probed `times` members of each of
    /// these groups.
    fn ask(&mut self, ask: &[usize], times: usize, groups: &Groups, log: &mut Log) -> Vec<u32> {
        let mut probes = Vec::new();
        let most_load = MOST_LOAD[self.doubts.min(1)];
        for &group in ask {
            let before = self.asked.iter().filter(|(asked, _)| *asked == group).count();
            for _ in before..times {
                let is_new = |member: &&u32| self.asked.iter().all(|(_, asked)| asked != *member);
                let is_able = |member: &&u32| log.load()[**member as usize] < most_load;
                let members = groups.members[group].iter().filter(is_new).filter(is_able);
                let Some(&member) = members.min_by_key(|&&member| log.probing_order(member)) else {
                    break;
                };
                self.asked.push((group, member));
                log.count_probe(self.node, member);
                probes.push(member);
            }
        }
        probes
    }
}

/// Returns the nearest group if it is within the cut and clearly nearer than the second.
fn certain(readings: &[Option<f32>], cut_ms: f32) -> Option<usize> {
    let order = by_reading(readings);
    let &nearest = order.first()?;
    let ms = readings[nearest]?;
    let second = order.get(1).and_then(|&group| readings[group]).unwrap_or(f32::INFINITY);
    (ms <= cut_ms && second >= CLEARLY_FURTHER * ms).then_some(nearest)
}

/// Returns the groups that answered, nearest first.
fn by_reading(readings: &[Option<f32>]) -> Vec<usize> {
    let mut order: Vec<(f32, usize)> =
        readings.iter().enumerate().filter_map(|(group, ms)| Some(((*ms)?, group))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.into_iter().map(|(_, group)| group).collect()
}

/// Returns the difference between the answers of other groups and those expected for a member of
/// this group.
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

/// Returns the delay of a busy node: how much further the other groups are from it than from
/// members of the nearest group.
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
