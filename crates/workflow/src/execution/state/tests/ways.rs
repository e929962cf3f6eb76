//! Groups whose servers do not all reach each other.

use super::*;

/// A task that reads `inputs` data and runs on the last of `holders + 1` servers. One of the other
/// servers holds each data; if `is_each_at_all`, all of them do. If `is_at_client`, the client
/// holds all data, too.
fn reader(
    (inputs, holders): (u32, u32),
    is_at_client: bool,
    is_each_at_all: bool,
) -> (TaskGraph, Mapping, ServerId) {
    let mut graph = GraphBuilder::default();
    let task = graph.task("reader", 1.0);
    for number in 0..inputs {
        let held_by = (0..holders).filter(|holder| is_each_at_all || *holder == number);
        let held_by = held_by.map(|holder| Endpoint::Server(ServerId(holder)));
        let client = is_at_client.then_some(Endpoint::Client);
        let data = graph.external(number.to_string(), 8, held_by.chain(client).collect::<Vec<_>>());
        graph.read(task, data);
    }
    let to = ServerId(holders);
    let mapping = Mapping { servers: vec![to], places: vec![0], relays: false, predicted_s: 0.0 };
    (graph.build().unwrap(), mapping, to)
}

#[test]
fn only_one_of_many_unreached_servers_is_tried_for_each_data() {
    for is_at_client in [true, false] {
        let (graph, mapping, to) = reader((1, 9), is_at_client, true);
        let mut state = fetching(&graph, &mapping, 10, &[]);
        let data = DataId(0);
        orders(&mut state);
        assert_eq!(state.source(data, to), Some(Endpoint::Server(ONE)));

        state.unreached(0, &[(data, ONE)]);

        if !is_at_client {
            assert_eq!((orders(&mut state), relays(&mut state)), (vec![], vec![(data, ONE)]));
            state.relayed(data, 8);
        }
        assert_eq!(state.source(data, to), Some(Endpoint::Client));
        assert_eq!(orders(&mut state), [(0, to.0)]);
    }
}

#[test]
fn a_lost_unreached_server_does_not_exclude_other_holders() {
    let (graph, mapping, to) = reader((1, 2), true, true);
    let mut state = fetching(&graph, &mapping, 3, &[]);
    orders(&mut state);
    state.unreached(0, &[(DataId(0), ONE)]);

    state.lost(ONE);

    assert_eq!(state.source(DataId(0), to), Some(Endpoint::Server(OTHER)));
}

#[test]
fn attempts_that_find_an_unreached_server_do_not_count() {
    let (graph, mapping, to) = reader((ATTEMPTS_MAX + 1, ATTEMPTS_MAX + 1), false, false);
    let servers = to.0 as usize + 1;
    let mut state = fetching(&graph, &mapping, servers, &[]);
    for number in 0..=ATTEMPTS_MAX {
        assert_eq!(orders(&mut state), [(0, to.0)]);
        let (data, from) = (DataId(number), ServerId(number));
        state.unreached(number as usize, &[(data, from)]);
        assert_eq!((orders(&mut state), relays(&mut state)), (vec![], vec![(data, from)]));
        state.relayed(data, 8);
    }

    // Other failed attempts count.
    for _ in 1..ATTEMPTS_MAX {
        orders(&mut state);
        state.again(attempt_at(&state, 0));
    }
    orders(&mut state);
    state.again(attempt_at(&state, 0));
    assert_eq!(state.take_stuck(), [(TaskId(0), Stuck::Tried)].into());
}

#[test]
fn unreached_data_is_relayed_by_the_client_and_then_released() {
    let graph = diamond();
    let mut state = near(&graph, &mapping());
    let made = graph.task(TaskId(0)).outputs[0];
    orders(&mut state);
    done(&mut state, 0, &[]);
    assert_eq!(orders(&mut state), [(1, 0), (2, 1)]);
    // The second server reports that it does not reach the first.
    state.unreached(attempt_at(&state, 2), &[(made, ONE)]);
    assert_eq!(orders(&mut state), []);
    assert_eq!((relays(&mut state), relays(&mut state)), (vec![(made, ONE)], vec![]));
    assert_eq!(orders(&mut state), []);

    state.relayed(made, 8);

    assert_eq!((state.take_spent(), orders(&mut state)), (vec![], vec![(2, 1)]));
    assert_eq!(state.source(made, OTHER), Some(Endpoint::Client));
    done(&mut state, 2, &[made]);
    done(&mut state, 1, &[]);
    assert_eq!(state.take_spent(), [made]);
    // The output of the other task is relayed too, because the second server is known not to reach
    // the first.
    let left = graph.task(TaskId(1)).outputs[0];
    assert_eq!((orders(&mut state), relays(&mut state)), (vec![], vec![(left, ONE)]));
    state.relayed(left, 8);
    assert_eq!(orders(&mut state), [(3, 1)]);
    done(&mut state, 3, &[left]);
    assert_eq!(state.take_spent(), [left]);
}

#[test]
fn data_that_is_lost_on_its_way_to_the_client_is_made_again() {
    let graph = diamond();
    let apart = [(ONE, OTHER)];
    for is_lost in [false, true] {
        let mut state = fetching(&graph, &mapping(), 2, &apart);
        let made = graph.task(TaskId(0)).outputs[0];
        orders(&mut state);
        done(&mut state, 0, &[]);
        assert_eq!((orders(&mut state), relays(&mut state)), (vec![(1, 0)], vec![(made, ONE)]));

        match is_lost {
            true => state.lost(ONE),
            false => state.missing(made, Endpoint::Server(ONE)),
        }

        let again = if is_lost { 1 } else { 0 };
        assert_eq!((orders(&mut state), relays(&mut state)), (vec![(0, again)], vec![]));
    }
}

