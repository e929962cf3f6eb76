//! Balancing while the job runs, in virtual time: periodically, after a link has changed, and to
//! undo a mistake.

use gridspan_balance::{
    Auto, BalanceReport, Cause, Greedy, NoMoves, Plan, Refine, Snapshot, Strategy,
};
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, PeId, Placement, PlacementMap, To};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::{GridSpec, NodeId, Time};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WORKERS: u32 = 32;
const WORK: Duration = Duration::from_millis(1);

/// Exchanges a token with a neighbour. The cost of each hop depends on the PE.
#[derive(Serialize, Deserialize)]
struct Worker {
    hops: u64,
    /// Factor by which the work takes longer on PEs other than PE 0.
    factor: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Begin(u32),
    Token(u32),
    Hops,
    Place,
}

impl Actor for Worker {
    type Index = Ix1;
    type Init = u32;
    type Message = Msg;

    fn create(factor: u32, _cx: &mut Context<'_, Self>) -> Self {
        Self { hops: 0, factor }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        let neighbour = cx.collection().at(Ix1(cx.index().0 ^ 1));
        match message {
            Msg::Begin(left) => cx.send(&neighbour, Msg::Token(left)),
            Msg::Token(left) => {
                cx.charge(if cx.pe() == PeId(0) { WORK } else { WORK * self.factor });
                self.hops += 1;
                if left > 1 {
                    cx.send(&neighbour, Msg::Token(left - 1));
                }
            }
            Msg::Hops => cx.contribute(Op::Sum, self.hops, To::main()),
            Msg::Place => cx.contribute(Op::Sum, u64::from(cx.pe().0), To::main()),
        }
    }
}

/// The reports, in order.
type Told = Arc<Mutex<Vec<BalanceReport>>>;

const FIRST: PlacementMap = PlacementMap::new("first", |_, _| PeId(0));

/// A job whose workers all start on PE 0 and handle `hops` tokens each. Stores the sum of the
/// numbers of the PEs on which they end.
fn job(factor: u32, hops: u32, told: &Told, places: &Arc<Mutex<u64>>) -> Job {
    let (told, places) = (told.clone(), places.clone());
    Job::new("workers")
        .actor::<Worker>()
        .placement(FIRST)
        .on_balance(move |report| told.lock().unwrap().push(report.clone()))
        .main(async move |grid| {
            let first = Placement::Custom(FIRST);
            let workers =
                grid.create_placed::<Worker>(first, Ix1::range(WORKERS), |_| factor).await?;
            workers.broadcast(Msg::Begin(hops));
            grid.quiescence().await?;
            workers.broadcast(Msg::Hops);
            let sum: u64 = workers.reduction(Op::Sum).await?;
            workers.broadcast(Msg::Place);
            *places.lock().unwrap() = workers.reduction(Op::Sum).await?;
            match sum == u64::from(WORKERS * hops) {
                true => Ok(()),
                false => Err(JobError::Failed(format!("{sum} hops"))),
            }
        })
}

/// Runs a job on four PEs of one node. Also returns the reports, and the sum of the numbers of the
/// final PEs.
fn run(
    factor: u32,
    hops: u32,
    change: impl Fn(Job) -> Job,
) -> (SimReport, Vec<BalanceReport>, u64) {
    let (told, places) = (Told::default(), Arc::default());
    let job = change(job(factor, hops, &told, &places));
    let report = Simulation::new(job, GridSpec::single(4), SimOptions::default()).unwrap().run();
    report.outcome.clone().unwrap();
    let told = std::mem::take(&mut *told.lock().unwrap());
    let places = *places.lock().unwrap();
    (report, told, places)
}

#[test]
fn actors_leave_a_loaded_pe_periodically_and_a_seed_repeats_the_moves() {
    let still = run(1, 200, |job| job.strategy(NoMoves)).0;
    let every = |job: Job| job.strategy(Refine).balance_every(Duration::from_millis(200));
    let (first, told, places) = run(1, 200, every);
    let (second, told_again, _) = run(1, 200, every);

    // All 32 actors start on one PE of four.
    let ratio = first.virtual_time.as_nanos() as f64 / still.virtual_time.as_nanos() as f64;
    assert!(ratio < 0.35, "{ratio} of the time without, {told:?}");
    assert!(places > 0);
    let moved: Vec<_> = told.iter().filter(|report| report.moved > 0).collect();
    assert_eq!(moved[0].cause, Cause::Period);
    let (predicted, realised) = (moved[0].predicted.unwrap(), moved[0].realised.unwrap());
    assert!((predicted - realised).abs() < 0.1, "{predicted} was predicted, {realised} realised");
    assert_eq!((first.log_hash, told), (second.log_hash, told_again));
}

