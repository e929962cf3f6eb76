//! Questions that have no answer yet at a checkpoint: each is answered once after a restart, even
//! if actors move and the PEs change.

use super::{every, gathered, grid, without};
use gridspan_runtime::pe::PlantedFault;
use gridspan_runtime::{
    Actor, AskError, Collection, CollectionRef, Context, Grid, Image, Ix1, Job, JobError, Op, PeId,
    Progress, Reply, RestorePlan, TaggedAnswer, To,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::{GridSpec, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ASKERS: u32 = 24;
const ORACLES: u32 = 7;
const STEPS: u32 = 24;
/// Time after which an oracle answers, longer than a step.
const THINKING: Duration = Duration::from_millis(70);
/// Time-out of the questions that no oracle answers.
const PATIENCE: Duration = Duration::from_millis(200);
const HOUR: Duration = Duration::from_secs(3600);

/// Whether an oracle answers a question of this step.
fn is_answered(step: u64) -> bool {
    step % 5 != 4
}

fn answer_to(asker: u64, step: u64) -> u64 {
    (asker + 1) * 1_000_003 + step * step
}

/// Asks an oracle in each step, and moves about.
#[derive(Serialize, Deserialize)]
struct Asker {
    open: BTreeSet<u64>,
    sum: u64,
    /// Number of questions that timed out.
    late: u64,
    /// Number of answers to questions that were not open.
    repeated: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum AskerMessage {
    Step(u32, CollectionRef<Oracle>),
    Answered(u64, Option<u64>),
    CountOpen,
    Report,
}

impl Actor for Asker {
    type Index = Ix1;
    type Init = ();
    type Message = AskerMessage;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self { open: BTreeSet::new(), sum: 0, late: 0, repeated: 0 }
    }

    fn handle(&mut self, message: AskerMessage, cx: &mut Context<'_, Self>) {
        match message {
            AskerMessage::Step(step, oracles) => {
                let me = cx.index().0 as u32;
                let (asker, step) = (u64::from(me), u64::from(step));
                self.open.insert(step);
                let oracle = oracles.at(Ix1(((me * 5 + step as u32) % ORACLES) as i32));
                let timeout = if is_answered(step) { HOUR } else { PATIENCE };
                cx.ask_tagged(&oracle, timeout, step, |reply| OracleMessage::Question {
                    asker,
                    step,
                    reply,
                });
                if (me + step as u32).is_multiple_of(4) {
                    cx.migrate_to(PeId((cx.pe().0 * 5 + 1 + me) % cx.layout().pe_count()));
                }
                cx.contribute(Op::Sum, 1_u64, To::main());
            }
            AskerMessage::Answered(step, answer) => {
                self.repeated += u64::from(!self.open.remove(&step));
                match answer {
                    Some(answer) => self.sum += answer,
                    None => self.late += 1,
                }
            }
            AskerMessage::CountOpen => {
                cx.contribute(Op::Sum, self.open.len() as u64, To::main());
            }
            AskerMessage::Report => {
                let report = vec![self.sum, self.late, self.repeated, self.open.len() as u64];
                cx.contribute(Op::Concat, report, To::main());
            }
        }
    }

    fn answered(answer: TaggedAnswer) -> Option<AskerMessage> {
        let step = answer.tag;
        match answer.get() {
            Ok(answer) => Some(AskerMessage::Answered(step, Some(answer))),
            Err(AskError::Timeout) => Some(AskerMessage::Answered(step, None)),
            Err(_) => None,
        }
    }
}

/// Answers after some time, and moves about.
#[derive(Serialize, Deserialize)]
struct Oracle {
    thoughts: Vec<(u64, u64, Reply<u64>)>,
}

#[derive(Clone, Serialize, Deserialize)]
enum OracleMessage {
    Question { asker: u64, step: u64, reply: Reply<u64> },
    Answer,
}

impl Actor for Oracle {
    type Index = Ix1;
    type Init = ();
    type Message = OracleMessage;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self { thoughts: Vec::new() }
    }

    fn handle(&mut self, message: OracleMessage, cx: &mut Context<'_, Self>) {
        match message {
            OracleMessage::Question { asker, step, reply } => {
                if !is_answered(step) {
                    return;
                }
                self.thoughts.push((asker, step, reply));
                let me = cx.me();
                cx.send_after(THINKING, &me, OracleMessage::Answer);
                if (asker + step).is_multiple_of(6) {
                    cx.migrate_to(PeId((cx.pe().0 + 3) % cx.layout().pe_count()));
                }
            }
            OracleMessage::Answer => {
                let (asker, step, reply) = self.thoughts.remove(0);
                cx.reply(reply, answer_to(asker, step));
            }
        }
    }
}

/// State of main in a checkpoint.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct At {
    step: u32,
    askers: CollectionRef<Asker>,
    oracles: CollectionRef<Oracle>,
}

