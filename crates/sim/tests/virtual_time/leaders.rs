//! Rebalances that the leaders of the sites plan, in virtual time.

use gridspan_balance::{BalanceReport, Cause, LeaderCut, StrategyName};
use gridspan_runtime::{
    Actor, Context, Ix1, Ix2, Job, JobError, Key, Layout, Op, PeId, Placement, PlacementMap, Time,
    To,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIDE: u32 = 12;
const WORK: Duration = Duration::from_micros(100);

/// A cell of a mesh that exchanges values with its neighbours in steps.
#[derive(Serialize, Deserialize)]
struct Cell {
    left: u32,
    heard: u64,
    sum: u64,
    /// Factor by which the work takes longer on PEs other than PE 0.
    factor: u32,
    /// Number of steps between its sync points; 0 for none.
    sync_every: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Begin(u32),
    BeginSyncing { steps: u32, every: u32 },
    Value(u64),
    Sum,
    Place,
}

impl Cell {
    fn neighbours(index: Ix2) -> impl Iterator<Item = Ix2> {
        let side = SIDE as i32;
        let all = [(-1, 0), (1, 0), (0, -1), (0, 1)].map(|(x, y)| Ix2(index.0 + x, index.1 + y));
        all.into_iter().filter(move |at| (0..side).contains(&at.0) && (0..side).contains(&at.1))
    }

    /// Executes all steps whose inputs have arrived; a neighbour is at most one step ahead.
    fn advance(&mut self, cx: &mut Context<'_, Self>) {
        let due = Self::neighbours(cx.index()).count() as u64;
        while self.heard >= due && self.left > 0 {
            self.heard -= due;
            self.left -= 1;
            cx.charge(if cx.pe() == PeId(0) { WORK } else { WORK * self.factor });
            if self.sync_every > 0 && self.left.is_multiple_of(self.sync_every) {
                return cx.at_sync();
            }
            if self.left > 0 {
                self.send(cx);
            }
        }
    }

    fn send(&self, cx: &mut Context<'_, Self>) {
        for neighbour in Self::neighbours(cx.index()) {
            let to = cx.collection().at(neighbour);
            cx.send(&to, Msg::Value(u64::from(self.left)));
        }
    }
}

impl Actor for Cell {
    type Index = Ix2;
    type Init = u32;
    type Message = Msg;

    fn create(factor: u32, _cx: &mut Context<'_, Self>) -> Self {
        Self { left: 0, heard: 0, sum: 0, factor, sync_every: 0 }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Begin(steps) => {
                self.left = steps;
                self.send(cx);
            }
            Msg::BeginSyncing { steps, every } => {
                (self.left, self.sync_every) = (steps, every);
                self.send(cx);
            }
            Msg::Value(value) => {
                self.sum += value;
                self.heard += 1;
                self.advance(cx);
            }
            Msg::Sum => cx.contribute(Op::Sum, self.sum, To::main()),
            Msg::Place => {
                let at = u64::from(cx.pe().0) + 1;
                let index = cx.index();
                let number = (index.0 * SIDE as i32 + index.1 + 1) as u64;
                cx.contribute(Op::Sum, at * number * number, To::main());
            }
        }
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        match self.left {
            0 => cx.contribute(Op::Sum, self.sum, To::main()),
            _ => {
                self.send(cx);
                self.advance(cx);
            }
        }
    }
}

type Told = Arc<Mutex<Vec<BalanceReport>>>;

/// Results of a run.
struct Outcome {
    report: SimReport,
    told: Vec<BalanceReport>,
    /// A hash of the places of all members.
    places: u64,
}

