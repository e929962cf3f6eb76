//! Groups with lost and slow servers.

use super::*;
use crate::execution::task_states::ATTEMPTS_MAX;
use crate::graph::GraphBuilder;
use crate::platform::{ClientSpec, Platform, ServerSpec, Site};
use crate::stragglers::Watch;

mod ways;

/// A graph in which `first` reads data of the client, `left` and `right` read its output, and
/// `last` reads their outputs and makes the result that the client wants.
fn diamond() -> TaskGraph {
    let mut graph = GraphBuilder::default();
    let [first, left, right, last] =
        ["first", "left", "right", "last"].map(|name| graph.task(name, 1.0));
    let start = graph.external("start", 8, [Endpoint::Client]);
    graph.read(first, start);
    let made = graph.write(first, "made", 8);
    for (number, task) in [left, right].into_iter().enumerate() {
        graph.read(task, made);
        let part = graph.write(task, number.to_string(), 8);
        graph.read(last, part);
    }
    let end = graph.write(last, "end", 8);
    graph.want(end);
    graph.build().unwrap()
}

fn mapping() -> Mapping {
    let servers = [0, 0, 1, 1].map(ServerId).into();
    Mapping { servers, places: vec![0, 1, 2, 3], relays: false, predicted_s: 0.0 }
}

const ONE: ServerId = ServerId(0);
const OTHER: ServerId = ServerId(1);

/// An execution on `servers` equal servers that fetch data. The pairs in `apart` cannot reach each
/// other.
fn fetching<'a>(
    graph: &'a TaskGraph,
    mapping: &Mapping,
    servers: usize,
    apart: &[(ServerId, ServerId)],
) -> ExecutionState<'a> {
    let servers = (vec![1.0; servers], vec![0; servers], apart.iter().copied().collect());
    ExecutionState::new((graph, Delivery::Fetched), mapping, servers, |_| false)
}

/// An execution on two servers that reach each other.
fn near<'a>(graph: &'a TaskGraph, mapping: &Mapping) -> ExecutionState<'a> {
    fetching(graph, mapping, 2, &[])
}

fn orders(state: &mut ExecutionState<'_>) -> Vec<(u32, u32)> {
    orders_at(state, 0.0)
}

fn orders_at(state: &mut ExecutionState<'_>, now_s: f64) -> Vec<(u32, u32)> {
    let given = state.take_orders(now_s).into_iter();
    given.map(|given| (given.task.0, given.server.0)).collect()
}

fn relays(state: &mut ExecutionState<'_>) -> Vec<(DataId, ServerId)> {
    let graph = state.graph;
    state.take_relays(|data| graph.datum(data).bytes)
}

/// Completes the latest attempt at a task.
fn done(state: &mut ExecutionState<'_>, task: u32, fetched: &[DataId]) -> Vec<usize> {
    let attempt = attempt_at(state, task);
    state.done(attempt, 6.0, fetched.iter().copied())
}

fn attempt_at(state: &ExecutionState<'_>, task: u32) -> usize {
    state.attempts.latest_at(TaskId(task)).unwrap()
}

#[test]
fn tasks_are_ordered_once_their_arguments_exist_and_data_comes_from_servers() {
    let graph = diamond();
    let mut state = near(&graph, &mapping());
    let made = graph.task(TaskId(0)).outputs[0];
    assert_eq!(orders(&mut state), [(0, 0)]);
    assert_eq!(orders(&mut state), []);
    done(&mut state, 0, &[]);
    assert_eq!(state.source(made, ServerId(1)), Some(Endpoint::Server(ServerId(0))));
    assert_eq!(orders(&mut state), [(1, 0), (2, 1)]);
    done(&mut state, 2, &[made]);
    assert_eq!(orders(&mut state), []);
    done(&mut state, 1, &[]);
    assert_eq!(orders(&mut state), [(3, 1)]);
    done(&mut state, 3, &[]);
    let requests = state.data.take_requests();
    assert_eq!((requests.len(), requests[0].1, state.is_over()), (1, ServerId(1), false));

    state.granted(requests[0].0);

    assert!(state.is_over());
}

