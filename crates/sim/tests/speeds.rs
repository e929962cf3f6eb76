//! PEs of unequal speed: strategies weigh parts by it, whether kernels see it or actors show it.
#![allow(missing_docs, clippy::unwrap_used)]

use gridspan_balance::{PeLoad, Snapshot};
use gridspan_runtime::{Actor, Context, Ix1, Job, Op, Time, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

/// Computes once in each step. Every sixteenth step it waits at its sync point.
#[derive(Serialize, Deserialize)]
struct Worker {
    /// What it takes on an ordinary PE, in microseconds.
    work: u32,
    /// By how many percent that changes from step to step, at most.
    change: u32,
    dice: u32,
    /// How many times longer it takes on odd PEs, for a reason that no kernel sees.
    odd: u32,
    left: u32,
}

#[derive(Clone, Serialize, Deserialize)]
struct Step;

impl Actor for Worker {
    type Index = Ix1;
    type Init = (u32, u32, u32, u32);
    type Message = Step;

    fn create((work, change, odd, left): Self::Init, cx: &mut Context<'_, Self>) -> Self {
        Self { work, change, dice: cx.index().0 as u32 + 1, odd, left }
    }

    fn handle(&mut self, _: Step, cx: &mut Context<'_, Self>) {
        self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let swing = (self.dice >> 16) % (2 * self.change + 1);
        let work = US * (self.work * (100 + swing - self.change) / 100);
        cx.charge(work * if cx.pe().0 % 2 == 1 { self.odd } else { 1 });
        self.left -= 1;
        match self.left % 16 {
            0 => cx.at_sync(),
            _ => cx.contribute(Op::Sum, 1_u64, To::main()),
        }
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

#[derive(Clone, Copy)]
struct Case {
    grid: &'static str,
    strategy: &'static str,
    is_gated: bool,
    odd: u32,
    change: u32,
    rebalances: u32,
}

const CASE: Case =
    Case { grid: "1x4", strategy: "greedy", is_gated: false, odd: 1, change: 0, rebalances: 3 };

/// What the last steps took, after so many rebalances, and the speeds by the last snapshot.
fn run(case: Case) -> (Duration, Vec<PeLoad>) {
    let Case { grid: text, strategy, is_gated, odd, change, rebalances } = case;
    let steps = 16 * rebalances + 15;
    let times: Arc<Mutex<Vec<Time>>> = Arc::default();
    let pes: Arc<Mutex<Vec<PeLoad>>> = Arc::default();
    let (noted, seen) = (times.clone(), pes.clone());
    let mut job = Job::new("speeds").actor::<Worker>().strategy(strategy).balance_gate(is_gated);
    // Leaders plan by themselves only where nobody wants to see all.
    if strategy != "leader-cut" {
        job = job.on_snapshot(move |snapshot: &Snapshot, _| {
            seen.lock().unwrap().clone_from(&snapshot.pes);
        });
    }
    let job = job.on_balance(|report| println!("  {report} {:?}", report.refusal));
    let job = job.main(async move |grid| {
        let create = |_| (1000, change, odd, steps + 1);
        let workers = grid.create::<Worker>(Ix1::range(64), create).await?;
        for _ in 0..steps {
            workers.broadcast(Step);
            let done: u64 = workers.reduction(Op::Sum).await?;
            assert_eq!(done, 64);
            let now = grid.now().await?;
            noted.lock().unwrap().push(now);
        }
        Ok(())
    });
    let spec = GridSpec::from_emulate(text).unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    let times = times.lock().unwrap();
    let (first, last) = (times[times.len() - 9], times[times.len() - 1]);
    let pes = pes.lock().unwrap().clone();
    (last.since(first) / 8, pes)
}

const SERIOUS: [&str; 6] = ["greedy", "refine", "grid-cut", "border", "leader-cut", "auto"];

#[test]
fn what_only_actors_show_is_balanced_within_three_rebalances() {
    // 64 actors of 1 ms on even and 3 ms on odd PEs: 24 ms at best, and 48 as they begin.
    for strategy in SERIOUS {
        for is_gated in [false, true] {
            let (step, _) = run(Case { strategy, is_gated, odd: 3, ..CASE });

            println!("{strategy}, gate {is_gated}: {step:?}");
        }
    }
}

#[test]
fn what_kernels_see_is_balanced_at_once() {
    for strategy in SERIOUS {
        for grid in ["1x4,speed=1:1/3", "2x2,wan=1ms,speed=1:1/3"] {
            let (step, _) = run(Case { strategy, grid, rebalances: 1, ..CASE });

            let best = if grid.starts_with('2') { 26 * MS } else { 24 * MS };
            assert!(step < best * 105 / 100, "{strategy} on {grid}: {step:?}");
        }
    }
}
