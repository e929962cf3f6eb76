//! Jobs of tasks. They decide while they run which PE runs a task, so recorded places and waits say
//! nothing about another grid.
//!
//! The work, W, stays the same. PEs that look for tasks lose time: at the start until tasks reach
//! their site, and at the end until all sites know that nothing is left. Both are numbers of round
//! trips (Blumofe and Leiserson, "Scheduling Multithreaded Computations by Work Stealing", JACM
//! 46(5), 1999, bound the time by W / P and a term that does not shrink with P). So the model is
//!
//! ```text
//! time = (W + Σ speed × lost) / Σ speed + b + g × longest round trip
//! lost = a + h × longest round trip + f × round trip of the PE's site
//! ```
//!
//! where round trips are those to the site of main, which spawns the first task. `h` and `f` follow
//! from the time that PEs lost at the site of main and at other sites, in a recording on two or
//! more sites, and `g` from the time before the first task and after the last one. `a` and `b`
//! follow from recordings with different latencies; if all latencies are equal, they are 0. With
//! one site, `a` is the mean lost time. Without latency, `b` is the mean time without tasks.
//!
//! PEs without tasks may run copies of tasks that are under way elsewhere. So the time in tasks
//! grows with the latency, and W is the least time in tasks of a recording.

use crate::error::ForecastError;
use crate::recorded_grid::RecordedGrid;
use gridspan_record::{PeRecord, Recording, TASK};
use gridspan_topology::{GridSpec, PeId, SiteId};

/// A job counts as one of tasks if tasks take more than this share of the time in handlers.
const SHARE_MIN: f64 = 0.5;
/// Number of unknowns of the model.
const UNKNOWNS: usize = 3;
/// Recordings have different round trips if the longest is at least this times the shortest.
/// Measured round trips differ a little from run to run, which does not determine `a`.
const DIFFERENT_MIN: f64 = 1.1;
/// Smaller pivots count as 0.
const PIVOT_MIN: f64 = 1e-9;

/// The time that one PE lost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Loss {
    longest_ns: f64,
    own_ns: f64,
    lost_ns: f64,
}

/// The model of a job of tasks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskModel {
    /// Time of all tasks on an ordinary PE, in nanoseconds.
    work_ns: f64,
    /// `b` and `g`: time before the first task, and after the last one.
    outside: (f64, f64),
    /// `a`.
    constant_ns: f64,
    /// `h` and `f`; `None` if all recordings are of one site.
    trips: Option<(f64, f64)>,
}

/// The prediction of the model, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskForecast {
    /// Time of the job.
    pub(crate) total_ns: f64,
    /// Time that each PE works.
    pub(crate) busy_ns: Vec<f64>,
}

/// Whether most of the work of a recording is that of tasks.
pub(crate) fn is_of_tasks(recording: &Recording) -> bool {
    let totals = || recording.pes.iter().flat_map(|pe| &pe.totals);
    let all: f64 = totals().map(|total| total.total_ns as f64).sum();
    let tasks = totals().filter(|total| total.number == TASK);
    let tasks: f64 = tasks.map(|total| total.total_ns as f64).sum();
    all > 0.0 && tasks > SHARE_MIN * all
}

impl TaskModel {
    /// Fits the model to recordings of one job.
    pub(crate) fn of(recordings: &[&Recording]) -> Self {
        let work = |recording: &&Recording| {
            let speed = |pe: u32| recording.header.pes.get(pe as usize).map_or(1.0, |pe| pe.speed);
            recording.pes.iter().map(|record| busy(record) * speed(record.pe)).sum::<f64>()
        };
        let work_ns = recordings.iter().map(work).fold(f64::INFINITY, f64::min);
        let work_ns = if work_ns.is_finite() { work_ns } else { 0.0 };
        let mut losses = Vec::new();
        let mut outside = Vec::new();
        for recording in recordings {
            let grid = RecordedGrid::of(&recording.header);
            let (begin, end) = active(recording);
            let took = end.saturating_sub(begin) as f64;
            let longest_ns = grid.longest_round_trip_ns();
            outside.push((longest_ns, (recording.end_ns() as f64 - took).max(0.0)));
            let useful = work_ns / work(recording).max(1.0);
            for record in &recording.pes {
                let own_ns = grid.round_trip_ns(record.pe);
                let is_home = grid.site(record.pe) == grid.site(0);
                let own_ns = if is_home { 0.0 } else { own_ns };
                let lost_ns = (took - busy(record) * useful).max(0.0);
                losses.push(Loss { longest_ns, own_ns, lost_ns });
            }
        }
        let has_two_sites = losses.iter().any(|loss| loss.own_ns > 0.0);
        let mean = losses.iter().map(|loss| loss.lost_ns).sum::<f64>() / losses.len().max(1) as f64;
        let (constant_ns, trips) = match fit(&losses) {
            _ if !has_two_sites => (mean, None),
            Some([a, h, f]) => (a, Some((h, f))),
            None => (mean, None),
        };
        Self { work_ns, outside: fit_outside(&outside), constant_ns, trips }
    }