#[test]
fn data_of_a_lost_server_is_made_again_if_it_is_needed() {
    let graph = diamond();
    let mut state = near(&graph, &mapping());
    let made = graph.task(TaskId(0)).outputs[0];
    orders(&mut state);
    done(&mut state, 0, &[]);
    orders(&mut state);
    done(&mut state, 1, &[]);
    assert!(state.is_open(attempt_at(&state, 2)));

    // The right part is being made; its server has not fetched `made` yet.
    state.lost(ServerId(0));

    assert_eq!(orders(&mut state), [(0, 1)], "the left part and the right part need its output");
    state.again(attempt_at(&state, 2));
    state.missing(made, Endpoint::Server(ServerId(0)));
    done(&mut state, 0, &[]);
    assert_eq!(orders(&mut state), [(1, 1), (2, 1)]);
    for task in [1, 2] {
        done(&mut state, task, &[]);
    }
    assert_eq!(orders(&mut state), [(3, 1)]);
    state.lost(ServerId(1));
    assert_eq!(state.take_stuck()[&TaskId(0)], Stuck::Alone);
}

#[test]
fn lost_data_that_must_be_kept_is_made_again() {
    let graph = diamond();
    let left = graph.task(TaskId(1)).outputs[0];
    let servers = (vec![1.0; 2], vec![0; 2], BTreeSet::new());
    let of = (&graph, Delivery::Fetched);
    let mut state = ExecutionState::new(of, &mapping(), servers, |data| data == left);
    for task in 0..4 {
        orders(&mut state);
        done(&mut state, task, &[]);
    }

    state.lost(ServerId(0));

    assert_eq!(orders(&mut state), [(0, 1)], "the left part needs what the first made");
    done(&mut state, 0, &[]);
    assert_eq!(orders(&mut state), [(1, 1)]);
}

#[test]
fn only_a_failed_task_and_its_dependents_fail() {
    let graph = diamond();
    let mut state = near(&graph, &mapping());
    orders(&mut state);
    done(&mut state, 0, &[]);
    orders(&mut state);

    let failed = state.fail(TaskId(1));

    assert_eq!(failed, [TaskId(1), TaskId(3)]);
    assert!(!state.is_over() && state.is_open(attempt_at(&state, 2)));
    done(&mut state, 2, &[]);
    assert!(state.is_over(), "the result that the client wants cannot be made");
}

/// Two equal servers, and eight tasks of a second each, all mapped to the first server, which has
/// their input.
fn all_on_one() -> (TaskGraph, Mapping, Platform) {
    let mut graph = GraphBuilder::default();
    for number in 0..8 {
        let task = graph.task(number.to_string(), 1.0);
        let read = graph.external("read", 8, [Endpoint::Server(ONE)]);
        graph.read(task, read);
        graph.write(task, "made", 8);
    }
    let link = gridspan_topology::Link::lan();
    let server = |name: &str| ServerSpec {
        name: name.to_owned(),
        site: 0,
        cores: 1,
        speed: 1.0,
        is_direct: true,
    };
    let site = Site { name: "here".to_owned(), lan: link, uplink: link };
    let client = ClientSpec { site: Some(0), link };
    let platform = Platform::new(vec![server("one"), server("other")], vec![site], client);
    let places = (0..8).collect();
    let servers = vec![ServerId(0); 8];
    (graph.build().unwrap(), Mapping { servers, places, relays: false, predicted_s: 0.0 }, platform)
}

#[test]
fn tasks_of_a_slow_server_go_to_an_idle_one_and_a_late_task_is_copied() {
    let (graph, mapping, platform) = all_on_one();
    let mut state = near(&graph, &mapping);
    let mut watch = Watch::new(&graph, &platform, true);
    let reassign = |state: &mut ExecutionState<'_>, watch: &Watch, now_s| {
        state.reassign_straggler(now_s, &platform, watch, &|_, _, _| 0.0)
    };
    assert_eq!(orders(&mut state).len(), 8);
    state.begun(0, 0.0);
    assert_eq!(reassign(&mut state, &watch, 0.5), None, "no server is slow");

    // A task of one second took six.
    done(&mut state, 0, &[]);
    watch.observe(ServerId(0), 6.0, 1.0, true);
    state.begun(1, 6.0);
    let taken_back = reassign(&mut state, &watch, 6.1).unwrap().attempt.unwrap();

    assert!(!state.is_open(taken_back));
    let moved = state.attempt(taken_back).0;
    assert_eq!(orders_at(&mut state, 6.1), [(moved.0, 1)]);
    assert_eq!(reassign(&mut state, &watch, 6.1), None, "the other has work now");
    done(&mut state, moved.0, &[]);
    // The waiting tasks go there one after the other, and then the late one is copied.
    for _ in 0..5 {
        let taken_back = reassign(&mut state, &watch, 6.2).unwrap().attempt.unwrap();
        let task = state.attempt(taken_back).0;
        assert_eq!(orders_at(&mut state, 6.2), [(task.0, 1)]);
        done(&mut state, task.0, &[]);
    }
    assert!(reassign(&mut state, &watch, 12.0).unwrap().is_copy);
    assert_eq!(orders_at(&mut state, 12.0), [(1, 1)]);
    assert!(state.is_open(1), "the first attempt may still end before the copy");
    assert_eq!(done(&mut state, 1, &[]), [1]);
    assert!(state.is_over());
}

