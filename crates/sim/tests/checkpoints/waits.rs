//! What waits at a checkpoint: actors, for quiescence or for an answer that comes too late, and
//! main, which may wait for nothing else.

use super::{every, grid};
use gridspan_runtime::{
    Actor, Collection, CollectionRef, Context, Grid, GridError, Ix1, Job, Op, Progress, Reply,
    RestorePlan, TaggedAnswer, To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// An actor that waits and asks, and that answers questions at `AnswerAll`.
#[derive(Default, Serialize, Deserialize)]
struct Waiter {
    ticks: u64,
    /// Number of ticks at each quiescence.
    quiet: Vec<u64>,
    questions: Vec<Reply<u64>>,
    answers: Vec<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    WaitForQuiescence,
    Tick,
    Quiet,
    /// Ask the next member, for at most this time.
    Ask(Duration),
    Question(Reply<u64>),
    AnswerAll,
    Answered(Option<u64>),
    Report,
}

impl Actor for Waiter {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self::default()
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        let me = cx.me();
        match message {
            Message::WaitForQuiescence => {
                cx.send_after(5 * SECOND, &me, Message::Tick);
                cx.when_quiescent(Message::Quiet);
            }
            Message::Tick => self.ticks += 1,
            Message::Quiet => self.quiet.push(self.ticks),
            Message::Ask(timeout) => {
                let next = cx.collection().at(Ix1(cx.index().0 + 1));
                cx.ask_tagged(&next, timeout, 0, Message::Question);
            }
            Message::Question(reply) => self.questions.push(reply),
            Message::AnswerAll => {
                for (number, reply) in (1..).zip(std::mem::take(&mut self.questions)) {
                    cx.reply(reply, number);
                }
            }
            Message::Answered(answer) => self.answers.push(answer.unwrap_or(0)),
            Message::Report => {
                let lists = (self.quiet.clone(), self.answers.clone());
                cx.contribute((Op::Concat, Op::Concat), lists, To::main());
            }
        }
    }

    fn answered(answer: TaggedAnswer) -> Option<Message> {
        Some(Message::Answered(answer.get().ok()))
    }
}

/// Quiescences and answers that the members report.
type Lists = (Vec<u64>, Vec<u64>);

/// What an actor waits for at the checkpoint.
#[derive(Clone, Copy)]
enum Case {
    Quiescence,
    /// The answer to a question that has timed out comes later.
    LateAnswer,
}

impl Case {
    /// What main does before the checkpoint.
    async fn begin(self, grid: &Grid, waiters: &Collection<Waiter>) -> Result<(), GridError> {
        waiters.member(Ix1(0)).send(match self {
            Self::Quiescence => Message::WaitForQuiescence,
            Self::LateAnswer => Message::Ask(SECOND / 2),
        });
        grid.sleep(SECOND).await
    }

    /// What main does after the checkpoint, also in a run that begins there.
    async fn go_on(self, grid: &Grid, waiters: &Collection<Waiter>) -> Result<(), GridError> {
        if matches!(self, Self::LateAnswer) {
            waiters.member(Ix1(0)).send(Message::Ask(60 * SECOND));
            grid.sleep(SECOND).await?;
            waiters.member(Ix1(1)).send(Message::AnswerAll);
        }
        grid.sleep(20 * SECOND).await
    }

    async fn run(self, grid: Grid) -> Result<Lists, GridError> {
        let restored: Option<CollectionRef<Waiter>> = grid.restored().await?;
        let waiters = match restored {
            Some(waiters) => grid.collection(waiters),
            None => {
                let waiters = grid.create::<Waiter>(Ix1::range(2), |_| ()).await?;
                self.begin(&grid, &waiters).await?;
                let made = grid.progress(&waiters.reference()).await?;
                assert!(matches!(made, Progress::Taken { number: 1 }), "{made:?}");
                waiters
            }
        };
        self.go_on(&grid, &waiters).await?;
        waiters.broadcast(Message::Report);
        waiters.reduction((Op::Concat, Op::Concat)).await
    }

    fn job(self, reports: &Arc<Mutex<Vec<Lists>>>) -> Job {
        let reports = reports.clone();
        let main = async move |grid: Grid| {
            let report = self.run(grid).await?;
            reports.lock().unwrap().push(report);
            Ok(())
        };
        Job::new("waits").actor::<Waiter>().restartable_main(main).checkpoints(every(1))
    }

