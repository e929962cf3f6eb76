//! Tests of the supervisor, event by event.

use super::*;
use crate::request::{Answer, NodeState, Request};
use crate::roster::{NewNode, Roster};
use gridspan::control::Pause;
use gridspan_runtime::Diagnosis;
use gridspan_runtime::message::telemetry::{TelemetryLease, TelemetrySample};
use gridspan_runtime::net::bootstrap::{PauseOrder, SampleOrder};

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);

const DONE: Outcome = Outcome { code: 0, is_interrupted: false, blame: None };
const INTERRUPTED: Outcome = Outcome { code: 130, is_interrupted: true, blame: None };

/// Returns a supervisor of two nodes that have been introduced to each other.
fn running() -> Supervisor {
    let mut supervisor = starting();
    for (node, port) in [(B, 2), (A, 1)] {
        supervisor.handle(Event::Listening { node, address: address(port) }, Time(0));
    }
    let introduced = Command::Introduce(vec![A, B], vec![address(1), address(2)]);
    assert_eq!(commands(&mut supervisor), [introduced]);
    supervisor
}

fn starting() -> Supervisor {
    Supervisor::new(vec!["a/0".to_owned(), "b/1".to_owned()], true, Time(0))
}

fn address(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn commands(supervisor: &mut Supervisor) -> Vec<Command> {
    std::iter::from_fn(|| supervisor.poll_command()).collect()
}

fn ends(supervisor: &mut Supervisor, node: NodeId, exit: Exit, now: Time) {
    supervisor.handle(Event::Exited { node, exit }, now);
    supervisor.handle(Event::StreamEnded { node }, now);
    supervisor.handle(Event::StreamEnded { node }, now);
}

fn report(message: &str, node: Option<NodeId>, is_loss: bool) -> Failure {
    let lost = node.filter(|_| is_loss).into_iter().collect();
    Failure { message: message.to_owned(), hint: None, node, lost, is_port_taken: false }
}

fn seconds(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

#[test]
fn the_job_is_done_when_all_nodes_have_ended_successfully() {
    let mut supervisor = running();

    ends(&mut supervisor, A, Exit::Code(0), seconds(1));
    assert_eq!(supervisor.outcome(), None);
    ends(&mut supervisor, B, Exit::Code(0), seconds(1));

    assert_eq!(supervisor.outcome(), Some(DONE));
    let told = [Command::TellExit(A, Exit::Code(0)), Command::TellExit(B, Exit::Code(0))];
    assert_eq!(commands(&mut supervisor), told);
}

#[test]
fn a_killed_node_is_blamed_even_if_another_node_reported_its_loss_before() {
    let mut supervisor = running();

    let failure = report("lost node1", Some(B), true);
    supervisor.handle(Event::Failed { node: A, failure }, seconds(3));
    ends(&mut supervisor, A, Exit::Code(1), seconds(3));
    ends(&mut supervisor, B, Exit::Signal(9), seconds(3));

    let outcome = supervisor.outcome().unwrap();
    let blame = outcome.blame.unwrap();
    assert_eq!((outcome.code, blame.node), (1, B));
    assert_eq!(blame.message, "b/1 was killed by SIGKILL (9)");
}

#[test]
fn the_node_that_the_first_report_names_is_blamed() {
    let mut supervisor = running();

    let failure = report("a handler panicked", Some(B), false);
    supervisor.handle(Event::Failed { node: A, failure: failure.clone() }, seconds(1));
    supervisor.handle(Event::Failed { node: B, failure: report("later", None, false) }, seconds(1));
    ends(&mut supervisor, A, Exit::Code(1), seconds(1));
    ends(&mut supervisor, B, Exit::Signal(6), seconds(1));

    let blame = supervisor.outcome().unwrap().blame.unwrap();
    assert_eq!((blame.node, blame.message), (B, failure.message));
}

#[test]
fn a_report_read_after_the_end_of_its_process_counts() {
    let mut supervisor = running();
    supervisor.handle(Event::Exited { node: B, exit: Exit::Code(1) }, seconds(1));

    let failure = report("main gave up", Some(B), false);
    supervisor.handle(Event::Failed { node: B, failure }, seconds(1));
    for _ in 0..STREAMS {
        supervisor.handle(Event::StreamEnded { node: B }, seconds(1));
    }
    ends(&mut supervisor, A, Exit::Code(0), seconds(1));

    assert_eq!(supervisor.outcome().unwrap().blame.unwrap().message, "main gave up");
}

#[test]
fn after_a_failure_the_other_nodes_are_asked_to_end_and_later_killed() {
    let mut supervisor = running();

    ends(&mut supervisor, A, Exit::Signal(11), seconds(10));
    assert_eq!(commands(&mut supervisor), [Command::TellExit(A, Exit::Signal(11))]);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(11)));
    supervisor.handle_timeout(seconds(11));
    assert_eq!(commands(&mut supervisor), [Command::Ask(B)]);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(16)));
    supervisor.handle_timeout(seconds(16));
    assert_eq!(commands(&mut supervisor), [Command::Kill(B)]);
    ends(&mut supervisor, B, Exit::Signal(9), seconds(16));

    let blame = supervisor.outcome().unwrap().blame.unwrap();
    assert_eq!(blame.node, A, "a node that was asked to end has not failed");
}

