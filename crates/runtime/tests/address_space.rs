//! Jobs in a process with a limited address space: the budgets of the runtime end a job, or hold it
//! back, before an allocation fails.
//!
//! Each test runs the test executable again under `ulimit -v`, with one of the ignored tests below
//! as the job.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, Context, Ix1, Job, JobError, Limits, Op, Step, Task, TaskContext, To,
};
use serde::{Deserialize, Serialize};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

/// Exit code of the shell if it cannot set the limit.
const NO_LIMIT: i32 = 77;
const MESSAGE_BYTES: usize = 100_000;
const HARD_BYTES: usize = 100_000_000;
const TEXT_BYTES: usize = 62_000_000;

/// Runs one of the ignored tests in an address space of this many megabytes. Returns `None`, and
/// prints the reason to standard error, where address space cannot be limited.
fn run_within(megabytes: u64, test: &str) -> Option<Output> {
    let script = format!(
        "ulimit -v {} || exit {NO_LIMIT}; exec \"$0\" --exact {test} --ignored --nocapture",
        megabytes * 1000
    );
    let own = std::env::current_exe().unwrap();
    let output = Command::new("sh").arg("-c").arg(script).arg(own).output().unwrap();
    if output.status.code() == Some(NO_LIMIT) {
        eprintln!("skipped: this system does not limit address space by `ulimit -v`");
        return None;
    }
    Some(output)
}

/// Whether the limit is in force: a process that allocates 2 GB fails.
fn is_limited(megabytes: u64) -> bool {
    let Some(output) = run_within(megabytes, "job_that_takes_two_gigabytes") else { return false };
    let is_limited = !output.status.success();
    if !is_limited {
        eprintln!("skipped: two gigabytes fit into {megabytes} MB here");
    }
    is_limited
}

fn assert_passed(output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", output.status);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn a_producer_faster_than_its_consumer_ends_the_job_and_not_the_process() {
    if is_limited(700)
        && let Some(output) = run_within(700, "job_of_a_producer_and_a_slow_consumer")
    {
        assert_passed(&output);
    }
}

#[test]
fn a_stream_of_large_tasks_keeps_to_the_memory_budget() {
    if is_limited(1500)
        && let Some(output) = run_within(1500, "job_of_a_stream_of_large_texts")
    {
        assert_passed(&output);
    }
}

#[test]
fn outputs_that_main_takes_slowly_are_bounded_in_bytes() {
    if is_limited(1500)
        && let Some(output) = run_within(1500, "job_of_a_stream_of_large_outputs")
    {
        assert_passed(&output);
    }
}

#[test]
#[ignore = "another test runs it in a process with limited address space"]
fn job_that_takes_two_gigabytes() {
    let taken = vec![1_u8; 2_000_000_000];
    assert_eq!(taken[taken.len() / 2], 1);
}

#[derive(Serialize, Deserialize)]
struct Cell;

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    /// Sends 100 messages to member 1 in each of this many rounds, and then contributes.
    Produce(u32),
    Data(Vec<u8>),
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
            Msg::Produce(0) => cx.contribute(Op::Sum, 1_u64, To::main()),
            Msg::Produce(again) => {
                for _ in 0..100 {
                    let data = Msg::Data(vec![7; MESSAGE_BYTES]);
                    cx.send(&cx.collection().at(Ix1(1)), data);
                }
                let me = cx.me();
                cx.send(&me, Msg::Produce(again - 1));
            }
            // Slower than the producer.
            Msg::Data(_) => thread::sleep(Duration::from_millis(10)),
        }
    }

    fn heap_bytes(message: &Msg) -> usize {
        match message {
            Msg::Data(data) => data.len(),
            Msg::Produce(_) => 0,
        }
    }
}

/// Sends messages of 10 GB in all.
#[test]
#[ignore = "another test runs it in a process with limited address space"]
fn job_of_a_producer_and_a_slow_consumer() {
    let limits = Limits::default().with_soft_bytes(HARD_BYTES / 4).with_hard_bytes(HARD_BYTES);
    let job = Job::new("produce").actor::<Cell>().limits(limits).main(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
        cells.member(Ix1(0)).send(Msg::Produce(1000));
        cells.reduction::<u64>(Op::Sum).await?;
        Ok(())
    });

    let outcome = embedded::run(job, 2);

    let Err(JobError::OverBudget { limit_bytes, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(limit_bytes, HARD_BYTES as u64);
}

/// A task whose text takes longer to process than main takes to make it.
#[derive(Serialize, Deserialize)]
struct Text(String);

impl Task for Text {
    type Output = usize;
    type Join = ();

    fn run(self, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        thread::sleep(Duration::from_millis(250));
        Step::Done(self.0.len())
    }

    fn collect(_join: &mut (), _child: u32, _output: usize) {}

    fn joined(_join: (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(0)
    }
}

/// Streams tasks of 3 GB in all.
#[test]
#[ignore = "another test runs it in a process with limited address space"]
fn job_of_a_stream_of_large_texts() {
    const TEXTS: usize = 48;
    let job = Job::new("texts").tasks::<Text>().main(async |grid| {
        let pool = grid.task_pool::<Text>().await?;
        let mut stream = pool.stream((0..TEXTS).map(|_| Text("w".repeat(TEXT_BYTES))));
        let mut come = 0;
        while let Some(next) = stream.next().await {
            assert_eq!(next?.1, TEXT_BYTES);
            come += 1;
        }
        assert_eq!(come, TEXTS);
        Ok(())
    });

    assert_eq!(embedded::run(job, 2), Ok(()));
}

/// Makes a text at once.
#[derive(Serialize, Deserialize)]
struct Write(usize);

impl Task for Write {
    type Output = String;
    type Join = ();

    fn run(self, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done("w".repeat(self.0))
    }

    fn collect(_join: &mut (), _child: u32, _output: String) {}

    fn joined(_join: (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(String::new())
    }
}

/// Streams outputs of 3 GB in all, which come faster than main takes them.
#[test]
#[ignore = "another test runs it in a process with limited address space"]
fn job_of_a_stream_of_large_outputs() {
    const TEXTS: usize = 48;
    let job = Job::new("outputs").tasks::<Write>().main(async |grid| {
        let pool = grid.task_pool::<Write>().await?;
        let mut stream = pool.stream((0..TEXTS).map(|_| Write(TEXT_BYTES)));
        let mut come = 0;
        while let Some(next) = stream.next().await {
            assert_eq!(next?.1.len(), TEXT_BYTES);
            come += 1;
            grid.sleep(Duration::from_millis(50)).await?;
        }
        assert_eq!(come, TEXTS);
        Ok(())
    });

    assert_eq!(embedded::run(job, 2), Ok(()));
}
