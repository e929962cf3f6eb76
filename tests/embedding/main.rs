//! Jobs inside another program.
#![allow(missing_docs)]

use gridspan::embed::{Event, Runner};
use gridspan::prelude::*;
use gridspan::topology::GridSpec;
use gridspan::{CheckpointError, CheckpointEvery, Checkpoints, Misuse, StartError, Warning};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

/// Longest time that a test waits for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// Threads and memory of the process are measured, so tests run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Number of workers that are busy inside a handler.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

#[derive(Serialize, Deserialize)]
struct Worker;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Count,
    /// Stay in a handler for this number of milliseconds.
    Busy(u64),
    Panic,
    /// Move to this PE.
    Move(u32),
    /// Send this to yourself, for ever.
    Forever,
}

impl Actor for Worker {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Worker
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Count => cx.contribute(Sum, 1_u64, To::main()),
            Message::Busy(ms) => {
                INSIDE.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(ms));
                INSIDE.fetch_sub(1, Ordering::SeqCst);
            }
            Message::Panic => panic!("this worker panics on purpose"),
            Message::Move(pe) => cx.migrate_to(PeId(pe)),
            Message::Forever => cx.send(&cx.me(), Message::Forever),
        }
    }
}

fn job(name: &str) -> Job {
    Job::new(name).actor::<Worker>()
}

async fn count(grid: Grid) -> Result<u64, JobError> {
    let workers = grid.create::<Worker>(Ix1::range(4), |_| ()).await?;
    workers.broadcast(Message::Count);
    Ok(workers.reduction(Sum).await?)
}

async fn for_ever(grid: Grid) -> Result<u64, JobError> {
    let workers = grid.create::<Worker>(Ix1::range(4), |_| ()).await?;
    workers.member(Ix1(0)).send(Message::Forever);
    Ok(workers.reduction(Sum).await?)
}