#[test]
fn nodes_that_tell_what_they_recorded_have_more_time_to_end() {
    let mut supervisor = running();
    supervisor.set_end_patience(Duration::from_secs(30));

    ends(&mut supervisor, A, Exit::Signal(11), seconds(10));
    assert_eq!(commands(&mut supervisor), [Command::TellExit(A, Exit::Signal(11))]);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(40)));
    supervisor.handle_timeout(seconds(40));
    assert_eq!(commands(&mut supervisor), [Command::Ask(B)]);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(70)));
    supervisor.handle_timeout(seconds(70));
    assert_eq!(commands(&mut supervisor), [Command::Kill(B)]);
}

#[test]
fn a_process_that_survives_sigkill_is_given_up() {
    let mut supervisor = running();
    for _ in 0..2 {
        supervisor.handle(Event::Interrupted { signal: 2 }, seconds(1));
    }

    supervisor.handle_timeout(seconds(6));

    assert_eq!(supervisor.outcome(), Some(INTERRUPTED));
}

#[test]
fn the_first_interrupt_asks_nodes_to_end_and_the_second_kills_them() {
    let mut supervisor = running();

    supervisor.handle(Event::Interrupted { signal: 2 }, seconds(1));
    let asked = [Command::TellStopping, Command::Ask(A), Command::Ask(B)];
    assert_eq!(commands(&mut supervisor), asked);
    ends(&mut supervisor, A, Exit::Signal(15), seconds(1));
    commands(&mut supervisor);
    supervisor.handle(Event::Interrupted { signal: 2 }, seconds(2));
    assert_eq!(commands(&mut supervisor), [Command::Kill(B)]);
    ends(&mut supervisor, B, Exit::Signal(9), seconds(2));

    assert_eq!(supervisor.outcome(), Some(INTERRUPTED));
}

#[test]
fn a_program_that_does_not_join_has_failed() {
    let mut supervisor = starting();
    ends(&mut supervisor, A, Exit::Code(0), seconds(1));
    supervisor.handle_timeout(seconds(2));
    assert_eq!(commands(&mut supervisor)[1..], [Command::Ask(B)]);
    ends(&mut supervisor, B, Exit::Signal(15), seconds(2));
    let blame = supervisor.outcome().unwrap().blame.unwrap();
    assert_eq!(blame.message, "a/0 ended before it joined the job");

    let mut supervisor = starting();
    supervisor.handle(Event::Listening { node: A, address: address(1) }, seconds(1));
    supervisor.handle_timeout(seconds(30));
    for node in [A, B] {
        ends(&mut supervisor, node, Exit::Signal(15), seconds(31));
    }
    let blame = supervisor.outcome().unwrap().blame.unwrap();
    assert_eq!(blame.message, "b/1 did not join the job within 30 s");
}

#[test]
fn a_usage_error_of_the_program_gives_exit_code_2() {
    let mut supervisor = starting();
    for node in [A, B] {
        ends(&mut supervisor, node, Exit::Code(2), seconds(1));
    }
    assert_eq!(supervisor.outcome().unwrap().code, 2);
}

#[test]
fn endless_output_delays_the_outcome_by_at_most_a_second() {
    let mut supervisor = Supervisor::new(vec!["local/0".to_owned()], false, Time(0));
    supervisor.handle(Event::Exited { node: A, exit: Exit::Code(0) }, seconds(1));
    assert_eq!(supervisor.outcome(), None);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(2)));

    supervisor.handle_timeout(seconds(2));

    assert_eq!(supervisor.outcome(), Some(DONE));
}

#[test]
fn exit_codes_of_ssh_are_explained() {
    let blame = |mut supervisor: Supervisor, code| {
        let way = Way::Ssh { host: "b1".to_owned(), login: "ssh b1".to_owned() };
        supervisor.set_way(B, way);
        ends(&mut supervisor, B, Exit::Code(code), seconds(1));
        ends(&mut supervisor, A, Exit::Signal(15), seconds(2));
        supervisor.outcome().unwrap().blame.unwrap().message
    };
    assert_eq!(blame(starting(), 255), "b/1: ssh cannot start a node on host `b1`");
    assert_eq!(blame(running(), 255), "b/1: the ssh connection to host `b1` broke");
    assert_eq!(blame(starting(), 127), "b/1: host `b1` cannot run the program");
    assert_eq!(blame(running(), 127), "b/1 ended on its own with exit code 127");
}

#[test]
fn the_end_of_a_task_of_slurm_is_explained() {
    let blame = |mut supervisor: Supervisor, exit| {
        supervisor.set_way(B, Way::Srun { host: "n2".to_owned() });
        ends(&mut supervisor, B, exit, seconds(1));
        ends(&mut supervisor, A, Exit::Signal(15), seconds(2));
        supervisor.outcome().unwrap().blame.unwrap()
    };
    let blamed = blame(starting(), Exit::NotStarted);
    assert_eq!(blamed.message, "b/1: srun has started no node on host `n2`");
    assert!(blamed.hint.unwrap().contains("`srun --overlap hostname` must work"));
    let lost = "b/1: the task on host `n2` ended, or cannot be reached any more";
    assert_eq!(blame(running(), Exit::Unknown).message, lost);
    let absent = blame(starting(), Exit::Code(127)).message;
    assert_eq!(absent, "b/1: host `n2` cannot run the program");
    for supervisor in [starting(), running()] {
        let own = blame(supervisor, Exit::Code(255)).message;
        assert_eq!(own, "b/1 ended on its own with exit code 255");
    }
}

