//! Losses of founders in a job of tasks.

use super::*;
use crate::error::{LossCause, Warning};
use crate::message::pending_work::PendingWork;
use crate::message::probe::{ProbeOrder, ProbeReport, Probed};
use crate::message::{Looked, MainStatus, MembershipEvent, MembershipMessage, Need, Stage};
use crate::schema::definition::Definition;
use crate::{Step, Task, TaskContext};
use gridspan_balance::Refine;
use gridspan_topology::NodeId;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Leaf;

impl Task for Leaf {
    type Output = ();
    type Join = ();

    fn run(self, _: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(())
    }

    fn collect((): &mut (), _: u32, (): ()) {}

    fn joined((): (), _: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(())
    }
}

/// A job on five nodes of one PE each, in which a pool of tasks is open.
fn job_of_tasks() -> CoordinatorHost {
    job_of_tasks_with(|job| job)
}

fn job_of_tasks_with(settings: impl FnOnce(Job) -> Job) -> CoordinatorHost {
    let layout = Layout::new(vec![("a".to_owned(), vec![1; 5])]);
    let job = settings(Job::new("tasks").tasks::<Leaf>().recover_tasks_locally(true));
    let job = job.main(async |_| Ok::<(), JobError>(()));
    let mut coordinator = Program::new(job, layout).unwrap().coordinator_host(NodeId(0));
    let kind = *coordinator.coordinator().unwrap().common.task_names.keys().next().unwrap();
    let request =
        MainRequest::Create { kind, map: Map::Block, shape: None, members: 5, created: 8 };
    tell(&mut coordinator, MAIN_PE, Control::MainRequest { slot: 7, request });
    let collection = CollectionId(0);
    for pe in 0..5 {
        tell(&mut coordinator, PeId(pe), Control::Created { collection });
    }
    tell(&mut coordinator, MAIN_PE, Control::PoolOpened { collection });
    coordinator
}

/// Greets the coordinator on behalf of a node. The last node makes it measure the distances.
fn greet(coordinator: &mut CoordinatorHost, node: u32) -> Vec<(PeId, Control)> {
    let definition = coordinator.coordinator().unwrap().common.definition.clone();
    let definition = Box::new(Definition::clone(&definition));
    tell(coordinator, PeId(node), Control::Greet { definition })
}

/// Answers the orders to measure round trips, and those that follow.
fn measure(coordinator: &mut CoordinatorHost, mut told: Vec<(PeId, Control)>) {
    let round_trip = Some(Duration::from_micros(100));
    while let Some((pe, control)) = told.pop() {
        let Control::Probe(ProbeOrder { id, targets, .. }) = control else { continue };
        let probed = |target| Probed { round_trip, ..Probed::nothing(target) };
        let found = targets.into_iter().map(probed).collect();
        let report = ProbeReport { id, send_cost: None, found };
        told.extend(tell(coordinator, pe, Control::Probed(report)));
    }
}

/// Reports that a node is lost, and returns the nodes that are asked about it.
fn lose(coordinator: &mut CoordinatorHost, node: u32) -> Vec<u32> {
    lose_at(coordinator, Time::ZERO, node)
}

fn lose_at(coordinator: &mut CoordinatorHost, now: Time, node: u32) -> Vec<u32> {
    let node = NodeId(node);
    let (cause, reason, others) = (LossCause::Silent, "it is silent".to_owned(), Vec::new());
    let error = JobError::NodeLost { node, site: "a".to_owned(), cause, reason, others };
    let told = sent(coordinator.handle(now, CoordinatorEvent::NodeLost(node, error)));
    let is_asked = |control: &Control| match control {
        Control::Membership(MembershipMessage::Suspend { node: lost }) => *lost == node,
        _ => false,
    };
    told.iter().filter(|(_, control)| is_asked(control)).map(|(pe, _)| pe.0).collect()
}

