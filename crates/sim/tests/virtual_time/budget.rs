//! Messages held behind a broadcast count towards the memory budget of their PE, in virtual time.

use gridspan_runtime::{Actor, CollectionRef, Context, Ix1, Job, JobError, Limits, Op, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};

const MESSAGES: u32 = 100;
const MESSAGE_BYTES: usize = 20_000;

#[derive(Default, Serialize, Deserialize)]
struct Listener {
    heard: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Tell {
    /// Broadcast if `after_broadcast`, and then send many messages to the member `to`.
    Say {
        to: i32,
        after_broadcast: bool,
    },
    Bytes(Vec<u8>),
    Report,
}

impl Actor for Listener {
    type Index = Ix1;
    type Init = ();
    type Message = Tell;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self::default()
    }

    fn handle(&mut self, message: Tell, cx: &mut Context<'_, Self>) {
        let all: CollectionRef<Self> = cx.collection();
        match message {
            Tell::Say { to, after_broadcast } => {
                if after_broadcast {
                    cx.broadcast(&all, Tell::Bytes(Vec::new()));
                }
                for _ in 0..MESSAGES {
                    cx.send(&all.at(Ix1(to)), Tell::Bytes(vec![7; MESSAGE_BYTES]));
                }
            }
            Tell::Bytes(bytes) => self.heard += bytes.len() as u64,
            Tell::Report => cx.contribute(Op::Sum, self.heard, To::main()),
        }
    }

    fn heap_bytes(message: &Tell) -> usize {
        match message {
            Tell::Bytes(bytes) => bytes.len(),
            Tell::Say { .. } | Tell::Report => 0,
        }
    }
}

/// Runs a job in which the second node sends to the third, and broadcasts go through the first
/// node, which is far from the second.
fn outcome(hard_bytes: usize, after_broadcast: bool) -> Result<(), JobError> {
    let spec = GridSpec::from_emulate("3x1,wan=5ms").unwrap();
    let spec = spec.with_change("at 0s link a-b latency=300ms").unwrap();
    // The soft limit is so low that the held messages would keep out the broadcast if they counted
    // towards it.
    let limits = Limits::default().with_soft_bytes(100_000).with_hard_bytes(hard_bytes);
    let job = Job::new("budget").actor::<Listener>().limits(limits).main(async move |grid| {
        let all = grid.create::<Listener>(Ix1::range(3), |_| ()).await?;
        all.member(Ix1(1)).send(Tell::Say { to: 2, after_broadcast });
        grid.quiescence().await?;
        all.broadcast(Tell::Report);
        let heard: u64 = all.reduction(Op::Sum).await?;
        assert_eq!(heard, u64::from(MESSAGES) * MESSAGE_BYTES as u64);
        Ok(())
    });
    Simulation::new(job, spec, SimOptions::default()).unwrap().run().outcome
}

#[test]
fn messages_held_behind_a_broadcast_may_exceed_the_soft_limit() {
    assert_eq!(outcome(4_000_000, true), Ok(()));
}

#[test]
fn messages_held_over_the_hard_limit_end_the_job_and_are_named() {
    let error = outcome(1_000_000, true).unwrap_err();

    let JobError::OverBudget { queued_bytes, held_bytes, .. } = &error else { panic!("{error}") };
    assert!((1_000_000..2_200_000).contains(held_bytes) && queued_bytes >= held_bytes, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("Listener 0x2 with") && text.contains("of them wait for earlier ones"),
        "{text}"
    );
}

#[test]
fn messages_without_a_broadcast_before_them_are_not_held() {
    // They may be ready at once and exceed the limit, but none is held.
    match outcome(1_000_000, false) {
        Ok(()) => {}
        Err(JobError::OverBudget { held_bytes, .. }) => assert_eq!(held_bytes, 0),
        Err(other) => panic!("{other}"),
    }
}
