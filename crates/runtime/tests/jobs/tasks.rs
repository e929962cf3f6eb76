//! Tasks and searches give the same results wherever they run.

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, Merge, PeId, Search, SearchContext, Step, Task, TaskContext};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// The Fibonacci number of an index. The number of tasks is about 3.2 times its value.
#[derive(Serialize, Deserialize)]
struct Fib(u32);

impl Task for Fib {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        if self.0 < 2 {
            return Step::Done(self.0.into());
        }
        cx.spawn(Fib(self.0 - 1));
        cx.spawn(Fib(self.0 - 2));
        Step::Sync(0)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

/// The last digits of a range of numbers, in order. The result is right only if each output comes
/// back with the number of its child.
#[derive(Serialize, Deserialize)]
struct Digits {
    from: u32,
    to: u32,
}

impl Task for Digits {
    type Output = String;
    type Join = [String; 2];

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        let Self { from, to } = self;
        if to - from == 1 {
            return Step::Done((from % 10).to_string());
        }
        let middle = from.midpoint(to);
        cx.spawn(Self { from, to: middle });
        cx.spawn(Self { from: middle, to });
        Step::Sync(Default::default())
    }

    fn collect(parts: &mut [String; 2], child: u32, output: String) {
        parts[child as usize] = output;
    }

    fn joined(parts: [String; 2], _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(parts.concat())
    }
}

/// A node of a ternary tree.
#[derive(Serialize, Deserialize)]
struct Node {
    depth: u32,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Census {
    nodes: u64,
    leaves: u64,
    deepest: u32,
}

impl Merge for Census {
    fn merge(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.leaves += other.leaves;
        self.deepest = self.deepest.max(other.deepest);
    }
}

impl Search for Node {
    type Total = Census;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let depth = self.depth;
        let is_leaf = depth == 9;
        let census = cx.total();
        census.nodes += 1;
        census.leaves += u64::from(is_leaf);
        census.deepest = census.deepest.max(depth);
        if !is_leaf {
            (0..3).for_each(|_| cx.spawn(Node { depth: depth + 1 }));
        }
    }
}

fn everywhere(make: impl Fn() -> Job) {
    for pes in [1, 3] {
        embedded::run(make(), pes).expect("the job ends well");
    }
    #[cfg(feature = "net")]
    {
        let spec = "[site.here]\nhosts = [\"h[1-2]\"]\npes = 2\n[site.there]\nhosts = [\"t\"]\n\
                    [wan]\nlatency = \"3ms\"\n";
        let spec = gridspan_topology::GridSpec::from_toml(spec).expect("a valid grid");
        embedded::run_emulated(make(), &spec).expect("the job ends well");
    }
}

#[test]
fn tasks_fork_and_join() {
    everywhere(|| {
        Job::new("fib").tasks::<Fib>().main(async |grid| {
            assert_eq!(grid.run_tasks(Fib(22)).await?, 17_711);
            let pool = grid.task_pool().await?;
            let (small, large) = (pool.run(Fib(10)), pool.run(Fib(20)));
            assert_eq!((large.await?, small.await?), (6765, 55));
            Ok(())
        })
    });
}

#[test]
fn outputs_are_collected_by_the_number_of_the_child() {
    everywhere(|| {
        Job::new("digits").tasks::<Digits>().main(async |grid| {
            let digits = grid.run_tasks(Digits { from: 0, to: 3000 }).await?;
            assert_eq!(digits, "0123456789".repeat(300));
            Ok(())
        })
    });
}

#[test]
fn a_search_visits_every_node_once() {
    everywhere(|| {
        Job::new("census").search::<Node>().main(async |grid| {
            let census = grid.run_search(Node { depth: 0 }).await?;
            let leaves = 3u64.pow(9);
            let nodes = (3 * leaves - 1) / 2;
            assert_eq!(census, Census { nodes, leaves, deepest: 9 });
            Ok(())
        })
    });
}

/// A root with `tasks` leaves, each of which takes the time `each`.
#[derive(Serialize, Deserialize)]
enum Long {
    Root { tasks: u32, each: Duration },
    Leaf(Duration),
}

/// The PEs that ran leaves.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Pes(BTreeSet<u32>);

impl Merge for Pes {
    fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Search for Long {
    type Total = Pes;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        match self {
            Self::Root { tasks, each } => (0..tasks).for_each(|_| cx.spawn(Self::Leaf(each))),
            Self::Leaf(time) => {
                std::thread::sleep(time);
                let pe = cx.pe().0;
                cx.total().0.insert(pe);
            }
        }
    }
}

#[test]
fn as_many_long_tasks_as_pes_run_in_parallel() {
    let job = Job::new("long").search::<Long>().main(async |grid| {
        // On a busy machine, idle PEs may take a while to steal.
        let each = Duration::from_secs(2);
        let pes = grid.run_search(Long::Root { tasks: 3, each }).await?;
        assert_eq!(pes, Pes(BTreeSet::from([0, 1, 2])));
        Ok(())
    });
    embedded::run(job, 3).unwrap();
}

