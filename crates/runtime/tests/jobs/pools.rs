//! Several pools in one job, streams of outputs, and bounds that tasks and main share.

use gridspan_balance::stealing::RandomStealing;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Goal, GridError, Job, Merge, Search, SearchContext, Step, Task, TaskContext, TaskPoolRef,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

fn everywhere(make: impl Fn() -> Job) {
    for pes in [1, 3] {
        embedded::run(make(), pes).expect("the job ends well");
    }
    #[cfg(feature = "net")]
    embedded::run_emulated(make(), &two_sites()).expect("the job ends well");
}

#[cfg(feature = "net")]
fn two_sites() -> gridspan_topology::GridSpec {
    let spec = "[site.here]\nhosts = [\"h\"]\n[site.there]\nhosts = [\"t\"]\n\
                [wan]\nlatency = \"3ms\"\n";
    gridspan_topology::GridSpec::from_toml(spec).expect("a valid grid")
}

/// The square of a number, as the sum of that many odd numbers, with one task for each.
#[derive(Serialize, Deserialize)]
enum Square {
    Of(u64),
    Odd(u64),
}

impl Task for Square {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        match self {
            Self::Of(number) => {
                (0..number).for_each(|at| cx.spawn(Self::Odd(at)));
                Step::Sync(0)
            }
            Self::Odd(at) => Step::Done(2 * at + 1),
        }
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

#[test]
fn a_stream_gives_each_output_once_and_keeps_to_its_window() {
    everywhere(|| {
        Job::new("stream").tasks::<Square>().main(async |grid| {
            let pool = grid.task_pool::<Square>().await?;
            let (tasks, window) = (20_000, 300);
            let asked = Arc::new(AtomicU64::new(0));
            let count = asked.clone();
            let inputs = (0..tasks).map(move |number| {
                count.fetch_add(1, Ordering::Relaxed);
                Square::Of(number % 10)
            });
            let mut stream = pool.stream(inputs).window(window);
            let mut seen = BTreeSet::new();
            while let Some(next) = stream.next().await {
                let (number, output) = next?;
                assert_eq!(output, (number % 10).pow(2));
                assert!(seen.insert(number), "{number} has come twice");
                // The stream takes one task ahead, to know whether it has another one.
                let open = asked.load(Ordering::Relaxed) - seen.len() as u64;
                assert!(open <= window + 1, "{open} are under way");
            }
            assert_eq!(seen.len() as u64, tasks);
            assert!(stream.next().await.is_none());
            Ok(())
        })
    });
}

#[test]
fn a_stream_that_is_dropped_or_whose_pool_is_closed_leaves_no_tasks() {
    everywhere(|| {
        Job::new("dropped").tasks::<Square>().main(async |grid| {
            let pool = grid.task_pool::<Square>().await?;
            let mut endless = pool.stream((0..).map(Square::Of));
            assert!(endless.next().await.unwrap().is_ok());
            drop(endless);
            assert_eq!(pool.run(Square::Of(30)).await?, 900);

            let mut late = pool.stream((0..5).map(Square::Of));
            pool.close();
            let error = late.next().await.unwrap().unwrap_err().to_string();
            assert!(error.starts_with("the pool of tasks is closed"), "{error}");
            assert!(late.next().await.is_none(), "nothing comes after that");
            grid.quiescence().await?;
            Ok(())
        })
    });
}

#[test]
fn a_complete_stream_ends_without_an_error_although_its_pool_is_closed() {
    everywhere(|| {
        Job::new("complete").tasks::<Square>().main(async |grid| {
            let pool = grid.task_pool::<Square>().await?;
            let mut stream = pool.stream((0..5).map(Square::Of));
            for _ in 0..5 {
                stream.next().await.unwrap()?;
            }
            pool.close();
            assert!(stream.next().await.is_none());
            Ok(())
        })
    });
}

#[test]
fn an_output_is_not_lost_when_a_call_of_next_is_dropped() {
    everywhere(|| {
        Job::new("cancelled").tasks::<Square>().main(async |grid| {
            let pool = grid.task_pool::<Square>().await?;
            let mut stream = pool.stream((0..200).map(Square::Of)).window(8);
            let mut seen = BTreeSet::new();
            loop {
                let dropped = {
                    let mut next = pin!(stream.next());
                    poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await
                };
                // Give the output time to come although no call waits for it.
                grid.sleep(Duration::from_micros(200)).await?;
                let next = match dropped {
                    Poll::Ready(next) => next,
                    Poll::Pending => stream.next().await,
                };
                let Some(next) = next else { break };
                assert!(seen.insert(next?.0));
            }
            assert_eq!(seen.len(), 200);
            Ok(())
        })
    });
}

/// A task whose output is the length of its data.
#[derive(Serialize, Deserialize)]
struct Blob(Vec<u8>);

impl Task for Blob {
    type Output = usize;
    type Join = ();

