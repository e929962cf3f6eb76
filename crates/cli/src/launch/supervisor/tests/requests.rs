//! Requests about a running job: to kill it, for a diagnosis, for samples.

use super::*;
use gridspan_runtime::Diagnosis;
use gridspan_runtime::message::telemetry::{TelemetryLease, TelemetrySample};
use gridspan_runtime::net::bootstrap::SampleOrder;

#[test]
fn a_request_to_kill_the_job_kills_all_nodes_at_once() {
    let mut supervisor = running();
    supervisor.handle(Event::Requested { id: 7, request: Request::Kill }, seconds(2));

    let answer = Command::Answer(7, Answer::Done("the job is killed".to_owned()));
    let told = Command::TellRecovery("`gridctl kill` kills all nodes".to_owned());
    assert_eq!(commands(&mut supervisor), [answer, told, Command::Kill(A), Command::Kill(B)]);
    [A, B].into_iter().for_each(|node| ends(&mut supervisor, node, Exit::Signal(9), seconds(2)));
    let outcome = supervisor.outcome().unwrap();
    assert_eq!((outcome.code, outcome.is_interrupted, outcome.blame), (137, true, None));
}

#[test]
fn a_request_to_kill_a_node_is_its_loss() {
    let mut supervisor = recovering(OnLoss::Shrink);
    let kill = |nodes: &[NodeId]| Request::KillNodes { nodes: nodes.iter().copied().collect() };
    supervisor.handle(Event::Requested { id: 7, request: kill(&[B]) }, seconds(2));

    let told = Command::TellRecovery("`gridctl kill` kills b/1".to_owned());
    let answer = Command::Answer(7, Answer::Done("b/1 is killed".to_owned()));
    assert_eq!(commands(&mut supervisor), [told, Command::Kill(B), answer]);
    ends(&mut supervisor, B, Exit::Signal(9), seconds(3));
    assert_eq!(actions(&mut supervisor), [Command::Recover(A)]);
    assert_eq!(supervisor.take_lost(), [B]);

    supervisor.handle(Event::Requested { id: 8, request: kill(&[A, B]) }, seconds(4));
    let refused = Answer::Refused("b/1 is no member of the job".to_owned());
    assert_eq!(actions(&mut supervisor), [Command::Answer(8, refused)]);
    // A loss during a recovery restarts the recovery.
    supervisor.handle(Event::Requested { id: 9, request: kill(&[A]) }, seconds(5));
    assert!(actions(&mut supervisor).contains(&Command::Kill(A)));
}

#[test]
fn a_node_that_cannot_be_reached_is_given_up_and_not_called_killed() {
    let mut supervisor = recovering(OnLoss::Shrink);
    supervisor.set_unreached([B].into());
    let request = Request::KillNodes { nodes: [A, B].into() };
    supervisor.handle(Event::Requested { id: 7, request }, seconds(2));

    let all = commands(&mut supervisor);

    assert!(all.contains(&Command::Kill(B)), "it is killed later: {all:?}");
    let text = "a/0 is killed; b/1 cannot be reached, is given up, and will be killed when the \
                launcher reaches the host";
    assert_eq!(answers(all), [Answer::Done(text.to_owned())]);
}

#[test]
fn several_nodes_are_killed_at_once_and_the_loss_of_a_node_may_end_the_job() {
    let mut supervisor = recovering(OnLoss::Fail);
    let request = Request::KillNodes { nodes: [A, B].into() };
    supervisor.handle(Event::Requested { id: 7, request }, seconds(2));

    let answer = Answer::Done("a/0, b/1 are killed".to_owned());
    let killed = [Command::Kill(A), Command::Kill(B), Command::Answer(7, answer)];
    assert_eq!(actions(&mut supervisor), killed);
    ends(&mut supervisor, B, Exit::Signal(9), seconds(3));
    ends(&mut supervisor, A, Exit::Signal(9), seconds(3));

    let outcome = supervisor.outcome().unwrap();
    assert_eq!((outcome.code, outcome.is_interrupted), (1, false));
    assert_eq!(outcome.blame.unwrap().message, "b/1 was killed by SIGKILL (9)");
}

#[test]
fn nodes_of_one_process_and_of_a_job_that_starts_or_ends_are_not_killed() {
    let refusal = |supervisor: &mut Supervisor| {
        commands(supervisor);
        let request = Request::KillNodes { nodes: [A].into() };
        supervisor.handle(Event::Requested { id: 3, request }, seconds(1));
        let told = commands(supervisor);
        let [Command::Answer(3, Answer::Refused(reason))] = &told[..] else { panic!("{told:?}") };
        reason.clone()
    };
    let mut single = Supervisor::new(vec!["local/0".to_owned()], false, Time(0));
    assert!(refusal(&mut single).starts_with("all nodes of this job are one process"));
    let mut begins = starting();
    begins.set_recovery(Runs::new(grid(), &[]), OnLoss::Shrink);
    assert_eq!(refusal(&mut begins), "it is starting; try again");
    let mut over = recovering(OnLoss::Shrink);
    ends(&mut over, A, Exit::Code(0), seconds(1));
    assert_eq!(refusal(&mut over), "the job is ending");
}