/// Waits until a worker is busy inside a handler.
fn await_handler() {
    let begin = Instant::now();
    while INSIDE.load(Ordering::SeqCst) == 0 {
        assert!(begin.elapsed() < LIMIT, "a handler should have begun");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn grid() -> GridSpec {
    GridSpec::from_emulate("2x1,wan=1ms").expect("a valid grid")
}

fn everywhere() -> [Runner; 3] {
    [Runner::on_threads(2), Runner::emulated(grid()), Runner::simulated(grid())]
}

#[test]
fn all_drivers_return_the_value_of_main() {
    let _alone = ALONE.lock();
    for run in everywhere() {
        assert_eq!(run.start(job("count"), count).wait(), Ok(4));
    }
}

#[test]
fn a_running_job_is_a_future_and_several_run_at_a_time() {
    let _alone = ALONE.lock();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let counts = runtime.block_on(async {
        let running = everywhere().map(|run| run.start(job("count"), count));
        let mut counts = Vec::new();
        for running in running {
            counts.push(running.await);
        }
        counts
    });
    assert_eq!(counts, [Ok(4), Ok(4), Ok(4)]);
}

#[test]
fn a_cancelled_job_ends() {
    let _alone = ALONE.lock();
    for run in everywhere() {
        let running = run.start(job("for ever"), for_ever);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!running.is_over());
        let (canceller, begin) = (running.cancel_handle(), Instant::now());
        canceller.cancel();
        assert_eq!(running.wait(), Err(JobError::Cancelled));
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        canceller.cancel();
    }
}

#[test]
fn a_job_that_is_cancelled_before_it_runs_ends() {
    let _alone = ALONE.lock();
    for run in everywhere() {
        let running = run.start(job("for ever"), for_ever);
        running.cancel_handle().cancel();
        assert_eq!(running.wait(), Err(JobError::Cancelled));
    }
}

#[test]
fn a_cancelled_job_waits_for_the_handler_that_runs() {
    let _alone = ALONE.lock();
    let running = Runner::on_threads(2).start(job("busy"), async |grid: Grid| {
        let workers = grid.create::<Worker>(Ix1::range(4), |_| ()).await?;
        workers.broadcast(Message::Busy(1000));
        Ok(workers.reduction::<u64>(Sum).await?)
    });
    await_handler();
    let begin = Instant::now();
    running.cancel_handle().cancel();
    assert_eq!(running.wait(), Err(JobError::Cancelled));
    assert_eq!(INSIDE.load(Ordering::SeqCst), 0, "all handlers have returned");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[cfg(target_os = "linux")]
#[test]
fn all_other_pes_end_while_the_first_is_in_a_handler() {
    let _alone = ALONE.lock();
    let running = Runner::on_threads(3).start(job("busy"), async |grid: Grid| {
        let workers = grid.create_placed::<Worker>(Placement::RoundRobin, Ix1::range(3), |_| ());
        let workers = workers.await?;
        workers.member(Ix1(1)).send(Message::Forever);
        workers.member(Ix1(0)).send(Message::Busy(5000));
        Ok(workers.reduction::<u64>(Sum).await?)
    });
    await_handler();
    running.cancel_handle().cancel();
    // Once the other PEs have ended, nothing uses a processor any more.
    loop {
        let before = processor_ticks();
        std::thread::sleep(Duration::from_millis(500));
        let used = processor_ticks() - before;
        assert!(!running.is_over(), "{used} of 50 ticks until the first PE left its handler");
        if used <= 10 {
            break;
        }
    }
    assert_eq!(running.wait(), Err(JobError::Cancelled));
}

#[test]
fn a_main_that_panics_fails_its_job_under_all_drivers() {
    let _alone = ALONE.lock();
    for run in everywhere() {
        let running = run.start(job("panics"), async |_: Grid| -> Result<(), JobError> {
            panic!("main panics on purpose")
        });
        let expected = JobError::MainPanicked { reason: "main panics on purpose".to_owned() };
        assert_eq!(running.wait(), Err(expected));
    }
}

#[test]
fn a_program_can_match_the_error_under_all_drivers() {
    let _alone = ALONE.lock();
    for run in everywhere() {
        let misplaced = run.clone().start(job("misplaced"), async |grid: Grid| {
            let workers = grid.create::<Worker>(Ix1::range(4), |_| ()).await?;
            workers.member(Ix1(3)).send(Message::Move(1_000));
            Ok(workers.reduction::<u64>(Sum).await?)
        });
        let of_main = run.clone().start(job("of main"), async |grid: Grid| {
            grid.create::<Worker>(vec![Ix1(1), Ix1(1)], |_| ()).await?;
            Ok(())
        });
        let of_nowhere = run.start(job("of nowhere").coordinator_on(70), for_ever);

        let Err(JobError::Misuse(Misuse::MovedNowhere { pe, .. })) = misplaced.wait() else {
            panic!("the migration should be refused")
        };
        assert_eq!(pe, PeId(1_000));
        let Err(JobError::Grid(GridError::DuplicateIndex(index))) = of_main.wait() else {
            panic!("the repeated index should be refused")
        };
        assert_eq!(index, "Ix1(1)");
        let Err(JobError::CannotStart(StartError::NoSuchCoordinator { node, .. })) =
            of_nowhere.wait()
        else {
            panic!("the missing node should be refused")
        };
        assert_eq!(node, NodeId(70));
    }
}

#[test]
fn a_job_that_cannot_continue_from_a_checkpoint_says_whether_there_is_one() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let error_of =
        |path: PathBuf| match Runner::on_threads(1).start(job("again").restart(path), count).wait()
        {
            Err(JobError::CannotStart(StartError::Checkpoint(error))) => error,
            other => panic!("it should find no checkpoint: {other:?}"),
        };

    let missing = error_of(folder.path().join("missing"));
    let empty = error_of(folder.path().to_path_buf());

    assert!(matches!(missing, CheckpointError::Missing { .. }), "{missing:?}");
    let place = folder.path().display().to_string();
    assert_eq!(empty, CheckpointError::NoneComplete { place });
}

#[test]
fn a_dropped_job_is_cancelled_and_a_detached_one_continues() {
    let _alone = ALONE.lock();
    let (ended, ends) = mpsc::channel();
    let on_end = |ended: mpsc::Sender<&'static str>, text| {
        async move |grid: Grid| {
            /// Sends a text when it is dropped.
            struct OnDrop(mpsc::Sender<&'static str>, &'static str);
            impl Drop for OnDrop {
                fn drop(&mut self) {
                    let _ = self.0.send(self.1);
                }
            }
            // The test waits for this text.
            let _ = ended.send("begun");
            let _guard = OnDrop(ended, text);
            for_ever(grid).await
        }
    };
    let dropped = Runner::on_threads(2).start(job("dropped"), on_end(ended.clone(), "dropped"));
    assert_eq!(ends.recv_timeout(LIMIT), Ok("begun"));
    assert!(ends.try_recv().is_err());
    drop(dropped);
    assert_eq!(ends.recv_timeout(LIMIT), Ok("dropped"));

    let detached = Runner::on_threads(2).start(job("detached"), on_end(ended, "detached"));
    assert_eq!(ends.recv_timeout(LIMIT), Ok("begun"));
    let canceller = detached.cancel_handle();
    detached.detach();
    std::thread::sleep(Duration::from_millis(100));
    assert!(ends.try_recv().is_err(), "it goes on");
    canceller.cancel();
    assert_eq!(ends.recv_timeout(LIMIT), Ok("detached"));
}