    /// Predicts the time on a grid.
    pub(crate) fn forecast(&self, grid: &GridSpec) -> Result<TaskForecast, ForecastError> {
        let layout = grid.layout();
        let latency = |from, to| grid.link_between(from, to).latency.duration().as_nanos() as f64;
        let home = SiteId(0);
        let trip = |site: SiteId| match site == home {
            true => 0.0,
            false => latency(home, site) + latency(site, home),
        };
        let longest = layout.sites().map(trip).fold(0.0, f64::max);
        let (h, f) = match self.trips {
            Some(trips) => trips,
            None if longest == 0.0 => (0.0, 0.0),
            None => return Err(ForecastError::OneSite),
        };
        let speed = |pe: PeId| grid.speed(layout.node_of(pe)).factor();
        let lost =
            |pe: PeId| (self.constant_ns + h * longest + f * trip(layout.site_of(pe))).max(0.0);
        let speeds: f64 = layout.pes().map(speed).sum();
        let all_lost: f64 = layout.pes().map(|pe| speed(pe) * lost(pe)).sum();
        let took = (self.work_ns + all_lost) / speeds;
        let busy_ns = layout.pes().map(|pe| (took - lost(pe)).max(0.0)).collect();
        let (constant, trips) = self.outside;
        let outside = (constant + trips * longest).max(0.0);
        Ok(TaskForecast { total_ns: took + outside, busy_ns })
    }
}

/// Time of a PE in handlers and tasks.
fn busy(record: &PeRecord) -> f64 {
    let bins = record.bins.iter().flat_map(|bin| &bin.busy_ns);
    bins.map(|(_, ns)| *ns as f64).sum()
}

/// Returns the times between which tasks ran. Assumes that they ran at the end of the first bin
/// with tasks and at the start of the last one, so that the result does not depend on the width of
/// bins.
fn active(recording: &Recording) -> (u64, u64) {
    let (mut begin, mut end) = (u64::MAX, 0);
    for record in &recording.pes {
        let task = |bin: &gridspan_record::Bin| {
            let tasks = bin.busy_ns.iter().filter(|(kind, _)| *kind == TASK);
            tasks.fold(0, |sum: u64, (_, ns)| sum.saturating_add(*ns))
        };
        let has_tasks = |bin: &gridspan_record::Bin| task(bin) > 0;
        if let Some(first) = record.bins.iter().position(has_tasks) {
            let ends = (first as u64 + 1).saturating_mul(record.bin_ns);
            begin = begin.min(ends.saturating_sub(task(&record.bins[first])));
        }
        if let Some(last) = record.bins.iter().rposition(has_tasks) {
            let begins = (last as u64).saturating_mul(record.bin_ns);
            end = end.max(begins.saturating_add(task(&record.bins[last])));
        }
    }
    (begin.min(end), end)
}

/// Whether round trips differ by no more than noise from the longest one.
fn is_equal(mut trips: impl Iterator<Item = f64>, longest: f64) -> bool {
    trips.all(|trip| trip * DIFFERENT_MIN > longest)
}

/// Fits `b` and `g` by least squares to longest round trips and the times without tasks. `b` is 0
/// if all latencies are about equal, and `g` is 0 if there are none.
fn fit_outside(seen: &[(f64, f64)]) -> (f64, f64) {
    let count = seen.len().max(1) as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| seen.iter().map(part).sum::<f64>() / count;
    let (trip, time) = (mean(|seen| seen.0), mean(|seen| seen.1));
    let longest = seen.iter().map(|seen| seen.0).fold(0.0, f64::max);
    if longest == 0.0 {
        return (time, 0.0);
    }
    if is_equal(seen.iter().map(|seen| seen.0), longest) {
        return (0.0, time / trip);
    }
    let together: f64 = seen.iter().map(|seen| (seen.0 - trip) * (seen.1 - time)).sum();
    let square: f64 = seen.iter().map(|seen| (seen.0 - trip).powi(2)).sum();
    let slope = together / square;
    (time - slope * trip, slope)
}

