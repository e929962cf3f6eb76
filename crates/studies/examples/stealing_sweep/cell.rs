//! One cell of the table: a job on a grid, under each policy.

use crate::grids::{Grid, latency, of_sites};
use crate::random_tree::{Kind, Shape, mix};
use crate::workload::{Outcome, Workload};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, Link};
use std::sync::mpsc;
use std::time::Duration;

/// A job on a grid.
pub(crate) struct Cell {
    pub(crate) workload: Workload,
    pub(crate) grid: Grid,
}

/// The measurements of a cell.
pub(crate) struct Measured {
    job: String,
    grid: String,
    /// The median time of each policy.
    times: Vec<Duration>,
    /// Messages between sites under each policy, from the run with the median time.
    far_messages: Vec<u64>,
    /// The time on the first site alone, under the first policy.
    alone: Duration,
}

/// Work of a random job on one PE: between a millisecond and some seconds, uniform in its
/// logarithm.
const WORK_MS: (f64, f64) = (1.0, 4000.0);
/// Approximate maximum number of tasks of a random job. It keeps a run below a second.
const TASKS_MAX: f64 = 200_000.0;

impl Cell {
    /// Returns the random cell with this number, drawn from a seed.
    pub(crate) fn random(seed: u64, number: u64) -> Result<Self, String> {
        let mut dice = Dice(mix(seed) ^ mix(number));
        let tasks = dice.logarithmic(60.0, TASKS_MAX);
        let kind = match dice.below(5) {
            0 => Kind::Flat { tasks: tasks as u32 },
            1 => {
                let children = 2 + dice.below(7) as u32;
                Kind::Full { children, depth: tasks.log(f64::from(children)).round() as u32 }
            }
            2 => {
                let mean = 2 + dice.below(4) as u32;
                Kind::Geometric { mean, depth: tasks.log(f64::from(mean)).round() as u32 }
            }
            3 => Kind::Binomial { roots: (tasks / 33.0).ceil() as u32 },
            _ => {
                let depth = 2 + dice.below(8) as u32;
                Kind::Trunk { length: (tasks / f64::from(2 << depth)).ceil() as u32, depth }
            }
        };
        let mut shape =
            Shape { kind, seed: dice.next(), grain_ns: 1000, is_uneven: dice.below(3) == 0 };
        let work = dice.logarithmic(WORK_MS.0, WORK_MS.1) * 1e6;
        let unit = shape.work().as_nanos() as f64 / 1000.0;
        shape.grain_ns = (work / unit).ceil().max(4.0) as u64;
        Ok(Self { workload: Workload::Random(shape), grid: random_grid(&mut dice)? })
    }
}

fn random_grid(dice: &mut Dice) -> Result<Grid, String> {
    let count = 2 + dice.below(5);
    let size = dice.logarithmic(1.0, 32.0) as u32;
    let is_even = dice.below(2) == 0;
    let mut site = || if is_even { size } else { dice.logarithmic(1.0, 40.0) as u32 };
    let sites: Vec<u32> = (0..count).map(|_| site()).collect();
    let wan_ms = dice.logarithmic(1.0, 100.0).round();
    let loss = [0.0, 0.0, 0.001, 0.01][dice.below(4) as usize];
    let jitter = if dice.below(4) == 0 { wan_ms * 0.1 } else { 0.0 };
    let link = Link::wan().with_latency(latency(wan_ms)).with_loss(loss);
    let link = link.with_jitter(latency(jitter).duration());
    let shape: Vec<String> = sites.iter().map(u32::to_string).collect();
    let name =
        format!("{},wan={wan_ms}ms,jitter={jitter:.1}ms,loss={}%", shape.join("+"), loss * 100.0);
    of_sites(name, &sites, link)
}

/// Runs the cell under each policy.
pub(crate) fn measure(cell: &Cell, policies: &[String], seeds: u64) -> Result<Measured, String> {
    let (mut times, mut far_messages) = (Vec::new(), Vec::new());
    for policy in policies {
        let (took, statistics) = median(&cell.workload, &cell.grid.spec, policy, seeds)?;
        times.push(took);
        far_messages.push(statistics.far_messages);
    }
    let first = policies.first().ok_or("name at least one policy")?;
    let (alone, _) = median(&cell.workload, &cell.grid.alone, first, seeds)?;
    let (job, grid) = (cell.workload.name(), cell.grid.name.clone());
    Ok(Measured { job, grid, times, far_messages, alone })
}

fn median(
    workload: &Workload,
    spec: &GridSpec,
    policy: &str,
    seeds: u64,
) -> Result<Outcome, String> {
    let mut runs = Vec::new();
    for seed in 0..seeds.max(1) {
        let (tell, told) = mpsc::channel();
        let job = workload.job(policy, tell)?;
        let simulation = Simulation::new(job, spec.clone(), SimOptions::with_seed(seed));
        let report = simulation.map_err(|error| error.to_string())?.run();
        report.outcome.map_err(|error| format!("{} under {policy}: {error}", workload.name()))?;
        runs.push(told.recv().map_err(|_| "a job ended without its outcome")?);
    }
    runs.sort_by_key(|&(took, _)| took);
    Ok(runs.swap_remove(runs.len() / 2))
}

impl Measured {
    /// Returns the time of the first policy divided by the best of all others, or `None` if there
    /// are no others.
    pub(crate) fn over_best(&self) -> Option<f64> {
        let best = self.times.iter().skip(1).min()?;
        Some(self.times[0].as_secs_f64() / best.as_secs_f64())
    }

    /// Returns the time of the first policy, less 1 ms, divided by that of the first site alone.
    pub(crate) fn over_alone(&self) -> f64 {
        let grace = Duration::from_millis(1);
        self.times[0].saturating_sub(grace).as_secs_f64() / self.alone.as_secs_f64()
    }

    pub(crate) fn title(&self) -> String {
        format!("{} on {}", self.job, self.grid)
    }

    pub(crate) fn json(&self, policies: &[String]) -> String {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        let each = policies.iter().zip(&self.times).zip(&self.far_messages);
        let each = each.map(|((policy, time), far)| {
            format!("\"{policy}\":{{\"ms\":{:.4},\"far_messages\":{far}}}", ms(time))
        });
        format!(
            "{{\"job\":\"{}\",\"grid\":\"{}\",\"over_best\":{:.3},\"over_alone\":{:.3},\"alone_ms\":{:.4},\"policies\":{{{}}}}}",
            self.job,
            self.grid,
            self.over_best().unwrap_or(f64::NAN),
            self.over_alone(),
            ms(&self.alone),
            each.collect::<Vec<_>>().join(",")
        )
    }
}

/// A generator of random numbers that uses the hash of the trees. It must not change, because
/// `docs/src/tasks.md` quotes results of cells that it has drawn.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// Draws a number between two others, uniform in its logarithm.
    fn logarithmic(&mut self, from: f64, to: f64) -> f64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        from * (to / from).powf(unit)
    }
}