#[test]
fn a_server_that_begins_no_task_is_slow() {
    let (graph, mapping, platform) = all_on_one();
    let mut state = near(&graph, &mapping);
    let watch = Watch::new(&graph, &platform, true);
    orders(&mut state);
    let mut reassign = |now_s| state.reassign_straggler(now_s, &platform, &watch, &|_, _, _| 0.0);
    assert!(reassign(1.0).is_none(), "it has had time for one task only");

    let taken_back = reassign(10.0).unwrap().attempt;

    assert!(taken_back.is_some_and(|attempt| attempt > 0), "the first may be on its way");
}

#[test]
fn an_idle_core_gets_one_task_while_the_client_relays_its_arguments() {
    let (graph, mapping, platform) = all_on_one();
    let apart = [(ONE, OTHER)];
    let mut state = fetching(&graph, &mapping, 2, &apart);
    let watch = Watch::new(&graph, &platform, true);
    orders(&mut state);
    let reassign = |state: &mut ExecutionState<'_>| {
        state.reassign_straggler(10.0, &platform, &watch, &|_, _, _| 0.0)
    };

    assert!(reassign(&mut state).is_some());

    assert_eq!((orders(&mut state), relays(&mut state).len()), (vec![], 1));
    assert_eq!(reassign(&mut state), None, "a task is on its way");
}

#[test]
fn a_failed_task_is_not_begun_by_a_copy_that_waits_for_arguments() {
    let (graph, mapping, _) = all_on_one();
    let apart = [(ONE, OTHER)];
    let mut state = fetching(&graph, &mapping, 2, &apart);
    orders(&mut state);
    state.tasks.copies.push((TaskId(0), OTHER));
    assert_eq!((orders(&mut state), relays(&mut state)), (vec![], vec![(DataId(0), ONE)]));

    state.fail(TaskId(0));
    state.relayed(DataId(0), 8);

    assert_eq!(orders(&mut state), []);
}

#[test]
fn a_task_whose_copy_fails_does_not_return_to_a_lost_server() {
    let graph = diamond();
    for is_refused in [false, true] {
        let mut state = near(&graph, &mapping());
        orders(&mut state);
        state.tasks.copies.push((TaskId(0), OTHER));
        assert_eq!(orders(&mut state), [(0, 1)]);
        state.lost(ONE);
        assert_eq!(orders(&mut state), [], "the copy goes on");

        let copy = attempt_at(&state, 0);
        match is_refused {
            true => state.refused(copy),
            false => state.again(copy),
        }

        assert_eq!(orders(&mut state), [(0, 1)], "refused: {is_refused}");
    }
}

#[test]
fn an_order_to_a_server_that_is_lost_already_goes_elsewhere() {
    let graph = diamond();
    let mut state = near(&graph, &mapping());
    state.lost(ONE);
    state.tasks.send(TaskId(0), ONE);
    assert_eq!(orders(&mut state), [(0, 0)]);

    state.lost(ONE);

    assert_eq!(orders(&mut state), [(0, 1)]);
}

/// The time to handle an event depends on the number of changes, not on the number of waiting
/// tasks: 100,000 tasks take about a second.
#[test]
fn the_time_per_task_does_not_grow_with_the_group() {
    const TASKS: u32 = 100_000;
    let mut graph = GraphBuilder::default();
    for number in 0..TASKS {
        let task = graph.task(number.to_string(), 1.0);
        let result = graph.write(task, number.to_string(), 8);
        graph.want(result);
    }
    let graph = graph.build().unwrap();
    let servers = vec![ONE; TASKS as usize];
    let mapping =
        Mapping { servers, places: (0..TASKS).collect(), relays: false, predicted_s: 0.0 };
    let mut state = near(&graph, &mapping);
    let mut given = state.take_orders(0.0);
    assert_eq!(given.len(), TASKS as usize);

    for number in 0..TASKS {
        let order = given.pop().unwrap();
        assert!(state.done(order.attempt, 1.0, []).is_empty());
        let requests = state.data.take_requests();
        assert_eq!(requests.len(), 1);
        state.granted(requests[0].0);
        assert!(state.take_orders(1.0).is_empty());
        assert_eq!(state.is_over(), number + 1 == TASKS);
    }
}

