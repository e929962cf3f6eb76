//! The documented behaviour of each policy, one node at a time, and the bounds on all policies.

use super::*;
use gridspan_topology::{GridSpec, Hierarchy, NodeId, Time};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// `sites` sites of `nodes` nodes each, 10 ms from each other.
fn places(sites: u32, nodes: u32) -> Arc<StealingLayout> {
    let grid = GridSpec::from_emulate(&format!("{sites}x{nodes},wan=10ms,lan=50us")).unwrap();
    Arc::new(StealingLayout::new(&Hierarchy::from_grid(&grid)))
}

fn machine(policy: &str, me: u32, places: &Arc<StealingLayout>) -> Stealing {
    Stealing::new(stealing_policy(policy).unwrap(), NodeId(me), 1, Arc::clone(places), 1)
}

/// Returns the messages that the machine sends now.
fn sent(machine: &mut Stealing) -> Vec<(u32, StealMessage)> {
    let message = |command| match command {
        Command::Send { to, message } => Some((to.0, message)),
        _ => None,
    };
    machine.commands().filter_map(message).collect()
}

/// Returns the only node that the machine asks now.
fn asked(machine: &mut Stealing) -> u32 {
    let sent = sent(machine);
    assert!(matches!(sent[..], [(_, StealMessage::Request)]), "{sent:?}");
    sent[0].0
}

fn refuse(machine: &mut Stealing, from: u32, hint: Option<u32>) {
    let nothing = StealMessage::NoTasks { hint: hint.map(NodeId) };
    machine.handle_message(Time(1), NodeId(from), nothing);
}

fn give(machine: &mut Stealing, from: u32, tasks: u64) {
    machine.handle_received(Time(1), NodeId(from), tasks, tasks - 1, Grant::Answer);
}

#[test]
fn every_name_finds_its_policy() {
    for &name in STEALING_POLICIES {
        assert_eq!(stealing_policy(name).unwrap().name(), name);
    }
    let message = stealing_policy("magic").err().unwrap().to_string();
    assert!(message.starts_with("there is no stealing policy `magic`; write one of directory, "));
}

#[test]
fn random_asks_until_it_succeeds_and_no_longer() {
    let mut thief = machine("random", 3, &places(1, 8));
    thief.handle_idle(Time(0));

    for _ in 0..50 {
        let victim = asked(&mut thief);
        assert!(victim != 3 && victim < 8);
        refuse(&mut thief, victim, None);
    }
    let victim = asked(&mut thief);
    give(&mut thief, victim, 1);

    assert_eq!(sent(&mut thief), []);
}

#[test]
fn a_lost_victim_does_not_leave_a_thief_waiting() {
    for policy in ["random", "random-half", "shis", "transitive", "lifeline"] {
        let mut thief = machine(policy, 3, &places(1, 8));
        thief.handle_idle(Time(0));
        let victim = asked(&mut thief);

        thief.handle_lost(Time(1), NodeId(victim));

        assert_ne!(asked(&mut thief), victim, "{policy}");
    }
}

#[test]
fn a_victim_gives_one_task_or_half_and_refuses_when_it_has_none() {
    for (policy, amount) in [("random", Amount::One), ("random-half", Amount::Half)] {
        let mut victim = machine(policy, 0, &places(1, 2));
        victim.handle_stock(Time(0), 5);
        victim.handle_message(Time(1), NodeId(1), StealMessage::Request);

        let (to, grant) = (NodeId(1), Grant::Answer);
        let commands: Vec<Command> = victim.commands().collect();
        assert_eq!(commands, [Command::Grant { to, amount, grant }]);

        // The tasks were taken by the node itself meanwhile.
        victim.handle_given(Time(1), to, 0, 0, grant);
        assert_eq!(sent(&mut victim), [(1, StealMessage::NoTasks { hint: None })]);
    }
    assert_eq!([5, 1, 0].map(|stock| Amount::Half.of(stock)), [3, 1, 0]);
}

#[test]
fn shis_asks_the_last_giver_first_and_passes_on_no_hint() {
    let mut thief = machine("shis", 0, &places(1, 64));
    thief.handle_idle(Time(0));
    let victim = asked(&mut thief);
    give(&mut thief, victim, 1);

    thief.handle_message(Time(2), NodeId(50), StealMessage::Request);
    thief.handle_idle(Time(3));

    let nothing = StealMessage::NoTasks { hint: None };
    assert_eq!(sent(&mut thief), [(50, nothing), (victim, StealMessage::Request)]);
}

