//! Tests of a directory and the head of a site over some time.

use super::super::{Command, Stealing, StealingLayout, stealing_policy};
use super::*;
use crate::stealing::message::StandingRequest;
use gridspan_topology::{GridSpec, Hierarchy};
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// The first of two nodes of the first of two sites, 10 ms from each other.
fn head() -> Stealing {
    let grid = GridSpec::from_emulate("2x2,wan=10ms,lan=50us").unwrap();
    let places = Arc::new(StealingLayout::new(&Hierarchy::from_grid(&grid)));
    Stealing::new(stealing_policy("directory").unwrap(), NodeId(0), 1, places, 1)
}

/// Lets time pass; returns the first time at which a node is to send tasks to the other site, and
/// their number.
fn first_shipment(head: &mut Stealing, until: Time) -> Option<(Time, u64)> {
    let mut now = Time(0);
    loop {
        let commands: Vec<Command> = head.commands().collect();
        let mut next = None;
        for command in commands {
            match command {
                Command::Send { to: NodeId(1), message: StealMessage::Assign { shares, .. } } => {
                    let far = shares.iter().filter(|share| share.to.0 >= 2);
                    return Some((now, far.map(|share| share.tasks).sum()));
                }
                Command::WakeAt(time) => next = Some(time),
                _ => {}
            }
        }
        now = next.filter(|&time| time <= until)?;
        head.handle_timeout(now);
    }
}

fn park(head: &mut Stealing) {
    let receivers = vec![NodeId(2), NodeId(3)];
    let standing = StandingRequest { nodes: 2, backlog: Duration::ZERO, receivers };
    head.handle_message(Time(0), NodeId(2), StealMessage::RemoteRequest(standing));
}

#[test]
fn tasks_that_spawn_others_go_to_another_site_although_each_is_short() {
    let mut head = head();
    park(&mut head);
    let advert = StealMessage::Advertise { tasks: 40, task_ns: 100, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert);

    // No report says that the tasks, which would have been done after 2 us, are done.
    let (time, tasks) = first_shipment(&mut head, Time(100 * MS)).unwrap();

    // After the latency, the rest may well last as long again; sending a few tasks pays then.
    assert!(time >= Time(10 * MS) && time <= Time(40 * MS), "{time:?}");
    assert!((1..20).contains(&tasks), "{tasks}");
}

#[test]
fn short_tasks_that_are_done_in_time_stay() {
    let mut head = head();
    park(&mut head);
    let advert = |tasks| StealMessage::Advertise { tasks, task_ns: 100, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert(40));
    head.handle_message(Time(2000), NodeId(1), advert(0));

    assert_eq!(first_shipment(&mut head, Time(100 * MS)), None);
}

/// Returns whether the head of a site with `tasks` tasks from the time `from` on parks a request at
/// the other site by the time `until`.
fn asks(head: &mut Stealing, tasks: u64, [from, until]: [Time; 2]) -> bool {
    let advert = StealMessage::Advertise { tasks, task_ns: 100, workers: 1 };
    head.handle_message(from, NodeId(1), advert);
    let mut now = from;
    loop {
        let mut next = None;
        for command in head.commands().collect::<Vec<_>>() {
            match command {
                Command::Send { to: NodeId(2), message: StealMessage::RemoteRequest(_) } => {
                    return true;
                }
                Command::WakeAt(time) => next = Some(time),
                _ => {}
            }
        }
        let Some(time) = next.filter(|&time| time <= until) else { return false };
        now = now.max(time);
        head.handle_timeout(now);
    }
}

#[test]
fn a_site_asks_before_it_is_dry_while_its_tasks_have_not_lasted_for_a_round_trip() {
    // 40 tasks may be done at once, whether or not they spawn others.
    assert!(asks(&mut head(), 40, [Time(0), Time(MS)]));
    // At 100 ns each, a million tasks last for longer than any latency.
    assert!(!asks(&mut head(), 1_000_000, [Time(0), Time(MS)]));
}

