//! The memory budget of messages holds within a turn and within a handler.
#![allow(missing_docs)]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Limits, Op, PeId, Priority, To};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const MESSAGE_BYTES: usize = 100_000;
const HARD_BYTES: usize = 20_000_000;

/// Bytes of all messages that are in memory now.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Maximum of `HELD` so far.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Data that counts its bytes.
#[derive(Serialize, Deserialize)]
#[serde(from = "Vec<u8>", into = "Vec<u8>")]
struct Counted(Vec<u8>);

impl From<Vec<u8>> for Counted {
    fn from(bytes: Vec<u8>) -> Self {
        let now = HELD.fetch_add(bytes.len(), Ordering::SeqCst) + bytes.len();
        MOST.fetch_max(now, Ordering::SeqCst);
        Self(bytes)
    }
}

impl From<Counted> for Vec<u8> {
    fn from(counted: Counted) -> Self {
        counted.0.clone()
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.clone().into()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0.len(), Ordering::SeqCst);
    }
}

#[derive(Serialize, Deserialize)]
struct Cell;

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    /// Sends `messages` messages to member `to`, and repeats this `again` times. Then sends `Done`
    /// to member 1 and to itself.
    Produce {
        to: i32,
        priority: i32,
        messages: u32,
        again: u32,
    },
    Data(Counted),
    Done,
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = Msg;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Produce { to, priority, messages, again } => {
                for _ in 0..messages {
                    let data = vec![7; MESSAGE_BYTES].into();
                    let to = cx.collection().at(Ix1(to));
                    cx.send_with(Priority(priority), &to, Msg::Data(data));
                }
                let me = cx.me();
                match again {
                    0 => {
                        cx.send(&cx.collection().at(Ix1(1)), Msg::Done);
                        cx.send(&me, Msg::Done);
                    }
                    _ => cx.send(&me, Msg::Produce { to, priority, messages, again: again - 1 }),
                }
            }
            // Slower than the producer.
            Msg::Data(_) => thread::sleep(Duration::from_millis(100)),
            Msg::Done => cx.contribute(Op::Sum, 1_u64, To::main()),
        }
    }

    fn heap_bytes(message: &Msg) -> usize {
        match message {
            Msg::Data(data) => data.0.len(),
            Msg::Produce { .. } | Msg::Done => 0,
        }
    }
}

fn produce((to, priority): (i32, i32), messages: u32, again: u32) -> Job {
    let limits = Limits::default().with_soft_bytes(HARD_BYTES / 4).with_hard_bytes(HARD_BYTES);
    Job::new("budget").actor::<Cell>().limits(limits).main(async move |grid| {
        let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
        cells.member(Ix1(0)).send(Msg::Produce { to, priority, messages, again });
        cells.reduction::<u64>(Op::Sum).await?;
        Ok(())
    })
}

/// The cases run one after the other, since they share a count of bytes.
#[test]
fn messages_over_the_budget_end_the_job_before_they_fill_the_memory() {
    // In each case, one handler sends 40 times the budget: to the other PE, to its own PE, and to
    // its own PE with a priority.
    let cases = [
        ((1, 0), "bytes just sent to budget::Cell on pe1"),
        ((0, 0), "budget::Cell 0x"),
        ((0, 1), "budget::Cell 0x"),
    ];
    for (to, place) in cases {
        MOST.store(0, Ordering::SeqCst);
        let error = embedded::run(produce(to, 8_000, 0), 2).expect_err("it is too much");

        let JobError::OverBudget { pe, queued_bytes, ref fullest, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(pe, PeId(0));
        assert!(fullest.contains(place), "{fullest}");
        let most = HARD_BYTES + 2 * MESSAGE_BYTES;
        assert!(queued_bytes as usize <= most, "{queued_bytes}");
        assert!(MOST.load(Ordering::SeqCst) <= most, "{MOST:?}");
    }

    // Many handlers send 2 MB each to a PE that sleeps in its handler.
    MOST.store(0, Ordering::SeqCst);
    let error = embedded::run(produce((1, 0), 20, 400), 2).expect_err("it is too much");

    let JobError::OverBudget { pe, ref fullest, .. } = error else { panic!("{error}") };
    assert_eq!(pe, PeId(1), "{error}");
    // Either the sender names the sleeping PE, or that PE names its fullest mailbox when it wakes.
    let names = ["budget::Cell on pe1 with", "budget::Cell 0x1 with"];
    assert!(names.iter().any(|name| fullest.contains(name)), "{fullest}");
    // Messages that a turn gathers before it passes them on add at most 16 MiB.
    assert!(MOST.load(Ordering::SeqCst) <= 2 * HARD_BYTES + (16 << 20), "{MOST:?}");
}

#[cfg(feature = "net")]
#[test]
fn a_slow_network_holds_its_sender_back() {
    use gridspan_topology::GridSpec;
    // The messages have 24 MB in all, more than the budget. The link carries 80 Mbit/s, and the
    // receiver keeps up with it.
    let spec = GridSpec::from_emulate("2x1,wan=5ms,rate=80mbit").expect("a grid");
    let limits = Limits::default().with_soft_bytes(HARD_BYTES / 4).with_hard_bytes(HARD_BYTES);
    let job = Job::new("network").actor::<Sink>().limits(limits).main(async |grid| {
        let sinks = grid.create::<Sink>(Ix1::range(2), |_| 0).await?;
        sinks.member(Ix1(0)).send(Flow::Produce { rest: 240 });
        assert_eq!(sinks.reduction::<u64>(Op::Sum).await?, 24_000_000);
        Ok(())
    });

    assert_eq!(embedded::run_emulated(job, &spec), Ok(()));
}

#[cfg(feature = "net")]
#[derive(Serialize, Deserialize)]
struct Sink(u64);

#[cfg(feature = "net")]
#[derive(Clone, Serialize, Deserialize)]
enum Flow {
    Produce { rest: u32 },
    Data(Vec<u8>),
    End,
}

#[cfg(feature = "net")]
impl Actor for Sink {
    type Index = Ix1;
    type Init = u64;
    type Message = Flow;

    fn create(taken: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self(taken)
    }

    fn handle(&mut self, message: Flow, cx: &mut Context<'_, Self>) {
        let other = cx.collection().at(Ix1(1));
        match message {
            Flow::Produce { rest } => {
                cx.send(&other, Flow::Data(vec![1; MESSAGE_BYTES]));
                let me = cx.me();
                match rest {
                    1 => {
                        cx.send(&other, Flow::End);
                        cx.contribute(Op::Sum, 0_u64, To::main());
                    }
                    _ => cx.send(&me, Flow::Produce { rest: rest - 1 }),
                }
            }
            Flow::Data(bytes) => self.0 += bytes.len() as u64,
            Flow::End => cx.contribute(Op::Sum, self.0, To::main()),
        }
    }

    fn heap_bytes(message: &Flow) -> usize {
        match message {
            Flow::Data(bytes) => bytes.len(),
            Flow::Produce { .. } | Flow::End => 0,
        }
    }
}
