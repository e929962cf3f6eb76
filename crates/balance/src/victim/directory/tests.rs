//! What a directory and the head of a site do over some time.

use super::super::{Command, Places, Stealing, victim_by_name};
use super::*;
use crate::victim::message::Standing;
use gridspan_topology::{GridSpec, Hierarchy};
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// The first of two nodes of the first of two sites, 10 ms from each other.
fn head() -> Stealing {
    let grid = GridSpec::from_emulate("2x2,wan=10ms,lan=50us").unwrap();
    let places = Arc::new(Places::new(&Hierarchy::from_grid(&grid)));
    Stealing::new(victim_by_name("directory").unwrap(), NodeId(0), 1, places, 1)
}

/// Lets time pass; the first time at which somebody is to send tasks to the other site, and how many.
fn first_shipment(head: &mut Stealing, until: Time) -> Option<(Time, u64)> {
    let mut now = Time(0);
    loop {
        let commands: Vec<Command> = head.commands().collect();
        let mut next = None;
        for command in commands {
            match command {
                Command::Send { to: NodeId(1), message: StealMessage::Serve { shares, .. } } => {
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
    let standing = Standing { nodes: 2, backlog: Duration::ZERO, receivers };
    head.handle_message(Time(0), NodeId(2), StealMessage::Park(standing));
}

#[test]
fn subtrees_go_to_another_site_although_each_node_of_the_tree_is_short() {
    let mut head = head();
    park(&mut head);
    let advert = StealMessage::Advert { tasks: 40, task_ns: 100, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert);

    // Nobody says that the tasks, which would have been done after 2 us, are.
    let (time, tasks) = first_shipment(&mut head, Time(100 * MS)).unwrap();

    // After the time of the way the rest may well last as long again; a little pays then.
    assert!(time >= Time(10 * MS) && time <= Time(40 * MS), "{time:?}");
    assert!((1..20).contains(&tasks), "{tasks}");
}

#[test]
fn short_tasks_that_are_done_in_time_stay() {
    let mut head = head();
    park(&mut head);
    let advert = |tasks| StealMessage::Advert { tasks, task_ns: 100, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert(40));
    head.handle_message(Time(2000), NodeId(1), advert(0));

    assert_eq!(first_shipment(&mut head, Time(100 * MS)), None);
}

/// Whether the head parks a request at the other site by the end of this time, a busy site that holds so many tasks.
fn asks(head: &mut Stealing, tasks: u64, until: Time) -> bool {
    let advert = StealMessage::Advert { tasks, task_ns: 100, workers: 1 };
    head.handle_message(Time(0), NodeId(1), advert);
    let mut now = Time(0);
    loop {
        let mut next = None;
        for command in head.commands().collect::<Vec<_>>() {
            match command {
                Command::Send { to: NodeId(2), message: StealMessage::Park(_) } => return true,
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
    // Whatever 40 tasks spawn: they may be done at once.
    assert!(asks(&mut head(), 40, Time(MS)));
    // At 100 ns each, a million last for longer than any way.
    assert!(!asks(&mut head(), 1_000_000, Time(MS)));
}