#[test]
fn a_panic_or_a_time_limit_ends_only_its_job() {
    let _alone = ALONE.lock();
    let other = Runner::on_threads(1).start(job("other"), async |grid: Grid| {
        grid.sleep(Duration::from_millis(500)).await?;
        count(grid).await
    });
    let panics = Runner::on_threads(2).start(job("panics"), async |grid: Grid| {
        let workers = grid.create::<Worker>(Ix1::range(4), |_| ()).await?;
        workers.member(Ix1(3)).send(Message::Panic);
        Ok(workers.reduction::<u64>(Sum).await?)
    });
    let limited = Runner::on_threads(2).time_limit(Duration::from_millis(200));
    let limited = limited.start(job("for ever"), for_ever);

    let error = panics.wait().unwrap_err();
    assert!(matches!(&error, JobError::Panicked { reason, .. } if reason.contains("on purpose")));
    assert!(matches!(limited.wait(), Err(JobError::TimeLimit { .. })));
    assert_eq!(other.wait(), Ok(4));
}

#[test]
fn warnings_come_as_events_until_the_job_ends() {
    let _alone = ALONE.lock();
    let running =
        Runner::on_threads(2).start(job("stalls").fail_on_stall(true), async |grid: Grid| {
            let workers = grid.create::<Worker>(Ix1::range(4), |_| ()).await?;
            Ok(workers.reduction::<u64>(Sum).await?)
        });
    let events: Vec<Event> = running.events().collect();
    assert!(
        matches!(&events[..], [Event::Warning(Warning::Stalled { waits })] if waits.contains("reduction 0")),
        "{events:?}"
    );
    assert!(matches!(running.wait(), Err(JobError::Stalled { .. })));
}

/// Returns the processor time of this process, in hundredths of a second.
#[cfg(target_os = "linux")]
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the state of this process");
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    // User and system time are fields 14 and 15; the name is the second.
    let fields: Vec<u64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    fields.iter().sum()
}

/// Returns the number of threads of this process, its resident memory in KiB, and the number of its
/// open files and sockets.
#[cfg(target_os = "linux")]
fn threads_memory_and_files() -> (u64, u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.expect("a number")
    };
    let files = std::fs::read_dir("/proc/self/fd").expect("the files of this process").count();
    (field("Threads:"), field("VmRSS:"), files as u64)
}

