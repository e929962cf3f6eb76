//! The gate compares the lengths of steps before and after a plan, in virtual time, and leaves out
//! main's pauses between steps.

use gridspan_balance::{BalanceReport, Cause, StrategyName};
use gridspan_runtime::{
    Actor, ActorIndex as _, Context, Ix1, Job, Op, PeId, Placement, PlacementMap, To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ROWS: i32 = 24;
const STEPS: usize = 60;
const PAUSE: Duration = Duration::from_millis(50);

/// A row of a mesh, which computes once it has received its neighbours' edges.
#[derive(Serialize, Deserialize)]
struct Row {
    work: Duration,
    step: u32,
    /// Number of messages received for the current step and for the next, by the step's parity.
    heard: [usize; 2],
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Step,
    Edge(u32),
}

impl Actor for Row {
    type Index = Ix1;
    type Init = Duration;
    type Message = Msg;

    fn create(work: Duration, _cx: &mut Context<'_, Self>) -> Self {
        Self { work, step: 0, heard: [0, 0] }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        let here = cx.index().0;
        let neighbours = [here - 1, here + 1].into_iter().filter(|at| (0..ROWS).contains(at));
        let step = match message {
            Msg::Edge(step) => step,
            Msg::Step => {
                self.step += 1;
                for at in neighbours.clone() {
                    cx.send(&cx.collection().at(Ix1(at)), Msg::Edge(self.step));
                }
                self.step
            }
        };
        let heard = &mut self.heard[step as usize % 2];
        *heard += 1;
        if *heard == 1 + neighbours.count() {
            *heard = 0;
            cx.charge(self.work);
            cx.contribute(Op::Sum, 1_u64, To::main());
        }
    }
}

/// Places 9 of a site's 12 rows on its first PE, the others on its second.
const UNEVEN: PlacementMap = PlacementMap::new("uneven", |key, _| {
    let row = Ix1::from_key(key).0;
    PeId(2 * (row as u32 / 12) + u32::from(row % 12 >= 9))
});

/// Runs steps with a pause before each but the first, on 2 sites of 2 PEs, where the first PE has 9
/// of a site's 12 rows. Returns the reports, and the time of the last step.
fn run(strategy: &str, every: Duration) -> (Vec<BalanceReport>, Duration) {
    let (told, last) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Duration::ZERO)));
    let (notes, took) = (told.clone(), last.clone());
    let job = Job::new("rows")
        .actor::<Row>()
        .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        .balance_every(every)
        .placement(UNEVEN)
        .on_balance(move |report| notes.lock().unwrap().push(report.clone()))
        .main(async move |grid| {
            let uneven = Placement::Custom(UNEVEN);
            let work = |_| Duration::from_millis(4);
            let rows = grid.create_placed::<Row>(uneven, Ix1::range(ROWS as u32), work).await?;
            for step in 0..STEPS {
                if step > 0 {
                    grid.sleep(PAUSE).await?;
                }
                let begin = grid.now().await?;
                rows.broadcast(Msg::Step);
                let heard: u64 = rows.reduction(Op::Sum).await?;
                assert_eq!(heard, ROWS as u64);
                *took.lock().unwrap() = grid.now().await?.since(begin);
            }
            Ok(())
        });
    let spec = GridSpec::from_emulate("2x2,wan=5ms").unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    report.outcome.unwrap();
    let (told, last) = (std::mem::take(&mut *told.lock().unwrap()), *last.lock().unwrap());
    (told, last)
}

#[test]
fn a_plan_that_shortens_steps_is_kept_however_long_main_pauses() {
    // Windows that end before the first pause, in it, and after several.
    for every_ms in [45, 60, 75, 110, 160, 300] {
        let (told, last) = run("refine", Duration::from_millis(every_ms));

        let first = told.iter().find(|report| report.moved > 0);
        let first = first.unwrap_or_else(|| panic!("every {every_ms} ms: {told:#?}"));
        // A step becomes shorter, from 46 ms to 34 ms.
        let (predicted, realised) = (first.predicted.unwrap(), first.realised.unwrap());
        assert!(predicted > 0.1 && realised > 0.05, "every {every_ms} ms: {first}");
        assert!(told.iter().all(|report| report.cause != Cause::Undo), "every {every_ms} ms");
        // A PE has 9 rows of 4 ms at first, and 6 at best.
        assert!(last < Duration::from_millis(36), "every {every_ms} ms: {last:?}");
    }
}