#[test]
fn a_slow_srun_has_more_time_and_is_named_if_it_takes_longer() {
    let mut supervisor = starting();
    supervisor.await_srun(true, seconds(1));
    supervisor.await_srun(true, seconds(2));
    supervisor.started(seconds(3));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(301)));

    // A task has enrolled.
    supervisor.await_srun(false, seconds(60));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(90)));

    supervisor.await_srun(true, seconds(61));
    supervisor.handle_timeout(seconds(361));
    [A, B].into_iter().for_each(|node| {
        ends(&mut supervisor, node, Exit::Signal(15), seconds(362));
    });
    let blame = supervisor.outcome().unwrap().blame.unwrap();
    assert_eq!(blame.message, "a/0: srun has started no task within 300 s");
    assert!(blame.hint.unwrap().starts_with("`squeue --steps` shows"));
}

#[test]
fn a_second_process_for_a_node_and_a_refused_task_end_the_job() {
    let twice = "two processes enrolled as node b/1; one of them was not started by this job";
    let refused = Event::TaskRefused { reason: "no node is left".to_owned() };
    let cases = [(Event::EnrolledTwice { node: B }, twice), (refused, "no node is left")];
    for (event, message) in cases {
        for mut supervisor in [starting(), running()] {
            supervisor.handle(event.clone(), seconds(1));
            supervisor.handle_timeout(seconds(2));
            assert_eq!(commands(&mut supervisor), [Command::Ask(A), Command::Ask(B)]);
            [A, B].into_iter().for_each(|node| {
                ends(&mut supervisor, node, Exit::Signal(15), seconds(2));
            });
            let outcome = supervisor.outcome().unwrap();
            assert_eq!((outcome.code, outcome.blame.unwrap().message.as_str()), (1, message));
        }
    }
}

#[test]
fn a_lost_node_is_reported_at_once_and_killed_instead_of_asked() {
    let mut supervisor = running();

    let failure = report("lost node1", Some(B), true);
    supervisor.handle(Event::Failed { node: A, failure: failure.clone() }, seconds(3));
    assert_eq!(commands(&mut supervisor), [Command::TellLoss("lost node1".to_owned())]);
    supervisor.handle(Event::Failed { node: A, failure }, seconds(3));
    assert_eq!(commands(&mut supervisor), [], "a loss is reported once");
    supervisor.handle_timeout(seconds(4));
    assert_eq!(commands(&mut supervisor), [Command::Ask(A), Command::Kill(B)]);
    ends(&mut supervisor, A, Exit::Signal(15), seconds(4));
    ends(&mut supervisor, B, Exit::Signal(9), seconds(4));

    let outcome = supervisor.outcome().unwrap();
    assert_eq!(outcome.blame.unwrap().message, "lost node1");
}

#[test]
fn many_nodes_per_core_extend_the_time_to_start() {
    let mut supervisor = starting();
    assert_eq!(supervisor.poll_timeout(), Some(seconds(30)));
    supervisor.set_crowding(17);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(90)));
    supervisor.set_start_patience(Duration::from_secs(60));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(90)), "it has more already");
    supervisor.set_start_patience(Duration::from_secs(120));
    supervisor.started(seconds(1));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(121)));
}

#[test]
fn output_that_is_read_from_files_is_awaited_for_longer_than_that_of_pipes() {
    for (longest, expected) in [(0, Some(DONE)), (60, None)] {
        let mut supervisor = running();
        supervisor.set_drain_patience(Duration::from_secs(longest));
        for node in [A, B] {
            supervisor.handle(Event::Exited { node, exit: Exit::Code(0) }, seconds(1));
        }
        supervisor.handle_timeout(seconds(2));
        assert_eq!(supervisor.outcome(), expected, "at most {longest} s");
        for node in [A, A, B, B] {
            supervisor.handle(Event::StreamEnded { node }, seconds(3));
        }
        assert_eq!(supervisor.outcome(), Some(DONE));
    }
}

/// What a node holds of a checkpoint of a job on two nodes of one PE each: the manifest and
/// `parts`.
fn holdings(number: u64, parts: &[u32]) -> Holdings {
    let parts = parts.iter().map(|&pe| gridspan_runtime::PeId(pe)).collect();
    let manifest =
        Some(gridspan_runtime::EncodedManifest::without_actors(number, grid().layout().clone()));
    let checkpoints = vec![gridspan_runtime::Holding { number, manifest, parts }];
    Holdings { checkpoints, is_restartable: true }
}

fn grid() -> gridspan_topology::GridSpec {
    gridspan_topology::GridSpec::from_emulate("2x1,wan=1ms").unwrap()
}

/// Two running nodes that recover from losses.
fn recovering(on_loss: OnLoss) -> Supervisor {
    let mut supervisor = running();
    supervisor.set_recovery(Runs::new(grid(), &[]), on_loss);
    supervisor
}

fn is_recovery(command: &Command) -> bool {
    matches!(command, Command::TellRecovery(_))
}

/// The commands besides those that only report.
fn actions(supervisor: &mut Supervisor) -> Vec<Command> {
    let all = commands(supervisor).into_iter();
    all.filter(|it| !is_recovery(it) && !matches!(it, Command::TellExit(..))).collect()
}

#[test]
fn a_job_goes_on_if_its_program_makes_checkpoints_and_no_flag_forbids_it() {
    let killed = |on_loss, makes_checkpoints| {
        let mut supervisor = recovering(on_loss);
        if makes_checkpoints {
            supervisor.handle(Event::Recovers, seconds(1));
        }
        assert_eq!(supervisor.saved().recovers, supervisor.may_recover());
        ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
        actions(&mut supervisor).contains(&Command::Recover(A))
    };
    assert!(killed(OnLoss::AsProgram, true) && killed(OnLoss::Shrink, false));
    assert!(!killed(OnLoss::AsProgram, false) && !killed(OnLoss::Fail, true));
}