/// Answers on behalf of node `from` whether it needs the lost `node`. Returns the PEs that learn of
/// tolerated losses, each with the lost node.
fn answer(
    coordinator: &mut CoordinatorHost,
    from: u32,
    node: u32,
    need: Option<Need>,
) -> Vec<(u32, u32)> {
    let answer = MembershipMessage::Spares { node: NodeId(node), need };
    let told = tell(coordinator, PeId(from), Control::Membership(answer));
    let tolerated = |(pe, control): &(PeId, Control)| match control {
        Control::Membership(MembershipMessage::Reached(MembershipEvent {
            node,
            stage: Stage::Lost,
        })) => Some((pe.0, node.0)),
        _ => None,
    };
    told.iter().filter_map(tolerated).collect()
}

/// Lets the job go on without node 4.
fn tolerate(coordinator: &mut CoordinatorHost) {
    assert_eq!(lose(coordinator, 4), [0, 1, 2, 3]);
    for from in 0..3 {
        assert!(answer(coordinator, from, 4, None).is_empty());
    }
    assert_eq!(answer(coordinator, 3, 4, None), [(0, 4), (1, 4), (2, 4), (3, 4)]);
}

fn outcome(coordinator: &CoordinatorHost) -> Option<Result<(), JobError>> {
    coordinator.coordinator().unwrap().outcome.clone()
}

#[test]
fn nodes_that_are_lost_during_the_decision_are_decided_together() {
    let mut coordinator = job_of_tasks();
    assert_eq!(lose(&mut coordinator, 4), [0, 1, 2, 3]);
    for from in 0..3 {
        assert!(answer(&mut coordinator, from, 4, None).is_empty());
    }

    assert_eq!(lose(&mut coordinator, 3), [0, 1, 2]);
    assert!(lose(&mut coordinator, 3).is_empty(), "another node reports it");
    assert!(answer(&mut coordinator, 3, 4, None).is_empty(), "its answer is late");
    for from in 0..2 {
        assert!(answer(&mut coordinator, from, 3, None).is_empty());
    }
    let told = answer(&mut coordinator, 2, 3, None);

    assert_eq!(told, [(0, 3), (1, 3), (2, 3), (0, 4), (1, 4), (2, 4)]);
    assert_eq!(outcome(&coordinator), None);
    // Fewer than half would be left.
    assert!(lose(&mut coordinator, 2).is_empty());
    let Some(Err(JobError::NodeLost { node, others, .. })) = outcome(&coordinator) else {
        panic!("{:?}", outcome(&coordinator))
    };
    assert_eq!((node, others), (NodeId(2), vec![NodeId(3), NodeId(4)]));
}

#[test]
fn the_job_ends_if_a_node_needs_the_lost_one_or_does_not_answer() {
    for does_answer in [true, false] {
        let mut coordinator = job_of_tasks();
        lose(&mut coordinator, 4);
        answer(&mut coordinator, 0, 4, None);
        coordinator.wake(Time(9_900_000_000));
        assert_eq!(outcome(&coordinator), None);

        match does_answer {
            true => drop(answer(&mut coordinator, 1, 4, Some(Need::Answer))),
            false => drop(coordinator.wake(Time(10_100_000_000))),
        }

        let is_loss =
            matches!(outcome(&coordinator), Some(Err(JobError::NodeLost { node: NodeId(4), .. })));
        assert!(is_loss, "{:?}", outcome(&coordinator));
    }
}

#[test]
fn a_loss_of_tasks_that_are_not_in_a_log_ends_the_job_with_one_warning() {
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = warnings.clone();
    let tell = move |warning: &Warning| told.lock().unwrap().push(warning.to_string());
    let mut coordinator = job_of_tasks_with(|job| job.on_warning(tell));
    lose(&mut coordinator, 4);

    for from in [2, 3] {
        let need = Need::Loans { loans: 7, limit_bytes: 1 << 20 };
        assert!(answer(&mut coordinator, from, 4, Some(need)).is_empty());
    }

    let is_loss =
        matches!(outcome(&coordinator), Some(Err(JobError::NodeLost { node: NodeId(4), .. })));
    assert!(is_loss, "{:?}", outcome(&coordinator));
    let warnings = warnings.lock().unwrap();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let expected = "node2 has lent it tasks, and its log of loans, limited to 1MiB, lacks 7";
    assert!(warning.contains(expected), "{warning}");
}

