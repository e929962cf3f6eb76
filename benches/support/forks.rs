//! The same recursions by tasks, by rayon, and serially.

use crate::suite::Sample;
use gridspan_jobs::fib::Fib;
use gridspan_jobs::uts::{Visit, VisitedNodes};
use gridspan_kernels::uts::{Node, TreeCounts, UtsTree};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Grid, Job, JobError};
use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Runs a job with `main` on `pes` PEs; `main` returns the time of its operations.
fn measure<F>(job: Job, pes: u32, operations: u64, main: F) -> Sample
where
    F: AsyncFnOnce(Grid) -> Result<Duration, JobError> + Send + 'static,
{
    let (send, receive) = mpsc::channel();
    let job = job.main(async move |grid| {
        send.send(main(grid).await?).expect("the bench waits for the figure");
        Ok(())
    });
    embedded::run(job, pes).expect("the job runs");
    Sample { elapsed: receive.recv().expect("main has sent it"), operations }
}

/// Runs `work` in a pool of `threads` threads.
fn in_pool(threads: u32, operations: u64, work: impl FnOnce() + Send) -> Sample {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build();
    let pool = pool.expect("threads can be started");
    let mut elapsed = Duration::ZERO;
    pool.install(|| {
        let begin = Instant::now();
        work();
        elapsed = begin.elapsed();
    });
    Sample { elapsed, operations }
}

/// Returns the number of calls that the recursion makes.
fn calls(n: u32) -> u64 {
    2 * number(n + 1) - 1
}

fn number(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

pub(crate) fn fib(n: u32, pes: u32) -> Sample {
    measure(Job::new("fib").tasks::<Fib>(), pes, calls(n), async move |grid| {
        let pool = grid.task_pool().await?;
        let begin = Instant::now();
        let found = pool.run(Fib(n)).await?;
        let elapsed = begin.elapsed();
        assert_eq!(found, number(n));
        Ok(elapsed)
    })
}

pub(crate) fn fib_rayon(n: u32, threads: u32) -> Sample {
    fn fib(n: u32) -> u64 {
        if n < 2 {
            return n.into();
        }
        let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    in_pool(threads, calls(n), || assert_eq!(fib(n), number(n)))
}

pub(crate) fn fib_serial(n: u32) -> Sample {
    fn fib(n: u32) -> u64 {
        if n < 2 { n.into() } else { fib(black_box(n - 1)) + fib(black_box(n - 2)) }
    }
    Sample::of(calls(n), || assert_eq!(fib(n), number(n)))
}

pub(crate) fn uts(tree: &'static str, pes: u32) -> Sample {
    let (root, sample) = Visit::root(tree).expect("a sample tree");
    let nodes = sample.census.nodes;
    measure(Job::new("uts").search::<Visit>(), pes, nodes, async move |grid| {
        let pool = grid.search_pool().await?;
        let begin = Instant::now();
        let VisitedNodes(census) = pool.run(root).await?;
        let elapsed = begin.elapsed();
        assert_eq!(census, sample.census);
        Ok(elapsed)
    })
}

pub(crate) fn uts_rayon(tree: &'static str, threads: u32) -> Sample {
    fn visit(tree: &UtsTree, node: &Node) -> u64 {
        use rayon::prelude::*;
        let children = tree.children(node);
        (0..children).into_par_iter().map(|child| visit(tree, &node.child(child))).sum::<u64>() + 1
    }
    let (_, sample) = Visit::root(tree).expect("a sample tree");
    let TreeCounts { nodes, .. } = sample.census;
    in_pool(threads, nodes, || assert_eq!(visit(&sample.tree, &sample.tree.root()), nodes))
}

pub(crate) fn uts_serial(tree: &'static str) -> Sample {
    let (_, sample) = Visit::root(tree).expect("a sample tree");
    Sample::of(sample.census.nodes, || assert_eq!(sample.tree.census(), sample.census))
}

/// Counts a separate tree on each of `threads` threads.
pub(crate) fn uts_apart(tree: &'static str, threads: u32) -> Sample {
    let (_, sample) = Visit::root(tree).expect("a sample tree");
    let nodes = sample.census.nodes * u64::from(threads);
    Sample::of(nodes, || {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| assert_eq!(sample.tree.census(), sample.census));
            }
        });
    })
}
