//! The problem of Koenig and Kalé (2007), figure 2, and a lower bound for every placement.

use clap::Parser;
use gridspan_jobs::leanmd::args::Options;
use gridspan_jobs::leanmd::schedule::Schedule;
use gridspan_kernels::leanmd::decomposition::Cells;
use gridspan_kernels::leanmd::force::Scratch;
use gridspan_kernels::leanmd::pair::pair_forces;
use gridspan_kernels::leanmd::system::System;
use std::time::Duration;

/// Molecular dynamics whose steps take a given time on one PE.
///
/// The forces are computed once. Afterwards the actors exchange the same messages and charge, in
/// each step, the time that the cost model of the job (`leanmd::schedule`) gives for their atoms,
/// times one factor for all.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    options: Options,
    /// Time of a step on one PE.
    work: Duration,
    /// Time of the lightest pair of cells that share a face.
    lightest: Duration,
    /// Numbers of pair actors and of atoms.
    pub(crate) size: (usize, usize),
}

impl Problem {
    /// Creates the problem from arguments of the job, with `work` as the time of a step on one PE.
    pub(crate) fn new(arguments: &str, work: Duration) -> Self {
        let words = ["leanmd", "--quiet", "--work", "charge"].into_iter();
        let words = words.chain(arguments.split_whitespace());
        let mut options = Options::try_parse_from(words).expect("the arguments are right");
        // The job sums only the energies that it reports; it always reports the start and the end.
        options.report_every = 0;
        options.silent = true;
        let (system, schedule) = options.prepare().expect("the problem fits");
        let (sum, _) = costs(&system, &schedule);
        options.cost = work.as_secs_f64() / sum.as_secs_f64();
        let (work, lightest) = costs(&system, &Schedule { cost: options.cost, ..schedule });
        let size = (schedule.cells.pairs().len(), system.len());
        Self { options, work, lightest, size }
    }

    /// Returns the job's options for a run of `steps` steps.
    pub(crate) fn options(&self, steps: u64, sync_every: u64) -> Options {
        Options { steps, sync_every, ..self.options.clone() }
    }

    /// Returns a lower bound of the time of a step, for every placement that uses both sites.
    ///
    /// A step takes at least an even share of the work. Every such placement also has two cells
    /// with a common face at different sites, because cells are connected through their faces. The
    /// step of such a pair takes a round trip, since positions go one way and forces come back, and
    /// the compute time of the pair.
    pub(crate) fn bound(&self, pes: u32, latency: Duration) -> Duration {
        (self.work / pes).max(2 * latency + self.lightest)
    }
}

/// Returns the charge of all actors for a step, and the least charge of a pair of cells that share
/// a face.
fn costs(system: &System, schedule: &Schedule) -> (Duration, Duration) {
    let cells = &schedule.cells;
    let members = system.distribute(cells);
    let mut scratch = Scratch::default();
    let (mut sum, mut lightest) = (Duration::ZERO, Duration::MAX);
    for unit in cells.pairs() {
        let [a, b] = [unit.a, unit.b].map(|cell| &members[cells.number(cell)]);
        let forces =
            pair_forces(&unit, cells, &schedule.law, a.positions(), b.positions(), &mut scratch);
        let atoms = a.len() + if unit.a == unit.b { 0 } else { b.len() };
        let cost = schedule.pair_cost(atoms, forces.sums.pairs);
        sum += cost;
        if is_face(cells, unit.a, unit.b) {
            lightest = lightest.min(cost);
        }
    }
    for (cell, atoms) in cells.indices().zip(&members) {
        let partners = cells.pairs_of(cell).len() as u32;
        sum += schedule.step_cost(atoms.len()) + schedule.add_cost(atoms.len()) * partners;
    }
    (sum, lightest)
}

fn is_face(cells: &Cells, a: [i32; 3], b: [i32; 3]) -> bool {
    let apart = |axis: usize| {
        let (direct, around) = (a[axis].abs_diff(b[axis]), cells.dims()[axis]);
        direct.min(around - direct)
    };
    (0..3).map(apart).sum::<u32>() == 1
}
