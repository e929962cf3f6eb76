//! Measures how the cost of a group grows with its number of calls, when it is mapped, executed in
//! virtual time, and carried out by servers on threads.
//!
//! `cargo run --release -p gridspan-studies --example growth -- [SIZE…]`
#![allow(clippy::print_stdout)]

use gridspan_rpc::calls::{Catalogue, Function, Functions, RpcError, Services, with_rpc};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::{Grid, Job, driver};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::{HeftC, Heuristic, MinCompletionTime};
use gridspan_workflow::simulate::{Perturbations, execute};
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::{Endpoint, GraphBuilder, Platform, TaskGraph, TaskGraphError, described};
use std::process::ExitCode;
use std::time::Instant;

const PLATFORM: &str = "4x4x2,wan=20ms,rate=100mbit";

/// Independent tasks whose times differ by up to 21 %.
fn flat(tasks: u32) -> Result<TaskGraph, TaskGraphError> {
    let mut graph = GraphBuilder::default();
    let read = graph.external("read", 1000, [Endpoint::Client]);
    for number in 0..tasks {
        let task = graph.task(number.to_string(), 1.0 + f64::from(number % 7) / 28.0);
        graph.read(task, read);
        let made = graph.write(task, number.to_string(), 1000);
        graph.want(made);
    }
    graph.build()
}

/// A chain of tasks, each of which reads the result of the previous one.
fn chain(tasks: u32) -> Result<TaskGraph, TaskGraphError> {
    let mut graph = GraphBuilder::default();
    let mut data = graph.external("read", 1000, [Endpoint::Client]);
    for number in 0..tasks {
        let task = graph.task(number.to_string(), 1.0 + f64::from(number % 7) / 28.0);
        graph.read(task, data);
        data = graph.write(task, number.to_string(), 1000);
    }
    graph.want(data);
    graph.build()
}

fn report(what: &str, tasks: u32, begun: Instant) {
    let took_s = begun.elapsed().as_secs_f64();
    println!(
        "{what:<36} {tasks:>7} {took_s:>9.3} s {:>9.2} us each",
        took_s * 1e6 / f64::from(tasks)
    );
}

fn simulated(
    kind: &str,
    tasks: u32,
    graph: &TaskGraph,
    platform: &Platform,
) -> Result<(), Box<dyn std::error::Error>> {
    for heuristic in [&HeftC::default() as &dyn Heuristic, &MinCompletionTime] {
        let begun = Instant::now();
        let mapping = heuristic.map(graph, platform)?;
        report(&format!("{kind}, mapped by {}", heuristic.name()), tasks, begun);
        if heuristic.name() != HeftC::default().name() {
            continue;
        }
        // One server is three times as slow as estimated.
        let slow = Perturbations::default().with_servers(vec![3.0]);
        for (surprises, how) in [(Perturbations::default(), ""), (slow, " one slow")] {
            for policy in
                [StragglerPolicy::None, StragglerPolicy::Steal, StragglerPolicy::StealAndCopy]
            {
                let begun = Instant::now();
                let execution = execute(graph, platform, &mapping, &surprises, policy);
                let what = format!("{kind}{how}, executed, {policy:?}");
                report(&what, tasks, begun);
                if execution.runs.len() != tasks as usize {
                    return Err(format!("{} runs of {tasks}", execution.runs.len()).into());
                }
            }
        }
    }
    Ok(())
}

const NOTHING: Function<(u64,), (u64,)> = Function::new("nothing", |(value,), _| Ok((value,)));

struct Nothing;

impl Catalogue for Nothing {
    fn functions() -> Functions {
        Functions::new().with_parts(&NOTHING)
    }
}

/// Makes calls of an empty function in one group, as a chain or independently.
async fn carried_out(
    services: &Services<Nothing>,
    calls: u32,
    is_chain: bool,
    policy: StragglerPolicy,
) -> Result<(), RpcError> {
    let mapper = Mapper::new(services).with_straggler_policy(policy);
    let heuristic = HeftC::default();
    let begun = Instant::now();
    let group = mapper.map(&heuristic, async |group| {
        let zero = group.value(&0_u64)?;
        let mut last = zero.clone();
        let mut results = Vec::new();
        for _ in 0..calls {
            let (result,) = group.call(&NOTHING, (if is_chain { &last } else { &zero },));
            last = result.clone();
            if !is_chain {
                results.push(result);
            }
        }
        group.run().await?;
        for result in &results {
            group.get(result).await?;
        }
        group.get(&last).await
    });
    group.await?;
    let what = if is_chain { "chain" } else { "flat" };
    report(&format!("{what} group on threads, {policy:?}"), calls, begun);
    Ok(())
}

fn main() -> ExitCode {
    let measured = || -> Result<(), Box<dyn std::error::Error>> {
        let sizes: Vec<u32> =
            std::env::args().skip(1).map(|size| size.parse()).collect::<Result<_, _>>()?;
        let sizes = if sizes.is_empty() { vec![1_000, 20_000, 100_000] } else { sizes };
        let platform = described(&GridSpec::from_emulate(PLATFORM)?, None);
        for &tasks in &sizes {
            simulated("flat", tasks, &flat(tasks)?, &platform)?;
            simulated("chain", tasks, &chain(tasks)?, &platform)?;
        }
        let job = with_rpc::<Nothing>(Job::new("growth")).main(async move |grid: Grid| {
            let services = Services::on_all_pes(&grid).await?;
            for calls in sizes {
                for (is_chain, policy) in [
                    (false, StragglerPolicy::None),
                    (false, StragglerPolicy::StealAndCopy),
                    (true, StragglerPolicy::None),
                ] {
                    let all = carried_out(&services, calls, is_chain, policy);
                    all.await?;
                }
            }
            Ok(())
        });
        Ok(driver::embedded::run(job, 2)?)
    };
    match measured() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
