//! Jobs whose nodes are processes that this process starts. The tests have no harness, since the
//! nodes run this program, too.
#![allow(missing_docs)]

use gridspan::embed::{self, Event, Runner};
use gridspan::prelude::*;
use gridspan::topology::GridSpec;
use gridspan::variables::{DETACHED, LAUNCHER};
use gridspan::{CheckpointEvery, Checkpoints, LossCause, Progress};
use gridspan_runtime::driver::CheckpointArchive;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, id};
use std::sync::mpsc;
use std::time::Instant;

#[derive(Serialize, Deserialize)]
struct Worker;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    /// Contribute your process id.
    Tell,
    /// Print your process id, unless you are on the first node.
    Print,
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
            Message::Tell => cx.contribute(Union, BTreeSet::from([id()]), To::main()),
            Message::Print if cx.node().0 > 0 => println!("process {}", id()),
            Message::Print => {}
            Message::Forever => cx.send(&cx.me(), Message::Forever),
        }
    }
}

fn job() -> Job {
    Job::new("node-processes").actor::<Worker>()
}

async fn processes(grid: Grid) -> Result<BTreeSet<u32>, JobError> {
    let workers = grid.create::<Worker>(Ix1::range(12), |_| ()).await?;
    workers.broadcast(Message::Print);
    workers.broadcast(Message::Tell);
    Ok(workers.reduction(Union).await?)
}

/// Runs a job that does not end by itself. Sends the ids of its processes.
async fn for_ever(grid: Grid, tell: mpsc::Sender<BTreeSet<u32>>) -> Result<(), JobError> {
    let workers = grid.create::<Worker>(Ix1::range(12), |_| ()).await?;
    workers.broadcast(Message::Tell);
    tell.send(workers.reduction(Union).await?).expect("the test waits for it");
    workers.broadcast(Message::Forever);
    grid.quiescence().await?;
    Ok(())
}

fn grid(text: &str) -> GridSpec {
    GridSpec::from_emulate(text).expect("the short form is valid")
}

/// Returns a runner on three nodes, which run this program.
fn runner() -> Runner {
    let this = std::env::current_exe().expect("this program has a path");
    Runner::on_processes(grid("3x1"), move |_| Command::new(&this))
}