#[test]
fn a_task_that_all_servers_refuse_is_tried_on_each_and_fails_alone() {
    let graph = diamond();
    let mut state = fetching(&graph, &mapping(), 3, &[]);
    orders(&mut state);
    done(&mut state, 0, &[]);
    orders(&mut state);
    let mut tried = vec![OTHER];
    while state.tasks.stuck.is_empty() {
        state.refused(attempt_at(&state, 2));
        tried.extend(orders(&mut state).into_iter().map(|(_, server)| ServerId(server)));
    }

    assert_eq!(state.take_stuck(), [(TaskId(2), Stuck::Tried)].into());

    assert_eq!(tried[..3].iter().collect::<BTreeSet<_>>().len(), 3, "{tried:?}");
    assert!(tried.len() <= ATTEMPTS_MAX as usize + 4, "{tried:?}");
    assert_eq!(state.fail(TaskId(2)), [TaskId(2), TaskId(3)]);
    assert!(state.is_open(attempt_at(&state, 1)), "the other branch goes on");
    done(&mut state, 1, &[]);
    assert!(state.is_over());
}

/// The time to handle a lost server also depends on the number of changes only. Each of its 100,000
/// tasks goes to another server. A task that does not get its argument is handled without a look at
/// the others.
#[test]
fn the_time_per_lost_task_does_not_grow_with_the_group() {
    const TASKS: u32 = 100_000;
    let mut graph = GraphBuilder::default();
    for number in 0..TASKS {
        let [first, second] = ["first", "second"].map(|name| graph.task(name, 1.0));
        let made = graph.write(first, number.to_string(), 8);
        graph.read(second, made);
    }
    let graph = graph.build().unwrap();
    let mut servers = vec![ONE; 2 * TASKS as usize];
    servers.iter_mut().skip(1).step_by(2).for_each(|server| *server = OTHER);
    let places = (0..2 * TASKS).collect();
    let mapping = Mapping { servers, places, relays: false, predicted_s: 0.0 };
    let mut state = near(&graph, &mapping);
    for given in state.take_orders(0.0) {
        state.done(given.attempt, 1.0, []);
    }
    let second = state.take_orders(1.0);
    assert_eq!(second.len(), TASKS as usize);

    state.lost(ONE);
    let first = state.take_orders(1.0);
    assert_eq!(first.len(), TASKS as usize, "the other server makes all data again");
    for given in second {
        let data = graph.task(given.task).inputs[0];
        state.again(given.attempt);
        state.missing(data, Endpoint::Server(ONE));
    }
    first.into_iter().for_each(|given| drop(state.done(given.attempt, 2.0, [])));

    assert_eq!(state.take_orders(2.0).len(), TASKS as usize);
    assert!(state.take_stuck().is_empty());
}

/// An execution on three servers that send data to each other, with tasks mapped to `servers`.
fn sending<'a>(graph: &'a TaskGraph, servers: &[u32]) -> ExecutionState<'a> {
    let places = (0..servers.len() as u32).collect();
    let servers: Vec<ServerId> = servers.iter().map(|&server| ServerId(server)).collect();
    let mapping = Mapping { servers, places, relays: false, predicted_s: 0.0 };
    let servers = (vec![1.0; 3], vec![0; 3], BTreeSet::new());
    ExecutionState::new((graph, Delivery::Sent), &mapping, servers, |_| false)
}

/// A graph with one task and two tasks that read its output.
fn fork() -> TaskGraph {
    let mut graph = GraphBuilder::default();
    let tasks = ["maker", "reader", "other"].map(|name| graph.task(name, 1.0));
    let made = graph.write(tasks[0], "made", 8);
    tasks[1..].iter().for_each(|&task| graph.read(task, made));
    graph.want(made);
    graph.build().unwrap()
}

fn three() -> Platform {
    let (_, _, platform) = all_on_one();
    let servers = [platform.servers(), &platform.servers()[..1]].concat();
    Platform::new(servers, platform.sites().to_vec(), *platform.client())
}

#[test]
fn data_comes_from_its_maker_before_servers_that_were_sent_it() {
    let (graph, third) = (fork(), ServerId(2));
    let mut state = sending(&graph, &[2, 0, 2]);
    orders(&mut state);

    done(&mut state, 0, &[]);

    assert_eq!(state.source(DataId(0), OTHER), Some(Endpoint::Server(third)));
    assert_eq!(state.data.take_requests(), [(DataId(0), third)]);
    // A server whose task has read the data has it.
    done(&mut state, 1, &[]);
    assert_eq!(state.source(DataId(0), OTHER), Some(Endpoint::Server(ONE)));
}