#[test]
fn transitive_passes_on_the_remembered_node_except_to_that_node() {
    let mut node = machine("transitive", 0, &places(1, 64));
    give(&mut node, 7, 1);

    node.handle_message(Time(2), NodeId(50), StealMessage::Request);
    node.handle_message(Time(2), NodeId(7), StealMessage::Request);

    let nothing = |hint: Option<u32>| StealMessage::NoTasks { hint: hint.map(NodeId) };
    assert_eq!(sent(&mut node), [(50, nothing(Some(7))), (7, nothing(None))]);
}

#[test]
fn transitive_follows_hints_up_to_its_limit_and_then_forgets() {
    // 64 nodes: floor(log2 64 - 3) = 3 hints.
    let mut thief = machine("transitive", 0, &places(1, 64));
    thief.handle_idle(Time(0));
    let first = asked(&mut thief);

    let mut last = first;
    for hint in [61, 62, 63] {
        refuse(&mut thief, last, Some(hint));
        assert_eq!(asked(&mut thief), hint);
        last = hint;
    }
    refuse(&mut thief, last, Some(61));
    let next = asked(&mut thief);
    thief.handle_message(Time(2), NodeId(50), StealMessage::Request);

    assert_ne!(next, 61);
    assert_eq!(sent(&mut thief), [(50, StealMessage::NoTasks { hint: None })]);
}

#[test]
fn cluster_aware_has_one_wide_area_request_on_its_way() {
    let mut thief = machine("cluster-aware", 0, &places(4, 8));
    thief.handle_idle(Time(0));
    let requests = sent(&mut thief);
    let far: Vec<u32> = requests.iter().map(|request| request.0).filter(|&to| to >= 8).collect();
    let [far] = far[..] else { panic!("{requests:?}") };
    let mut near = requests.iter().map(|request| request.0).find(|&to| to < 8).unwrap();

    for _ in 0..50 {
        refuse(&mut thief, near, None);
        near = asked(&mut thief);
        assert!(near < 8);
    }
    refuse(&mut thief, far, None);
    assert_eq!(sent(&mut thief), []);
    refuse(&mut thief, near, None);

    let again = sent(&mut thief);
    assert_eq!(again.iter().filter(|request| request.0 >= 8).count(), 1, "{again:?}");
}

#[test]
fn lifelines_go_once_to_the_neighbours_in_a_hypercube() {
    let mut thief = machine("lifeline", 5, &places(1, 8));
    thief.handle_idle(Time(0));
    for _ in 0..Lifeline::ATTEMPTS {
        let victim = asked(&mut thief);
        refuse(&mut thief, victim, None);
    }

    let neighbours = [4, 7, 1].map(|to| (to, StealMessage::Lifeline));
    assert_eq!(sent(&mut thief), neighbours);

    let mut neighbour = machine("lifeline", 4, &places(1, 8));
    neighbour.handle_message(Time(1), NodeId(5), StealMessage::Lifeline);
    neighbour.handle_stock(Time(2), 6);
    let (to, grant) = (NodeId(5), Grant::Lifeline);
    let commands: Vec<Command> = neighbour.commands().collect();
    assert_eq!(commands, [Command::Grant { to, amount: Amount::Half, grant }]);
}

#[test]
fn an_idle_node_asks_its_directory_once_and_sleeps() {
    let mut thief = machine("directory", 3, &places(1, 8));

    thief.handle_idle(Time(0));

    assert_eq!(sent(&mut thief), [(0, StealMessage::DirectoryRequest { workers: 1 })]);
    thief.handle_timeout(Time(1_000_000_000));
    assert_eq!(thief.commands().count(), 0);
}

#[test]
fn a_directory_makes_the_richest_holder_send_half_to_the_thief() {
    let mut keeper = machine("directory", 0, &places(1, 8));
    let advert = |tasks| StealMessage::Advertise { tasks, task_ns: 0, workers: 1 };
    keeper.handle_message(Time(0), NodeId(1), advert(3));
    keeper.handle_message(Time(0), NodeId(2), advert(8));

    keeper.handle_message(Time(1), NodeId(3), StealMessage::DirectoryRequest { workers: 1 });

    let shares = vec![Share::near(NodeId(3), 4)];
    assert_eq!(sent(&mut keeper), [(2, StealMessage::Assign { of: 8, shares })]);
}