#[test]
fn nodes_have_ten_seconds_from_each_loss_to_answer() {
    let mut coordinator = job_of_tasks();
    lose(&mut coordinator, 4);
    for from in 0..3 {
        answer(&mut coordinator, from, 4, None);
    }
    // Node 3 is lost, too, so the coordinator does not wait for its answer about node 4.
    assert_eq!(lose_at(&mut coordinator, Time(9_000_000_000), 3), [0, 1, 2]);

    coordinator.wake(Time(10_100_000_000));
    assert_eq!(outcome(&coordinator), None, "about node 3 they have 9 s more");
    coordinator.wake(Time(19_100_000_000));

    let Some(Err(JobError::NodeLost { node, others, .. })) = outcome(&coordinator) else {
        panic!("{:?}", outcome(&coordinator))
    };
    assert_eq!((node, others), (NodeId(3), vec![NodeId(4)]));
}

#[test]
fn a_lost_node_that_runs_cannot_end_the_job() {
    let mut coordinator = job_of_tasks();
    tolerate(&mut coordinator);
    let failed = || JobError::Failed("it has lost the others".to_owned());

    for control in [Control::Failed { error: failed() }, Control::End { outcome: Err(failed()) }] {
        assert!(tell(&mut coordinator, PeId(4), control).is_empty());
    }

    assert_eq!(outcome(&coordinator), None);
}

#[test]
fn a_progress_probe_that_ends_after_a_tolerated_loss_begins_no_rebalance() {
    let settings = |job: Job| job.strategy(Refine).balance_every(Duration::from_secs(1));
    let mut coordinator = job_of_tasks_with(settings);
    // Not all nodes have greeted, so the distances are not measured.
    greet(&mut coordinator, 0);
    let at = |seconds: u64| Time(seconds * 1_000_000_000 + 1);
    let report = |from: u32, control| CoordinatorEvent::Packet {
        from: PeId(from),
        packet: Packet::control(control),
    };
    // No message is handled in the first window, so the second period waits for a probe.
    let measured = sent(coordinator.wake(at(1)));
    let is_measure = |(_, control): &(PeId, Control)| matches!(control, Control::Measure { .. });
    assert_eq!(measured.iter().filter(|told| is_measure(told)).count(), 5);
    (0..5).for_each(|pe| drop(coordinator.handle(at(1), report(pe, no_loads(1)))));
    coordinator.wake(at(1));
    coordinator.wake(at(3));
    let balances = &coordinator.coordinator().unwrap().balances;
    assert!(balances.idle_tick.is_some() && balances.progress.missing == 5);
    let number = balances.progress.number;
    let progress = || Control::Progress { number, handled: 7, own: at(3) };

    coordinator.handle(at(3), report(4, progress()));
    tolerate(&mut coordinator);
    let told: Vec<_> =
        (0..4).flat_map(|pe| sent(coordinator.handle(at(3), report(pe, progress())))).collect();

    assert!(!told.iter().any(is_measure), "{told:?}");
    assert_eq!(outcome(&coordinator), None);
}

#[test]
fn a_loss_is_tolerated_only_when_the_distances_are_measured() {
    for is_measured in [false, true] {
        let mut coordinator = job_of_tasks();
        let told = (0..5).flat_map(|node| greet(&mut coordinator, node)).collect();
        if is_measured {
            measure(&mut coordinator, told);
        }

        let asked = lose(&mut coordinator, 4);

        assert_eq!(coordinator.coordinator().unwrap().survey.places.is_some(), is_measured);
        match is_measured {
            true => assert_eq!(asked, [0, 1, 2, 3]),
            false => {
                let is_loss = matches!(outcome(&coordinator), Some(Err(JobError::NodeLost { .. })));
                assert!(is_loss && asked.is_empty(), "{:?}", outcome(&coordinator));
            }
        }
    }
}