#[test]
fn the_other_nodes_go_on_when_one_is_killed() {
    let mut supervisor = recovering(OnLoss::Shrink);

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    assert_eq!(actions(&mut supervisor), [Command::Recover(A)]);
    // It listened again before the loss was noticed.
    supervisor.handle(Event::Listening { node: A, address: address(7) }, seconds(5));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(5));
    let [Command::GoOn(members, Some(order))] = &actions(&mut supervisor)[..] else { panic!() };
    assert_eq!(
        (&members[..], &order.plan.readers[..]),
        (&[A][..], &[gridspan_runtime::PeId(0); 2][..])
    );
    supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(6));
    assert_eq!(actions(&mut supervisor), [Command::Introduce(vec![A], vec![address(8)])]);
    ends(&mut supervisor, A, Exit::Code(0), seconds(9));

    assert_eq!(supervisor.outcome(), Some(DONE));
}

#[test]
fn a_job_that_has_made_no_checkpoint_begins_again_a_few_times() {
    let mut supervisor = recovering(OnLoss::Replace);
    let none = || Holdings { checkpoints: vec![], is_restartable: true };

    for time in (5..).step_by(5).map(seconds).take(5) {
        ends(&mut supervisor, B, Exit::Signal(9), time);
        supervisor.handle(Event::Holds { node: A, holdings: none() }, time);
        let [Command::Recover(A), Command::GoOn(members, None)] = &actions(&mut supervisor)[..]
        else {
            panic!()
        };
        assert_eq!(members, &[A, B]);
        for (node, port) in [(A, 8), (B, 9)] {
            supervisor.handle(Event::Listening { node, address: address(port) }, time);
        }
        actions(&mut supervisor);
    }
    ends(&mut supervisor, B, Exit::Signal(9), seconds(30));
    supervisor.handle(Event::Holds { node: A, holdings: none() }, seconds(30));
    ends(&mut supervisor, A, Exit::Signal(15), seconds(31));

    let message = supervisor.outcome().unwrap().blame.unwrap().message;
    assert!(message.ends_with("it began again 5 times, and made no checkpoint"), "{message}");
}

#[test]
fn a_lost_node_is_started_again_once_it_has_ended() {
    let mut supervisor = recovering(OnLoss::Replace);

    supervisor.handle(Event::Exited { node: B, exit: Exit::Signal(9) }, seconds(5));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(5));
    assert_eq!(actions(&mut supervisor), [Command::Recover(A)], "its output is still read");
    (0..2).for_each(|_| supervisor.handle(Event::StreamEnded { node: B }, seconds(5)));

    let [Command::GoOn(members, _)] = &actions(&mut supervisor)[..] else { panic!() };
    assert_eq!(members, &[A, B]);
    for (node, port) in [(A, 8), (B, 9)] {
        supervisor.handle(Event::Listening { node, address: address(port) }, seconds(6));
    }
    let introduced = Command::Introduce(vec![A, B], vec![address(8), address(9)]);
    assert_eq!(actions(&mut supervisor), [introduced]);
    ends(&mut supervisor, A, Exit::Code(0), seconds(9));
    ends(&mut supervisor, B, Exit::Code(0), seconds(9));
    assert_eq!(supervisor.outcome(), Some(DONE));
}

#[test]
fn a_spare_node_takes_the_place_of_one_that_cannot_be_started_again() {
    let c = NodeId(2);
    let grid = gridspan_topology::GridSpec::from_emulate("1x3").unwrap();
    let names = ["a/0", "a/1", "a/2"].map(str::to_owned).to_vec();
    let mut supervisor = Supervisor::new(names, true, Time(0));
    supervisor.set_recovery(Runs::new(grid, &[c]), OnLoss::Replace);
    for (node, port) in [(A, 1), (B, 2)] {
        supervisor.handle(Event::Listening { node, address: address(port) }, Time(0));
    }
    commands(&mut supervisor);
    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(5));
    let [.., Command::GoOn(members, _)] = &actions(&mut supervisor)[..] else { panic!() };
    assert_eq!(members, &[A, B], "the same node at first");

    // Its host does not answer.
    ends(&mut supervisor, B, Exit::Code(255), seconds(6));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(7));
    let [.., Command::GoOn(members, _)] = &actions(&mut supervisor)[..] else { panic!() };
    assert_eq!(members, &[A, c]);

    // There is no other spare node.
    ends(&mut supervisor, c, Exit::Code(255), seconds(8));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(9));
    let [.., Command::GoOn(members, _)] = &actions(&mut supervisor)[..] else { panic!() };
    assert_eq!(members, &[A]);
}

#[test]
fn a_job_without_the_parts_of_a_lost_node_ends_with_the_reason() {
    let mut supervisor = recovering(OnLoss::Shrink);

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0]) }, seconds(5));
    supervisor.handle_timeout(seconds(5));
    assert_eq!(actions(&mut supervisor), [Command::Recover(A), Command::Ask(A)]);
    ends(&mut supervisor, A, Exit::Signal(15), seconds(6));

    let outcome = supervisor.outcome().unwrap();
    let message = outcome.blame.unwrap().message;
    assert!(
        message.starts_with("the job cannot go on without b/1: no node that is left"),
        "{message}"
    );
    assert_eq!(outcome.code, 1);
}