    fn run(self, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(self.0.len())
    }

    fn collect((): &mut (), _child: u32, _output: usize) {}

    fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(0)
    }
}

#[test]
fn a_task_too_large_for_a_message_is_an_error_and_its_stream_goes_on() {
    let job = Job::new("large").tasks::<Blob>().main(async |grid| {
        let pool = grid.task_pool::<Blob>().await?;
        let sizes = [1, 2, 100 << 20, 4];
        let mut stream = pool.stream(sizes.map(|bytes| Blob(vec![0; bytes])));
        let (mut seen, mut refused) = (Vec::new(), 0);
        while let Some(next) = stream.next().await {
            match next {
                Ok(output) => seen.push(output),
                Err(GridError::TooLarge { bytes, .. }) if bytes > sizes[2] => refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
        seen.sort_unstable();
        assert_eq!((seen, refused), (vec![(0, 1), (1, 2), (3, 4)], 1));
        Ok(())
    });
    embedded::run(job, 1).expect("the job ends well");
}

#[test]
fn a_stream_keeps_to_its_window_of_bytes() {
    const TASK_BYTES: usize = 100_000;
    let job = Job::new("bytes").tasks::<Blob>().main(async |grid| {
        let pool = grid.task_pool::<Blob>().await?;
        let asked = Arc::new(AtomicU64::new(0));
        let count = asked.clone();
        let inputs = (0..300).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Blob(vec![0; TASK_BYTES])
        });
        // The window holds five tasks. The sixth may exceed it, and the stream takes one more
        // ahead.
        let mut stream = pool.stream(inputs).window_bytes(5 * TASK_BYTES + TASK_BYTES / 2);
        let mut seen = BTreeSet::new();
        while let Some(next) = stream.next().await {
            assert!(seen.insert(next?.0));
            let open = asked.load(Ordering::Relaxed) - seen.len() as u64;
            assert!(open <= 7, "{open} are under way");
        }
        assert_eq!(seen.len(), 300);
        Ok(())
    });
    embedded::run(job, 2).expect("the job ends well");
}

/// The squares of the numbers below `below`, in order, joined by spaces. A task of another pool
/// computes each.
#[derive(Serialize, Deserialize)]
struct Squares {
    below: u64,
    pool: TaskPoolRef<Square>,
}

impl Task for Squares {
    type Output = String;
    type Join = Vec<String>;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        if self.below > 8 {
            // The child may run on another PE, so that this PE, too, uses the other pool.
            cx.spawn(Self { below: self.below - 1, ..self });
            cx.spawn_in(self.pool, Square::Of(self.below - 1), |square| square.to_string());
            return Step::Sync(vec![String::new(); 2]);
        }
        for number in 0..self.below {
            cx.spawn_in(self.pool, Square::Of(number), |square| square.to_string());
        }
        Step::Sync(vec![String::new(); self.below as usize])
    }

    fn collect(parts: &mut Vec<String>, child: u32, output: String) {
        parts[child as usize] = output;
    }

    fn joined(parts: Vec<String>, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(parts.join(" "))
    }
}

