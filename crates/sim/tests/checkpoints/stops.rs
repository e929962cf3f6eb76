//! Stops of a job after a checkpoint, which the simulation orders at a time.

use crate::{every, grid};
use gridspan_runtime::{Actor, Context, Grid, Ix1, Job, Op, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Counter;

impl Actor for Counter {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

/// A job that marks a progress point in each of many rounds.
fn job() -> Job {
    let job = Job::new("rounds").actor::<Counter>().checkpoints(every(1_000_000));
    job.restartable_main(async |grid: Grid| {
        let counters = grid.create::<Counter>(Ix1::range(8), |_| ()).await?;
        for _ in 0..1_000 {
            counters.broadcast(());
            let count: u64 = counters.reduction(Op::Sum).await?;
            assert_eq!(count, 8);
            grid.progress(&()).await?;
        }
        Ok(())
    })
}

#[test]
fn an_order_to_stop_does_not_turn_back_the_time() {
    // Frames arrive about every half second, and nothing happens between them.
    for quarter in (5..20_u64).step_by(2) {
        let at = Time(quarter * 250_000_000);
        let options = SimOptions::with_seed(1).with_log(true);
        let simulation = Simulation::new(job(), grid("2x1,wan=500ms"), options).unwrap();
        let halted = simulation.pausing_at(at, Vec::new()).run_until(Time(60_000_000_000)).unwrap();

        assert!(halted.is_paused && halted.report.virtual_time > at, "{at}");
        assert!(halted.report.log.is_sorted_by_key(|entry| entry.time), "{at}");
    }
}