#[test]
fn a_plan_that_slows_the_job_is_undone_and_nothing_is_lost() {
    // The strategy expects a gain from three more PEs, but work takes ten times as long there.
    let bad = |job: Job| job.strategy(Greedy).balance_every(Duration::from_millis(200));
    let (report, told, places) = run(10, 300, bad);

    let moved: Vec<_> = told.iter().filter(|report| report.moved > 0).collect();
    let [mistake, undone, ..] = moved.as_slice() else { panic!("{told:?}") };
    assert!(mistake.predicted.unwrap() > 0.5 && mistake.realised.unwrap() < -0.5, "{mistake:?}");
    assert_eq!((undone.cause, undone.moved), (Cause::Undo, mistake.moved));
    assert_eq!(places, 0, "all are back on PE 0");
    let still = run(10, 300, |job| job).0;
    let ratio = report.virtual_time.as_nanos() as f64 / still.virtual_time.as_nanos() as f64;
    assert!(ratio < 1.5, "the job took {ratio} times as long");
}

/// Moves all actors to one PE: PE 0 at first, and PE 1 after a link has become slower.
#[derive(Clone)]
struct Follow {
    to: u32,
}

impl Strategy for Follow {
    fn name(&self) -> &'static str {
        "follow"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        Plan::placing(snapshot, |_| PeId(self.to))
    }

    fn link_changed(&mut self, change: &gridspan_topology::LinkChange) {
        if change.after.latency > change.before.latency {
            self.to = 1;
        }
    }
}

/// Panics instead of a plan.
#[derive(Clone)]
struct Panics;

impl Strategy for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn plan(&mut self, _snapshot: &Snapshot) -> Plan {
        panic!("no plan")
    }
}

#[test]
fn a_strategy_that_panics_ends_its_job_as_in_real_time() {
    let (told, places) = (Told::default(), Arc::default());
    let job = job(1, 1000, &told, &places)
        .strategy(Panics)
        .balance_gate(false)
        .balance_every(Duration::from_millis(200));
    let spec = GridSpec::from_emulate("2x2,wan=5ms").unwrap();

    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();

    let reason = "no plan".to_owned();
    assert_eq!(report.outcome, Err(JobError::CoordinatorPanicked { reason }));
}

#[test]
fn a_changed_link_causes_a_rebalance() {
    let (told, places) = (Told::default(), Arc::default());
    let job = job(1, 1000, &told, &places)
        .strategy(Follow { to: 0 })
        .balance_gate(false)
        // A rebalance makes the runtime measure the places of nodes; then it watches links.
        .balance_every(Duration::from_secs(5));
    let spec = GridSpec::from_emulate("2x1,wan=5ms").unwrap();
    let spec = spec.with_change("at 10s link a-b latency=40ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();

    assert_eq!(report.outcome, Ok(()));
    let told = told.lock().unwrap();
    let moved = told.iter().find(|report| report.moved > 0).unwrap();
    assert_eq!((moved.cause, moved.moved), (Cause::Link, u64::from(WORKERS)), "{told:?}");
}

#[test]
fn the_first_rebalance_knows_the_round_trip_between_sites() {
    let (told, places, seen) = (Told::default(), Arc::default(), Arc::new(Mutex::new(Vec::new())));
    let notes = seen.clone();
    let job = job(1, 100, &told, &places)
        .strategy(Auto::default())
        .balance_every(Duration::from_secs(1))
        .on_snapshot(move |snapshot, _| {
            let places = snapshot.hierarchy.as_ref();
            let round_trip = places.and_then(|places| places.rtt(NodeId(0), NodeId(1)));
            notes.lock().unwrap().push(round_trip);
        });
    let spec = GridSpec::from_emulate("2x1,wan=5ms").unwrap();

    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();

    assert_eq!(report.outcome, Ok(()));
    let first = seen.lock().unwrap()[0].unwrap();
    assert!((first.as_secs_f64() - 0.010).abs() < 0.001, "{first:?}");
}

#[test]
fn a_main_that_asks_at_every_step_waits_for_futile_requests_for_a_small_part_of_the_time() {
    let step = 10 * WORK;
    // Returns the virtual time of the job, and how many times its strategy was asked.
    let run = |is_if_due: bool| {
        let told = Told::default();
        let asked = told.clone();
        let job = Job::new("asking")
            .actor::<Worker>()
            .strategy(Refine)
            .on_balance(move |report| asked.lock().unwrap().push(report.clone()))
            .main(async move |grid| {
                let workers = grid.create::<Worker>(Ix1::range(2), |_| 1).await?;
                workers.broadcast(Msg::Begin(1));
                for _ in 0..500 {
                    grid.sleep(step).await?;
                    let moved = match is_if_due {
                        true => grid.rebalance_if_due().await?,
                        false => grid.rebalance().await?,
                    };
                    assert_eq!(moved, 0);
                }
                Ok(())
            });
        let spec = GridSpec::from_emulate("2x1,wan=50ms").unwrap();
        let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
        report.outcome.unwrap();
        let asked = told.lock().unwrap().len();
        (report.virtual_time.since(Time::ZERO), asked)
    };

    let ((always, all), (paced, some)) = (run(false), run(true));

    // Each request takes a round trip of 100 ms.
    assert!(all == 500 && always > 500 * (step + 100 * WORK), "{all} requests in {always:?}");
    assert!((1..=3).contains(&some), "{some} requests");
    assert!(paced < 500 * step * 11 / 10, "{paced:?}");
}