#[test]
fn the_failure_of_a_program_is_no_loss() {
    let mut supervisor = recovering(OnLoss::Shrink);

    // The end of the process is noticed before its report is read.
    supervisor.handle(Event::Exited { node: B, exit: Exit::Code(1) }, seconds(5));
    let failure = report("a handler panicked", Some(B), false);
    supervisor.handle(Event::Failed { node: B, failure }, seconds(5));
    (0..2).for_each(|_| supervisor.handle(Event::StreamEnded { node: B }, seconds(5)));
    ends(&mut supervisor, A, Exit::Code(1), seconds(5));

    assert_eq!(actions(&mut supervisor), []);
    assert_eq!(supervisor.outcome().unwrap().blame.unwrap().message, "a handler panicked");
}

#[test]
fn a_failure_during_the_recovery_ends_the_job() {
    let mut supervisor = recovering(OnLoss::Shrink);

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    let failure = report("a handler panicked", Some(A), false);
    supervisor.handle(Event::Failed { node: A, failure }, seconds(5));
    ends(&mut supervisor, A, Exit::Code(1), seconds(5));

    assert_eq!(actions(&mut supervisor), [Command::Recover(A)]);
    assert_eq!(supervisor.outcome().unwrap().blame.unwrap().message, "a handler panicked");
}

#[test]
fn a_job_that_was_done_before_a_loss_is_done() {
    let mut supervisor = recovering(OnLoss::Shrink);

    ends(&mut supervisor, A, Exit::Code(0), seconds(5));
    ends(&mut supervisor, B, Exit::Signal(11), seconds(5));

    assert_eq!(actions(&mut supervisor), []);
    let outcome = supervisor.outcome().unwrap();
    assert_eq!(outcome.blame.unwrap().message, "b/1 was killed by SIGSEGV (11)");
}

#[test]
fn a_node_that_does_not_stop_is_left_behind() {
    let mut supervisor = recovering(OnLoss::Shrink);

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(125)));
    supervisor.handle_timeout(seconds(125));

    assert_eq!(actions(&mut supervisor), [Command::Recover(A), Command::Kill(A)]);
    ends(&mut supervisor, A, Exit::Signal(9), seconds(126));
    let message = supervisor.outcome().unwrap().blame.unwrap().message;
    assert_eq!(message, "the job cannot go on without a/0: no node is left");
}

fn pause(order: u64, checkpoint: u64) -> Event {
    Event::Paused(Pause { order, checkpoint, error: None })
}

/// The order to main's node, A.
fn stop_for(number: u64, leaving: &[NodeId]) -> Command {
    Command::Pause(A, PauseOrder { number, leaving: leaving.to_vec(), is_end: false })
}

fn answers(commands: Vec<Command>) -> Vec<Answer> {
    let answer = |command| match command {
        Command::Answer(_, answer) => Some(answer),
        _ => None,
    };
    commands.into_iter().filter_map(answer).collect()
}

fn drain(node: NodeId) -> Event {
    let request = Request::Drain { nodes: [node].into(), deadline: None };
    Event::Requested { id: 4, request }
}

#[test]
fn a_node_leaves_on_request_and_joins_again() {
    let mut supervisor = recovering(OnLoss::Fail);
    supervisor.handle(drain(B), seconds(1));
    assert_eq!(actions(&mut supervisor), [], "further requests may come");
    supervisor.handle_timeout(seconds(2));
    assert_eq!(actions(&mut supervisor), [stop_for(1, &[B])]);
    supervisor.handle(pause(1, 3), seconds(3));
    assert_eq!(actions(&mut supervisor), [Command::Recover(A), Command::Recover(B)]);
    for node in [A, B] {
        let held = holdings(3, if node == A { &[0, 1] } else { &[1] });
        supervisor.handle(Event::Holds { node, holdings: held }, seconds(3));
    }
    let [Command::Leave(B), Command::GoOn(members, _)] = &actions(&mut supervisor)[..] else {
        panic!()
    };
    assert_eq!(members, &[A]);
    supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(3));
    let done = Answer::Done("b/1 has left".to_owned());
    assert_eq!(answers(commands(&mut supervisor)), [done]);
    ends(&mut supervisor, B, Exit::Code(0), seconds(4));

    let request = Request::Add { nodes: [B].into() };
    supervisor.handle(Event::Requested { id: 5, request }, seconds(5));
    supervisor.handle_timeout(seconds(6));
    assert_eq!(actions(&mut supervisor), [stop_for(2, &[])]);
    supervisor.handle(pause(2, 4), seconds(7));
    let held = holdings(4, &[0, 1]);
    supervisor.handle(Event::Holds { node: A, holdings: held }, seconds(7));
    let [Command::Recover(A), Command::GoOn(members, _)] = &actions(&mut supervisor)[..] else {
        panic!()
    };
    assert_eq!(members, &[A, B]);
    for (node, port) in [(A, 8), (B, 9)] {
        supervisor.handle(Event::Listening { node, address: address(port) }, seconds(8));
    }
    let done = Answer::Done("b/1 has joined".to_owned());
    assert_eq!(answers(commands(&mut supervisor)), [done]);
    ends(&mut supervisor, A, Exit::Code(0), seconds(9));
    ends(&mut supervisor, B, Exit::Code(0), seconds(9));
    assert_eq!(supervisor.outcome(), Some(DONE));
}