/// Notes of main for the test.
#[derive(Default)]
struct Notes {
    /// Sum of the numbers of open questions at the times when main began again.
    open: u64,
    postponed: Vec<String>,
    /// For each asker its sum, and its numbers of late, repeated and missing answers.
    reports: Vec<u64>,
}

type Shared = Arc<Mutex<Notes>>;

fn job(notes: &Shared, fault: PlantedFault) -> Job {
    let notes = notes.clone();
    let main = async move |grid: Grid| run(grid, &notes).await;
    let job = Job::new("questions").actor::<Asker>().actor::<Oracle>().restartable_main(main);
    job.checkpoints(every(1)).planted_fault(fault)
}

async fn run(grid: Grid, notes: &Shared) -> Result<(), JobError> {
    let mut at = match grid.restored::<At>().await? {
        Some(at) => {
            let askers = grid.collection(at.askers);
            askers.broadcast(AskerMessage::CountOpen);
            let open: u64 = askers.reduction(Op::Sum).await?;
            notes.lock().unwrap().open += open;
            at
        }
        None => {
            let askers = grid.create::<Asker>(Ix1::range(ASKERS), |_| ()).await?;
            let oracles = grid.create::<Oracle>(Ix1::range(ORACLES), |_| ()).await?;
            At { step: 0, askers: askers.reference(), oracles: oracles.reference() }
        }
    };
    let askers: Collection<Asker> = grid.collection(at.askers);
    while at.step < STEPS {
        if let Progress::Postponed { reason } = grid.progress(&at).await?
            && reason != "the checkpoint before is still being encoded or stored"
        {
            notes.lock().unwrap().postponed.push(reason);
        }
        askers.broadcast(AskerMessage::Step(at.step, at.oracles));
        assert_eq!(askers.reduction::<u64>(Op::Sum).await?, u64::from(ASKERS));
        at.step += 1;
    }
    grid.quiescence().await?;
    askers.broadcast(AskerMessage::Report);
    let reports: Vec<u64> = askers.reduction(Op::Concat).await?;
    notes.lock().unwrap().reports = reports;
    Ok(())
}

/// The reports of the askers if each question is answered once, or times out.
fn expected() -> Vec<u64> {
    let late = (0..u64::from(STEPS)).filter(|&step| !is_answered(step)).count() as u64;
    let of = |asker| {
        let answered = (0..u64::from(STEPS)).filter(|&step| is_answered(step));
        let sum: u64 = answered.map(|step| answer_to(asker, step)).sum();
        [sum, late, 0, 0]
    };
    (0..u64::from(ASKERS)).flat_map(of).collect()
}

/// Runs until a time. Returns the last checkpoint, without the parts that only a lost node has.
fn image(simulation: Simulation, at: Time, lost: Option<usize>) -> Image {
    let Ok(halted) = simulation.run_until(at) else { panic!("it has ended before {at}") };
    let image = match lost {
        Some(lost) => gathered(&halted.stores, lost),
        None => halted.checkpoint().unwrap(),
    };
    image.expect("checkpoints were made")
}

fn start(notes: &Shared, seed: u64) -> Simulation {
    let job = job(notes, PlantedFault::None);
    Simulation::new(job, grid("2x2x2,wan=8ms"), SimOptions::with_seed(seed)).unwrap()
}

