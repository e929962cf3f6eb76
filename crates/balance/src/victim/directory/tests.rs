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