#[test]
fn a_directory_makes_no_guest_serve_another_guest() {
    let mut keeper = machine("directory", 0, &places(1, 4));
    for guest in [8, 9] {
        keeper.handle_joined(Time(0), NodeId(guest), NodeId(0));
    }
    let advert = |tasks| StealMessage::Advertise { tasks, task_ns: 1_000_000, workers: 1 };
    keeper.handle_message(Time(1), NodeId(8), advert(1000));
    keeper.handle_message(Time(1), NodeId(2), advert(10));
    sent(&mut keeper);

    keeper.handle_message(Time(2), NodeId(9), StealMessage::DirectoryRequest { workers: 1 });
    let to_guest = sent(&mut keeper);
    keeper.handle_message(Time(2), NodeId(3), StealMessage::DirectoryRequest { workers: 1 });
    let to_founder = sent(&mut keeper);

    assert!(matches!(to_guest[..], [(2, StealMessage::Assign { .. })]), "{to_guest:?}");
    assert!(matches!(to_founder[..], [(8, StealMessage::Assign { .. })]), "{to_founder:?}");
}

#[test]
fn a_directory_serves_all_waiting_nodes_equally() {
    let mut keeper = machine("directory", 0, &places(1, 4));
    for node in [2, 3] {
        keeper.handle_message(Time(0), NodeId(node), StealMessage::DirectoryRequest { workers: 1 });
    }
    let advert = StealMessage::Advertise { tasks: 8, task_ns: 0, workers: 1 };
    keeper.handle_message(Time(0), NodeId(1), advert);
    let commands: Vec<Command> = keeper.commands().collect();
    let [Command::WakeAt(due)] = commands[..] else { panic!("{commands:?}") };

    keeper.handle_timeout(due);

    // Nine tasks, of which one runs: three for each of three nodes.
    let shares = [2, 3].map(|to| Share::near(NodeId(to), 3)).to_vec();
    assert_eq!(sent(&mut keeper), [(1, StealMessage::Assign { of: 8, shares })]);
}

#[test]
fn a_node_that_has_lost_its_directory_asks_or_reports_to_the_next() {
    let places = places(1, 8);
    let mut thief = machine("directory", 3, &places);
    let mut holder = machine("directory", 4, &places);
    thief.handle_idle(Time(0));
    holder.handle_stock(Time(0), 6);
    assert_eq!(sent(&mut thief)[0].0, 0);
    assert_eq!(sent(&mut holder)[0].0, 0);

    thief.handle_lost(Time(1), NodeId(0));
    holder.handle_lost(Time(1), NodeId(0));

    let advert = StealMessage::Advertise { tasks: 6, task_ns: 0, workers: 1 };
    assert_eq!(sent(&mut thief), [(1, StealMessage::DirectoryRequest { workers: 1 })]);
    assert_eq!(sent(&mut holder), [(1, advert)]);
}

#[test]
fn another_holder_serves_the_thieves_of_a_lost_node() {
    let mut keeper = machine("directory", 0, &places(1, 8));
    let advert = |tasks| StealMessage::Advertise { tasks, task_ns: 0, workers: 1 };
    keeper.handle_message(Time(0), NodeId(1), advert(3));
    keeper.handle_message(Time(0), NodeId(2), advert(8));
    keeper.handle_message(Time(1), NodeId(3), StealMessage::DirectoryRequest { workers: 1 });
    assert_eq!(sent(&mut keeper)[0].0, 2);

    keeper.handle_lost(Time(2), NodeId(2));

    let shares = vec![Share::near(NodeId(3), 2)];
    assert_eq!(sent(&mut keeper), [(1, StealMessage::Assign { of: 3, shares })]);
}

#[test]
fn sites_have_no_wide_area_links_inside_and_large_sites_have_parts() {
    let small = places(4, 8);
    assert_eq!(small.site_count(), 4);
    assert_eq!(small.nodes_in(1), [8, 9, 10, 11, 12, 13, 14, 15].map(NodeId));
    assert_eq!(small.latency(0, 3).duration(), Duration::from_millis(10));

    let large = places(1, 12_000);
    assert_eq!((large.site_count(), large.part_count(0)), (1, 3));
    assert_eq!((large.head(0), large.keeper(0, 2)), (Some(NodeId(0)), Some(NodeId(8000))));
}

fn node() -> impl Strategy<Value = NodeId> {
    prop_oneof![0..12_u32, Just(u32::MAX)].prop_map(NodeId)
}

fn nodes() -> impl Strategy<Value = Vec<NodeId>> {
    prop::collection::vec(node(), 0..100)
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..20_u64, any::<u64>(), Just(u64::MAX)]
}

fn way() -> impl Strategy<Value = Duration> {
    number().prop_map(Duration::from_nanos)
}

