//! Measurements of loads, and the memory of the trees of broadcasts.

use super::{Idle, no_loads, sent};
use crate::Job;
use crate::coordinator::broadcast_reports::TREES_MAX;
use crate::coordinator::event::{CoordinatorCommand, CoordinatorEvent};
use crate::coordinator::host::CoordinatorHost;
use crate::coordinator::machine::Coordinator;
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::{Control, Packet};
use gridspan_balance::leaders::{Leader, SiteView, Top};
use gridspan_balance::{Cause, Figures, LeaderCut, Occasion, PeLoad, Refine, Traffic};
use gridspan_bcast::PlanId;
use gridspan_topology::{Layout, NodeId, PeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Answers all questions of the coordinator about loads and progress, for PEs that have handled
/// `handled` messages each. Returns the number of questions about loads.
fn answer_as_measured(
    host: &mut CoordinatorHost,
    commands: Vec<CoordinatorCommand>,
    (now, handled): (Time, u64),
) -> usize {
    let (mut asked, mut measured) = (sent(commands), 0);
    while let Some((pe, control)) = asked.pop() {
        let answer = match control {
            Control::Measure { rebalance, .. } => {
                measured += 1;
                let Control::Loads(mut loads) = no_loads(rebalance.0) else { unreachable!() };
                loads.handled = handled;
                Control::Loads(loads)
            }
            Control::ProgressProbe { number } => Control::Progress { number, handled, own: now },
            _ => continue,
        };
        let event = CoordinatorEvent::Packet { from: pe, packet: Packet::control(answer) };
        asked.extend(sent(host.handle(now, event)));
        // A timer makes the plan.
        asked.extend(sent(host.wake(now)));
    }
    measured
}

#[test]
fn changes_of_foreign_load_do_not_keep_a_job_that_handles_nothing_from_being_found_stalled() {
    let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
    let job = Job::new("idle").actor::<Idle>().strategy(Refine);
    let program = Program::new(job.main(async |_| Ok::<(), JobError>(())), layout).unwrap();
    let mut host = program.coordinator_host(NodeId(0));
    // As in real time.
    host.set_stopwatch(std::sync::Arc::new(|| 0_u64));
    let second = |number: u64| Time(number * 1_000_000_000);
    let mut load_changes = |at: u64, handled: u64| {
        let now = second(at);
        let due = host.wake(now);
        let before = answer_as_measured(&mut host, due, (now, handled));
        let packet = Packet::control(Control::ShareChanged { is_late: false });
        let told = host.handle(now, CoordinatorEvent::Packet { from: PeId(1), packet });
        let activity = host.coordinator().unwrap().activity();
        (before + answer_as_measured(&mut host, told, (now, handled)), activity)
    };

    let first: usize = (1..5).map(|at| load_changes(at, 50).0).sum();
    assert!(first > 0, "the job has handled messages, so it is measured");
    let (_, activity) = load_changes(5, 50);
    for at in 6..40 {
        assert_eq!(load_changes(at, 50), (0, activity), "second {at}");
    }

    let again: usize = (40..44).map(|at| load_changes(at, 51).0).sum();
    assert!(again > 0, "the job has handled messages again");
}

/// The figures of a plan of leaders that shortens steps from 10 ms to 4 ms.
fn led_figures() -> Figures {
    Figures {
        actors: 4,
        moves: 3,
        replicas: 0,
        steps: 1,
        step_before: Duration::from_millis(10),
        step_after: Duration::from_millis(4),
        traffic_before: Traffic::default(),
        traffic_after: Traffic::default(),
        bytes_inside: 1000,
        bytes_busiest: BTreeMap::new(),
        bytes_between_sites: 2000,
        is_passing: false,
    }
}

#[test]
fn a_plan_of_leaders_is_undone_if_a_request_during_its_judgement_shows_the_mistake() {
    let layout = Layout::new(vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![1])]);
    let job = Job::new("led").actor::<Idle>().strategy(LeaderCut::default());
    let program = Program::new(job.main(async |_| Ok::<(), JobError>(())), layout).unwrap();
    let host = program.coordinator_host(NodeId(0));
    let common = host.coordinator().unwrap().common.clone();
    let mut coordinator = Coordinator::new(NodeId(0), common);
    let at = |millis: u64| Time(millis * 1_000_000);
    let (window, moving) = (Duration::from_millis(10), Duration::from_millis(2));
    let plan = Occasion { now: at(100_000), cause: Cause::Period, time: window, handled: 100 };
    let balancer = &mut coordinator.balancer;
    assert!(balancer.decide_led(&plan, &led_figures(), (&[], &[]), false));
    balancer.carried_out(at(101_000), 3, moving);
    balancer.progress(at(101_000), moving, 20);
    assert!(balancer.is_judging());
    coordinator.balances.window = (at(101_000), 1000);
    coordinator.balances.progress.last = Some((at(101_000), 1000));

    // Before the plan, 100 messages took 10 ms. The request finds that they take 20 ms now.
    coordinator.now = at(101_200);
    coordinator.queue_balance(Cause::Request);
    coordinator.measure();
    let layout = coordinator.common.layout.clone();
    for site in layout.sites() {
        let (pes, handled) = (vec![PeLoad::default()], 1000);
        let view = SiteView { site, pes, members: Vec::new(), talks: Vec::new(), handled };
        let (_, notes) = Leader::new(&layout, view, Vec::new(), 1);
        let top = coordinator.balances.top.as_mut().unwrap();
        for (_, note) in notes.into_iter().filter(|(to, _)| to.is_none()) {
            top.handle(site, note);
        }
    }
    coordinator.settle_led(1, &led_figures());

    assert_eq!(coordinator.balances.queue, [Cause::Undo]);
    coordinator.measure();
    assert!(coordinator.balances.top.as_ref().is_some_and(Top::is_undo));
}

#[test]
fn the_trees_of_many_senders_take_bounded_memory() {
    let nodes = TREES_MAX as u32 + 36;
    let layout = Layout::new(vec![("a".to_owned(), vec![1; nodes as usize])]);
    let job = Job::new("shown").actor::<Idle>().on_broadcast(|_| ());
    let job = job.main(async |_| Ok::<(), JobError>(()));
    let host = Program::new(job, layout).unwrap().coordinator_host(NodeId(0));
    let common = host.coordinator().unwrap().common.clone();
    let mut coordinator = Coordinator::new(NodeId(0), common);

    for root in (0..nodes).chain(0..nodes).map(NodeId) {
        let trees = coordinator.trees_of(PlanId { root, version: 0 }).unwrap();
        let edges: usize = trees.trees().iter().map(|tree| tree.edges_from_root().count()).sum();
        assert_eq!(edges, nodes as usize - 1);
        assert!(coordinator.advice.trees.len() <= TREES_MAX);
    }
    assert!(coordinator.trees_of(PlanId { root: NodeId(0), version: 7 }).is_none());
    assert!(coordinator.trees_of(PlanId { root: NodeId(nodes), version: 0 }).is_none());
}