#[test]
fn tasks_wait_for_tasks_of_another_pool_even_on_one_pe() {
    everywhere(|| {
        Job::new("two pools").tasks::<Square>().tasks::<Squares>().main(async |grid| {
            let (squares, sums) = (grid.task_pool().await?, grid.task_pool().await?);
            let pool = squares.reference();
            for below in [3, 40] {
                let found = sums.run(Squares { below, pool }).await?;
                let expected: Vec<String> = (0..below).map(|n| (n * n).to_string()).collect();
                assert_eq!(found, expected.join(" "));
            }
            grid.quiescence().await?;
            Ok(())
        })
    });
}

#[test]
fn a_task_that_waits_for_a_closed_pool_ends_the_job_with_the_reason() {
    let job = Job::new("closed").tasks::<Square>().tasks::<Squares>().main(async |grid| {
        let (squares, sums) = (grid.task_pool().await?, grid.task_pool().await?);
        let pool = squares.reference();
        squares.close();
        sums.run(Squares { below: 3, pool }).await?;
        Ok(())
    });
    let error = embedded::run(job, 1).unwrap_err().to_string();
    assert!(error.contains("waits for a pool that is closed; close a pool only"), "{error}");
}

/// A task that spawns a [`Slow`] in the first of these pools or, without one, a [`Square`] in the
/// second.
#[derive(Serialize, Deserialize)]
struct Caller {
    steps: u32,
    pools: (Option<TaskPoolRef<Slow>>, TaskPoolRef<Square>),
}

/// A task that takes 20 ms for each step, and then spawns a [`Square`] in the second pool.
#[derive(Serialize, Deserialize)]
struct Slow(Caller);

impl Task for Slow {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        let Self(Caller { steps, pools }) = self;
        match steps {
            0 => cx.spawn_in(pools.1, Square::Of(3), |square| square),
            steps => {
                std::thread::sleep(Duration::from_millis(20));
                cx.spawn(Self(Caller { steps: steps - 1, pools }));
            }
        }
        Step::Sync(0)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

impl Task for Caller {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        let Self { steps, pools } = self;
        match pools.0 {
            Some(slow) => cx.spawn_in(slow, Slow(Self { steps, pools }), |square| square),
            None => cx.spawn_in(pools.1, Square::Of(3), |square| square),
        }
        Step::Sync(0)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

#[test]
fn in_a_chain_of_pools_a_closed_pool_ends_the_job_only_if_main_waits_for_it() {
    for is_awaited in [true, false] {
        let job = Job::new("chain").tasks::<Square>().tasks::<Slow>().tasks::<Caller>();
        let job = job.main(async move |grid| {
            let (squares, slow) = (grid.task_pool::<Square>().await?, grid.task_pool().await?);
            let callers = grid.task_pool::<Caller>().await?;
            let pools = (Some(slow.reference()), squares.reference());
            assert_eq!(callers.run(Caller { steps: 0, pools }).await?, 9);
            let other = callers.clone();
            let mut run = pin!(other.run(Caller { steps: 10, pools }));
            let first = poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
            assert!(first.is_pending());
            grid.sleep(Duration::from_millis(30)).await?;
            squares.close();
            if !is_awaited {
                callers.close();
            }
            let output = run.await;
            if is_awaited {
                output?;
            } else {
                assert!(matches!(output, Err(GridError::PoolClosed)), "{output:?}");
            }
            grid.quiescence().await?;
            Ok(())
        });
        let outcome = embedded::run(job, 1);
        match is_awaited {
            true => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("waits for a pool that is closed"), "{error}");
            }
            false => outcome.expect("no task that main waits for needs the pool"),
        }
    }
}

#[test]
fn a_task_of_a_dropped_stream_may_wait_for_a_closed_pool() {
    let job = Job::new("dropped").tasks::<Square>().tasks::<Slow>();
    let job = job.main(async |grid| {
        let (squares, slow) = (grid.task_pool::<Square>().await?, grid.task_pool().await?);
        let pools = (None, squares.reference());
        let mut stream = slow.stream([Slow(Caller { steps: 10, pools })]);
        {
            let mut next = pin!(stream.next());
            let first = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
            assert!(first.is_pending());
        }
        grid.sleep(Duration::from_millis(30)).await?;
        drop(stream);
        squares.close();
        grid.quiescence().await?;
        Ok(())
    });
    embedded::run(job, 1).expect("main waits for no task of the stream");
}

