//! Runs operations such as a send or a broadcast. For each, hooks record the functions that run
//! from the call until the handler of the receiver. They record nothing unless
//! `cargo run -p gridspan-studies --example call_paths` instruments all functions.

mod hooks;

use gridspan_runtime::{
    Actor, Context, GuestEvent, Ix1, Job, JobError, Op, PeId, SiteId, Step, Task, TaskContext, To,
};
use gridspan_sim::{GuestPlan, SimOptions, Simulation};
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

/// Number of members, two on each of the four PEs.
const MEMBERS: u32 = 8;
/// Index of the last member.
const LAST: i32 = MEMBERS as i32 - 1;

#[derive(Serialize, Deserialize)]
struct Cell {
    heard: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Send { to: i32 },
    Sent { name: String },
    Move,
    Broadcast,
    Heard,
    Contribute,
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self { heard: 0 }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        let all = cx.collection();
        match message {
            Message::Send { to } => {
                let name = if to == 1 { "a send on one PE" } else { "a send to another site" };
                hooks::begin();
                cx.send(&all.at(Ix1(to)), Message::Sent { name: name.to_owned() });
            }
            Message::Sent { name } => print(&name),
            Message::Move => {
                hooks::begin();
                cx.migrate_to(PeId(3));
            }
            Message::Broadcast => {
                hooks::begin();
                cx.broadcast(&all, Message::Heard);
            }
            Message::Heard => {
                self.heard += 1;
                // This member is the last to receive the broadcast.
                if cx.index() == Ix1(LAST) {
                    print("a broadcast");
                }
            }
            Message::Contribute => {
                // This member is the first to contribute.
                if cx.index() == Ix1(0) {
                    hooks::begin();
                }
                cx.contribute(Op::Sum, 1_u64, To::main());
            }
        }
    }

    fn arrived(&mut self, _: &mut Context<'_, Self>) {
        print("a migration to another site");
    }
}

/// A task of 200 ms that spawns this many others.
#[derive(Serialize, Deserialize)]
struct Work(u32);

impl Task for Work {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        if cx.pe() >= PeId(2) {
            print("a steal by another site");
        }
        cx.charge(Duration::from_millis(200));
        if self.0 == 0 {
            return Step::Done(1);
        }
        hooks::begin();
        (0..self.0).for_each(|_| cx.spawn(Self(0)));
        Step::Sync(0)
    }

    fn collect(sum: &mut u64, _: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

/// Prints the recorded functions, if any.
fn print(name: &str) {
    let labels = hooks::end();
    if labels.is_empty() {
        return;
    }
    let parts: Vec<Vec<&str>> = labels.iter().map(|label| label.splitn(3, ' ').collect()).collect();
    let file = |parts: &Vec<&str>| parts[0].split(':').next().unwrap_or_default().to_owned();
    let files: BTreeSet<String> = parts.iter().map(file).collect();
    let lines: usize = parts.iter().filter_map(|parts| parts[1].parse::<usize>().ok()).sum();
    println!("\n{name}: {} functions of {lines} lines in {} files", labels.len(), files.len());
    for parts in &parts {
        println!("  {:<60} {}", parts[0], parts[2]);
    }
}

fn job() -> Job {
    let job = Job::new("handler_calls").actor::<Cell>().tasks::<Work>();
    let job = job.on_guests(|event| {
        if matches!(event, GuestEvent::Joined { .. }) {
            print("a join");
        }
    });
    job.main(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(MEMBERS), |_| ()).await?;
        let first = cells.member(Ix1(0));
        for message in
            [Message::Send { to: 1 }, Message::Send { to: LAST }, Message::Broadcast, Message::Move]
        {
            first.send(message);
            // Sleep, because the hooks would also record a wait for quiescence.
            grid.sleep(Duration::from_millis(500)).await?;
        }
        cells.broadcast(Message::Contribute);
        let members: u64 = cells.reduction(Op::Sum).await?;
        print("a reduction to main");
        let tasks = grid.task_pool().await?;
        let done = tasks.run(Work(8)).await?;
        // Meanwhile a guest joins, and nothing else happens.
        hooks::begin();
        grid.sleep(Duration::from_secs(10)).await?;
        match (members, done) {
            (8, 8) => Ok(()),
            found => Err(JobError::Failed(format!("counted {found:?} instead of 8 and 8"))),
        }
    })
}

fn main() -> ExitCode {
    // A node of two PEs at each of two sites.
    let sites = ["a", "b"].map(|name| (name.to_owned(), vec![2]));
    let spec = match GridSpec::from_layout(&Layout::new(sites.to_vec())) {
        Ok(spec) => spec.with_wan(Link::wan().with_latency(Latency::from_millis(5))),
        Err(error) => {
            eprintln!("handler_calls: {error}");
            return ExitCode::FAILURE;
        }
    };
    let guest = GuestPlan::new(SiteId(1), 1, Duration::from_secs(5));
    let options = SimOptions::default().with_guests(vec![guest]);
    let outcome = Simulation::new(job(), spec, options).map(|simulation| simulation.run().outcome);
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("handler_calls: {error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("handler_calls: {error}");
            ExitCode::FAILURE
        }
    }
}
