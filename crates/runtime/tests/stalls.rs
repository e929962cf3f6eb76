//! Stalled jobs are detected in real time, and quiet jobs that can go on are not reported.
#![allow(missing_docs)]

use gridspan_balance::Refine;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Grid, Ix1, Job, JobError, Op, Reply, To};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

/// Longer than the detection of a stall takes: 3 s of idleness, and some rounds in which the
/// coordinator asks all PEs.
const LONG: Duration = Duration::from_secs(9);

#[derive(Serialize, Deserialize)]
struct Cell;

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Contribute,
    Compute(Duration),
    Later(Duration),
    Sync,
    Bytes(Vec<u8>),
    Never { reply: Reply<u64> },
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
            Msg::Contribute | Msg::Bytes(_) => cx.contribute(Op::Sum, 1_u64, To::main()),
            Msg::Compute(time) => {
                thread::sleep(time);
                cx.contribute(Op::Sum, 1_u64, To::main());
            }
            Msg::Later(time) => {
                let me = cx.me();
                cx.send_after(time, &me, Msg::Contribute);
            }
            Msg::Sync => cx.at_sync(),
            Msg::Never { .. } => {}
        }
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

fn job<F>(main: F) -> Job
where
    F: AsyncFnOnce(Grid) -> Result<(), JobError> + Send + 'static,
{
    Job::new("quiet").actor::<Cell>().fail_on_stall(true).main(main)
}

/// Runs jobs at the same time, each on two PEs.
fn run(jobs: Vec<Job>) -> Vec<Result<(), JobError>> {
    let start = |job| thread::spawn(|| embedded::run(job, 2));
    let running: Vec<_> = jobs.into_iter().map(start).collect();
    running.into_iter().map(|job| job.join().expect("no panic")).collect()
}

/// Waits until another thread wakes main after `time`.
async fn outside(time: Duration) {
    let state = Arc::new(Mutex::new((false, None::<Waker>)));
    let shared = state.clone();
    thread::spawn(move || {
        thread::sleep(time);
        let mut state = shared.lock().expect("nothing panics with the lock");
        state.0 = true;
        state.1.take().into_iter().for_each(Waker::wake);
    });
    std::future::poll_fn(|cx| {
        let mut state = state.lock().expect("nothing panics with the lock");
        state.1 = Some(cx.waker().clone());
        if state.0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[test]
fn quiet_jobs_that_can_go_on_are_not_stalled() {
    let one = |order: Msg| {
        job(async move |grid| {
            let cells = grid.create::<Cell>(Ix1::range(1), |_| ()).await?;
            cells.broadcast(order);
            cells.reduction::<u64>(Op::Sum).await?;
            Ok(())
        })
    };
    let jobs = vec![
        job(async |grid| Ok(grid.sleep(LONG).await?)),
        job(async |_| {
            outside(LONG).await;
            Ok(())
        }),
        job(async |_| {
            thread::sleep(LONG);
            Ok(())
        }),
        job(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
            let never = |reply| Msg::Never { reply };
            let answer = cells.member(Ix1(1)).ask::<u64>(LONG, never).await;
            assert!(answer.is_err(), "it was never answered");
            Ok(())
        }),
        job(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
            // Another thread with access to the collection still sends a message.
            let helper = cells.clone();
            helper.member(Ix1(0)).send(Msg::Contribute);
            thread::spawn(move || {
                helper.member(Ix1(1)).send(Msg::Later(LONG));
            });
            cells.reduction::<u64>(Op::Sum).await?;
            Ok(())
        }),
        one(Msg::Compute(LONG)),
        one(Msg::Later(LONG)),
    ];

    assert_eq!(run(jobs), vec![Ok(()); 7]);
}

#[test]
fn stalled_jobs_end_with_the_reason() {
    let to_all_but_one = |order: Msg| {
        job(async move |grid| {
            let cells = grid.create::<Cell>(Ix1::range(10), |_| ()).await?;
            for cell in 1..10 {
                cells.member(Ix1(cell)).send(order.clone());
            }
            cells.reduction::<u64>(Op::Sum).await?;
            Ok(())
        })
    };
    let jobs = vec![
        to_all_but_one(Msg::Contribute),
        to_all_but_one(Msg::Sync).strategy(Refine),
        to_all_but_one(Msg::Contribute).strategy(Refine).balance_every(Duration::from_millis(20)),
        to_all_but_one(Msg::Contribute).strategy(Refine).balance_every(Duration::from_secs(1)),
        job(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
            cells.member(Ix1(77)).send(Msg::Contribute);
            cells.reduction::<u64>(Op::Sum).await?;
            Ok(())
        }),
    ];

    let reasons: Vec<String> = (run(jobs).into_iter())
        .map(|outcome| match outcome {
            Err(JobError::Stalled { waits }) => waits,
            other => panic!("{other:?}"),
        })
        .collect();

    let wanted = [
        "reduction 0 over collection 0, to which 9 of 10 have contributed",
        "9 members wait at a sync point that others have not reached",
        "reduction 0 over collection 0, to which 9 of 10 have contributed",
        "reduction 0 over collection 0, to which 9 of 10 have contributed",
        "1 message was for a member that does not exist, such as stalls::Cell",
    ];
    for (reason, wanted) in reasons.iter().zip(wanted) {
        assert!(reason.contains("every PE is idle") && reason.contains(wanted), "{reason}");
    }
}