/// A job that goes on from a checkpoint on another grid.
fn again(notes: &Shared, fault: PlantedFault, spec: GridSpec, image: Image) -> Simulation {
    let plan = RestorePlan::restart(image.layout(), spec.layout());
    let options = SimOptions::with_seed(image.number());
    Simulation::restored(job(notes, fault), spec, options, (image, plan)).unwrap()
}

fn assert_answered_once(report: &SimReport, notes: &Shared, what: &str) {
    let notes = notes.lock().unwrap();
    assert_eq!(report.outcome, Ok(()), "{what}: {:?}", report.ending);
    assert_eq!(notes.postponed, Vec::<String>::new(), "{what}");
    assert_eq!(notes.reports, expected(), "{what}");
}

#[test]
fn open_questions_postpone_no_checkpoint_and_change_no_result() {
    for seed in 0..3 {
        let notes = Shared::default();
        let report = start(&notes, seed).run();
        assert_answered_once(&report, &notes, &format!("seed {seed}"));
    }
}

#[test]
fn questions_are_answered_once_after_a_restart_on_any_layout() {
    let mut open = 0;
    for seed in 0..8 {
        for text in ["2x2x2,wan=8ms", "2x1,wan=8ms", "1x1x1", "3x2x4,wan=8ms"] {
            let notes = Shared::default();
            let at = Time(150_000_000 + seed * 43_000_000);
            let image = image(start(&notes, seed), at, None);
            let report = again(&notes, PlantedFault::None, grid(text), image).run();
            assert_answered_once(&report, &notes, &format!("seed {seed}, {text}"));
            open += notes.lock().unwrap().open;
        }
    }
    assert!(open > 200, "only {open} questions were open");
}

#[test]
fn questions_are_answered_once_without_any_of_the_nodes() {
    for seed in 0..8_u64 {
        let lost = seed as usize % 4;
        let notes = Shared::default();
        let at = Time(200_000_000 + seed * 37_000_000);
        let image = image(start(&notes, seed), at, Some(lost));
        let (left, nodes) = without(&grid("2x2x2,wan=8ms"), lost as u32);
        // The next node of the site has the copies.
        let holder = nodes[lost ^ 1].unwrap();
        let holders: Vec<_> = nodes.iter().map(|node| node.or(Some(holder))).collect();
        let plan = RestorePlan::recovery(&image, &left, &nodes, &holders).unwrap();
        let (job, options) = (job(&notes, PlantedFault::None), SimOptions::with_seed(seed + 100));
        let report = Simulation::restored(job, left, options, (image, plan)).unwrap().run();
        assert_answered_once(&report, &notes, &format!("seed {seed}, node {lost}"));
    }
}

#[test]
fn a_question_outlives_several_restarts() {
    // Each restart changes the number of PEs. On one PE, all steps together take less time than an
    // answer.
    let [short, long] = [60_000_000, 260_000_000].map(Time);
    for (first, until, second) in
        [("1x1x1", short, "2x2x2,wan=8ms"), ("3x2x4,wan=8ms", long, "1x1x3")]
    {
        let notes = Shared::default();
        let once = image(start(&notes, 1), Time(230_000_000), None);
        let at = once.at();
        let twice = again(&notes, PlantedFault::None, grid(first), once);
        // Simulations count time from the start of the run.
        let twice = image(twice, until, None);
        assert!(twice.at() > at, "the second run has made a checkpoint");
        let report = again(&notes, PlantedFault::None, grid(second), twice).run();
        assert_answered_once(&report, &notes, second);
    }
}

#[test]
fn questions_that_are_left_out_of_the_image_are_never_answered() {
    let notes = Shared::default();
    let first = job(&notes, PlantedFault::QuestionsLeftOut);
    let first = Simulation::new(first, grid("2x2x2,wan=8ms"), SimOptions::with_seed(1)).unwrap();
    let image = image(first, Time(230_000_000), None);
    let again = again(&notes, PlantedFault::QuestionsLeftOut, grid("2x2x2,wan=8ms"), image);
    assert_eq!(again.run().outcome, Ok(()));
    assert_ne!(notes.lock().unwrap().reports, expected());
}