#[test]
fn a_head_wakes_seldom_while_its_last_task_takes_hardly_more_than_a_round_trip() {
    let mut head = head();
    let round_trip = head.places().latency(0, 1).duration() * 2;
    // Both nodes run a task, and one task waits: half as much again for each node.
    let task_ns = round_trip.as_nanos() as u64 * 2 / 3 + 2;
    let advert = StealMessage::Advertise { tasks: 2, task_ns, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert);

    let (mut now, mut wakes) = (Time(0), 0);
    while now < Time(4 * task_ns) {
        let wake = |command| match command {
            Command::WakeAt(time) => Some(time),
            _ => None,
        };
        let Some(time) = head.commands().filter_map(wake).next_back() else { break };
        now = now.max(time);
        head.handle_timeout(now);
        wakes += 1;
        assert!(wakes < 4000, "it wakes again and again at {now:?}");
    }
    assert!(now > Time(task_ns / 2), "until then, the estimate falls");
}

/// The first of two nodes of the first of two sites, while no latency is measured.
fn unmeasured_head() -> Stealing {
    let grid = GridSpec::from_emulate("2x2").unwrap();
    let places = Arc::new(StealingLayout::new(&Hierarchy::from_layout(grid.layout())));
    Stealing::new(stealing_policy("directory").unwrap(), NodeId(0), 1, places, 1)
}

#[test]
fn work_stays_in_its_site_until_the_latency_to_another_is_measured() {
    let mut head = unmeasured_head();
    park(&mut head);
    let advert = StealMessage::Advertise { tasks: 40, task_ns: 100, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert);
    let is_echo = |command: &Command| {
        let echo = StealMessage::LatencyProbe { is_answer: false };
        *command == Command::Send { to: NodeId(2), message: echo }
    };
    let commands: Vec<Command> = head.commands().collect();
    assert_eq!(commands.iter().filter(|command| is_echo(command)).count(), 1);
    assert_eq!(first_shipment(&mut head, Time(1000 * MS)), None);

    // The latency is 10 ms: tasks that have lasted for one and a half round trips are worth it.
    let mut head = unmeasured_head();
    park(&mut head);
    let advert = StealMessage::Advertise { tasks: 40, task_ns: 100, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert);
    head.handle_message(Time(20 * MS), NodeId(2), StealMessage::LatencyProbe { is_answer: true });
    let (time, tasks) = first_shipment(&mut head, Time(1000 * MS)).unwrap();
    assert!(time >= Time(28 * MS) && time <= Time(32 * MS), "{time:?}");
    assert!((1..20).contains(&tasks), "{tasks}");
}

#[test]
fn a_site_with_work_asks_another_one_once_the_latency_is_measured() {
    let mut head = unmeasured_head();
    let first = [Time(0), Time(19 * MS)];
    assert!(!asks(&mut head, 1_000_000, first), "work is sought in the own site");

    head.handle_message(Time(20 * MS), NodeId(2), StealMessage::LatencyProbe { is_answer: true });

    // Two nodes do 400,000 tasks of 100 ns in 20 ms, as long as the round trip.
    assert!(asks(&mut head, 400_000, [Time(30 * MS), Time(31 * MS)]));
}

#[test]
fn an_echo_request_is_answered_and_an_unrequested_echo_is_ignored() {
    let mut head = unmeasured_head();
    head.handle_message(Time(0), NodeId(2), StealMessage::LatencyProbe { is_answer: false });
    let answer = StealMessage::LatencyProbe { is_answer: true };
    let expected = Command::Send { to: NodeId(2), message: answer.clone() };
    assert_eq!(head.commands().collect::<Vec<_>>(), [expected]);

    head.handle_message(Time(1), NodeId(2), answer);
    park(&mut head);
    let advert = StealMessage::Advertise { tasks: 40, task_ns: 100, workers: 1 };
    head.handle_message(Time(2), NodeId(1), advert);
    assert_eq!(first_shipment(&mut head, Time(1000 * MS)), None);
}

#[test]
fn a_task_whose_result_would_be_late_stays() {
    // Two nodes do 40 tasks of a millisecond in 20 ms, as long as the round trip.
    let mut head = head();
    park(&mut head);
    let advert = |tasks| StealMessage::Advertise { tasks, task_ns: MS, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert(38));
    assert_eq!(first_shipment(&mut head, Time(MS)), None);

    // They do 200 tasks in 100 ms. Both sites end after 60 ms if the other site, which can begin 20
    // ms later, gets 80 tasks.
    let mut head = self::head();
    park(&mut head);
    head.handle_message(Time(0), NodeId(1), advert(198));
    let (_, tasks) = first_shipment(&mut head, Time(MS)).unwrap();
    assert!((75..=82).contains(&tasks), "{tasks}");
}

