//! Executions whose results can be computed by hand.

use super::*;
use crate::graph::GraphBuilder;
use crate::id::{Endpoint, ServerId, TaskId};
use crate::platform::{ClientSpec, ServerSpec, Site};
use gridspan_topology::{Bandwidth, Latency, Link};

const MB: u64 = 1_000_000;

fn link(megabytes_per_s: u64) -> Link {
    let bandwidth = Bandwidth::from_bits_per_second(megabytes_per_s * 8_000_000);
    Link::new(Latency::ZERO, bandwidth)
}

/// Sites of single-core servers of these speeds, with 100 MB/s inside each site, and 10 MB/s out of
/// each site and to the client.
fn platform(sites: &[&[f64]]) -> Platform {
    let mut servers = Vec::new();
    for (site, speeds) in sites.iter().enumerate() {
        servers.extend(speeds.iter().map(|&speed| ServerSpec {
            name: format!("s{site}"),
            site,
            cores: 1,
            speed,
            is_direct: true,
        }));
    }
    let site = |number: usize| Site { name: number.to_string(), lan: link(100), uplink: link(10) };
    let client = ClientSpec { site: None, link: link(10) };
    Platform::new(servers, (0..sites.len()).map(site).collect(), client)
}

fn mapping(servers: &[u32], relays: bool) -> Mapping {
    let order: Vec<TaskId> = (0..servers.len() as u32).map(TaskId).collect();
    Mapping::in_order(servers.iter().map(|&server| ServerId(server)).collect(), &order, relays, 0.0)
}

fn run(graph: &TaskGraph, platform: &Platform, mapping: &Mapping) -> Execution {
    execute(graph, platform, mapping, &Perturbations::default(), StragglerPolicy::None)
}

/// A task of 2 s that writes 50 MB, read by another of 3 s, which writes 10 MB for the client.
fn chain() -> TaskGraph {
    let mut builder = GraphBuilder::default();
    let (first, second) = (builder.task("first", 2.0), builder.task("second", 3.0));
    let between = builder.write(first, "between", 50 * MB);
    builder.read(second, between);
    let result = builder.write(second, "result", 10 * MB);
    builder.want(result);
    builder.build().unwrap()
}

#[test]
fn a_chain_takes_the_transfer_times_between_its_servers() {
    let platform = platform(&[&[1.0, 1.0], &[1.0]]);

    let on_one = run(&chain(), &platform, &mapping(&[0, 0], false));
    let in_site = run(&chain(), &platform, &mapping(&[0, 1], false));
    let across = run(&chain(), &platform, &mapping(&[0, 2], false));

    // 2 s, the transfer, 3 s, and the result in 1 s.
    assert!((on_one.makespan_s - 6.0).abs() < 1e-6, "{on_one:?}");
    assert!((in_site.makespan_s - 6.5).abs() < 1e-6, "{in_site:?}");
    assert!((across.makespan_s - 11.0).abs() < 1e-6, "{across:?}");
    assert_eq!(on_one.bytes_between_sites(&chain(), &platform), 10 * MB);
    assert_eq!(across.bytes_between_sites(&chain(), &platform), 60 * MB);
    assert_eq!(across.bytes_of_client(&chain()), 10 * MB);
}

#[test]
fn plain_calls_send_all_data_through_the_client() {
    let platform = platform(&[&[1.0]]);

    let called = execute_calls(&chain(), &platform, &Perturbations::default());

    // 2 s, 5 s to the client, 5 s back, 3 s, 1 s.
    assert!((called.makespan_s - 16.0).abs() < 1e-6, "{called:?}");
    assert_eq!(called.bytes_of_client(&chain()), 110 * MB);
}

#[test]
fn data_of_a_plain_server_passes_the_client() {
    let mut servers = platform(&[&[1.0, 1.0]]).servers().to_vec();
    servers[1].is_direct = false;
    let whole = platform(&[&[1.0, 1.0]]);
    let platform = Platform::new(servers, whole.sites().to_vec(), *whole.client());

    let to_plain = run(&chain(), &platform, &mapping(&[0, 1], false));
    let from_plain = run(&chain(), &platform, &mapping(&[1, 0], false));

    assert!((to_plain.makespan_s - 16.0).abs() < 1e-6, "{to_plain:?}");
    assert!((from_plain.makespan_s - 16.0).abs() < 1e-6, "{from_plain:?}");
}

