//! Broadcasts where sites are not as far from each other as a tree of groups says.

use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, Per, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, Latency, Layout, Link, SiteId};
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

/// A member on each node, which says how long a message was on its way.
#[derive(Serialize, Deserialize)]
struct Listener;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    /// To one: broadcast so many bytes.
    Begin(usize),
    /// When it was sent, and the rest.
    Data(u64, Vec<u8>),
}

impl Actor for Listener {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        let now = cx.now().as_nanos();
        match message {
            Message::Begin(bytes) => {
                cx.broadcast(&cx.collection(), Message::Data(now, vec![7; bytes]))
            }
            Message::Data(sent, _) => cx.contribute(Op::Max, now - sent, To::main()),
        }
    }
}

/// Sites of two nodes that are so many milliseconds from each other, pair by pair.
fn grid(sites: usize, links: &[(u32, u32, u64)]) -> GridSpec {
    let named = (0..sites).map(|at| (format!("s{at}"), vec![1; 2])).collect();
    let grid = GridSpec::from_layout(&Layout::new(named)).expect("sites have nodes");
    links.iter().fold(grid, |grid, &(from, to, millis)| {
        let link = Link::wan().with_latency(Latency::from_millis(millis));
        let (from, to) = (SiteId(from), SiteId(to));
        grid.with_link(from, to, link).with_link(to, from, link)
    })
}

/// What each of the broadcasts takes, from this node.
fn times(grid: &GridSpec, root: i32, bytes: usize, rounds: usize) -> Vec<Duration> {
    let (out, results) = mpsc::channel();
    let job = Job::new("uneven").actor::<Listener>().main(async move |grid| {
        let members = grid.create_group::<Listener>(Per::Node, |_| ()).await?;
        for _ in 0..rounds {
            members.member(Ix1(root)).send(Message::Begin(bytes));
            let took: u64 = members.reduction(Op::Max).await?;
            out.send(Duration::from_nanos(took)).map_err(|_| "nobody listens")?;
            grid.sleep(Duration::from_millis(50)).await?;
        }
        Ok(())
    });
    let run = Simulation::new(job, grid.clone(), SimOptions::default());
    let report = run.expect("a job fits any grid").run();
    assert_eq!(report.outcome, Ok::<(), JobError>(()));
    results.try_iter().collect()
}

#[test]
fn small_broadcasts_go_by_the_site_that_is_near_to_both() {
    // Any two of the first three are far from each other, and near the fourth.
    let links = [(0, 1, 60), (0, 2, 50), (1, 2, 70), (0, 3, 4), (1, 3, 5), (2, 3, 6)];
    for root in [0, 3] {
        let times = times(&grid(4, &links), root, 1_000, 14);
        let late = times[10..].iter().max().expect("some");
        let best = Duration::from_millis(if root == 0 { 4 + 6 } else { 5 + 6 });
        assert!(*late < best.mul_f64(1.15), "from {root}: {times:?}");
    }
}
