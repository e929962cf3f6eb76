//! A user's program with a group and a collection: it loses a node, and nodes leave and join.
#![cfg(target_os = "linux")]

use crate::common::{LIMIT, Running, finish, gridctl};
use gridspan_runtime::{
    Actor, CheckpointEvery, Checkpoints, CollectionRef, Context, Grid, Ix1, Job, JobError, Op, Per,
    To,
};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Duration;

/// Variable that makes this test program a user's program.
const IS_PROGRAM: &str = "GRIDCTL_TEST_GROUP";
const WALKERS: u32 = 30;
const STEPS: u64 = 800;

/// Counts the steps of walkers on its PE.
#[derive(Serialize, Deserialize)]
struct Tally(u64);

#[derive(Clone, Serialize, Deserialize)]
enum ToTally {
    Note,
    Report,
}

impl Actor for Tally {
    type Index = Ix1;
    type Init = ();
    type Message = ToTally;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self(0)
    }

    fn handle(&mut self, message: ToTally, cx: &mut Context<'_, Self>) {
        match message {
            ToTally::Note => self.0 += 1,
            ToTally::Report => cx.contribute(Op::Sum, self.0, To::main()),
        }
    }
}

/// Reports each of its steps to the tally of its PE.
#[derive(Serialize, Deserialize)]
struct Walker(CollectionRef<Tally>);

impl Actor for Walker {
    type Index = Ix1;
    type Init = CollectionRef<Tally>;
    type Message = ();

    fn create(tallies: CollectionRef<Tally>, _cx: &mut Context<'_, Self>) -> Self {
        Self(tallies)
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        cx.send(&cx.on_this_pe(&self.0), ToTally::Note);
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

/// The state of main at a progress point.
#[derive(Serialize, Deserialize)]
struct AtStep {
    step: u64,
    tallies: CollectionRef<Tally>,
    walkers: CollectionRef<Walker>,
}

async fn begin(grid: &Grid) -> Result<AtStep, JobError> {
    let tallies = grid.create_group::<Tally>(Per::Pe, |_| ()).await?.reference();
    let walkers = grid.create::<Walker>(Ix1::range(WALKERS), |_| tallies).await?.reference();
    Ok(AtStep { step: 0, tallies, walkers })
}

async fn walk(grid: Grid) -> Result<(), JobError> {
    let mut at = match grid.restored().await? {
        Some(at) => at,
        None => begin(&grid).await?,
    };
    let (walkers, tallies) = (grid.collection(at.walkers), grid.collection(at.tallies));
    while at.step < STEPS {
        grid.progress(&at).await?;
        walkers.broadcast(());
        assert_eq!(walkers.reduction::<u64>(Op::Sum).await?, u64::from(WALKERS));
        at.step += 1;
        if at.step.is_multiple_of(20) {
            println!("step {}", at.step);
        }
        grid.sleep(Duration::from_millis(5)).await?;
    }
    grid.quiescence().await?;
    tallies.broadcast(ToTally::Report);
    let noted: u64 = tallies.reduction(Op::Sum).await?;
    println!("{noted} steps were noted on {} PEs", grid.layout().pe_count());
    Ok(())
}

#[test]
fn a_process_of_another_test() {
    if std::env::var_os(IS_PROGRAM).is_some() {
        let merge =
            |tally: &mut Tally, other: Tally, _: &mut Context<'_, Tally>| tally.0 += other.0;
        let job = Job::new("walk")
            .resizable_group::<Tally>(|_| (), merge)
            .actor::<Walker>()
            .checkpoints(Checkpoints::every(CheckpointEvery::Points(30)))
            .restartable_main(walk);
        let code = gridspan::main(job);
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    }
}

/// The program as a job of four nodes, and the folder where requests reach it.
struct Walk {
    job: Running,
    folder: tempfile::TempDir,
}

impl Walk {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let variable = format!("{IS_PROGRAM}=yes");
        let test = "own_program::a_process_of_another_test";
        let place = ["run", "--emulate", "2x2,wan=2ms", "-d", "cluster", "--env", &variable];
        let program = [own.to_str().unwrap(), "--exact", test, "--nocapture"];
        let variables = [("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())];
        Self { job: Running::start_with(&[&place[..], &program].concat(), &variables), folder }
    }

    fn request(&self, arguments: &[&str]) -> String {
        let mut command = gridctl(arguments);
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        finish(command).stdout
    }

    fn assert_complete(mut self, pes: u32) {
        let total = u64::from(WALKERS) * STEPS;
        self.job.await_line(&format!("{total} steps were noted on {pes} PEs"));
        assert_eq!(self.job.wait(LIMIT).expect("the job ends").code(), Some(0));
    }
}

#[test]
fn a_group_counts_right_after_the_loss_of_a_node() {
    let walk = Walk::start();
    let nodes = walk.job.nodes(4);
    walk.job.await_line("step 100");

    kill_process(Pid::from_raw(nodes[3] as i32).unwrap(), Signal::KILL).unwrap();

    walk.job.await_line("going back to checkpoint");
    walk.assert_complete(3);
}

#[test]
fn a_group_counts_right_after_nodes_have_left_and_joined() {
    let walk = Walk::start();
    walk.job.await_line("step 60");

    assert_eq!(walk.request(&["drain", "b"]), "b/2, b/3 have left\n");
    walk.job.await_line("step 80");
    assert_eq!(walk.request(&["add", "b/3"]), "b/3 has joined\n");

    walk.assert_complete(3);
}