/// Longest wait of a task for the other one, and of main for a bound from another node.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two tasks that answer each other by improving the bound while they run.
#[derive(Serialize, Deserialize)]
enum Talk {
    Begin,
    /// Takes every second number `word` from the first value up to, but excluding, the second. For
    /// each, waits until the bound is at most `-word`, and then improves the bound by one.
    Says(i64, i64),
}

/// Number of improvements of the bound.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Heard(i64);

impl Merge for Heard {
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Search for Talk {
    type Total = Heard;

    const GOAL: Goal = Goal::Minimise;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        match self {
            Self::Begin => (0..2).for_each(|first| cx.spawn(Self::Says(first, 10))),
            Self::Says(first, words) => {
                for word in (first..words).step_by(2) {
                    let begin = Instant::now();
                    // The bound falls from none, which counts as 0, to -1, -2, and so on.
                    while cx.bound().unwrap_or_default() > -word && begin.elapsed() < PATIENCE {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    if begin.elapsed() < PATIENCE && cx.improve(-word - 1) {
                        cx.total().0 += 1;
                    }
                }
            }
        }
    }
}

fn talk() -> Job {
    // This policy gives tasks away regardless of their expected time.
    Job::new("talk").search::<Talk>().stealing(RandomStealing::one()).main(async |grid| {
        assert_eq!(grid.run_search(Talk::Begin).await?, Heard(10));
        Ok(())
    })
}

#[test]
fn running_tasks_see_improvements_of_the_bound_from_their_node_and_from_another_site() {
    embedded::run(talk(), 2).expect("the job ends well");
    #[cfg(feature = "net")]
    embedded::run_emulated(talk(), &two_sites()).expect("the job ends well");
}

/// Searches a range of numbers for multiples of 1,000. The bound becomes the largest one.
#[derive(Serialize, Deserialize)]
struct Multiples {
    from: i64,
    to: i64,
}

impl Search for Multiples {
    type Total = Heard;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let Self { from, to } = self;
        if to - from > 500 {
            let middle = from + (to - from) / 2;
            cx.spawn(Self { from, to: middle });
            cx.spawn(Self { from: middle, to });
        } else if let Some(found) = (from..to).find(|number| number % 1000 == 0) {
            cx.improve(found);
        }
    }
}

#[test]
fn main_reads_the_bound_of_a_pool_while_its_tasks_run_and_after_them() {
    everywhere(|| {
        Job::new("bound").search::<Multiples>().main(async |grid| {
            let pool = grid.search_pool::<Multiples>().await?;
            assert_eq!(pool.bound().await?, None);
            let part = |at: i64| Multiples { from: at * 10_000, to: (at + 1) * 10_000 };
            let mut stream = pool.stream((0..100).map(part)).window(4);
            let mut last = None;
            while let Some(next) = stream.next().await {
                next?;
                let bound = pool.bound().await?;
                assert!(bound >= last && bound <= Some(999_000), "{last:?}, then {bound:?}");
                last = bound;
            }
            // A value that was found on another node comes in a separate message.
            let begin = Instant::now();
            while pool.bound().await? != Some(999_000) {
                assert!(begin.elapsed() < PATIENCE, "{:?}", pool.bound().await?);
            }
            let other = pool.clone();
            pool.close();
            let error = other.bound().await.unwrap_err().to_string();
            assert!(error.starts_with("the pool of tasks is closed"), "{error}");
            Ok(())
        })
    });
}

#[test]
fn a_call_for_counts_ends_although_main_closes_the_pool_meanwhile() {
    everywhere(|| {
        let job = Job::new("counts").tasks::<Square>().main(async |grid| {
            let pool = grid.task_pool::<Square>().await?;
            let other = pool.clone();
            let mut counts = pin!(other.statistics());
            // At the first poll, the call asks which nodes are lost.
            if poll_fn(|cx| Poll::Ready(counts.as_mut().poll(cx))).await.is_pending() {
                pool.close();
                match counts.await {
                    Ok(_) | Err(GridError::PoolClosed) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        });
        job.recover_tasks_locally(true).time_limit(PATIENCE)
    });
}
