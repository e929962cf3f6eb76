//! A slower processor in real time: the balancer gives each PE work for the same time.
#![cfg(feature = "net")]
#![allow(missing_docs, clippy::unwrap_used)]

use gridspan_balance::{Greedy, Snapshot};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, Op, To};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

const ACTORS: u32 = 12;
/// Number of times that speeds are measured: other programs disturb some measurements.
const ATTEMPTS: u32 = 3;

/// Computes the same amount for each message.
#[derive(Serialize, Deserialize)]
struct Worker;

impl Actor for Worker {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        let mut state = 1_u64;
        for _ in 0..100_000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005) + 1);
        }
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

/// Runs a job on a PE and one of a third of its speed, and returns the last snapshot.
fn balanced() -> Snapshot {
    let last: Arc<Mutex<Option<Snapshot>>> = Arc::default();
    let seen = last.clone();
    let job = Job::new("speeds")
        .actor::<Worker>()
        .strategy(Greedy)
        .balance_gate(false)
        .on_snapshot(move |snapshot, _| *seen.lock().unwrap() = Some(snapshot.clone()))
        .main(async |grid| {
            let workers = grid.create::<Worker>(Ix1::range(ACTORS), |_| ()).await?;
            // The last snapshot comes after two rebalances.
            for _ in 0..3 {
                for _ in 0..20 {
                    workers.broadcast(());
                    let _: u64 = workers.reduction(Op::Sum).await?;
                }
                grid.rebalance().await?;
            }
            Ok(())
        });
    let spec = GridSpec::from_emulate("1x2,speed=1:1/3").unwrap();
    embedded::run_emulated(job, &spec).unwrap();
    let last = last.lock().unwrap().clone();
    last.unwrap()
}

#[test]
fn two_pes_of_different_speed_share_actors_by_the_best_of_all_divisions() {
    // The time of the PE that finishes last, by the number of actors on the slow PE.
    let takes = |slow: u32| (ACTORS - slow).max(3 * slow);
    let best = (0..=ACTORS).min_by_key(|&slow| takes(slow)).unwrap();
    let on_slow = |it: &Snapshot| it.actors.iter().filter(|actor| actor.pe.0 == 1).count() as u32;
    // Allow a difference of one, since other programs may have disturbed the measurements.
    let is_best = |it: &Snapshot| on_slow(it).abs_diff(best) <= 1;
    let mut last = balanced();
    for _ in 1..ATTEMPTS {
        if !is_best(&last) {
            last = balanced();
        }
    }
    let slow = on_slow(&last);
    assert!(is_best(&last), "{slow} and not {best} on the slow PE: {:?}", last.pes);
}
