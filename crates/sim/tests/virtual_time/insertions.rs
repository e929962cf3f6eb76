//! Messages to members whose insertion takes long, or that are never inserted.

use gridspan_runtime::{Actor, Context, Ix1, Job, Op, PeId, To};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::{GridSpec, Latency, Link, SiteId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Indices of new members. Their homes are on all nodes.
const FRESH: std::ops::Range<i32> = 100..106;

#[derive(Serialize, Deserialize)]
struct Counter {
    words: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Order {
    /// Insert new members and write to each at once.
    Insert,
    /// Write to members that do not exist.
    Write,
    /// Insert a member if `true`; then broadcast a word, and insert another member.
    Around(bool),
    Word,
    Report,
}

impl Actor for Counter {
    type Index = Ix1;
    type Init = ();
    type Message = Order;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { words: 0 }
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        let all = cx.collection();
        match order {
            Order::Insert => {
                for index in FRESH {
                    let fresh = all.at(Ix1(index));
                    cx.insert_on(&fresh, (), PeId(index as u32 % 3));
                    cx.send(&fresh, Order::Word);
                }
            }
            Order::Write => FRESH.for_each(|index| cx.send(&all.at(Ix1(index)), Order::Word)),
            Order::Around(is_first) => {
                if is_first {
                    cx.insert_on(&all.at(Ix1(100)), (), PeId(2));
                }
                cx.broadcast(&all, Order::Word);
                cx.insert_on(&all.at(Ix1(101)), (), PeId(0));
            }
            Order::Word => self.words += 1,
            Order::Report => cx.contribute(Op::Sum, self.words, To::main()),
        }
    }
}

/// Sends this order to the member at site b. Returns the number of words that members received
/// until quiescence, the time until then, and the report. A message from site a to site b takes
/// `latency`, all others between sites a millisecond.
fn run(order: Order, latency: Duration) -> (u64, Duration, SimReport) {
    let slow = Link::wan().with_latency(Latency(latency));
    let spec = GridSpec::from_emulate("3x1,wan=1ms").unwrap();
    let spec = spec.with_link(SiteId(0), SiteId(1), slow);
    let (out, results) = std::sync::mpsc::channel();
    let job = Job::new("insertions").actor::<Counter>().main(async move |grid| {
        let all = grid.create::<Counter>(Ix1::range(3), |_| ()).await?;
        let begin = grid.now().await?;
        all.member(Ix1(1)).send(order);
        grid.quiescence().await?;
        let quiet = grid.now().await?.since(begin);
        all.broadcast(Order::Report);
        out.send((all.reduction(Op::Sum).await?, quiet)).map_err(|_| "the test has ended")?;
        Ok(())
    });
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    let (words, quiet) = results.recv().unwrap();
    (words, quiet, report)
}

#[test]
fn messages_wait_for_an_insertion_for_as_long_as_it_takes() {
    let (words, _, report) = run(Order::Insert, Duration::from_secs(8));

    assert_eq!(words, FRESH.len() as u64);
    assert_eq!(report.statistics.dead_letters, 0);
}

#[test]
fn messages_to_members_that_do_not_exist_are_dropped_once_no_insertion_is_on_its_way() {
    let (words, quiet, report) = run(Order::Write, Duration::from_millis(1));

    assert_eq!(words, 0);
    assert_eq!(report.statistics.dead_letters, FRESH.len() as u64);
    // The decision takes a few round trips, and no timeout.
    assert!(quiet < Duration::from_millis(100), "{quiet:?}");
}

#[test]
fn a_member_receives_no_broadcast_that_was_sent_before_it_was_inserted() {
    let latency = Duration::from_millis(1);
    let (without, _, _) = run(Order::Around(false), latency);
    assert_eq!(without, 3, "the first members");
    // The broadcast waits for the first insertion, and the second insertion waits for the
    // broadcast.
    let (with, _, _) = run(Order::Around(true), latency);
    assert_eq!(with, 4, "these and the member that was inserted before the broadcast");
}
