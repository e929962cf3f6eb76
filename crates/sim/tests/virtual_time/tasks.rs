//! Tasks in virtual time: the same result under every policy, and the same run for the same seed.

use crate::common::comb::{Comb, Nodes};
use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_runtime::{Grid, Job, JobError, PeId, Search, SearchContext, StealStatistics};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use serde::{Deserialize, Serialize, Serializer};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

/// Time of each node of the tree.
const COST: Duration = Duration::from_micros(400);

/// Counts a tree of `2^teeth` nodes, starting on the last PE.
async fn run(grid: &Grid, teeth: u32) -> Result<(Nodes, StealStatistics, Duration), JobError> {
    let pool = grid.search_pool().await?;
    let begin = grid.now().await?;
    let nodes = pool.run_on(PeId(grid.layout().pe_count() - 1), Comb::new(teeth, COST)).await?;
    let took = grid.now().await?.since(begin);
    Ok((nodes, pool.statistics().await?, took))
}

fn sites(nodes: usize, latency_ms: u64) -> GridSpec {
    let site = |name: &str| (name.to_owned(), vec![2; nodes]);
    GridSpec::from_layout(&Layout::new(vec![site("a"), site("b")]))
        .expect("a valid layout")
        .with_wan(Link::wan().with_latency(Latency::from_millis(latency_ms)))
}

fn simulate(policy: &str, spec: GridSpec, teeth: u32) -> (SimReport, StealStatistics, Duration) {
    let (out, results) = mpsc::channel();
    let job = Job::new("comb")
        .search::<Comb>()
        .stealing(policy.parse::<StealingPolicyName>().expect("it is a name"))
        .main(async move |grid| {
            let (nodes, statistics, took) = run(&grid, teeth).await?;
            assert_eq!(nodes, Nodes(1 << teeth));
            out.send((statistics, took)).map_err(|_| "the test has ended")?;
            Ok(())
        });
    let report = Simulation::new(job, spec, SimOptions::default()).expect("a valid job").run();
    assert_eq!(report.outcome, Ok(()), "{policy}");
    let (statistics, took) = results.recv().expect("main has sent it");
    (report, statistics, took)
}

#[test]
fn a_search_is_complete_under_every_policy_and_several_nodes_take_part() {
    for policy in STEALING_POLICIES {
        let (_, statistics, took) = simulate(policy, sites(4, 2), 13);
        assert!(statistics.grants > 0, "{policy}: {statistics:?}");
        // There are 16 PEs; one would take 3.3 s.
        assert!(took < Duration::from_millis(1500), "{policy}: {took:?}");
    }
}

/// Tasks of one second that spawn no others, all from one root that takes no time.
#[derive(Serialize, Deserialize)]
enum Batch {
    Root(u32),
    Second,
}

impl Search for Batch {
    type Total = Nodes;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        match self {
            Self::Root(seconds) => (0..seconds).for_each(|_| cx.spawn(Self::Second)),
            Self::Second => {
                cx.charge(Duration::from_secs(1));
                cx.total().0 += 1;
            }
        }
    }
}

/// Time of `tasks` tasks of a second on nodes with these numbers of PEs at one site.
fn seconds(policy: &str, nodes: &[u32], tasks: u32) -> Duration {
    let (out, result) = mpsc::channel();
    let job = Job::new("batch")
        .search::<Batch>()
        .stealing(policy.parse::<StealingPolicyName>().expect("it is a name"))
        .main(async move |grid| {
            let pool = grid.search_pool().await?;
            grid.sleep(Duration::from_secs(1)).await?;
            let begin = grid.now().await?;
            assert_eq!(pool.run(Batch::Root(tasks)).await?, Nodes(tasks.into()));
            out.send(grid.now().await?.since(begin)).map_err(|_| "the test has ended")?;
            Ok(())
        });
    let layout = Layout::new(vec![("a".to_owned(), nodes.to_vec())]);
    let spec = GridSpec::from_layout(&layout).expect("a valid layout");
    let report = Simulation::new(job, spec, SimOptions::default()).expect("a valid job").run();
    assert_eq!(report.outcome, Ok(()), "{policy}");
    result.recv().expect("main has sent it")
}

#[test]
fn nodes_of_one_pe_take_part() {
    for policy in STEALING_POLICIES {
        let took = seconds(policy, &[1, 1], 8);
        assert!(took < Duration::from_secs(7), "{policy}: {took:?}");
    }
}

#[test]
fn other_nodes_get_tasks_while_all_pes_compute() {
    for (nodes, tasks, seconds_at_most) in [(2, 8, 4), (4, 8, 2), (8, 16, 2)] {
        let took = seconds("directory", &vec![1; nodes], tasks);
        let limit = Duration::from_millis(seconds_at_most * 1000 + 100);
        assert!(took < limit, "{tasks} tasks on {nodes} nodes: {took:?}");
    }
}