#[test]
fn a_node_that_the_grid_does_not_have_joins_in_the_order_of_its_site() {
    let c = NodeId(2);
    let mut roster = Roster::from(grid());
    let host = gridspan_topology::HostSpec::new("a2", 1);
    assert_eq!(roster.add(&[NewNode { site: "a".to_owned(), host }]), Ok(vec![c]));
    let mut supervisor = recovering(OnLoss::Shrink);
    assert_eq!(supervisor.may_grow(), Ok(()));
    supervisor.add_node("a/2".to_owned(), None);
    supervisor.set_roster(roster);
    supervisor.handle(Event::Requested { id: 6, request: Request::Nodes }, seconds(1));
    let states = vec![NodeState::Member, NodeState::Member, NodeState::Absent];
    assert_eq!(answers(commands(&mut supervisor)), [Answer::Nodes(states)]);

    let request = Request::Add { nodes: [c].into() };
    supervisor.handle(Event::Requested { id: 7, request }, seconds(1));
    supervisor.handle_timeout(seconds(2));
    assert_eq!(actions(&mut supervisor), [stop_for(1, &[])]);
    supervisor.handle(pause(1, 3), seconds(3));
    for (node, part) in [(A, 0), (B, 1)] {
        supervisor.handle(Event::Holds { node, holdings: holdings(3, &[part]) }, seconds(3));
    }
    let [.., Command::GoOn(members, _)] = &actions(&mut supervisor)[..] else { panic!() };
    assert_eq!(members, &[A, c, B]);
    for (node, port) in [(A, 7), (B, 8), (c, 9)] {
        supervisor.handle(Event::Listening { node, address: address(port) }, seconds(4));
    }
    let all = commands(&mut supervisor);
    let introduced = Command::Introduce(vec![A, c, B], vec![address(7), address(9), address(8)]);
    assert!(all.contains(&introduced), "{all:?}");
    assert_eq!(answers(all), [Answer::Done("a/2 has joined".to_owned())]);

    // The node of the present run with number 1 is lost.
    supervisor
        .handle(Event::Failed { node: A, failure: report("lost", Some(B), true) }, seconds(5));
    let lost = commands(&mut supervisor);
    assert!(lost.contains(&Command::Kill(c)), "{lost:?}");
}

#[test]
fn a_job_whose_guests_may_not_be_lost_keeps_its_nodes() {
    let mut supervisor = recovering(OnLoss::Shrink);
    supervisor.set_draining(Duration::from_secs(25), false, true);
    supervisor.handle(drain(B), seconds(1));
    let [Answer::Refused(reason)] = &answers(commands(&mut supervisor))[..] else { panic!() };
    assert!(reason.contains("with --tolerate-lost-guests"), "{reason}");
    assert!(supervisor.may_grow().is_err());
    supervisor.handle(Event::Leaving { node: B }, seconds(2));
    assert_eq!(actions(&mut supervisor), [Command::Ask(B)]);
}

#[test]
fn a_loss_before_the_stop_begins_the_change_again() {
    let mut supervisor = recovering(OnLoss::Replace);
    supervisor.handle(drain(B), seconds(1));
    supervisor.handle_timeout(seconds(2));
    assert_eq!(actions(&mut supervisor), [stop_for(1, &[B])]);
    ends(&mut supervisor, A, Exit::Signal(9), seconds(2));
    let held = holdings(3, &[0, 1]);
    supervisor.handle(Event::Holds { node: B, holdings: held }, seconds(2));
    for (node, port) in [(A, 8), (B, 9)] {
        supervisor.handle(Event::Listening { node, address: address(port) }, seconds(3));
    }
    assert!(actions(&mut supervisor).iter().any(|it| matches!(it, Command::Introduce(..))));
    supervisor.handle_timeout(seconds(4));
    assert_eq!(actions(&mut supervisor), [stop_for(2, &[B])]);
}

#[test]
fn a_node_that_cannot_leave_in_time_is_lost() {
    let mut supervisor = recovering(OnLoss::Shrink);
    supervisor.set_draining(Duration::from_secs(25), false, false);
    supervisor.handle(Event::Leaving { node: B }, seconds(1));
    supervisor.handle_timeout(seconds(2));
    assert_eq!(actions(&mut supervisor), [stop_for(1, &[B])]);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(26)));
    supervisor.handle_timeout(seconds(26));
    assert_eq!(actions(&mut supervisor), [Command::Kill(B), Command::Recover(A)]);
}

#[test]
fn a_node_that_cannot_leave_at_all_gets_a_second_sigterm() {
    let mut supervisor = recovering(OnLoss::Fail);
    supervisor.set_draining(Duration::from_secs(25), false, false);
    supervisor.handle(Event::Leaving { node: B }, seconds(1));
    supervisor.handle_timeout(seconds(2));
    assert_eq!(actions(&mut supervisor), [stop_for(1, &[B])]);
    supervisor.handle(Event::Unchangeable { reason: "no".to_owned() }, seconds(2));
    assert_eq!(actions(&mut supervisor), [Command::Ask(B)]);
    ends(&mut supervisor, B, Exit::Signal(15), seconds(2));
    ends(&mut supervisor, A, Exit::Code(1), seconds(3));
    assert_eq!(supervisor.outcome().map(|outcome| outcome.code), Some(1));
}