#[test]
fn data_between_servers_that_are_apart_passes_the_client() {
    let apart = [(ServerId(0), ServerId(1))];
    let platform = platform(&[&[1.0, 1.0]]).with_apart(apart);

    let there = run(&chain(), &platform, &mapping(&[0, 1], false));
    let back = run(&chain(), &platform, &mapping(&[1, 0], false));

    assert!((there.makespan_s - 16.0).abs() < 1e-6, "{there:?}");
    assert!(back.makespan_s < 10.0, "the other way is direct: {back:?}");
}

/// A number of tasks of 1 s each that read one input of 40 MB held by the client.
fn readers(tasks: u32) -> TaskGraph {
    let mut builder = GraphBuilder::default();
    let input = builder.external("input", 40 * MB, [Endpoint::Client]);
    for number in 0..tasks {
        let task = builder.task(number.to_string(), 1.0);
        builder.read(task, input);
    }
    builder.build().unwrap()
}

#[test]
fn a_server_keeps_received_data() {
    let execution = run(&readers(3), &platform(&[&[1.0]]), &mapping(&[0, 0, 0], false));

    assert_eq!(execution.transfers.len(), 1);
    assert!((execution.makespan_s - 7.0).abs() < 1e-6, "{execution:?}");
}

#[test]
fn with_relays_one_copy_goes_to_a_site_and_is_forwarded_inside() {
    let platform = platform(&[&[1.0, 1.0, 1.0, 1.0]]);

    let sent = run(&readers(4), &platform, &mapping(&[0, 1, 2, 3], false));
    let relayed = run(&readers(4), &platform, &mapping(&[0, 1, 2, 3], true));

    // Without relays, four copies share the client's link, and each adds 4 s. With relays, one copy
    // crosses it, and three then share a server's 100 MB/s.
    assert!((sent.makespan_s - 17.0).abs() < 1e-6, "{sent:?}");
    assert!((relayed.makespan_s - (4.0 + 1.2 + 1.0)).abs() < 1e-6, "{relayed:?}");
    assert_eq!(relayed.bytes_of_client(&readers(4)), 40 * MB);
}

#[test]
fn the_task_of_the_lowest_place_begins_first() {
    let mut builder = GraphBuilder::default();
    for number in 0..3 {
        builder.task(number.to_string(), 1.0);
    }
    let graph = builder.build().unwrap();
    let mut backwards = mapping(&[0, 0, 0], false);
    backwards.places = vec![2, 1, 0];

    let execution = run(&graph, &platform(&[&[2.0]]), &backwards);

    let order: Vec<u32> = execution.runs.iter().map(|run| run.task.0).collect();
    assert_eq!(order, [2, 1, 0]);
    assert!((execution.makespan_s - 1.5).abs() < 1e-9);
}

/// Independent tasks of 10 s on two servers: each server has `each` of them.
fn bag(each: u32) -> (TaskGraph, Mapping) {
    let mut builder = GraphBuilder::default();
    for number in 0..2 * each {
        builder.task(number.to_string(), 10.0);
    }
    let servers: Vec<u32> = (0..2 * each).map(|number| number % 2).collect();
    (builder.build().unwrap(), mapping(&servers, false))
}

#[test]
fn tasks_that_a_slow_server_has_not_begun_are_stolen() {
    let (graph, mapping) = bag(6);
    let slow = Perturbations { tasks: vec![], servers: vec![1.0, 3.0] };
    let platform = platform(&[&[1.0, 1.0]]);

    let left = execute(&graph, &platform, &mapping, &slow, StragglerPolicy::None);
    let stolen = execute(&graph, &platform, &mapping, &slow, StragglerPolicy::Steal);

    assert!((left.makespan_s - 180.0).abs() < 1e-6);
    // The best possible is nine tasks on one and three on the other: 90 s.
    assert!(stolen.makespan_s <= 100.0, "{}", stolen.makespan_s);
    assert!(stolen.moved >= 2);
}

