//! A job that fails on request, to show what a failure looks like and to test supervision. It can
//! also run actors that migrate all the time, which must not fail.

use crate::entry::{Entry, parse};
use crate::migration_stress;
use clap::{Parser, ValueEnum};
use gridspan_runtime::pe::PlantedFault;
use gridspan_runtime::{
    Actor, Collection, Context, Grid, Ix1, Job, JobError, Op, PeId, Per, Reply, Step, Task,
    TaskContext, To,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ABOUT: &str = "A job that fails on request, to see how failures are handled";

pub(crate) const ENTRY: Entry =
    Entry { name: "drill", about: ABOUT, build: |arguments| Ok(job(parse("drill", arguments)?)) };

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Number of lines that every node prints to standard output, and the same to standard error.
    #[arg(long, default_value_t = 1, value_name = "N")]
    lines: u32,
    /// An actor on this node panics.
    #[arg(long, value_name = "NODE")]
    panic: Option<u32>,
    /// The process of this node aborts.
    #[arg(long, value_name = "NODE")]
    abort: Option<u32>,
    /// The process of this node exits with code 3.
    #[arg(long, value_name = "NODE")]
    exit: Option<u32>,
    /// Seconds that nodes spend inside one handler.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    busy: u64,
    /// First node for `--busy`; all later nodes are included.
    #[arg(long, default_value_t = 0, value_name = "NODE")]
    busy_from: u32,
    /// An actor on this node never leaves its handler.
    #[arg(long, value_name = "NODE")]
    endless: Option<u32>,
    /// Main waits for an event that cannot occur, or not within an hour.
    #[arg(long, value_enum, value_name = "WHAT")]
    stall: Option<Stall>,
    /// Main returns an error.
    #[arg(long)]
    fail: bool,
    /// Total number of migrations of actors that send each other messages; none may be lost.
    #[arg(long, default_value_t = 0, value_name = "N")]
    migrations: u64,
    /// Seconds that main waits before it ends.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    wait: u64,
}

impl Options {
    /// Fails if an option names a node that the grid does not have.
    fn check_nodes(&self, nodes: u32) -> Result<(), String> {
        let busy_from = (self.busy > 0).then_some(self.busy_from);
        let named = [
            ("--panic", self.panic),
            ("--abort", self.abort),
            ("--exit", self.exit),
            ("--busy-from", busy_from),
            ("--endless", self.endless),
        ];
        for (option, node) in named {
            if let Some(node) = node.filter(|&node| node >= nodes) {
                let last = nodes - 1;
                return Err(format!("there is no node {node}; `{option}` takes 0 to {last}"));
            }
        }
        Ok(())
    }
}

/// An event that cannot occur, or not within an hour.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stall {
    /// A reduction to which one node does not contribute.
    Reduction,
    /// A sync point that one node does not reach.
    Sync,
    /// The effect of a message to a member that does not exist.
    Member,
    /// The effect of three messages from the actor of the first node to that of the last one. A bug
    /// that is planted into the runtime loses the second of them.
    Message,
    /// The answer to a question that an actor ignores.
    Question,
    /// The output of a task that does not end, on the last PE.
    Task,
    /// Quiescence, while an actor has set a timer.
    Timer,
}

/// A task that does not end.
#[derive(Serialize, Deserialize)]
struct EndlessTask;

impl Task for EndlessTask {
    type Output = ();
    type Join = ();

    fn run(self, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        endless()
    }

    fn collect((): &mut (), _child: u32, (): ()) {}

    fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(())
    }
}

/// Sleeps until the process is killed.
fn endless() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The actor that executes orders, one on every node.
#[derive(Serialize, Deserialize)]
struct FaultInjector;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Order {
    Print { lines: u32 },
    Busy { seconds: u64 },
    Endless,
    Contribute,
    SendThree { to: i32 },
    Sync,
    Panic,
    Abort,
    Exit,
    Ignore { reply: Reply<()> },
    SetTimer,
}