#[test]
fn sigterm_for_all_nodes_stops_the_job_with_a_checkpoint_in_its_folder() {
    let mut supervisor = recovering(OnLoss::Shrink);
    supervisor.set_draining(Duration::from_secs(25), true, false);
    for node in [A, B] {
        supervisor.handle(Event::Leaving { node }, seconds(1));
    }
    supervisor.handle_timeout(seconds(2));
    assert_eq!(
        actions(&mut supervisor),
        [Command::Pause(A, PauseOrder { number: 1, leaving: vec![], is_end: true })]
    );
    supervisor.handle(pause(1, 3), seconds(3));
    let told = [Command::TellStopping, Command::Ask(A), Command::Ask(B)];
    assert_eq!(actions(&mut supervisor), told);
    // A node takes the signal for another request to leave.
    supervisor.handle(Event::Leaving { node: A }, seconds(3));
    assert_eq!(actions(&mut supervisor), [Command::Ask(A)]);
    for node in [A, B] {
        ends(&mut supervisor, node, Exit::Signal(15), seconds(4));
    }
    let stopped = Outcome { code: 143, is_interrupted: true, blame: None };
    assert_eq!(supervisor.outcome(), Some(stopped));
}

#[test]
fn wrong_requests_are_refused() {
    let mut supervisor = recovering(OnLoss::Shrink);
    let both = Request::Drain { nodes: [A, B].into(), deadline: None };
    let member = Request::Add { nodes: [B].into() };
    let unknown = Request::Add { nodes: [NodeId(9)].into() };
    for (id, request) in (0..).zip([both, member, unknown]) {
        supervisor.handle(Event::Requested { id, request }, seconds(1));
    }
    let refused = answers(commands(&mut supervisor));
    assert_eq!(refused.len(), 3);
    assert!(refused.iter().all(|answer| matches!(answer, Answer::Refused(_))));
    assert_eq!(supervisor.poll_timeout(), None);
}

#[test]
fn the_job_goes_on_without_a_node_that_cannot_join() {
    for how in 0..3 {
        let mut supervisor = starting();
        supervisor.set_recovery(Runs::new(grid(), &[B]), OnLoss::Fail);
        supervisor.handle(Event::Listening { node: A, address: address(1) }, Time(0));
        let request = Request::Add { nodes: [B].into() };
        supervisor.handle(Event::Requested { id: 5, request }, seconds(1));
        supervisor.handle_timeout(seconds(2));
        supervisor.handle(pause(1, 3), seconds(3));
        let held = || holdings(3, &[0, 1]);
        supervisor.handle(Event::Holds { node: A, holdings: held() }, seconds(3));
        assert!(actions(&mut supervisor).iter().any(|it| matches!(it, Command::GoOn(..))));
        match how {
            0 => ends(&mut supervisor, B, Exit::Code(127), seconds(4)),
            1 => ends(&mut supervisor, B, Exit::Code(0), seconds(4)),
            _ => supervisor.handle_timeout(seconds(40)),
        }
        supervisor.handle(Event::Holds { node: A, holdings: held() }, seconds(40));
        supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(40));
        let all = commands(&mut supervisor);
        assert!(all.contains(&Command::Introduce(vec![A], vec![address(8)])), "{how}: {all:?}");
        assert!(matches!(&answers(all)[..], [Answer::Refused(_)]), "{how}");
        assert_eq!(supervisor.outcome(), None);
    }
}

#[test]
fn a_request_never_ends_the_job() {
    let mut supervisor = recovering(OnLoss::Shrink);
    supervisor.set_draining(Duration::from_secs(25), true, false);
    supervisor.handle(drain(A), seconds(1));
    ends(&mut supervisor, B, Exit::Signal(9), seconds(1));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(1));
    supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(1));
    supervisor.handle_timeout(seconds(2));
    let all = commands(&mut supervisor);
    assert!(!all.iter().any(|it| matches!(it, Command::Pause(..))), "{all:?}");
    assert!(matches!(&answers(all)[..], [Answer::Refused(_)]));
}

#[test]
fn a_process_that_has_left_and_does_not_end_is_killed() {
    let mut supervisor = recovering(OnLoss::Fail);
    supervisor.handle(drain(B), seconds(1));
    supervisor.handle_timeout(seconds(2));
    supervisor.handle(pause(1, 3), seconds(3));
    for node in [A, B] {
        supervisor.handle(Event::Holds { node, holdings: holdings(3, &[0, 1]) }, seconds(3));
    }
    supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(3));
    assert!(actions(&mut supervisor).contains(&Command::Leave(B)));
    supervisor.handle_timeout(supervisor.poll_timeout().unwrap());
    assert_eq!(actions(&mut supervisor), [Command::Kill(B)]);
}

/// The supervisor of another launcher, which takes over after the launcher of `before` has ended.
fn taking_over(before: &Supervisor, on_loss: OnLoss) -> Supervisor {
    let saved = before.saved();
    let mut next = starting();
    next.set_recovery(Runs::resume(grid(), &saved), on_loss);
    next.take_over(&saved, seconds(9));
    next
}

#[test]
fn a_job_that_runs_is_not_disturbed_by_another_launcher() {
    let mut before = recovering(OnLoss::Shrink);
    assert_eq!(actions(&mut before), []);
    let mut next = taking_over(&before, OnLoss::Shrink);
    assert_eq!(actions(&mut next), []);

    ends(&mut next, B, Exit::Unknown, seconds(10));

    assert_eq!(actions(&mut next), [Command::Recover(A)]);
    let mut next = taking_over(&before, OnLoss::Shrink);
    [A, B].into_iter().for_each(|node| ends(&mut next, node, Exit::Code(0), seconds(10)));
    assert_eq!(next.outcome(), Some(DONE));
}