#[test]
fn a_long_task_that_is_late_is_begun_again_elsewhere() {
    let (graph, mapping) = bag(1);
    let stuck = Perturbations { tasks: vec![], servers: vec![1.0, 100.0] };
    let platform = platform(&[&[1.0, 1.0]]);

    let copied = execute(&graph, &platform, &mapping, &stuck, StragglerPolicy::StealAndCopy);

    // The copy takes 10 s. It begins only once the first attempt takes longer than a long task may.
    assert!((25.0..=40.0).contains(&copied.makespan_s), "{copied:?}");
    assert_eq!((copied.runs.len(), copied.wasted.len()), (2, 1));
}

#[test]
fn no_task_moves_if_no_server_is_slow() {
    let (graph, mut mapping) = bag(3);
    mapping.servers.fill(ServerId(0));
    let platform = platform(&[&[1.0, 1.0]]);

    let execution = execute(
        &graph,
        &platform,
        &mapping,
        &Perturbations::default(),
        StragglerPolicy::StealAndCopy,
    );

    assert_eq!(execution.moved, 0);
    assert!((execution.makespan_s - 60.0).abs() < 1e-6);
}

/// The end of a task does not cause an examination of all waiting tasks, which would take minutes
/// in total.
#[test]
fn the_simulation_time_per_task_does_not_grow_with_the_group() {
    const TASKS: usize = 100_000;
    let platform = platform(&[&[1.0, 1.0]]);
    let mut chain = GraphBuilder::default();
    let mut before = None;
    for number in 0..TASKS {
        let task = chain.task(number.to_string(), 1.0);
        before.into_iter().for_each(|data| chain.read(task, data));
        before = Some(chain.write(task, number.to_string(), 8));
    }
    let mut flat = GraphBuilder::default();
    for number in 0..TASKS {
        flat.task(number.to_string(), 1.0);
    }
    let alternating: Vec<u32> = (0..TASKS as u32).map(|number| number % 2).collect();
    let in_rows = [
        (chain, mapping(&vec![0; TASKS], false), TASKS),
        (flat, mapping(&alternating, false), TASKS / 2),
    ];

    for (graph, mapping, should_s) in in_rows {
        let graph = graph.build().unwrap();
        let perturbations = Perturbations::default();
        let run =
            execute(&graph, &platform, &mapping, &perturbations, StragglerPolicy::StealAndCopy);

        assert_eq!(run.runs.len(), TASKS);
        assert!((run.makespan_s - should_s as f64).abs() < 1e-3, "{}", run.makespan_s);
    }
}

/// Returns the number of attempts examined per task of a bag on 16 servers, of which one is three
/// times as slow as stated.
fn looked_at(tasks: usize) -> usize {
    let mut graph = GraphBuilder::default();
    for number in 0..tasks {
        let task = graph.task(number.to_string(), 1.0 + (number % 7) as f64 / 28.0);
        let read = graph.external("read", 8, [Endpoint::Client]);
        graph.read(task, read);
    }
    let graph = graph.build().unwrap();
    let platform = platform(&[&[1.0; 16]]);
    let servers: Vec<u32> = (0..tasks as u32).map(|task| task % 16).collect();
    let mapping = mapping(&servers, true);
    let perturbations = Perturbations { servers: vec![3.0], ..Perturbations::default() };
    let mut run =
        MappedRun::new(&graph, &platform, &mapping, &perturbations, StragglerPolicy::Steal);
    run.run_to_end();
    let execution = &run.simulated.execution;
    assert_eq!(execution.runs.len(), tasks);
    let moved = run.dispatcher.moved();
    assert!(moved > tasks / 64, "{moved}");
    run.dispatcher.looked_at() / tasks
}

#[test]
fn few_attempts_are_examined_per_task_of_a_large_group() {
    let [small, large] = [1_000, 16_000].map(looked_at);

    assert!(small < 30 && large < 100, "{small} and {large} attempts per task");
}
