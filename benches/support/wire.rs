//! The job of the network benches: asks, small messages and large messages from the actor on one
//! node to the actor on another.

use crate::nodes::{Cores, run_job};
use crate::suite::Sample;
use gridspan_runtime::{Actor, ActorRef, AskError, Context, Ix1, Job, Numbers, Placement, Reply};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Number of small messages sent by one handler.
const BURST: u64 = 64;
/// Maximum number of unconfirmed small messages, as in any program that avoids overrunning its
/// peer.
const SMALL_CREDIT: u64 = 1 << 17;
/// Number of small messages that one confirmation covers.
const SMALL_PER_ANSWER: u64 = 1 << 14;
/// Maximum number of unconfirmed large messages.
const LARGE_CREDIT: u64 = 16;
/// Timeout, longer than any measurement takes, even with ten compilers running on the machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// 64 bytes, in memory and on the network.
type Small = [f64; 8];

/// The task to measure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Make this number of asks of 64 bytes, each after the answer to the previous one.
    Ask(u64),
    /// Send this number of messages of 64 bytes.
    Stream(u64),
    /// Send this number of messages of this number of bytes.
    Bulk(u64, u32),
    /// Make this number of round trips of this number of bytes, one after the other.
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
    /// Confirms this number of messages.
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

    /// Sends messages as far as the credit allows, a burst at a time.
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

/// Returns the definition of the job, the same on both nodes.
pub(crate) fn job() -> Job {
    Job::new("wire").actor::<Side>()
}

/// Runs `warm_up` and then measures `task` between two processes. The number of small messages is
/// rounded up so that the last one is confirmed.
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
