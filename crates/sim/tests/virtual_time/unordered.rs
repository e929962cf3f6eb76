//! Unordered broadcasts are equally fast from every node, and each member handles each one once.

use crate::common::speaker::times_ms;
use gridspan_bcast::Mode;
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, PeId, To, Unordered};
use gridspan_sim::{FaultPlan, SessionFaults, SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time of each of six broadcasts from the node `root` until all members have it, in ms.
fn from_root_ms(spec: &GridSpec, root: u32, bytes: usize) -> Vec<f64> {
    let job = Job::new("speakers").broadcasts(Mode::Layout);
    times_ms(job, spec, root, (bytes, false), 6)
}

#[test]
fn broadcasts_of_any_size_take_as_long_from_any_node_as_from_node_0() {
    for name in ["4x2,wan=10ms,rate=50mbit", "3x3,wan=20ms,rate=100mbit", "2x1,wan=5ms,rate=20mbit"]
    {
        let spec = GridSpec::from_emulate(name).unwrap();
        let nodes = spec.layout().node_count();
        for bytes in [8, 10_000, 100_000, 1_000_000] {
            let first_ms = from_root_ms(&spec, 0, bytes);
            for root in [1, nodes - 1] {
                let times_ms = from_root_ms(&spec, root, bytes);
                for (one, other) in times_ms.iter().zip(&first_ms) {
                    assert!(
                        *one <= 1.1 * other,
                        "{name}, {bytes} bytes from node {root}: {times_ms:?} ms, {first_ms:?}"
                    );
                }
            }
        }
    }
}

const MEMBERS: u32 = 10;
const WALKS: u32 = 20;

/// Migrates from PE to PE and broadcasts on its way.
#[derive(Serialize, Deserialize)]
struct RandomActor {
    heard: u64,
    sum: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Step {
    Walk { left: u32 },
    Heard { number: u64 },
    Tell,
}

impl Actor for RandomActor {
    type Index = Ix1;
    type Init = ();
    type Message = Step;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { heard: 0, sum: 0 }
    }

    fn handle(&mut self, message: Step, cx: &mut Context<'_, Self>) {
        match message {
            Step::Walk { left } => {
                let (me, all) = (cx.index().0 as u32, cx.collection());
                let number = u64::from(me * WALKS + left) + 1;
                cx.broadcast_with(Unordered, &all, Step::Heard { number });
                if left > 0 {
                    let pause = Duration::from_millis(u64::from(1 + (me * 7 + left * 5) % 11));
                    cx.send_after(pause, &cx.me(), Step::Walk { left: left - 1 });
                }
                let pes = cx.layout().pe_count();
                cx.migrate_to(PeId((me * 5 + left * 3 + left / 4) % pes));
            }
            Step::Heard { number } => {
                self.heard += 1;
                // Handling one twice and missing another would change the sum.
                self.sum = self.sum.wrapping_add(number.wrapping_mul(number));
            }
            Step::Tell => {
                cx.contribute(Op::Sum, self.heard, To::main());
                cx.contribute(Op::Max, self.sum, To::main());
                cx.contribute(Op::Min, self.sum, To::main());
            }
        }
    }
}

#[test]
fn members_that_keep_moving_handle_each_broadcast_once() {
    for seed in 0..4 {
        let job = Job::new("random actors").actor::<RandomActor>().main(async move |grid| {
            let all = grid.create::<RandomActor>(Ix1::range(MEMBERS), |_| ()).await?;
            for index in 0..MEMBERS as i32 {
                all.member(Ix1(index)).send(Step::Walk { left: WALKS - 1 });
            }
            grid.quiescence().await?;
            all.broadcast(Step::Tell);
            let heard: u64 = all.reduction(Op::Sum).await?;
            let most: u64 = all.reduction(Op::Max).await?;
            let least: u64 = all.reduction(Op::Min).await?;
            let sent = u64::from(MEMBERS * WALKS);
            let sum: u64 = (1..=sent).map(|number| number * number).sum();
            match (heard, most, least) == (sent * u64::from(MEMBERS), sum, sum) {
                true => Ok(()),
                false => Err(JobError::Failed(format!("{heard} heard; {most}, {least}, {sum}"))),
            }
        });
        let faults = FaultPlan::default()
            .with_reorder(true)
            .with_frame_delay(0.2)
            .with_delay_max(Duration::from_millis(40))
            .with_sessions(SessionFaults::default());
        let options = SimOptions::with_seed(seed).with_faults(faults);
        let spec = GridSpec::from_emulate("3x2,wan=8ms").unwrap();
        let report = Simulation::new(job, spec, options).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "seed {seed}");
        assert!(report.statistics.migrations > 100, "{}", report.statistics.migrations);
    }
}