#[test]
fn a_diagnosis_asks_all_nodes_and_names_one_that_does_not_answer() {
    let mut supervisor = running();
    supervisor.handle(Event::Requested { id: 3, request: Request::Diagnose }, seconds(10));
    assert_eq!(commands(&mut supervisor), [Command::Diagnose(A, 1), Command::Diagnose(B, 1)]);

    supervisor.handle(Event::Awake { node: A, number: 1, silent: vec![(B, 5)] }, seconds(10));
    let mut diagnosis = Box::new(Diagnosis::default());
    (diagnosis.pes, diagnosis.unanswered) = (2, 1);
    supervisor.handle(Event::Diagnosed { number: 1, diagnosis }, seconds(11));
    assert_eq!((commands(&mut supervisor), supervisor.poll_timeout()), (vec![], Some(seconds(12))));
    supervisor.handle_timeout(seconds(12));

    let told = commands(&mut supervisor);
    let [Command::Answer(3, Answer::Diagnosis(found))] = &told[..] else { panic!("{told:?}") };
    let summary = found.summary();
    assert!(summary.starts_with("b/1 has been silent for 5 s"), "{summary}");
    assert_eq!(supervisor.poll_timeout(), None);
}

#[test]
fn a_coordinator_that_does_not_answer_is_sought_at_all_nodes_once_more() {
    let mut supervisor = running();
    supervisor.handle(Event::Requested { id: 3, request: Request::Diagnose }, seconds(10));
    let asked = [Command::Diagnose(A, 1), Command::Diagnose(B, 1)];
    assert_eq!(commands(&mut supervisor), asked);

    let again = supervisor.poll_timeout().unwrap();
    supervisor.handle_timeout(again);

    assert!(again < seconds(13), "{again:?}");
    assert_eq!(commands(&mut supervisor), asked);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(15)));
}

#[test]
fn a_job_that_starts_or_ends_refuses_a_diagnosis_with_the_reason() {
    let refusal = |supervisor: &mut Supervisor| {
        commands(supervisor);
        supervisor.handle(Event::Requested { id: 3, request: Request::Diagnose }, seconds(1));
        let told = commands(supervisor);
        let [Command::Answer(3, Answer::Refused(reason))] = &told[..] else { panic!("{told:?}") };
        reason.clone()
    };
    let mut supervisor = starting();
    supervisor.handle(Event::Listening { node: A, address: address(1) }, Time(0));
    let wanted = "it is starting, and waits until these nodes listen: b/1";
    assert_eq!(refusal(&mut supervisor), wanted);

    let mut supervisor = running();
    ends(&mut supervisor, B, Exit::Code(3), seconds(1));
    assert_eq!(refusal(&mut supervisor), "it is ending");
}

#[test]
fn the_node_of_main_answers_requests_for_samples() {
    let mut supervisor = running();
    let lease = TelemetryLease { period_ms: 1000, focus: None };
    let request = Request::Sample(lease);
    supervisor.handle(Event::Requested { id: 40, request: request.clone() }, seconds(1));
    supervisor.handle(Event::Requested { id: 41, request: request.clone() }, seconds(1));
    let asked = [1, 2].map(|number| Command::Sample(A, SampleOrder { number, lease }));
    assert_eq!(commands(&mut supervisor), asked);

    let sample = Some(Box::<TelemetrySample>::default());
    let sampled = |number| Event::Sampled { number, sample: sample.clone() };
    supervisor.handle(sampled(2), seconds(2));
    supervisor.handle(sampled(2), seconds(2));
    assert_eq!(commands(&mut supervisor), [Command::TellObserved(41, sample.clone(), 0, 1)]);

    // The job ends because a node is lost, so that the other one need not answer any more.
    let failure = report("lost node1", Some(B), true);
    supervisor.handle(Event::Failed { node: A, failure }, seconds(3));
    supervisor.handle(Event::Requested { id: 42, request }, seconds(3));
    let answers = commands(&mut supervisor);
    assert!(answers.contains(&Command::TellObserved(42, None, 1, 1)), "{answers:?}");
}

#[test]
fn a_single_process_is_asked_at_once_and_its_node_cannot_leave() {
    let mut supervisor = Supervisor::new(vec!["local/0".to_owned()], false, Time(0));
    let lease = TelemetryLease { period_ms: 1000, focus: None };
    let nodes = std::collections::BTreeSet::from([A]);
    let leave = Request::Drain { nodes, deadline: None };
    for (id, request) in (1..).zip([Request::Diagnose, Request::Sample(lease), leave]) {
        supervisor.handle(Event::Requested { id, request }, seconds(1));
    }

    let told = commands(&mut supervisor);

    let [diagnose, sample, Command::Answer(3, Answer::Refused(reason))] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(*diagnose, Command::Diagnose(A, 1));
    assert_eq!(*sample, Command::Sample(A, SampleOrder { number: 1, lease }));
    assert!(reason.contains("all nodes of this job are one process"), "{reason}");
}

#[test]
fn all_nodes_of_a_single_process_are_members() {
    let mut supervisor = Supervisor::new(vec!["a/0".to_owned()], false, Time(0));
    supervisor.set_nodes_of_process(3);
    supervisor.handle(Event::Requested { id: 1, request: Request::Nodes }, seconds(1));
    let states = vec![NodeState::Member; 3];
    assert_eq!(commands(&mut supervisor), [Command::Answer(1, Answer::Nodes(states))]);
}