/// Runs phases of these numbers of steps, with a requested rebalance after each. `place` gives the
/// initial places of members.
fn run(
    emulate: &str,
    factor: u32,
    phases: Vec<u32>,
    place: fn(Key, &Layout) -> PeId,
    change: impl Fn(Job) -> Job,
) -> Outcome {
    let (told, places) = (Told::default(), Arc::new(Mutex::new(0)));
    let (tell, leave) = (told.clone(), places.clone());
    let given = PlacementMap::new("given", place);
    let job = Job::new("mesh")
        .actor::<Cell>()
        .strategy(LeaderCut::default())
        .placement(given)
        .on_balance(move |report| tell.lock().unwrap().push(report.clone()))
        .main(async move |grid| {
            let given = Placement::Custom(given);
            let cells =
                grid.create_placed::<Cell>(given, Ix2::grid(SIDE, SIDE), |_| factor).await?;
            let mut expected = 0;
            for &steps in &phases {
                cells.broadcast(Msg::Begin(steps));
                grid.quiescence().await?;
                grid.rebalance().await?;
                // 528 ordered pairs of neighbours, times the sum of the step numbers.
                expected += u64::from(4 * SIDE * (SIDE - 1)) * u64::from(steps * (steps + 1) / 2);
            }
            cells.broadcast(Msg::Sum);
            let sum: u64 = cells.reduction(Op::Sum).await?;
            cells.broadcast(Msg::Place);
            *leave.lock().unwrap() = cells.reduction(Op::Sum).await?;
            match sum == expected {
                true => Ok(()),
                false => Err(JobError::Failed(format!("{sum} instead of {expected}"))),
            }
        });
    let spec = GridSpec::from_emulate(emulate).unwrap();
    let report = Simulation::new(change(job), spec, SimOptions::default()).unwrap().run();
    report.outcome.clone().unwrap();
    let told = std::mem::take(&mut *told.lock().unwrap());
    let places = *places.lock().unwrap();
    Outcome { report, told, places }
}

fn anywhere(key: Key, _: &Layout) -> PeId {
    let mixed = ((key.0 ^ (key.0 >> 64)) as u64 ^ (key.0 >> 32) as u64).wrapping_add(1);
    PeId((mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32 % 6)
}

#[test]
fn leaders_of_three_sites_cut_a_graph_that_none_of_them_holds() {
    let first = run("3x2,wan=5ms", 1, vec![20, 20], anywhere, |job| job);
    let second = run("3x2,wan=5ms", 1, vec![20, 20], anywhere, |job| job);

    let moved = first
        .told
        .iter()
        .find(|report| report.moved > 0)
        .unwrap_or_else(|| panic!("{:?}", first.told));
    // Three strips of four columns have two borders of 12 pairs, with two messages per pair.
    assert!(moved.before.messages > 250, "{moved:?}");
    assert!(moved.after.messages <= 2 * 24 + 24, "{moved:?}");
    assert_eq!(first.report.log_hash, second.report.log_hash, "the same seed, the same run");
    assert_eq!(first.told, second.told);
}

#[test]
fn leaders_move_the_same_actors_as_one_planner_with_all_loads() {
    let led = run("3x2,wan=5ms", 1, vec![20], anywhere, |job| job);
    // With a snapshot callback, the coordinator has all loads and plans alone.
    let alone = run("3x2,wan=5ms", 1, vec![20], anywhere, |job| job.on_snapshot(|_, _| ()));

    assert!(led.told[0].moved > 50, "{:?}", led.told);
    assert_eq!(led.told[0].moved, alone.told[0].moved);
    assert_eq!(led.places, alone.places);
}

#[test]
fn leaders_cut_about_as_well_as_grid_cut() {
    let after = |strategy: &'static str| {
        let outcome = run("3x2,wan=5ms", 1, vec![20], anywhere, |job| {
            job.strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        });
        outcome.told[0].after.messages
    };

    let (led, whole) = (after("leader-cut"), after("grid-cut"));

    assert!(whole > 0 && led <= whole + whole / 4, "{led} messages, {whole} with grid-cut");
}

#[test]
fn a_plan_of_leaders_that_slows_the_job_is_undone() {
    // The strategy expects a gain from three more PEs, but work takes ten times as long there.
    let every = |job: Job| job.balance_every(Duration::from_millis(200));
    let outcome = run("2x2,wan=1ms", 10, vec![150], |_, _| PeId(0), every);

    let moved: Vec<_> = outcome.told.iter().filter(|report| report.moved > 0).collect();
    let [mistake, undone, ..] = moved.as_slice() else { panic!("{:?}", outcome.told) };
    assert!(mistake.predicted.unwrap() > 0.3 && mistake.realised.unwrap() < -0.5, "{mistake:?}");
    assert_eq!((undone.cause, undone.moved), (Cause::Undo, mistake.moved));
}

