//! Balancing while the job runs, on threads and over QUIC.

use gridspan_balance::{BalanceReport, Cause, Refine};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, PeId, Placement, PlacementMap, To};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WORKERS: u32 = 16;
const HOPS: u32 = 400;
const WORK: Duration = Duration::from_micros(200);

/// Exchanges a token with a neighbour, and computes each time.
#[derive(Serialize, Deserialize)]
struct Worker {
    hops: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Token(u32),
    Hops,
}

impl Actor for Worker {
    type Index = Ix1;
    type Init = ();
    type Message = Msg;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { hops: 0 }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Token(left) => {
                let begin = Instant::now();
                while begin.elapsed() < WORK {
                    std::hint::black_box(0);
                }
                self.hops += 1;
                if left > 1 {
                    let neighbour = cx.collection().at(Ix1(cx.index().0 ^ 1));
                    cx.send(&neighbour, Msg::Token(left - 1));
                }
            }
            Msg::Hops => cx.contribute(Op::Sum, self.hops, To::main()),
        }
    }
}

const FIRST: PlacementMap = PlacementMap::new("first", |_, _| PeId(0));

fn job(told: &Arc<Mutex<Vec<BalanceReport>>>) -> Job {
    let told = told.clone();
    Job::new("workers")
        .actor::<Worker>()
        .placement(FIRST)
        .strategy(Refine)
        .balance_every(Duration::from_millis(100))
        .on_balance(move |report| told.lock().unwrap().push(report.clone()))
        .main(async |grid| {
            let first = Placement::Custom(FIRST);
            let workers = grid.create_placed::<Worker>(first, Ix1::range(WORKERS), |_| ()).await?;
            workers.broadcast(Msg::Token(HOPS));
            grid.quiescence().await?;
            workers.broadcast(Msg::Hops);
            let sum: u64 = workers.reduction(Op::Sum).await?;
            match sum == u64::from(WORKERS * HOPS) {
                true => Ok(()),
                false => Err(JobError::Failed(format!("{sum} hops"))),
            }
        })
}

#[test]
fn actors_leave_a_loaded_pe_at_a_periodic_rebalance() {
    let told = Arc::default();

    embedded::run(job(&told), 2).unwrap();

    let told = told.lock().unwrap();
    let first = told.iter().find(|report| report.moved > 0).unwrap();
    assert_eq!(first.cause, Cause::Period, "{told:?}");
    // The predicted saving depends on the load of the machine.
    assert!(first.predicted.unwrap() > 0.01 && first.took > Duration::ZERO, "{first:?}");
}

#[cfg(feature = "net")]
#[test]
fn actors_move_to_an_idle_node() {
    let told = Arc::default();
    let spec = gridspan_topology::GridSpec::from_emulate("1x2").unwrap();

    embedded::run_emulated(job(&told), &spec).unwrap();

    let told = told.lock().unwrap();
    assert!(told.iter().any(|report| report.moved > 0), "{told:?}");
}

#[cfg(feature = "net")]
#[test]
fn leaders_of_sites_plan_over_quic() {
    let told = Arc::default();
    let spec = gridspan_topology::GridSpec::from_emulate("2x1,wan=1ms").unwrap();

    // The gate is off: on a busy machine planning may take so long that the gate would refuse the
    // plan.
    let job = job(&told).strategy(gridspan_balance::LeaderCut::default()).balance_gate(false);
    embedded::run_emulated(job, &spec).unwrap();

    let told = told.lock().unwrap();
    assert!(told.iter().any(|report| report.moved > 0), "{told:?}");
}
