//! The job that the benches of the network run: questions, small messages and large ones from the
//! actor on one node to that on another.

use crate::figures::Sample;
use crate::nodes::{Cores, run_job};
use gridspan::runtime::{Actor, ActorRef, AskError, Context, Ix1, Job, Numbers, Placement, Reply};
use gridspan::topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Small messages sent by one handler.
const BURST: u64 = 64;
/// Small messages that may be unanswered, as in any program that does not want to drown its peer.
const SMALL_CREDIT: u64 = 1 << 17;
/// How many small messages are answered by one.
const SMALL_PER_ANSWER: u64 = 1 << 14;
/// Large messages that may be unanswered.
const LARGE_CREDIT: u64 = 16;
/// Longer than any measurement takes, even where ten compilers run beside it.
const PATIENCE: Duration = Duration::from_secs(300);

/// 64 bytes, in memory and on the network.
type Small = [f64; 8];

/// What to measure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Ask so many questions of 64 bytes, each when the one before was answered.
    Ask(u64),
    /// Send so many messages of 64 bytes.
    Stream(u64),
    /// Send so many messages of so many bytes.
    Bulk(u64, u32),
    /// Send so many bytes there and wait until they are back, so often.
    Echo(u64, u32),
}

impl Task {
    fn operations(self) -> u64 {
        match self {
            Self::Ask(count) | Self::Stream(count) => count,
            Self::Bulk(count, _) | Self::Echo(count, _) => count,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Side {
    task: Option<(Task, Reply<()>)>,
    left: u64,
    credit: u64,
    received: u64,
    data: Numbers<u8>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Run(Task, Reply<()>),
    Question(Small, Reply<Small>),
    Answer(Result<Small, ()>),
    Small(Small),
    Large(Numbers<u8>),
    /// So many messages have come.
    Credit(u64),
    /// Send more.
    More,
    There(Numbers<u8>),
    Back(Numbers<u8>),
}

impl Side {
    fn other(cx: &Context<'_, Self>) -> ActorRef<Self> {
        cx.collection().at(Ix1(1 - cx.index().0))
    }

    fn finish(&mut self, cx: &mut Context<'_, Self>) {
        if let Some((_, reply)) = self.task.take() {
            cx.reply(reply, ());
        }
    }

    fn ask(&mut self, question: Small, cx: &mut Context<'_, Self>) {
        if self.left == 0 {
            return self.finish(cx);
        }
        self.left -= 1;
        let answered = |answer: Result<Small, AskError>| Msg::Answer(answer.map_err(drop));
        let question = move |reply| Msg::Question(question, reply);
        cx.ask(&Self::other(cx), PATIENCE, question, answered);
    }

    /// Sends as much as credit allows, a burst at a time.
    fn more(&mut self, cx: &mut Context<'_, Self>) {
        let Some((task, _)) = &self.task else { return };
        let is_small = matches!(task, Task::Stream(_));
        let other = Self::other(cx);
        let burst = self.left.min(self.credit).min(if is_small { BURST } else { 1 });
        for at in 0..burst {
            let message =
                if is_small { Msg::Small([at as f64; 8]) } else { Msg::Large(self.data.clone()) };
            cx.send(&other, message);
        }
        self.left -= burst;
        self.credit -= burst;
        if burst > 0 {
            let me = cx.me();
            cx.send(&me, Msg::More);
        }
    }

    fn echo(&mut self, data: Numbers<u8>, cx: &mut Context<'_, Self>) {
        if self.left == 0 {
            return self.finish(cx);
        }
        self.left -= 1;
        cx.send(&Self::other(cx), Msg::There(data));
    }
}

impl Actor for Side {
    type Index = Ix1;
    type Init = ();
    type Message = Msg;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { task: None, left: 0, credit: 0, received: 0, data: Numbers::default() }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Run(task, reply) => {
                self.task = Some((task, reply));
                self.left = task.operations();
                self.received = 0;
                if self.left == 0 {
                    return self.finish(cx);
                }
                let fill = |bytes: u32| Numbers::from(vec![7; bytes as usize]);
                match task {
                    Task::Ask(_) => self.ask([1.0; 8], cx),
                    Task::Stream(_) => {
                        self.credit = SMALL_CREDIT;
                        self.more(cx);
                    }
                    Task::Bulk(_, bytes) => {
                        self.credit = LARGE_CREDIT;
                        self.data = fill(bytes);
                        self.more(cx);
                    }
                    Task::Echo(_, bytes) => self.echo(fill(bytes), cx),
                }
            }
            Msg::Question(question, reply) => cx.reply(reply, question),
            Msg::Answer(answer) => self.ask(answer.unwrap_or_default(), cx),
            Msg::Small(_) => {
                self.received += 1;
                if self.received.is_multiple_of(SMALL_PER_ANSWER) {
                    cx.send(&Self::other(cx), Msg::Credit(SMALL_PER_ANSWER));
                }
            }
            Msg::Large(_) => cx.send(&Self::other(cx), Msg::Credit(1)),
            Msg::Credit(messages) => {
                self.credit += messages;
                self.received += messages;
                if self.task.as_ref().is_some_and(|(task, _)| self.received == task.operations()) {
                    return self.finish(cx);
                }
                self.more(cx);
            }
            Msg::More => self.more(cx),
            Msg::There(data) => cx.send(&Self::other(cx), Msg::Back(data)),
            Msg::Back(data) => self.echo(data, cx),
        }
    }

    fn heap_bytes(message: &Msg) -> usize {
        match message {
            Msg::Large(data) | Msg::There(data) | Msg::Back(data) => data.len(),
            _ => 0,
        }
    }
}

/// The definition, on both nodes.
pub(crate) fn job() -> Job {
    Job::new("wire").actor::<Side>()
}

/// Does `warm_up` and then measures `task` between two processes. The number of small messages is
/// rounded so that the last is answered.
pub(crate) fn measure(
    spec: &GridSpec,
    emulate: bool,
    cores: Cores,
    warm_up: Task,
    task: Task,
) -> Sample {
    let (send, receive) = mpsc::channel();
    let [warm_up, task] = [warm_up, task].map(whole_answers);
    let job = job().main(async move |grid| {
        let placement = Placement::RoundRobin;
        let sides = grid.create_placed::<Side>(placement, Ix1::range(2), |_| ()).await?;
        let first = sides.member(Ix1(0));
        let run = async |task| first.ask(PATIENCE, move |reply| Msg::Run(task, reply)).await;
        run(warm_up).await?;
        let begin = Instant::now();
        run(task).await?;
        send.send(begin.elapsed()).expect("the bench waits for the figure");
        Ok(())
    });
    run_job(job, spec, emulate, cores);
    let elapsed = receive.recv().expect("main has sent it");
    Sample { elapsed, operations: task.operations() }
}

fn whole_answers(task: Task) -> Task {
    match task {
        Task::Stream(count) => Task::Stream(count.next_multiple_of(SMALL_PER_ANSWER)),
        task => task,
    }
}