/// Short tasks, one after the other, and many in parallel at the end.
#[derive(Serialize, Deserialize)]
struct Late {
    alone: u32,
    together: u32,
}

impl Search for Late {
    type Total = Nodes;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.charge(Duration::from_micros(2));
        cx.total().0 += 1;
        match self.alone {
            0 => (0..self.together).for_each(|_| cx.spawn(Self { alone: 0, together: 0 })),
            more => cx.spawn(Self { alone: more - 1, ..self }),
        }
    }
}

#[test]
fn other_nodes_learn_of_short_tasks_that_a_busy_node_spawns_late() {
    let (out, result) = mpsc::channel();
    let job = Job::new("late").search::<Late>().main(async move |grid| {
        let pool = grid.search_pool().await?;
        let begin = grid.now().await?;
        let nodes = pool.run(Late { alone: 1_000, together: 20_000 }).await?;
        assert_eq!(nodes, Nodes(21_001));
        out.send(grid.now().await?.since(begin)).map_err(|_| "the test has ended")?;
        Ok(())
    });
    let spec = GridSpec::from_layout(&Layout::new(vec![("a".to_owned(), vec![1, 1])]));
    let spec = spec.expect("a valid layout");
    let report = Simulation::new(job, spec, SimOptions::default()).expect("a valid job").run();
    assert_eq!(report.outcome, Ok(()));
    // One node takes 42 ms; two could do it in 22 ms.
    let took = result.recv().expect("main has sent it");
    assert!(took < Duration::from_millis(30), "{took:?}");
}

#[test]
fn the_pes_of_a_node_share_few_long_tasks() {
    for (pes, tasks, at_most) in [(2, 2, 1), (4, 4, 1), (4, 8, 3), (3, 9, 4)] {
        let took = seconds("directory", &[pes], tasks);
        assert!(took < Duration::from_millis(at_most * 1000 + 100), "{tasks} on {pes}: {took:?}");
    }
}

/// Tasks that cannot be serialised, except for the root.
#[derive(Deserialize)]
struct Shy {
    depth: u32,
}

impl Serialize for Shy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert_eq!(self.depth, 0, "shy");
        serializer.serialize_u32(self.depth)
    }
}

impl Search for Shy {
    type Total = Nodes;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.charge(Duration::from_millis(10));
        if self.depth < 6 {
            (0..2).for_each(|_| cx.spawn(Self { depth: self.depth + 1 }));
        }
    }
}

#[test]
fn tasks_that_panic_in_serialisation_end_the_job_and_are_named() {
    let job = Job::new("shy").search::<Shy>().main(async |grid| {
        grid.run_search(Shy { depth: 0 }).await?;
        Ok(())
    });
    let report =
        Simulation::new(job, sites(2, 1), SimOptions::default()).expect("a valid job").run();
    let Err(JobError::Panicked { actor, reason, .. }) = report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert!(actor.ends_with("Shy"), "{actor}");
    assert!(reason.contains("shy"), "{reason}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let (report, statistics, took) = simulate("directory", sites(3, 5), 10);
        (report.events, report.virtual_time, report.messages, statistics, took)
    };
    assert_eq!(run(), run());
}

#[test]
fn nodes_without_tasks_send_nothing() {
    let job = Job::new("idle").search::<Comb>().main(async |grid| {
        let pool = grid.search_pool().await?;
        pool.run(Comb::new(3, COST)).await?;
        grid.sleep(Duration::from_secs(1)).await?;
        let before = pool.statistics().await?;
        grid.sleep(Duration::from_secs(60)).await?;
        assert_eq!(pool.statistics().await?, before);
        Ok(())
    });
    let report =
        Simulation::new(job, sites(8, 20), SimOptions::default()).expect("a valid job").run();
    assert_eq!(report.outcome, Ok(()));
}

#[test]
fn counts_are_not_those_of_an_earlier_call_that_main_gave_up() {
    let job = Job::new("given up").search::<Comb>().main(async |grid| {
        let pool = grid.search_pool::<Comb>().await?;
        {
            let mut early = pin!(pool.statistics());
            // During these polls, main asks which nodes are lost, and then requests the report.
            for _ in 0..3 {
                let polled = poll_fn(|cx| Poll::Ready(early.as_mut().poll(cx))).await;
                assert!(polled.is_pending(), "the report takes a round trip of 20 ms");
                grid.sleep(Duration::from_millis(1)).await?;
            }
        }
        grid.sleep(Duration::from_secs(1)).await?;
        pool.run(Comb::new(13, COST)).await?;
        for _ in 0..2 {
            assert!(pool.statistics().await?.grants > 0);
        }
        Ok(())
    });
    let report =
        Simulation::new(job, sites(2, 10), SimOptions::default()).expect("a valid job").run();
    assert_eq!(report.outcome, Ok(()));
}