/// Returns the number of tasks that node 1 is to give to each waiting node, after it has advertised
/// `tasks` tasks.
fn served(waiting: &[u32], tasks: u64) -> Vec<(u32, u64)> {
    let grid = GridSpec::from_emulate("1x8,lan=50us").unwrap();
    let places = Arc::new(StealingLayout::new(&Hierarchy::from_grid(&grid)));
    let mut keeper = Stealing::new(stealing_policy("directory").unwrap(), NodeId(0), 1, places, 1);
    for &node in waiting {
        keeper.handle_message(Time(0), NodeId(node), StealMessage::DirectoryRequest { workers: 1 });
    }
    let advert = StealMessage::Advertise { tasks, task_ns: 100, workers: 1 };
    keeper.handle_message(Time(MS), NodeId(1), advert);
    let shares = |command| match command {
        Command::Send { to: NodeId(1), message: StealMessage::Assign { shares, .. } } => {
            Some(shares)
        }
        _ => None,
    };
    let shares = keeper.commands().filter_map(shares).flatten();
    shares.map(|share| (share.to.0, share.tasks)).collect()
}

#[test]
fn tasks_are_served_at_once_if_more_workers_wait() {
    assert_eq!(served(&[2, 3, 4], 2), [(2, 1), (3, 1)]);
    // Other nodes may have more to spare: adverts are gathered first.
    assert_eq!(served(&[2, 3, 4], 4), []);
}

#[test]
fn a_thief_gets_one_task_if_tasks_spawn_others() {
    let grid = GridSpec::from_emulate("1x4,lan=50us").unwrap();
    let places = Arc::new(StealingLayout::new(&Hierarchy::from_grid(&grid)));
    let asked = |age: Time| {
        let policy = stealing_policy("directory").unwrap();
        let mut keeper = Stealing::new(policy, NodeId(0), 1, places.clone(), 1);
        let advert = StealMessage::Advertise { tasks: 7, task_ns: 100, workers: 1 };
        keeper.handle_message(Time(0), NodeId(1), advert);
        keeper.handle_message(age, NodeId(2), StealMessage::DirectoryRequest { workers: 1 });
        let tasks = |command| match command {
            Command::Send { message: StealMessage::Assign { shares, .. }, .. } => {
                Some(shares[0].tasks)
            }
            _ => None,
        };
        keeper.commands().find_map(tasks)
    };
    // Seven tasks of 100 ns are halved; if they spawned nothing, they would be done after 10 ms.
    assert_eq!(asked(Time(0)), Some(4));
    assert_eq!(asked(Time(10 * MS)), Some(1));
}

#[test]
fn latencies_to_other_sites_are_measured_before_there_are_tasks() {
    let mut head = unmeasured_head();
    head.handle_message(Time(0), NodeId(1), StealMessage::DirectoryRequest { workers: 1 });
    let echo =
        Command::Send { to: NodeId(2), message: StealMessage::LatencyProbe { is_answer: false } };
    assert!(head.commands().any(|command| command == echo));
    head.handle_message(Time(20 * MS), NodeId(2), StealMessage::LatencyProbe { is_answer: true });

    park(&mut head);
    let advert = StealMessage::Advertise { tasks: 400, task_ns: MS, workers: 1 };
    head.handle_message(Time(20 * MS), NodeId(1), advert);

    let (time, _) = first_shipment(&mut head, Time(1000 * MS)).unwrap();
    assert!(time < Time(21 * MS), "{time:?}");
}

/// Makes a node with `stock` tasks serve two others, with `sent` tasks for each. Returns its
/// messages to the keeper of its part.
fn told(stock: u64, sent: u64) -> Vec<StealMessage> {
    let grid = GridSpec::from_emulate("1x4").unwrap();
    let places = Arc::new(StealingLayout::new(&Hierarchy::from_grid(&grid)));
    let mut node = Stealing::new(stealing_policy("directory").unwrap(), NodeId(1), 1, places, 1);
    node.handle_stock(Time(0), stock);
    let shares = [2, 3].map(|to| Share::near(NodeId(to), stock / 3)).to_vec();
    node.handle_message(Time(1), NodeId(0), StealMessage::Assign { of: stock, shares });
    let grants: Vec<(NodeId, Grant)> = node
        .commands()
        .filter_map(|command| match command {
            Command::Grant { to, grant, .. } => Some((to, grant)),
            _ => None,
        })
        .collect();
    for (at, &(to, grant)) in grants.iter().enumerate() {
        let left = stock - sent * (at as u64 + 1);
        node.handle_given(Time(2), to, sent, left, grant);
    }
    let to_keeper = |command| match command {
        Command::Send { to: NodeId(0), message } => Some(message),
        _ => None,
    };
    node.commands().filter_map(to_keeper).collect()
}