    /// The reports of the members in a run without interruption, and in one that continues from the
    /// checkpoint on another grid.
    fn reports(self) -> Vec<Lists> {
        let reports = Arc::default();
        let start = || {
            let (job, options) = (self.job(&reports), SimOptions::with_seed(1));
            Simulation::new(job, grid("2x1,wan=8ms"), options).unwrap()
        };
        assert_eq!(start().run().outcome, Ok(()));
        let Ok(halted) = start().run_until(Time(3_000_000_000)) else { panic!("it has ended") };
        let image = halted.checkpoint().unwrap().unwrap();
        let spec = grid("1x1x3");
        let plan = RestorePlan::restart(image.layout(), spec.layout());
        let (job, options) = (self.job(&reports), SimOptions::with_seed(2));
        let again = Simulation::restored(job, spec, options, (image, plan)).unwrap();
        assert_eq!(again.run().outcome, Ok(()));
        let reports = reports.lock().unwrap();
        reports.clone()
    }
}

#[test]
fn an_actor_that_waits_for_quiescence_gets_its_message_once() {
    // Quiescence comes after the first tick.
    let once = (vec![1], vec![]);
    assert_eq!(Case::Quiescence.reports(), [once.clone(), once]);
}

#[test]
fn an_answer_that_is_too_late_is_not_taken_for_that_to_a_later_question() {
    // The first question timed out, and the second got the second answer.
    let second = (vec![], vec![0, 2]);
    assert_eq!(Case::LateAnswer.reports(), [second.clone(), second]);
}

/// Polls a future once. It does not resolve yet.
async fn begin<F: Future>(mut future: Pin<&mut F>) {
    let is_pending = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
    assert!(is_pending);
}

#[test]
fn main_that_waits_for_something_else_at_a_progress_point_gets_an_error_that_says_so() {
    let main = async |grid: Grid| {
        let lists = || (Op::Concat, Op::Concat);
        let waiters = grid.create::<Waiter>(Ix1::range(2), |_| ()).await?;
        {
            let mut early = pin!(waiters.reduction::<Lists>(lists()));
            begin(early.as_mut()).await;
            assert_eq!(grid.progress(&()).await, Err(GridError::ProgressWhileWaiting));
        }
        let dropped = grid.progress(&()).await;
        assert_eq!(dropped, Err(GridError::ProgressWhileWaiting), "main gave up a result");
        waiters.broadcast(Message::Report);
        waiters.reduction::<Lists>(lists()).await?;

        waiters.member(Ix1(0)).send(Message::WaitForQuiescence);
        let mut quiet = pin!(grid.quiescence());
        begin(quiet.as_mut()).await;
        let error = grid.progress(&()).await.unwrap_err();
        assert!(error.to_string().contains("main waits for something else"), "{error}");
        quiet.await?;

        let made = grid.progress(&()).await?;
        assert!(matches!(made, Progress::Taken { number: 1 }), "it waits no longer: {made:?}");
        Ok(())
    };
    let job = Job::new("waits").actor::<Waiter>().restartable_main(main).checkpoints(every(1));
    let simulation = Simulation::new(job, grid("2x1,wan=8ms"), SimOptions::with_seed(1)).unwrap();
    assert_eq!(simulation.run().outcome, Ok(()));
}

#[test]
fn a_question_of_main_without_an_answer_postpones_a_checkpoint() {
    let main = async |grid: Grid| {
        let waiters = grid.create::<Waiter>(Ix1::range(2), |_| ()).await?;
        let asked = waiters.member(Ix1(1));
        let mut answer = pin!(asked.ask::<u64>(60 * SECOND, Message::Question));
        begin(answer.as_mut()).await;

        let postponed = grid.progress(&()).await?;
        let says_why = |reason: &str| reason == "1 question of main waits for an answer";
        assert!(
            matches!(&postponed, Progress::Postponed { reason } if says_why(reason)),
            "{postponed:?}"
        );

        waiters.member(Ix1(1)).send(Message::AnswerAll);
        assert_eq!(answer.await?, 1);
        grid.sleep(SECOND).await?;
        let made = grid.progress(&()).await?;
        assert!(matches!(made, Progress::Taken { .. }), "{made:?}");
        Ok(())
    };
    let job = Job::new("waits").actor::<Waiter>().restartable_main(main).checkpoints(every(1));
    let simulation = Simulation::new(job, grid("2x1,wan=8ms"), SimOptions::with_seed(1)).unwrap();
    assert_eq!(simulation.run().outcome, Ok(()));
}