#[test]
fn main_continues_between_tasks() {
    let job = Job::new("long").search::<Long>().main(async |grid| {
        let pool = grid.search_pool().await?;
        let mut run = pin!(pool.run(Long::Root { tasks: 64, each: Duration::from_millis(2) }));
        let mut turns = 0;
        while std::future::poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await.is_pending() {
            grid.now().await?;
            turns += 1;
        }
        assert!(turns > 16, "{turns} turns");
        Ok(())
    });
    embedded::run(job, 1).unwrap();
}

#[test]
fn closing_a_pool_ends_waits_for_its_tasks_with_an_error() {
    everywhere(|| {
        Job::new("closed").search::<Long>().main(async |grid| {
            let pool = grid.search_pool().await?;
            let endless = || Long::Root { tasks: 100_000, each: Duration::from_millis(1) };
            let last = PeId(grid.layout().pe_count() - 1);
            let mut run = pin!(pool.run_on(last, endless()));
            let begun = std::future::poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
            assert!(begun.is_pending());
            grid.sleep(Duration::from_millis(20)).await?;
            pool.clone().close();
            let closed = "the pool of tasks is closed, and its unfinished tasks are lost; close it later, or open another";
            assert_eq!(run.await.unwrap_err().to_string(), closed);
            assert_eq!(pool.run(endless()).await.unwrap_err().to_string(), closed);
            assert_eq!(pool.statistics().await.unwrap_err().to_string(), closed);

            // Messages that were on their way to the workers do no harm.
            let few = Long::Root { tasks: 1, each: Duration::ZERO };
            assert_eq!(grid.run_search(few).await?.0.len(), 1);
            Ok(())
        })
    });
}

#[test]
fn a_search_that_main_gives_up_leaves_no_tasks() {
    for pes in [1, 3] {
        let job = Job::new("given up").search::<Long>().main(async |grid| {
            {
                let endless = Long::Root { tasks: 100_000, each: Duration::from_millis(10) };
                let mut run = pin!(grid.run_search(endless));
                // Polls until the pool of the search is open and its tasks run.
                for _ in 0..20 {
                    let polled = std::future::poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx)));
                    assert!(polled.await.is_pending());
                    grid.sleep(Duration::from_millis(5)).await?;
                }
            }
            grid.quiescence().await?;
            Ok(())
        });
        embedded::run(job.time_limit(Duration::from_secs(60)), pes).unwrap();
    }
}

#[test]
fn tasks_of_unknown_types_or_for_unknown_pes_are_refused() {
    let job = Job::new("refused").tasks::<Fib>().main(async |grid| {
        let pool = grid.task_pool().await?;
        let nowhere = pool.run_on(PeId(2), Fib(1)).await.unwrap_err();
        assert_eq!(
            nowhere.to_string(),
            "there is no pe2 to start on; the job has 2 PEs, the first of which is pe0"
        );
        let unknown = grid.run_search(Node { depth: 0 }).await.unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "jobs::tasks::Node is not part of the job; add `.search::<jobs::tasks::Node>()` to its definition"
        );
        Ok(())
    });
    embedded::run(job, 2).unwrap();
}

/// A task that violates the rules of tasks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Faulty {
    Panics,
    Abandons,
    WaitsForNothing,
}

impl Task for Faulty {
    type Output = ();
    type Join = ();

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        match self {
            Self::Panics => panic!("out of order"),
            Self::Abandons => {
                cx.spawn(Self::WaitsForNothing);
                Step::Done(())
            }
            Self::WaitsForNothing => Step::Sync(()),
        }
    }

    fn collect((): &mut (), _child: u32, (): ()) {}

    fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Sync(())
    }
}

#[test]
fn a_faulty_task_ends_the_job_with_the_reason() {
    for (task, reason) in [
        (Faulty::Panics, "out of order"),
        (Faulty::Abandons, "is done but has spawned 1 children; return Step::Sync"),
        (Faulty::WaitsForNothing, "returns Step::Sync twice without children"),
    ] {
        let job = Job::new("faulty").tasks::<Faulty>().main(async move |grid| {
            grid.run_tasks(task).await?;
            Ok(())
        });
        let error = embedded::run(job, 2).unwrap_err().to_string();
        assert!(error.contains(reason), "{task:?}: {error}");
    }
}

/// A task whose output is a text of this many bytes.
#[cfg(feature = "net")]
#[derive(Serialize, Deserialize)]
struct Text(usize);

#[cfg(feature = "net")]
impl Task for Text {
    type Output = String;
    type Join = ();

    fn run(self, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done("x".repeat(self.0))
    }

    fn collect((): &mut (), _child: u32, _output: String) {}

    fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(String::new())
    }
}

#[cfg(feature = "net")]
#[test]
fn an_output_too_large_for_the_network_ends_the_job_with_the_reason() {
    let spec = "[site.here]\nhosts = [\"h[1-2]\"]\n";
    let spec = gridspan_topology::GridSpec::from_toml(spec).unwrap();
    let bytes = 61 << 20;
    let run = |pe| {
        let job = Job::new("large").tasks::<Text>().main(async move |grid| {
            let pool = grid.task_pool().await?;
            assert_eq!(pool.run_on(PeId(pe), Text(bytes)).await?.len(), bytes);
            Ok(())
        });
        embedded::run_emulated(job, &spec)
    };
    run(0).unwrap();
    let error = run(1).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the output of a task of type jobs::tasks::Text takes 63963140 bytes, but at most 62914560 are"
        ),
        "{error}"
    );
}