#[test]
fn a_holder_sends_no_report_while_it_gives_the_ordered_tasks() {
    assert_eq!(told(300, 100), []);
}

#[test]
fn a_holder_reports_if_it_gave_much_less_than_ordered() {
    let gave = |to| StealMessage::Granted { to: NodeId(to), tasks: 20 };
    let advert = StealMessage::Advertise { tasks: 260, task_ns: 0, workers: 1 };
    assert_eq!(told(300, 20), [gave(2), gave(3), advert]);
}

/// Makes a directory order a node with 180 tasks to give half of them to a second node; `message`
/// may report how many it gave. Returns the node that then serves a third one.
fn holder_after(message: Option<StealMessage>) -> NodeId {
    let grid = GridSpec::from_emulate("1x4").unwrap();
    let places = Arc::new(StealingLayout::new(&Hierarchy::from_grid(&grid)));
    let mut keeper = Stealing::new(stealing_policy("directory").unwrap(), NodeId(0), 1, places, 1);
    let advert = |tasks| StealMessage::Advertise { tasks, task_ns: MS, workers: 1 };
    keeper.handle_message(Time(0), NodeId(2), advert(180));
    keeper.handle_message(Time(0), NodeId(1), StealMessage::DirectoryRequest { workers: 1 });
    if let Some(message) = message {
        keeper.handle_message(Time(1), NodeId(2), message);
    }
    keeper.handle_message(Time(1), NodeId(2), advert(30));
    keeper.commands().for_each(drop);
    keeper.handle_message(Time(2), NodeId(3), StealMessage::DirectoryRequest { workers: 1 });
    let to = |command| match command {
        Command::Send { to, message: StealMessage::Assign { .. } } => Some(to),
        _ => None,
    };
    keeper.commands().find_map(to).unwrap()
}

#[test]
fn a_directory_counts_the_tasks_given_to_a_thief() {
    assert_eq!(holder_after(None), NodeId(1));
    let gave = StealMessage::Granted { to: NodeId(1), tasks: 5 };
    assert_eq!(holder_after(Some(gave)), NodeId(2));
}

/// Lets time pass until `until`. Returns the heads of the other sites that get tasks meanwhile.
fn answered(head: &mut Stealing, until: Time) -> Vec<NodeId> {
    let mut answered = Vec::new();
    loop {
        let mut next = None;
        for command in head.commands().collect::<Vec<_>>() {
            match command {
                Command::Send { to, message: StealMessage::RemoteGrant { .. } } => {
                    answered.push(to)
                }
                Command::WakeAt(time) => next = Some(time),
                _ => {}
            }
        }
        let Some(time) = next.filter(|&time| time <= until) else { return answered };
        head.handle_timeout(time);
    }
}

#[test]
fn a_site_for_which_no_task_is_left_gets_some_later() {
    let grid = GridSpec::from_emulate("3x8,wan=10ms,lan=50us").unwrap();
    let places = Arc::new(StealingLayout::new(&Hierarchy::from_grid(&grid)));
    let mut head = Stealing::new(stealing_policy("directory").unwrap(), NodeId(0), 1, places, 1);
    for first in [8, 16] {
        let receivers = vec![NodeId(first), NodeId(first + 1)];
        let standing = StandingRequest { nodes: 8, backlog: Duration::ZERO, receivers };
        head.handle_message(Time(0), NodeId(first), StealMessage::RemoteRequest(standing));
    }
    let advert = |tasks| StealMessage::Advertise { tasks, task_ns: 1000 * MS, workers: 1 };

    // All eight nodes of the site run a task, so that only two can leave.
    head.handle_message(Time(0), NodeId(1), advert(2));
    assert_eq!(answered(&mut head, Time(MS)), [NodeId(8)]);

    head.handle_message(Time(2 * MS), NodeId(1), advert(400));
    assert_eq!(answered(&mut head, Time(3 * MS)), [NodeId(16)]);
}