impl Actor for FaultInjector {
    type Index = Ix1;
    type Init = ();
    type Message = Order;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        let node = cx.index().0;
        match order {
            Order::Print { lines } => {
                for line in 1..=lines {
                    println!("node {node}, line {line} of {lines}");
                    eprintln!("node {node}, error line {line} of {lines}");
                }
                cx.contribute(Op::Sum, u64::from(lines), To::main());
            }
            Order::Busy { seconds } => std::thread::sleep(Duration::from_secs(seconds)),
            Order::Endless => endless(),
            Order::Contribute => cx.contribute(Op::Sum, 1_u64, To::main()),
            Order::SendThree { to } => {
                let to = cx.collection().at(Ix1(to));
                (0..3).for_each(|_| cx.send(&to, Order::Contribute));
            }
            Order::Sync => cx.at_sync(),
            Order::Panic => panic!("node {node} was told to panic"),
            Order::Abort => {
                eprintln!("node {node} was told to abort");
                std::process::abort();
            }
            Order::Exit => {
                eprintln!("node {node} was told to exit");
                std::process::exit(3);
            }
            Order::Ignore { .. } => {}
            Order::SetTimer => {
                let me = cx.me();
                cx.send_after(HOUR, &me, Order::Contribute);
            }
        }
    }
}

fn job(options: Options) -> Job {
    let fault = match options.stall {
        Some(Stall::Message) => PlantedFault::MessageLost,
        _ => PlantedFault::None,
    };
    migration_stress::register(Job::new("drill").actor::<FaultInjector>())
        .tasks::<EndlessTask>()
        .planted_fault(fault)
        .main(async move |grid| run(&grid, &options).await)
}

async fn run(grid: &Grid, options: &Options) -> Result<(), JobError> {
    let nodes = grid.layout().node_count();
    options.check_nodes(nodes)?;
    let injectors = grid.create_group::<FaultInjector>(Per::Node, |_| ()).await?;
    injectors.broadcast(Order::Print { lines: options.lines });
    let printed: u64 = injectors.reduction(Op::Sum).await?;
    let of = |count, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    println!("{} from {}", of(printed, "line"), of(u64::from(nodes), "node"));
    let orders =
        [(options.panic, Order::Panic), (options.abort, Order::Abort), (options.exit, Order::Exit)];
    let mut is_wrong = false;
    for (node, order) in orders {
        let Some(node) = node else { continue };
        injectors.member(Ix1(node as i32)).send(order);
        is_wrong = true;
    }
    if options.busy > 0 {
        let all = (options.busy_from..nodes).map(|node| injectors.member(Ix1(node as i32)));
        all.for_each(|injector| injector.send(Order::Busy { seconds: options.busy }));
    }
    if let Some(node) = options.endless {
        injectors.member(Ix1(node as i32)).send(Order::Endless);
        injectors.reduction::<u64>(Op::Sum).await?;
    }
    if let Some(what) = options.stall {
        stall(grid, &injectors, what).await?;
    }
    if options.migrations > 0 {
        migration_stress::run(grid, options.migrations).await?;
    }
    if options.fail {
        return Err("main was told to fail".into());
    }
    if is_wrong {
        // The ordered fault ends the job.
        grid.sleep(HOUR).await?;
    }
    grid.sleep(Duration::from_secs(options.wait)).await?;
    Ok(())
}

/// Waits for an event that cannot occur, or not within an hour.
async fn stall(
    grid: &Grid,
    injectors: &Collection<FaultInjector>,
    what: Stall,
) -> Result<(), JobError> {
    let nodes = grid.layout().node_count();
    let all_but_one = || (1..nodes).map(|node| injectors.member(Ix1(node as i32)));
    let last = injectors.member(Ix1(nodes as i32 - 1));
    match what {
        Stall::Reduction => all_but_one().for_each(|injector| injector.send(Order::Contribute)),
        Stall::Sync => all_but_one().for_each(|injector| injector.send(Order::Sync)),
        Stall::Member => injectors.member(Ix1(nodes as i32)).send(Order::Contribute),
        Stall::Message if nodes < 2 => {
            return Err("`--stall message` needs at least two nodes".into());
        }
        Stall::Message => {
            injectors.member(Ix1(0)).send(Order::SendThree { to: nodes as i32 - 1 });
        }
        Stall::Question => {
            return Ok(last.ask(Duration::MAX, |reply| Order::Ignore { reply }).await?);
        }
        Stall::Task => {
            let pool = grid.task_pool::<EndlessTask>().await?;
            return Ok(pool.run_on(PeId(grid.layout().pe_count() - 1), EndlessTask).await?);
        }
        Stall::Timer => {
            last.send(Order::SetTimer);
            return Ok(grid.quiescence().await?);
        }
    }
    let _: u64 = injectors.reduction(Op::Sum).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_without_effect_is_not_checked() {
        let unused = Options::parse_from(["drill", "--busy-from", "9"]);
        assert_eq!(unused.check_nodes(1), Ok(()));
    }
}
