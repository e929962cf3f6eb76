//! Periodic balancing prevents neither quiescence nor the detection of a stall.

use gridspan_balance::Refine;
use gridspan_runtime::{Actor, Context, Ix1, Job, Op, To};
use gridspan_sim::{Ending, SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Cell;

#[derive(Clone, Serialize, Deserialize)]
enum Order {
    /// Pass this order on from member to member, this number of times.
    Pass(u32),
    Contribute,
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = Order;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        match order {
            Order::Pass(0) => {}
            Order::Pass(left) => {
                cx.charge(Duration::from_millis(1));
                let next = cx.collection().at(Ix1((cx.index().0 + 1) % CELLS as i32));
                cx.send(&next, Order::Pass(left - 1));
            }
            Order::Contribute => cx.contribute(Op::Sum, 1_u64, To::main()),
        }
    }
}

const CELLS: u32 = 12;

fn run(job: Job, grid: &str, every: Duration) -> SimReport {
    let job = job.actor::<Cell>().strategy(Refine).balance_every(every);
    let spec = GridSpec::from_emulate(grid).unwrap();
    let options = SimOptions::default().with_time_limit(Duration::from_secs(600));
    Simulation::new(job, spec, options).unwrap().run()
}

#[test]
fn an_idle_job_becomes_quiescent_however_often_it_is_balanced() {
    for (grid, every_ms) in [("2x1,wan=100ms", 50), ("3x2,wan=30ms", 1), ("2x2x2,wan=5ms", 1000)] {
        let (out, results) = mpsc::channel();
        let job = Job::new("rest").main(async move |grid| {
            let cells = grid.create::<Cell>(Ix1::range(CELLS), |_| ()).await?;
            for rest in [0, 3] {
                cells.broadcast(Order::Pass(20));
                grid.sleep(Duration::from_secs(rest)).await?;
                let begin = grid.now().await?;
                grid.quiescence().await?;
                out.send(grid.now().await?.since(begin)).map_err(|_| "the test has ended")?;
            }
            Ok(())
        });

        let report = run(job, grid, Duration::from_millis(every_ms));

        assert_eq!(report.outcome, Ok(()), "{grid}");
        let waited: Vec<Duration> = results.try_iter().collect();
        assert!(waited.iter().all(|&time| time < Duration::from_secs(8)), "{grid}: {waited:?}");
        assert!(waited[1] < Duration::from_secs(2), "{grid}: {waited:?}");
    }
}

#[test]
fn a_stalled_job_is_detected_although_it_is_balanced() {
    for every in [Duration::from_secs(1), Duration::from_millis(20)] {
        let job = Job::new("stall").main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(CELLS), |_| ()).await?;
            cells.member(Ix1(1)).send(Order::Contribute);
            let _: u64 = cells.reduction(Op::Sum).await?;
            Ok(())
        });

        let report = run(job, "2x1,wan=100ms", every);

        assert_eq!(report.ending, Ending::Stalled, "every {every:?}");
    }
}