/// Fits `a`, `h` and `f` by least squares; `a` is 0 if all latencies are about equal.
fn fit(losses: &[Loss]) -> Option<[f64; UNKNOWNS]> {
    let trips = || losses.iter().map(|loss| loss.longest_ns);
    let longest = trips().max_by(f64::total_cmp).filter(|longest| *longest > 0.0)?;
    let is_equal = is_equal(trips(), longest);
    let mut matrix = [[0.0; UNKNOWNS + 1]; UNKNOWNS];
    for loss in losses {
        let constant = if is_equal { 0.0 } else { 1.0 };
        // In units of the longest round trip, so that all entries are of about one magnitude.
        let row = [constant, loss.longest_ns / longest, loss.own_ns / longest];
        for (at, line) in matrix.iter_mut().enumerate() {
            for (to, other) in row.iter().enumerate() {
                line[to] += row[at] * other;
            }
            line[UNKNOWNS] += row[at] * loss.lost_ns;
        }
    }
    if is_equal {
        matrix[0][0] = 1.0;
    }
    let [a, h, f] = solve(matrix)?;
    Some([a, h / longest, f / longest])
}

/// Solves linear equations by elimination with pivots; `None` if they have no single solution.
fn solve(mut matrix: [[f64; UNKNOWNS + 1]; UNKNOWNS]) -> Option<[f64; UNKNOWNS]> {
    for column in 0..UNKNOWNS {
        let size = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..UNKNOWNS).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        matrix.swap(column, pivot);
        let lead = matrix[column];
        if lead[column].abs() < PIVOT_MIN {
            return None;
        }
        let others = matrix.iter_mut().enumerate().filter(|(row, _)| *row != column);
        for (_, line) in others {
            let factor = line[column] / lead[column];
            line.iter_mut().zip(&lead).for_each(|(cell, lead)| *cell -= factor * lead);
        }
    }
    let mut found = [0.0; UNKNOWNS];
    for (at, found) in found.iter_mut().enumerate() {
        *found = matrix[at][UNKNOWNS] / matrix[at][at];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_record::{
        Bin, Header, JobEnding, RecordedLink, RecordedNode, RecordedPe, TypeTotal,
    };

    const MS: u64 = 1_000_000;

    /// Two sites of a PE each with tasks of these times in ms, in a job of 100 ms.
    fn recording(latency_ms: u64, tasks_ms: [u64; 2]) -> Recording {
        let node = |site| RecordedNode { site, ..RecordedNode::default() };
        let link = |from, to| {
            let latency_us = if from == to { 0.0 } else { (latency_ms * 1000) as f64 };
            RecordedLink { from, to, latency_us, ..RecordedLink::default() }
        };
        let header = Header {
            sites: vec!["a".to_owned(), "b".to_owned()],
            nodes: vec![node(0), node(1)],
            pes: (0..2).map(|node| RecordedPe { node, speed: 1.0 }).collect(),
            links: vec![link(0, 0), link(0, 1), link(1, 0), link(1, 1)],
            ..Header::default()
        };
        let record = |pe: u32| {
            // The first PE has the first and the last task.
            let ns = tasks_ms[pe as usize] * MS;
            let bin = |ns| Bin { busy_ns: vec![(TASK, ns)], ..Bin::default() };
            let bins = match pe {
                0 => vec![bin(50 * MS), bin(ns - 50 * MS)],
                _ => vec![bin(0), bin(ns)],
            };
            let totals = vec![TypeTotal { number: TASK, count: 9, total_ns: ns, max_ns: MS }];
            PeRecord { pe, bin_ns: 50 * MS, bins, totals, ..PeRecord::default() }
        };
        let ending = Some(JobEnding { at_ns: 100 * MS, ..JobEnding::default() });
        Recording { header, ending, pes: vec![record(0), record(1)], ..Recording::default() }
    }

    #[test]
    fn losses_of_two_sites_give_the_numbers_of_round_trips() {
        // Round trips of 10 ms. Tasks ran for 98 ms, of which the PEs lost 5 and 50 ms.
        let recording = recording(5, [93, 48]);
        assert!(is_of_tasks(&recording));
        let model = TaskModel::of(&[&recording]);
        let (h, f) = model.trips.unwrap();
        let took = 98.0;
        assert!((h * 10.0 - (took - 93.0)).abs() < 1e-6, "{model:?}");
        assert!(((h + f) * 10.0 - (took - 48.0)).abs() < 1e-6, "{model:?}");

        // The model predicts the run to which it was fitted.
        let same = GridSpec::from_emulate("2x1,wan=5ms").unwrap();
        let TaskForecast { total_ns, .. } = model.forecast(&same).unwrap();
        assert!((total_ns - 100e6).abs() < 1e3, "{total_ns}");
        // With twice the latency, the second PE loses twice the time, and both share that. The 2 ms
        // in which no tasks run become 4.
        let far = GridSpec::from_emulate("2x1,wan=10ms").unwrap();
        let later = model.forecast(&far).unwrap().total_ns;
        assert!((later - total_ns - 29.5e6).abs() < 1e3, "{later}");
    }

    #[test]
    fn one_site_does_not_show_what_a_wide_area_takes() {
        let mut recording = recording(5, [93, 48]);
        recording.header.nodes[1].site = 0;
        let model = TaskModel::of(&[&recording]);
        let far = GridSpec::from_emulate("2x1,wan=10ms").unwrap();
        assert_eq!(model.forecast(&far), Err(ForecastError::OneSite));
        assert!(model.forecast(&GridSpec::single(2)).is_ok());
    }

    #[test]
    fn recordings_of_two_latencies_give_the_constant_too() {
        let loss = |longest_ns: f64, own_ns: f64| {
            let lost_ns = 3.0 + 0.5 * longest_ns + 2.0 * own_ns;
            Loss { longest_ns, own_ns, lost_ns }
        };
        let losses = [loss(10.0, 0.0), loss(10.0, 10.0), loss(40.0, 0.0), loss(40.0, 40.0)];
        let found = fit(&losses).unwrap();
        for (found, expected) in found.into_iter().zip([3.0, 0.5, 2.0]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn time_without_tasks_follows_the_round_trips() {
        let near = |found: (f64, f64), expected: (f64, f64)| {
            let errors = (found.0 - expected.0, found.1 - expected.1);
            assert!(errors.0.abs() < 1e-9 && errors.1.abs() < 1e-9, "{found:?} {expected:?}");
        };
        near(fit_outside(&[(10.0, 25.0), (20.0, 45.0)]), (5.0, 2.0));
        near(fit_outside(&[(10.0, 20.0)]), (0.0, 2.0));
        near(fit_outside(&[(0.0, 7.0)]), (7.0, 0.0));
        near(fit_outside(&[]), (0.0, 0.0));
    }

    #[test]
    fn copies_of_tasks_are_no_work() {
        // At twice the latency, the second PE runs 20 ms of copies.
        let model = TaskModel::of(&[&recording(5, [93, 48]), &recording(10, [93, 68])]);
        assert!((model.work_ns - 141e6).abs() < 1e3, "{model:?}");
    }

    #[test]
    fn latencies_that_differ_by_noise_give_no_constant() {
        // Half a round trip for all, and one more for the other site.
        let loss = |longest_ns, own_ns, lost_ns| Loss { longest_ns, own_ns, lost_ns };
        let losses = [
            loss(10.0, 0.0, 5.0),
            loss(10.0, 10.0, 15.0),
            loss(10.1, 0.0, 5.4),
            loss(10.1, 10.1, 14.7),
        ];
        let [a, h, f] = fit(&losses).unwrap();
        assert_eq!(a, 0.0);
        assert!((h - 0.5).abs() < 0.05 && (f - 1.0).abs() < 0.05, "{h} {f}");
    }

    #[test]
    fn a_recording_on_one_pe_before_that_of_two_sites_is_no_obstacle() {
        let mut alone = recording(5, [93, 48]);
        alone.header.pes.truncate(1);
        alone.pes.truncate(1);
        let model = TaskModel::of(&[&alone, &recording(5, [93, 48])]);
        assert!(model.trips.is_some(), "{model:?}");
    }

    #[test]
    fn absurd_times_of_tasks_do_not_overflow() {
        let mut absurd = recording(5, [93, 48]);
        absurd.pes[0].bins[0].busy_ns = vec![(TASK, u64::MAX), (TASK, u64::MAX)];
        let model = TaskModel::of(&[&absurd]);
        assert!(model.forecast(&GridSpec::single(2)).unwrap().total_ns > 0.0);
    }
}
