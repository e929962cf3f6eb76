//! Broadcasts without the total order: as quick from any node, and once for each member.
#![allow(missing_docs, clippy::unwrap_used)]

use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, PeId, Per, Time, To};
use gridspan_sim::{FaultPlan, SessionFaults, SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

/// What a [`Speaker`] is asked to send to all, and what they get.
#[derive(Clone, Serialize, Deserialize)]
enum Speech {
    Speak { bytes: usize },
    Heard { began: Time, bytes: Vec<u8> },
}

/// Broadcasts, and tells main after how many nanoseconds it got a broadcast.
#[derive(Serialize, Deserialize)]
struct Speaker;

impl Actor for Speaker {
    type Index = Ix1;
    type Init = ();
    type Message = Speech;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Speech, cx: &mut Context<'_, Self>) {
        match message {
            Speech::Speak { bytes } => {
                let (began, all) = (cx.now(), cx.collection());
                cx.broadcast_unordered(&all, Speech::Heard { began, bytes: vec![1; bytes] });
            }
            Speech::Heard { began, bytes } => {
                assert!(bytes.iter().all(|&byte| byte == 1));
                cx.contribute(Op::Max, cx.now().since(began).as_nanos() as u64, To::main());
            }
        }
    }
}

/// What each of some broadcasts from the node `root` takes until all members have it, in ms.
fn from_root_ms(spec: &GridSpec, root: u32, bytes: usize) -> Vec<f64> {
    let (out, results) = mpsc::channel();
    let job = Job::new("speakers").plan_broadcasts(false).actor::<Speaker>();
    let job = job.main(async move |grid| {
        let all = grid.create_group::<Speaker>(Per::Node, |_| ()).await?;
        for _ in 0..6 {
            all.member(Ix1(root as i32)).send(Speech::Speak { bytes });
            let took_ns: u64 = all.reduction(Op::Max).await?;
            out.send(took_ns as f64 / 1e6).map_err(|_| "nobody listens")?;
            grid.sleep(Duration::from_millis(100)).await?;
        }
        Ok(())
    });
    let report = Simulation::new(job, spec.clone(), SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    results.try_iter().collect()
}

#[test]
fn from_any_node_and_at_any_size_the_first_takes_as_long_as_from_the_root() {
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

/// Walks from PE to PE and broadcasts on its way.
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
                cx.broadcast_unordered(&all, Step::Heard { number });
                if left > 0 {
                    let pause = Duration::from_millis(u64::from(1 + (me * 7 + left * 5) % 11));
                    cx.send_after(pause, &cx.me(), Step::Walk { left: left - 1 });
                }
                let pes = cx.layout().pe_count();
                cx.migrate_to(PeId((me * 5 + left * 3 + left / 4) % pes));
            }
            Step::Heard { number } => {
                self.heard += 1;
                // Handling one twice and missing another does not give the same sum.
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
fn members_that_move_all_the_time_handle_each_broadcast_once() {
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
        let faults = FaultPlan {
            reorder: true,
            frame_delay: 0.2,
            delay_max: Duration::from_millis(40),
            sessions: Some(SessionFaults::default()),
            ..FaultPlan::default()
        };
        let options = SimOptions { seed, faults: Some(faults), ..SimOptions::default() };
        let spec = GridSpec::from_emulate("3x2,wan=8ms").unwrap();
        let report = Simulation::new(job, spec, options).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "seed {seed}");
        assert!(report.statistics.migrations > 100, "{}", report.statistics.migrations);
    }
}