#[test]
fn relayed_data_is_not_lost_with_its_server() {
    let graph = diamond();
    let apart = [(ONE, OTHER)];
    let mut state = fetching(&graph, &mapping(), 2, &apart);
    let made = graph.task(TaskId(0)).outputs[0];
    orders(&mut state);
    done(&mut state, 0, &[]);
    orders(&mut state);
    relays(&mut state);
    state.relayed(made, 8);

    state.lost(ONE);

    assert_eq!(orders(&mut state), [(1, 1), (2, 1)]);
}

/// Tasks on the second server that read data of `bytes` bytes each, all of it on the first server.
/// `readers` gives the task that reads each data.
fn far(readers: &[usize], bytes: u64) -> (TaskGraph, Mapping) {
    let mut graph = GraphBuilder::default();
    let last = readers.iter().copied().max().unwrap_or(0);
    let tasks: Vec<TaskId> = (0..=last).map(|number| graph.task(number.to_string(), 1.0)).collect();
    for (number, &reader) in readers.iter().enumerate() {
        let data = graph.external(number.to_string(), bytes, [Endpoint::Server(ONE)]);
        graph.read(tasks[reader], data);
    }
    let places = (0..tasks.len() as u32).collect();
    let servers = vec![OTHER; tasks.len()];
    (graph.build().unwrap(), Mapping { servers, places, relays: false, predicted_s: 0.0 })
}

/// Size of data, in bytes: the client's limit has room for two of them.
const LARGE: u64 = 400 << 20;

/// Makes the client request and receive data.
fn bring(state: &mut ExecutionState<'_>, bytes: u64) -> Vec<u32> {
    let asked = relays(state);
    asked.iter().for_each(|&(data, _)| state.relayed(data, bytes));
    asked.into_iter().map(|(data, _)| data.0).collect()
}

#[test]
fn the_client_relays_limited_bytes_and_more_once_readers_begin() {
    let (graph, mapping) = far(&[0, 1, 2, 3, 4], LARGE);
    let apart = [(ONE, OTHER)];
    let mut state = fetching(&graph, &mapping, 2, &apart);
    assert_eq!(orders(&mut state), []);
    assert_eq!(bring(&mut state, LARGE), [0, 1]);
    assert_eq!(orders(&mut state), [(0, 1), (1, 1)]);
    assert_eq!((state.take_spent(), bring(&mut state, LARGE)), (vec![], vec![]));

    state.begun(0, 1.0);

    assert_eq!(state.take_spent(), [DataId(0)]);
    orders(&mut state);
    assert_eq!(bring(&mut state, LARGE), [2]);
}

#[test]
fn a_failed_attempt_gets_released_data_from_the_client_again() {
    let (graph, mapping) = far(&[0], LARGE);
    let apart = [(ONE, OTHER)];
    let mut state = fetching(&graph, &mapping, 2, &apart);
    orders(&mut state);
    bring(&mut state, LARGE);
    orders(&mut state);
    state.begun(0, 1.0);
    assert_eq!(state.take_spent(), [DataId(0)]);

    state.again(0);

    assert_eq!((orders(&mut state), bring(&mut state, LARGE)), (vec![], vec![0]));
    assert_eq!(orders(&mut state), [(0, 1)]);
}

#[test]
fn data_in_transit_to_the_client_counts_towards_the_limit() {
    let (graph, mapping) = far(&[0, 1, 2], LARGE);
    let apart = [(ONE, OTHER)];
    let mut state = fetching(&graph, &mapping, 2, &apart);
    orders(&mut state);
    assert_eq!(relays(&mut state).len(), 2);

    orders(&mut state);

    assert_eq!(relays(&mut state), []);
}

#[test]
fn a_task_that_needs_more_bytes_than_the_limit_gets_them_one_after_the_other() {
    let apart = [(ONE, OTHER)];
    for (bytes, expected) in [
        (LARGE, vec![vec![0, 1], vec![2], vec![3]]),
        (LARGE * 4, vec![vec![0], vec![1], vec![2], vec![3]]),
    ] {
        // Another task also waits, and must not get data before the first has all of its data.
        let (graph, mapping) = far(&[0, 0, 0, 0, 1], bytes);
        let mut state = fetching(&graph, &mapping, 2, &apart);
        for data in expected {
            assert_eq!(orders(&mut state), []);
            assert_eq!(bring(&mut state, bytes), data);
        }
        assert_eq!(orders(&mut state), [(0, 1)]);
        assert_eq!(relays(&mut state), [], "it makes room");
    }
}

#[test]
fn the_client_relays_all_data_of_one_task_before_that_of_others() {
    // The first half of each task's data, and then the second half.
    let (graph, mapping) = far(&[0, 1, 2, 0, 1, 2], LARGE);
    let apart = [(ONE, OTHER)];
    let mut state = fetching(&graph, &mapping, 2, &apart);
    orders(&mut state);

    assert_eq!(bring(&mut state, LARGE), [0, 3]);

    assert_eq!(orders(&mut state), [(0, 1)]);
}