#[test]
fn another_launcher_goes_on_with_a_recovery_and_with_a_job_that_has_stopped() {
    let mut lost = recovering(OnLoss::Shrink);
    ends(&mut lost, B, Exit::Signal(9), seconds(5));
    let mut changing = recovering(OnLoss::Shrink);
    changing.handle(drain(B), seconds(5));
    changing.handle_timeout(seconds(6));
    for (before, members) in [(lost, vec![A]), (changing, vec![A, B])] {
        let mut next = taking_over(&before, OnLoss::Shrink);
        // The job stops for a change that the previous launcher has ordered.
        next.handle(pause(1, 3), seconds(9));
        let asked: Vec<Command> = members.iter().copied().map(Command::Recover).collect();
        assert_eq!(actions(&mut next), asked);
        for &node in &members {
            let held = holdings(3, if node == A { &[0, 1] } else { &[1] });
            next.handle(Event::Holds { node, holdings: held }, seconds(9));
        }
        let [Command::GoOn(next, _)] = &actions(&mut next)[..] else { panic!() };
        assert_eq!(next, &members);
    }
}

#[test]
fn another_launcher_ends_a_job_that_had_not_begun_or_was_ending() {
    let mut ending = recovering(OnLoss::Shrink);
    ending.handle(Event::Interrupted { signal: 2 }, seconds(5));
    for (before, when) in [(starting(), "before the job had begun"), (ending, "was ending")] {
        let mut saved = before.saved();
        (saved.runs, saved.left) = (vec![(0, vec![A, B])], vec![A, B]);
        saved.is_stopping = false;
        let mut next = starting();
        next.set_recovery(Runs::resume(grid(), &saved), OnLoss::Shrink);
        next.take_over(&saved, seconds(9));
        next.handle_timeout(seconds(9));
        assert_eq!(actions(&mut next), [Command::Ask(A), Command::Ask(B)]);
        [A, B].into_iter().for_each(|node| ends(&mut next, node, Exit::Unknown, seconds(10)));
        let outcome = next.outcome().unwrap();
        assert_eq!(outcome.code, 1);
        assert!(outcome.blame.unwrap().message.contains(when));
    }
}

#[test]
fn another_launcher_stops_a_job_that_was_to_stop() {
    let mut asked = recovering(OnLoss::Shrink);
    asked.set_draining(Duration::from_secs(25), true, false);
    asked.handle(Event::Requested { id: 1, request: Request::Stop }, seconds(5));
    let mut next = taking_over(&asked, OnLoss::Shrink);
    assert_eq!(actions(&mut next), [Command::TellStopping, Command::Ask(A), Command::Ask(B)]);
    [A, B].into_iter().for_each(|node| ends(&mut next, node, Exit::Unknown, seconds(10)));
    assert_eq!(next.outcome().unwrap().code, 143);
}

#[test]
fn a_request_to_kill_the_job_kills_all_nodes_at_once() {
    let mut supervisor = running();
    supervisor.handle(Event::Requested { id: 4, request: Request::Wait }, seconds(1));
    assert!(commands(&mut supervisor).is_empty());

    supervisor.handle(Event::Requested { id: 7, request: Request::Kill }, seconds(2));

    let answer = Command::Answer(7, Answer::Done("the job is killed".to_owned()));
    let told = Command::TellRecovery("`gridctl kill` kills all nodes".to_owned());
    assert_eq!(commands(&mut supervisor), [answer, told, Command::Kill(A), Command::Kill(B)]);
    [A, B].into_iter().for_each(|node| ends(&mut supervisor, node, Exit::Signal(9), seconds(2)));
    let outcome = supervisor.outcome().unwrap();
    assert_eq!((outcome.code, outcome.is_interrupted, outcome.blame), (137, true, None));
    assert_eq!(supervisor.waiting_for_end(), [4], "they get the exit code");
}

#[test]
fn a_diagnosis_asks_all_nodes_and_names_one_that_does_not_answer() {
    let mut supervisor = running();
    supervisor.handle(Event::Requested { id: 3, request: Request::Diagnose }, seconds(10));
    assert_eq!(commands(&mut supervisor), [Command::Diagnose(A, 1), Command::Diagnose(B, 1)]);

    supervisor.handle(Event::Awake { node: A, number: 1, silent: vec![(B, 5)] }, seconds(10));
    let diagnosis = Box::new(Diagnosis { pes: 2, unanswered: 1, ..Diagnosis::default() });
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
    assert_eq!(commands(&mut supervisor), [Command::TellObserved(41, sample.clone(), 0)]);

    // The job ends because a node is lost, so that the other one need not answer any more.
    let failure = report("lost node1", Some(B), true);
    supervisor.handle(Event::Failed { node: A, failure }, seconds(3));
    supervisor.handle(Event::Requested { id: 42, request }, seconds(3));
    let answers = commands(&mut supervisor);
    assert!(answers.contains(&Command::TellObserved(42, None, 1)), "{answers:?}");
}

#[test]
fn requests_that_wait_for_the_end_are_known_then() {
    let mut supervisor = running();
    supervisor.handle(Event::Requested { id: 4, request: Request::Wait }, seconds(1));
    assert!(commands(&mut supervisor).is_empty());
    ends(&mut supervisor, A, Exit::Code(0), seconds(2));
    ends(&mut supervisor, B, Exit::Code(0), seconds(2));
    assert_eq!((supervisor.outcome(), supervisor.waiting_for_end()), (Some(DONE), &[4][..]));
}