#[test]
fn a_task_moves_while_a_slow_server_makes_its_argument() {
    let (graph, platform) = (fork(), three());
    let mut state = sending(&graph, &[0, 0, 1]);
    let mut watch = Watch::new(&graph, &platform, false);
    watch.observe(ONE, 9.0, 1.0, true);
    orders(&mut state);
    state.begun(0, 0.0);
    let reassign = |state: &mut ExecutionState<'_>, watch| {
        state.reassign_straggler(0.5, &platform, watch, &|_, _, _| 0.0)
    };

    let moved = reassign(&mut state, &watch).unwrap();

    assert_eq!((moved.task, moved.attempt, moved.is_copy), (TaskId(1), Some(1), false));
    assert_eq!(orders(&mut state), [(1, moved.to.0)]);
    assert_eq!(reassign(&mut state, &watch), None, "the task is now on a fast server");
}

#[test]
fn a_server_is_not_slow_while_arguments_may_be_on_their_way_to_it() {
    let (graph, platform) = (fork(), three());
    let mut state = sending(&graph, &[0, 1, 2]);
    let watch = Watch::new(&graph, &platform, true);
    let reassign = |state: &mut ExecutionState<'_>, now_s| {
        let transfer_s = |_, from, to| f64::from(u8::from(from != to));
        state.reassign_straggler(now_s, &platform, &watch, &transfer_s).map(|moved| moved.task)
    };
    orders(&mut state);
    done(&mut state, 0, &[]);
    orders(&mut state);
    assert_eq!(reassign(&mut state, 7.0), None, "links are shared");
    // The other reader has waited ten times as long as over idle links.
    state.begun(2, 10.0);
    done(&mut state, 2, &[]);
    assert_eq!(reassign(&mut state, 20.0), None, "and this one may wait for twice as long");

    assert_eq!(reassign(&mut state, 60.0), Some(TaskId(1)), "but no longer");
}

#[test]
fn a_task_stays_on_a_slow_server_if_moving_its_outputs_takes_longer() {
    let (mut graph, platform) = (GraphBuilder::default(), three());
    let tasks = ["measured", "maker", "reader"].map(|name| graph.task(name, 1.0));
    let made = graph.write(tasks[1], "made", 8);
    graph.read(tasks[2], made);
    let graph = graph.build().unwrap();
    let mut watch = Watch::new(&graph, &platform, false);
    watch.observe(ONE, 9.0, 1.0, true);

    // The server is five times as slow as expected, (9 s + 1 s) / (1 s + 1 s). There, the maker
    // would wait for the task before it for 5 s, and then take 5 s. So it moves only if it ends
    // elsewhere, with its output back at the reader, well within 10 s.
    let moved = [1.0, 100.0].map(|way_s| {
        let mut state = sending(&graph, &[0, 0, 0]);
        orders(&mut state);
        state.begun(0, 0.0);
        let transfer_s = |_, from, to| if from == to { 0.0 } else { way_s };
        state.reassign_straggler(0.0, &platform, &watch, &transfer_s).map(|moved| moved.task)
    });

    assert_eq!(moved, [Some(TaskId(1)), None]);
}

#[test]
fn estimated_input_times_grow_with_observed_congestion() {
    let mut waits = crate::execution::input_waits::InputWaits::default();
    assert_eq!(waits.congestion(), 1.0);

    waits.note(0.5, 1.0);
    assert_eq!(waits.congestion(), 1.0, "never less than over idle links");
    waits.note(11.01, 3.0);
    assert_eq!(waits.congestion(), 3.0);

    waits.note(1e6, 1.0);
    assert_eq!(waits.congestion(), 8.0, "a bound, since some links may be free");
}

#[test]
fn a_reserved_core_makes_the_arguments_of_its_task_meanwhile() {
    let (graph, (_, _, platform)) = (fork(), all_on_one());
    let mut state = sending(&graph, &[0, 0, 0]);
    let watch = Watch::new(&graph, &platform, true);
    orders(&mut state);
    state.begun(0, 0.0);

    let reassigned: Vec<_> = std::iter::from_fn(|| {
        let reassignment = state.reassign_straggler(100.0, &platform, &watch, &|_, _, _| 0.0)?;
        orders(&mut state);
        Some((reassignment.task.0, reassignment.to, reassignment.is_copy))
    })
    .collect();

    assert_eq!(reassigned.len(), 2, "one of the readers, and no more: {reassigned:?}");
    assert!(reassigned.contains(&(0, OTHER, true)), "{reassigned:?}");
}