#[test]
fn no_distances_are_measured_after_a_tolerated_loss() {
    // Main asks for links in a job without greetings, or the last node greets late.
    for greets in [false, true] {
        let mut coordinator = job_of_tasks();
        if greets {
            (1..5).for_each(|node| drop(greet(&mut coordinator, node)));
        }
        tolerate(&mut coordinator);

        let request = MainRequest::KnownLinks;
        let told = match greets {
            true => greet(&mut coordinator, 0),
            false => tell(&mut coordinator, MAIN_PE, Control::MainRequest { slot: 9, request }),
        };

        let is_probe = |(_, control): &(PeId, Control)| matches!(control, Control::Probe(_));
        assert!(!told.iter().any(is_probe), "{told:?}");
        assert_eq!(lose(&mut coordinator, 3), [0, 1, 2], "another loss can be tolerated");
    }
}

#[test]
fn a_diagnosis_does_not_wait_for_a_lost_node() {
    let mut coordinator = job_of_tasks();
    tolerate(&mut coordinator);

    let told = sent(coordinator.handle(Time::ZERO, CoordinatorEvent::Diagnose(1)));

    let asked = told.iter().filter(|(_, control)| matches!(control, Control::Diagnose { .. }));
    assert_eq!(asked.map(|(pe, _)| pe.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// A job of tasks that is watched for stalls.
fn watched_job_of_tasks() -> CoordinatorHost {
    let mut coordinator = job_of_tasks_with(|job| job.fail_on_stall(true));
    coordinator.set_stopwatch(Arc::new(|| 0_u64));
    coordinator
}

/// Lets seconds pass. Each PE that the coordinator asks reports no work, and main waits.
fn idle_for(coordinator: &mut CoordinatorHost, seconds: u64) {
    for second in 1..=seconds {
        let now = Time(second * 1_000_000_000);
        for (pe, control) in sent(coordinator.wake(now)) {
            let Control::Look { round } = control else { continue };
            let main = (pe == MAIN_PE).then_some(MainStatus::WaitsInside);
            let pending = PendingWork::default();
            let looked = Looked { round, activity: 0, is_quiet: true, pending, main };
            let packet = Packet::control(Control::Looked(Box::new(looked)));
            coordinator.handle(now, CoordinatorEvent::Packet { from: pe, packet });
        }
    }
}

#[test]
fn a_job_that_stalls_after_a_tolerated_loss_ends_with_the_loss() {
    let mut coordinator = watched_job_of_tasks();
    tolerate(&mut coordinator);

    idle_for(&mut coordinator, 9);

    let is_loss =
        matches!(outcome(&coordinator), Some(Err(JobError::NodeLost { node: NodeId(4), .. })));
    assert!(is_loss, "{:?}", outcome(&coordinator));
}

#[test]
fn a_job_is_not_stalled_while_nodes_are_asked_about_a_lost_one() {
    let mut coordinator = watched_job_of_tasks();
    lose(&mut coordinator, 4);

    idle_for(&mut coordinator, 9);

    assert_eq!(outcome(&coordinator), None);
}

#[test]
fn nodes_that_are_about_to_leave_rest_if_the_job_could_go_on_without_them() {
    for (recovers, from, nodes, informed) in [
        (true, 0, vec![4], vec![0, 1, 2, 3, 4]),
        (true, 1, vec![4], vec![]),
        (true, 0, vec![0], vec![]),
        (true, 0, vec![1, 2, 3], vec![]),
        (false, 0, vec![4], vec![]),
    ] {
        let mut coordinator = job_of_tasks_with(|job| job.recover_tasks_locally(recovers));
        let rest = MembershipMessage::Rest { nodes: nodes.into_iter().map(NodeId).collect() };
        let told = tell(&mut coordinator, PeId(from), Control::Membership(rest));
        let (node, stage) = (NodeId(4), Stage::Draining);
        let rests = MembershipMessage::Reached(MembershipEvent { node, stage });
        let rests = format!("{:?}", Control::Membership(rests));
        assert!(told.iter().all(|(_, control)| format!("{control:?}") == rests), "{told:?}");
        assert_eq!(told.iter().map(|(pe, _)| pe.0).collect::<Vec<u32>>(), informed);
    }
}