fn is_alive(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

fn main_runs_here_and_its_value_needs_no_encoding() {
    let running = runner().start(job(), processes);
    let events: Vec<Event> = running.events().collect();
    let found = running.wait().expect("the job ends well");
    assert!(found.len() == 3 && found.contains(&id()), "{found:?}");
    let printed: BTreeSet<String> = events
        .into_iter()
        .filter_map(|event| match event {
            Event::Output { node, line } if node.0 > 0 => Some(line),
            _ => None,
        })
        .collect();
    let others = found.iter().filter(|&&process| process != id());
    assert_eq!(printed, others.map(|process| format!("process {process}")).collect());
    assert!(found.iter().all(|&process| process == id() || !is_alive(process)));
}

fn several_jobs_run_at_a_time() {
    let running: Vec<_> = (0..3).map(|_| runner().start(job(), processes)).collect();
    let mut all = BTreeSet::new();
    for job in running {
        all.extend(job.wait().expect("the job ends well"));
    }
    assert_eq!(all.len(), 1 + 3 * 2, "each job has separate processes");
}

fn nodes_start_in_a_program_that_is_a_node_of_a_detached_job() {
    let this = std::env::current_exe().expect("this program has a path");
    let runner = Runner::on_processes(grid("2x1"), move |_| {
        let mut command = Command::new(&this);
        // As if this process had inherited these variables from another launcher.
        command.env(DETACHED, "1").env(LAUNCHER, "1");
        command
    });
    let found = runner.start(job(), processes).wait().expect("the job ends well");
    assert_eq!(found.len(), 2, "{found:?}");
}

fn a_program_that_is_not_a_node_is_an_error() {
    let begin = Instant::now();
    let runner = Runner::on_processes(grid("2x1"), |_| Command::new("true"));
    let error = runner.start(job(), processes).wait().expect_err("`true` is no node");
    let text = error.to_string();
    assert!(text.contains("node1 did not start") && text.contains("embed::node"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());

    let runner = Runner::on_processes(grid("2x1"), |_| Command::new("/no/such/program"));
    let error = runner.start(job(), processes).wait().expect_err("there is no such program");
    assert!(error.to_string().contains("`/no/such/program`"), "{error}");
}

fn cancelling_ends_the_processes() {
    let (tell, told) = mpsc::channel();
    let running = runner().start(job(), move |grid| for_ever(grid, tell));
    let found = told.recv().expect("the job begins");
    running.cancel_handle().cancel();
    assert_eq!(running.wait(), Err(JobError::Cancelled));
    assert!(found.iter().all(|&process| process == id() || !is_alive(process)));

    // A program that never listens.
    let silent = Runner::on_processes(grid("2x1"), |_| {
        let mut command = Command::new("sleep");
        command.arg("60");
        command
    });
    let running = silent.start(job(), processes);
    std::thread::sleep(Duration::from_millis(100));
    running.cancel_handle().cancel();
    assert_eq!(running.wait(), Err(JobError::Cancelled));
}

fn a_process_that_is_killed_is_a_lost_node() {
    let (tell, told) = mpsc::channel();
    let running = runner().start(job(), move |grid| for_ever(grid, tell));
    let found = told.recv().expect("the job begins");
    let victim = found.into_iter().find(|&process| process != id()).expect("there are others");
    let killed = Command::new("kill").args(["-9", &victim.to_string()]).status();
    assert!(killed.expect("`kill` runs").success());
    match running.wait() {
        Err(JobError::NodeLost { cause, reason, .. }) => {
            assert_eq!(cause, LossCause::Ended);
            assert!(reason.contains("its process ended with signal: 9"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

/// Makes a checkpoint, and waits until it is complete in this folder.
async fn store(grid: Grid, folder: PathBuf) -> Result<(), JobError> {
    let workers = grid.create::<Worker>(Ix1::range(12), |_| ()).await?;
    let made = grid.progress(&workers.reference()).await?;
    assert_eq!(made, Progress::Taken { number: 1 });
    let archive = CheckpointArchive::open(&folder)?;
    while archive.complete()?.is_empty() {
        grid.sleep(Duration::from_millis(5)).await?;
    }
    Ok(())
}

/// Goes on after a checkpoint.
async fn go_on(grid: Grid) -> Result<BTreeSet<u32>, JobError> {
    let Some(workers) = grid.restored::<CollectionRef<Worker>>().await? else {
        return Err("main has no progress point".into());
    };
    let workers = grid.collection(workers);
    workers.broadcast(Message::Tell);
    Ok(workers.reduction(Union).await?)
}

fn all_processes_store_a_checkpoint_and_continue_from_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_path_buf();
    // The job of the other processes does not have these settings.
    let stored = job()
        .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
        .checkpoint_folder(folder.path());
    let limited = || runner().time_limit(Duration::from_secs(60));
    limited().start(stored, move |grid| store(grid, path)).wait().expect("it is stored");

    let restarted = job().restart(folder.path());
    let found = limited().start(restarted, go_on).wait().expect("the job goes on");
    assert_eq!(found.len(), 3, "{found:?}");
}

fn many_jobs_leave_no_process() {
    for _ in 0..20 {
        runner().start(job(), processes).wait().expect("the job ends well");
    }
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists threads");
    let paths: Vec<PathBuf> =
        tasks.map(|task| task.expect("readable").path().join("children")).collect();
    // A thread may have ended meanwhile.
    let children: String =
        paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    assert_eq!(children, "");
}

fn main() -> ExitCode {
    if let Some(ended) = embed::node(job()) {
        return ended;
    }
    if !cfg!(target_os = "linux") {
        println!("skipped: the tests look for processes in /proc");
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 8] = [
        ("main_runs_here", main_runs_here_and_its_value_needs_no_encoding),
        ("several_jobs", several_jobs_run_at_a_time),
        ("in_a_detached_job", nodes_start_in_a_program_that_is_a_node_of_a_detached_job),
        ("a_program_that_is_not_a_node", a_program_that_is_not_a_node_is_an_error),
        ("cancelling", cancelling_ends_the_processes),
        ("a_process_that_is_killed", a_process_that_is_killed_is_a_lost_node),
        ("checkpoints", all_processes_store_a_checkpoint_and_continue_from_it),
        ("many_jobs", many_jobs_leave_no_process),
    ];
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (name, test) in tests {
        if filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
            let begin = Instant::now();
            test();
            println!("{name}: ok, {:.1} s", begin.elapsed().as_secs_f64());
        }
    }
    ExitCode::SUCCESS
}