fn message() -> impl Strategy<Value = StealMessage> {
    use StealMessage as M;
    let share = (node(), number(), way()).prop_map(|(to, tasks, way)| Share { to, tasks, way });
    let shares = prop::collection::vec(share, 0..100);
    let demand = |(queued, idle, task_ns, receivers)| Demand { queued, idle, task_ns, receivers };
    let standing = |(nodes, backlog, receivers)| {
        let backlog = Duration::from_nanos(backlog);
        StandingRequest { nodes, backlog, receivers }
    };
    prop_oneof![
        Just(M::Request),
        prop::option::of(node()).prop_map(|hint| M::NoTasks { hint }),
        Just(M::Lifeline),
        any::<u32>().prop_map(|workers| M::DirectoryRequest { workers }),
        (number(), number(), any::<u32>()).prop_map(|(tasks, task_ns, workers)| M::Advertise {
            tasks,
            task_ns,
            workers
        }),
        (number(), shares).prop_map(|(of, shares)| M::Assign { of, shares }),
        nodes().prop_map(M::Unassigned),
        Just(M::Retry),
        (number(), any::<u32>(), number(), nodes()).prop_map(move |parts| M::Report(demand(parts))),
        (number(), nodes(), way()).prop_map(|(tasks, to, way)| M::GrantRemotely { tasks, to, way }),
        number().prop_map(|tasks| M::Incoming { tasks }),
        (any::<u32>(), number(), nodes()).prop_map(move |parts| M::RemoteRequest(standing(parts))),
        Just(M::WithdrawRequest),
        (number(), nodes()).prop_map(|(tasks, answered)| M::RemoteGrant { tasks, answered }),
    ]
}

#[derive(Clone, Debug)]
enum Event {
    Message(NodeId, StealMessage),
    Grant(NodeId, u64),
    Stock(u64),
    Idle,
    Lost(NodeId),
    Timeout,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (node(), message()).prop_map(|(from, message)| Event::Message(from, message)),
        1 => (node(), number()).prop_map(|(from, tasks)| Event::Grant(from, tasks)),
        1 => number().prop_map(Event::Stock),
        1 => Just(Event::Idle),
        1 => (1..12_u32).prop_map(|node| Event::Lost(NodeId(node))),
        2 => Just(Event::Timeout),
    ]
}

proptest! {
    #[test]
    fn no_message_makes_a_machine_panic_or_send_to_absent_nodes(
        events in prop::collection::vec((event(), number()), 1..60),
    ) {
        for &policy in STEALING_POLICIES {
            let mut machine = machine(policy, 0, &places(3, 3));
            let mut now = Time(0);
            for (event, later) in events.clone() {
                now += Duration::from_nanos(later / 100);
                match event {
                    Event::Message(from, message) => machine.handle_message(now, from, message),
                    Event::Grant(from, tasks) => {
                        let grant = Grant::Directory { meant: tasks, way: Duration::ZERO };
                        machine.handle_received(now, from, tasks, tasks / 2, grant);
                    }
                    Event::Stock(stock) => {
                        machine.note_done(later);
                        machine.handle_stock(now, stock);
                    }
                    Event::Idle => machine.handle_idle(now),
                    Event::Lost(node) => machine.handle_lost(now, node),
                    Event::Timeout => machine.handle_timeout(now),
                }
                let commands: Vec<Command> = machine.commands().collect();
                // A message has one list of nodes, and causes at most a few messages to each of
                // them.
                prop_assert!(commands.len() < 4 * MAX_LISTED, "{policy}: {} commands", commands.len());
                for command in commands {
                    if let Command::Send { to, .. } | Command::Grant { to, .. } = command {
                        prop_assert!(machine.places().contains(to) && to != NodeId(0));
                    }
                    if let Command::Grant { to, amount, grant } = command {
                        machine.handle_given(now, to, amount.of(later % 3), 0, grant);
                    }
                }
                machine.commands().for_each(drop);
            }
        }
    }
}

#[test]
fn a_thief_asks_another_node_after_its_giver_has_left() {
    let places = places(1, 4);
    for policy in ["random", "shis", "transitive", "cluster-aware", "lifeline"] {
        let guest = NodeId(9);
        let mut thief = machine(policy, 0, &places);
        thief.handle_joined(Time(0), guest, NodeId(1));
        thief.handle_lost(Time(0), guest);
        give(&mut thief, guest.0, 1);
        sent(&mut thief);

        thief.handle_idle(Time(2));

        let asked = sent(&mut thief);
        assert!(asked.iter().any(|(to, _)| places.contains(NodeId(*to))), "{policy}: {asked:?}");
    }
}
