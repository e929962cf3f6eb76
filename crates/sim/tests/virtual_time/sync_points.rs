//! Sync points cost little time: members wait only at the first.

use gridspan_balance::StrategyName;
use gridspan_runtime::{Actor, CollectionRef, Context, Ix1, Job, Op, Time, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MEMBERS: i32 = 48;
const STEPS: u32 = 160;

/// Computes once in each step, from its neighbours' values of the step before.
#[derive(Serialize, Deserialize)]
struct Point {
    step: u32,
    sync_every: u32,
    /// Number of values that have arrived for this step and for the next.
    heard: [u32; 2],
    /// Whether it has sent its value of this step to its neighbours.
    has_sent: bool,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Start,
    Value(u32),
}

impl Point {
    fn send(&mut self, cx: &mut Context<'_, Self>) {
        self.has_sent = true;
        for neighbour in [cx.index().0 + 1, cx.index().0 + MEMBERS - 1] {
            let to = cx.collection().at(Ix1(neighbour % MEMBERS));
            cx.send(&to, Msg::Value(self.step));
        }
    }

    fn advance(&mut self, cx: &mut Context<'_, Self>) {
        while self.has_sent && self.heard[0] == 2 {
            cx.charge(Duration::from_micros(20));
            self.step += 1;
            self.heard = [self.heard[1], 0];
            self.has_sent = false;
            if self.step == STEPS {
                return cx.contribute(Op::Sum, 1_u64, To::main());
            }
            if self.sync_every > 0 && self.step.is_multiple_of(self.sync_every) {
                return cx.at_sync();
            }
            self.send(cx);
        }
    }
}

impl Actor for Point {
    type Index = Ix1;
    type Init = u32;
    type Message = Msg;

    fn create(sync_every: u32, _cx: &mut Context<'_, Self>) -> Self {
        Self { step: 0, sync_every, heard: [0; 2], has_sent: false }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Start => self.send(cx),
            Msg::Value(step) => self.heard[(step - self.step) as usize] += 1,
        }
        self.advance(cx);
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.send(cx);
        self.advance(cx);
    }
}

/// Time of all steps on 18 PEs at three sites that are 2 ms apart.
fn steps(strategy: &'static str, sync_every: u32) -> Duration {
    let job = Job::new("ring")
        .actor::<Point>()
        .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        .main(async move |grid| {
            let points = grid.create::<Point>(Ix1::range(MEMBERS as u32), |_| sync_every).await?;
            points.broadcast(Msg::Start);
            assert_eq!(points.reduction::<u64>(Op::Sum).await?, MEMBERS as u64);
            Ok(())
        });
    let spec = GridSpec::from_emulate("3x6,wan=2ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    report.outcome.unwrap();
    report.virtual_time.since(Time::ZERO)
}

#[test]
fn without_a_strategy_sync_points_take_no_time() {
    let without = steps("none", 0);

    for every in [1, 8] {
        assert_eq!(steps("none", every), without, "a sync point after each {every}");
    }
}

#[test]
fn strategies_that_move_nothing_cost_one_barrier() {
    let without = steps("none", 0);
    let round_trip = Duration::from_millis(4);

    for strategy in ["refine", "leader-cut", "auto"] {
        for every in [1, 8] {
            let with = steps(strategy, every);
            // Members are gathered and released, and loads are measured in between.
            let most = without.mul_f64(1.001) + 2 * round_trip + round_trip / 4;
            assert!(with <= most, "{strategy}, after each {every}: {with:?}, {without:?} without");
        }
    }
}

/// Counts the runners that have ended.
#[derive(Serialize, Deserialize)]
struct Count(u64);

#[derive(Clone, Serialize, Deserialize)]
enum CountMsg {
    Ended,
    Tell,
}

impl Actor for Count {
    type Index = Ix1;
    type Init = ();
    type Message = CountMsg;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self(0)
    }

    fn handle(&mut self, message: CountMsg, cx: &mut Context<'_, Self>) {
        match message {
            CountMsg::Ended => self.0 += 1,
            CountMsg::Tell => cx.contribute(Op::Sum, self.0, To::main()),
        }
    }
}

/// Goes from sync point to sync point, at a speed that depends on its index. If it ends early, it
/// is destroyed.
#[derive(Serialize, Deserialize)]
struct Runner {
    left: u32,
    /// Number of remaining sync points at which it inserts a successor, which also passes the
    /// remaining ones.
    inserts_at: u32,
    /// Number of remaining sync points at which it ends.
    ends_at: u32,
    count: CollectionRef<Count>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Run;

impl Runner {
    fn run(&mut self, cx: &mut Context<'_, Self>) {
        let index = cx.index().0;
        cx.charge(Duration::from_micros(300) * (index % 3 + 1) as u32);
        if self.left == self.ends_at {
            cx.send(&self.count.at(Ix1(0)), CountMsg::Ended);
            return if self.ends_at > 0 {
                cx.destroy()
            };
        }
        self.left -= 1;
        cx.at_sync();
        if self.left == self.inserts_at {
            // This runner may now be ahead of the others by the largest possible number of sync
            // points.
            let successor = cx.collection().at(Ix1(index + 100));
            cx.insert(&successor, (self.left, u32::MAX, 0, self.count));
            cx.send(&successor, Run);
        }
    }
}

impl Actor for Runner {
    type Index = Ix1;
    type Init = (u32, u32, u32, CollectionRef<Count>);
    type Message = Run;

    fn create(init: Self::Init, _cx: &mut Context<'_, Self>) -> Self {
        let (left, inserts_at, ends_at, count) = init;
        Self { left, inserts_at, ends_at, count }
    }

    fn handle(&mut self, _: Run, cx: &mut Context<'_, Self>) {
        self.run(cx);
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.run(cx);
    }
}

#[test]
fn members_that_are_inserted_or_end_between_sync_points_stall_no_others() {
    const RUNNERS: u32 = 6;
    const SYNCS: u32 = 40;
    for (inserts_at, ends_at) in [(39, 0), (30, 0), (30, 28), (20, 0), (20, 15), (3, 1), (1, 0)] {
        for strategy in ["none", "refine", "rotate", "leader-cut"] {
            let job = Job::new("runners")
                .actor::<Runner>()
                .actor::<Count>()
                .strategy(strategy.parse::<StrategyName>().expect("it is a name"));
            let job = job.main(async move |grid| {
                let count = grid.create::<Count>(Ix1::range(1), |_| ()).await?;
                let to = count.reference();
                let init = move |_| (SYNCS, inserts_at, ends_at, to);
                let runners = grid.create::<Runner>(Ix1::range(RUNNERS), init).await?;
                runners.broadcast(Run);
                grid.quiescence().await?;
                count.broadcast(CountMsg::Tell);
                let ended = count.reduction::<u64>(Op::Sum).await?;
                assert_eq!(ended, 2 * u64::from(RUNNERS), "{strategy} {inserts_at} {ends_at}");
                Ok(())
            });
            let spec = GridSpec::from_emulate("2x2,wan=5ms").unwrap();
            let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
            assert_eq!(report.outcome, Ok(()), "{strategy} {inserts_at} {ends_at}");
        }
    }
}
