//! An actor that broadcasts, and the times of its broadcasts.

use bytes::Bytes;
use gridspan_runtime::{Actor, Context, Ix1, Job, Op, Per, Time, To, Unordered};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

/// A command to a [`Speaker`], and the message that it broadcasts.
#[derive(Clone, Serialize, Deserialize)]
pub enum Speech {
    Speak { bytes: usize, is_ordered: bool },
    Heard { began: Time, bytes: Bytes },
}

/// Broadcasts, and reports to main the time in nanoseconds until each broadcast reached this
/// member.
#[derive(Serialize, Deserialize)]
pub struct Speaker;

impl Actor for Speaker {
    type Index = Ix1;
    type Init = ();
    type Message = Speech;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Speech, cx: &mut Context<'_, Self>) {
        match message {
            Speech::Speak { bytes, is_ordered } => {
                let (began, all) = (cx.now(), cx.collection());
                let speech = Speech::Heard { began, bytes: vec![1; bytes].into() };
                match is_ordered {
                    true => cx.broadcast(&all, speech),
                    false => cx.broadcast_with(Unordered, &all, speech),
                }
            }
            Speech::Heard { began, bytes } => {
                assert!(bytes.iter().all(|&byte| byte == 1));
                cx.contribute(Op::Max, cx.now().since(began).as_nanos() as u64, To::main());
            }
        }
    }
}

/// Time of each of `rounds` broadcasts from the node `root` until all members have it, in ms.
pub fn times_ms(
    job: Job,
    spec: &GridSpec,
    root: u32,
    (bytes, is_ordered): (usize, bool),
    rounds: usize,
) -> Vec<f64> {
    let (out, results) = mpsc::channel();
    let job = job.actor::<Speaker>().main(async move |grid| {
        let all = grid.create_group::<Speaker>(Per::Node, |_| ()).await?;
        for _ in 0..rounds {
            all.member(Ix1(root as i32)).send(Speech::Speak { bytes, is_ordered });
            let took_ns: u64 = all.reduction(Op::Max).await?;
            out.send(took_ns as f64 / 1e6).map_err(|_| "the test has ended")?;
            grid.sleep(Duration::from_millis(100)).await?;
        }
        Ok(())
    });
    let report = Simulation::new(job, spec.clone(), SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    results.try_iter().collect()
}