#[test]
fn nothing_is_lost_while_leaders_move_actors_again_and_again() {
    let often = |job: Job| job.balance_gate(false).balance_every(Duration::from_millis(20));
    let outcome = run("3x2,wan=3ms", 3, vec![60, 60, 60], anywhere, often);

    let moves: u64 = outcome.told.iter().map(|report| report.moved).sum();
    let plans = outcome.told.iter().filter(|report| report.moved > 0).count();
    assert!(plans > 5 && moves > 200, "{plans} plans moved {moves}");
}

/// Time of 40 steps, with a sync point after `every` of them, and the reports.
fn synced(every: u32) -> (Duration, Vec<BalanceReport>) {
    let told = Told::default();
    let tell = told.clone();
    let job = Job::new("mesh")
        .actor::<Cell>()
        .strategy(LeaderCut::default())
        .on_balance(move |report| tell.lock().unwrap().push(report.clone()))
        .main(async move |grid| {
            let cells = grid.create::<Cell>(Ix2::grid(SIDE, SIDE), |_| 1).await?;
            cells.broadcast(Msg::BeginSyncing { steps: 40, every });
            cells.reduction::<u64>(Op::Sum).await?;
            Ok(())
        });
    let spec = GridSpec::from_emulate("2x2,wan=64ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    report.outcome.unwrap();
    let told = std::mem::take(&mut *told.lock().unwrap());
    (report.virtual_time.since(Time::ZERO), told)
}

#[test]
fn after_the_first_sync_point_members_do_not_wait_for_distant_leaders() {
    let (seldom, _) = synced(20);
    let (often, told) = synced(5);

    assert!(!told.is_empty() && told.iter().all(|report| report.cause == Cause::SyncPoint));
    let half_a_round_trip = Duration::from_millis(64);
    assert!(often <= seldom + half_a_round_trip, "{often:?} instead of {seldom:?}");
}

#[test]
fn rebalances_requested_while_a_plan_is_judged_or_undone_are_answered() {
    // The first plan is a mistake. A rebalance is requested at the end of each phase, while
    // periodic ones continue.
    let every = |job: Job| job.balance_every(Duration::from_millis(50));
    let outcome = run("2x2,wan=1ms", 10, vec![20; 12], |_, _| PeId(0), every);

    let of = |cause| outcome.told.iter().filter(|report| report.cause == cause).count();
    assert!(of(Cause::Undo) >= 1, "{:?}", outcome.told);
    let undone = outcome.told.iter().find(|report| report.cause == Cause::Undo).unwrap();
    assert_eq!(undone.after.messages, 0, "all were on one PE before: {undone:?}");
}

#[test]
fn a_site_without_actors_has_a_leader_too() {
    let outcome = run("3x2,wan=1ms", 1, vec![20, 20], |_, _| PeId(2), |job| job);

    assert!(outcome.told[0].actors == u64::from(SIDE * SIDE), "{:?}", outcome.told);
}

/// One of very many actors that do nothing.
#[derive(Serialize, Deserialize)]
struct Idle;

impl Actor for Idle {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {}
}

#[test]
fn leaders_report_very_many_actors_in_several_pieces() {
    const MANY: u32 = 60_000;
    let told = Told::default();
    let tell = told.clone();
    let job = Job::new("many")
        .actor::<Idle>()
        .strategy(LeaderCut::default())
        .balance_gate(false)
        .on_balance(move |report| tell.lock().unwrap().push(report.clone()))
        .main(async |grid| {
            grid.create::<Idle>(Ix1::range(MANY), |_| ()).await?;

            grid.quiescence().await?;
            grid.rebalance().await?;
            Ok(())
        });
    let spec = GridSpec::from_emulate("2x2,wan=5ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    report.outcome.unwrap();

    assert_eq!(told.lock().unwrap()[0].actors, u64::from(MANY));
}