#[test]
fn a_job_ends_at_its_time_limit_and_says_what_it_waits_for() {
    let limit = Duration::from_secs(5);
    let job = job(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
        cells.member(Ix1(1)).send(Msg::Later(Duration::from_secs(1000)));
        cells.reduction::<u64>(Op::Sum).await?;
        Ok(())
    });

    let outcomes = run(vec![job.time_limit(limit)]);

    let [Err(JobError::TimeLimit { waits, .. })] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(waits.contains("reduction 0 over collection 0, to which 0 of 2"), "{waits}");
}

#[cfg(feature = "net")]
#[test]
fn over_a_network_a_job_is_stalled_only_if_nothing_is_on_its_way() {
    use gridspan_topology::GridSpec;
    // A message of 1.2 MB takes about 10 s.
    let slow = GridSpec::from_emulate("2x1,wan=20ms,rate=1mbit").expect("a grid");
    let near = GridSpec::from_emulate("2x1,wan=20ms").expect("a grid");
    let large = job(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
        cells.member(Ix1(0)).send(Msg::Contribute);
        cells.member(Ix1(1)).send(Msg::Bytes(vec![7; 1_200_000]));
        cells.reduction::<u64>(Op::Sum).await?;
        Ok(())
    });
    let stalled = job(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
        cells.member(Ix1(1)).send(Msg::Contribute);
        cells.reduction::<u64>(Op::Sum).await?;
        Ok(())
    });

    // A main that waits for a link to change is not stalled, because a link may change at any time.
    // It waits in a loop, because links sometimes seem to change on a busy machine.
    let patient = job(async |grid| {
        loop {
            grid.link_change().await?;
        }
    });

    let large = thread::spawn(move || embedded::run_emulated(large, &slow));
    let (patient, links) = (patient.time_limit(LONG), near.clone());
    let patient = thread::spawn(move || embedded::run_emulated(patient, &links));
    let stalled = embedded::run_emulated(stalled, &near);

    assert_eq!(large.join().expect("no panic"), Ok(()));
    let patient = patient.join().expect("no panic");
    assert!(matches!(patient, Err(JobError::TimeLimit { .. })), "{patient:?}");
    let Err(JobError::Stalled { waits: reason }) = stalled else { panic!("{stalled:?}") };
    assert!(reason.contains("to which 1 of 2 has contributed"), "{reason}");
}