/// Runs jobs of which some end by themselves, and others are cancelled or panic.
#[cfg(target_os = "linux")]
fn run_in_turn(runner: impl Fn() -> Runner, jobs: u32) {
    for number in 0..jobs {
        match number % 4 {
            0 | 1 => assert_eq!(runner().start(job("count"), count).wait(), Ok(4)),
            2 => {
                let running = runner().start(job("cancelled"), for_ever);
                running.cancel_handle().cancel();
                assert_eq!(running.wait(), Err(JobError::Cancelled));
            }
            _ => {
                let panics = async |grid: Grid| {
                    let workers = grid.create::<Worker>(Ix1::range(4), |_| ()).await?;
                    workers.broadcast(Message::Panic);
                    Ok(workers.reduction::<u64>(Sum).await?)
                };
                let ended = runner().start(job("panics"), panics).wait();
                assert!(matches!(ended, Err(JobError::Panicked { .. })), "{ended:?}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_thousand_jobs_leave_no_thread_no_memory_and_no_socket() {
    let _alone = ALONE.lock();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let runners: [(&dyn Fn() -> Runner, u32); 2] =
        [(&|| Runner::on_threads(2), 1000), (&|| Runner::emulated(grid()), 40)];
    for (runner, jobs) in runners {
        run_in_turn(runner, jobs / 10);
        let (threads, memory_kib, files) = threads_memory_and_files();
        run_in_turn(runner, jobs);
        let (threads_after, memory_after_kib, files_after) = threads_memory_and_files();
        assert!(threads_after <= threads + 1, "{threads} threads, then {threads_after}");
        assert!(files_after <= files, "{files} open files, then {files_after}");
        let growth_kib = memory_after_kib.saturating_sub(memory_kib);
        assert!(growth_kib < 4 << 10, "{memory_kib} KiB, then {memory_after_kib} KiB");
    }
    std::panic::set_hook(hook);
}

/// A job of two threads starts, sends a message to each of four actors, and ends. The goal is a
/// millisecond; the bound here is wide, and holds for the fastest tenth, since tests run on busy
/// machines.
#[test]
fn a_small_job_starts_and_ends_within_milliseconds() {
    let _alone = ALONE.lock();
    let time = |_| {
        let begin = Instant::now();
        assert_eq!(Runner::on_threads(2).start(job("count"), count).wait(), Ok(4));
        begin.elapsed()
    };
    let mut times: Vec<Duration> = (0..200).map(time).collect();
    times.sort();
    println!("a job on two PEs, from its start to its result: median {:?}", times[100]);
    assert!(times[20] < Duration::from_millis(20), "{:?}", times[20]);
}

#[test]
fn progress_and_checkpoints_are_events() {
    let _alone = ALONE.lock();
    for runner in everywhere() {
        let job = job("progress").checkpoints(Checkpoints::every(CheckpointEvery::Points(1)));
        let is_made = Arc::new(AtomicBool::new(false));
        let told = is_made.clone();
        let running = runner.start(job, async move |grid: Grid| {
            for step in 1..=3 {
                grid.progress(&step).await?;
                grid.report_progress(step, 3);
                grid.sleep(Duration::from_millis(20)).await?;
            }
            // On a busy machine, a checkpoint may complete only after the last step.
            let begin = Instant::now();
            while !told.load(Ordering::SeqCst) && begin.elapsed() < LIMIT {
                grid.sleep(Duration::from_millis(20)).await?;
            }
            Ok(())
        });
        let (mut done, mut checkpoints) = (Vec::new(), Vec::new());
        for event in running.events() {
            match event {
                Event::Progress { done: now, total: 3 } => done.push(now),
                Event::Checkpoint(report) => {
                    checkpoints.push(report.number);
                    is_made.store(true, Ordering::SeqCst);
                }
                _ => {}
            }
        }
        assert_eq!(running.wait(), Ok(()));
        assert_eq!(done, [1, 2, 3]);
        assert!(checkpoints.is_sorted() && !checkpoints.is_empty(), "{checkpoints:?}");
    }
}
