//! A question that has no answer at a checkpoint is answered once after a restart from a folder, on
//! threads and over QUIC.

use gridspan_runtime::driver::{CheckpointArchive, embedded};
use gridspan_runtime::{
    Actor, ActorRef, CheckpointEvery, Checkpoints, CollectionRef, Context, Grid, Ix1, Job,
    JobError, Op, Progress, Reply, TaggedAnswer, To,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

const ASKERS: u32 = 12;
const MINUTE: Duration = Duration::from_secs(60);

/// The error that ends the first run, once the checkpoint is stored.
const STORED: &str = "the checkpoint is stored";

#[derive(Serialize, Deserialize)]
struct Asker {
    answers: Vec<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
enum AskerMessage {
    Ask(ActorRef<Oracle>),
    Answered(u64),
    Report,
}

impl Actor for Asker {
    type Index = Ix1;
    type Init = ();
    type Message = AskerMessage;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { answers: Vec::new() }
    }

    fn handle(&mut self, message: AskerMessage, cx: &mut Context<'_, Self>) {
        match message {
            AskerMessage::Ask(oracle) => {
                let me = cx.index().0 as u64;
                let question = |reply| OracleMessage::Question(me, reply);
                cx.ask_tagged(&oracle, 10 * MINUTE, me, question);
            }
            AskerMessage::Answered(answer) => self.answers.push(answer),
            AskerMessage::Report => cx.contribute(Op::Concat, self.answers.clone(), To::main()),
        }
    }

    fn answered(answer: TaggedAnswer) -> Option<AskerMessage> {
        let tag = answer.tag;
        Some(AskerMessage::Answered(100 * tag + answer.get::<u64>().ok()?))
    }
}

/// Keeps questions until main asks it to answer all.
#[derive(Serialize, Deserialize)]
struct Oracle {
    questions: Vec<(u64, Reply<u64>)>,
}

#[derive(Clone, Serialize, Deserialize)]
enum OracleMessage {
    Question(u64, Reply<u64>),
    Count(Reply<u64>),
    AnswerAll,
}

impl Actor for Oracle {
    type Index = Ix1;
    type Init = ();
    type Message = OracleMessage;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { questions: Vec::new() }
    }

    fn handle(&mut self, message: OracleMessage, cx: &mut Context<'_, Self>) {
        match message {
            OracleMessage::Question(by, reply) => self.questions.push((by, reply)),
            OracleMessage::Count(reply) => cx.reply(reply, self.questions.len() as u64),
            OracleMessage::AnswerAll => {
                for (by, reply) in std::mem::take(&mut self.questions) {
                    cx.reply(reply, by + 7);
                }
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
struct At {
    askers: CollectionRef<Asker>,
    oracles: CollectionRef<Oracle>,
}

fn job(folder: &Path) -> Job {
    let folder = folder.to_path_buf();
    let main = async move |grid: Grid| match grid.restored().await? {
        None => Err(ask(&grid, &folder).await?),
        Some(at) => answer(&grid, at).await,
    };
    let job = Job::new("questions").actor::<Asker>().actor::<Oracle>().restartable_main(main);
    job.time_limit(MINUTE)
}

/// Makes a checkpoint while no question has an answer. Returns the error that ends the first run.
async fn ask(grid: &Grid, folder: &Path) -> Result<JobError, JobError> {
    let askers = grid.create::<Asker>(Ix1::range(ASKERS), |_| ()).await?;
    let oracles = grid.create::<Oracle>(Ix1::range(1), |_| ()).await?;
    let oracle = oracles.member(Ix1(0));
    askers.broadcast(AskerMessage::Ask(oracle.reference()));
    while oracle.ask(MINUTE, OracleMessage::Count).await? < u64::from(ASKERS) {
        grid.sleep(Duration::from_millis(1)).await?;
    }
    let at = At { askers: askers.reference(), oracles: oracles.reference() };
    let made = grid.progress(&at).await?;
    assert_eq!(made, Progress::Taken { number: 1 });
    let archive = CheckpointArchive::open(folder)?;
    while archive.complete()?.is_empty() {
        grid.sleep(Duration::from_millis(5)).await?;
    }
    Ok(STORED.into())
}

/// Checks that each question gets one answer.
async fn answer(grid: &Grid, at: At) -> Result<(), JobError> {
    grid.collection(at.oracles).member(Ix1(0)).send(OracleMessage::AnswerAll);
    grid.quiescence().await?;
    let askers = grid.collection(at.askers);
    askers.broadcast(AskerMessage::Report);
    let answers: Vec<u64> = askers.reduction(Op::Concat).await?;
    let expected: Vec<u64> = (0..u64::from(ASKERS)).map(|by| 100 * by + by + 7).collect();
    assert_eq!(answers, expected);
    Ok(())
}

/// Stops a job after its checkpoint, and goes on from there.
fn assert_answered(
    first: impl FnOnce(Job) -> Result<(), JobError>,
    second: impl FnOnce(Job) -> Result<(), JobError>,
) {
    let folder = tempfile::tempdir().unwrap();
    let stored = job(folder.path())
        .checkpoint_folder(folder.path())
        .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)));
    assert_eq!(first(stored), Err(JobError::Failed(STORED.to_owned())));
    assert_eq!(second(job(folder.path()).restart(folder.path())), Ok(()));
}

#[test]
fn on_fewer_and_on_more_threads() {
    assert_answered(|job| embedded::run(job, 4), |job| embedded::run(job, 1));
    assert_answered(|job| embedded::run(job, 1), |job| embedded::run(job, 3));
}

/// Runs a job on nodes of this process.
#[cfg(feature = "net")]
fn emulated(text: &str) -> impl FnOnce(Job) -> Result<(), JobError> + use<> {
    let spec = gridspan_topology::GridSpec::from_emulate(text).unwrap();
    move |job| embedded::run_emulated(job, &spec)
}

#[cfg(feature = "net")]
#[test]
fn on_nodes_over_quic_and_on_others() {
    assert_answered(emulated("2x1x2,wan=1ms"), |job| embedded::run(job, 3));
    assert_answered(|job| embedded::run(job, 2), emulated("2x1x2,wan=1ms"));
}
