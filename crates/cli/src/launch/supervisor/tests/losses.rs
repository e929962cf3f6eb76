//! How a job goes on after the loss of nodes.

use super::*;
use gridspan_runtime::net::bootstrap::LossNotice;
use gridspan_runtime::{Diagnosis, PeId};

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
    assert_eq!((&members[..], &order.plan.readers[..]), (&[A][..], &[PeId(0); 2][..]));
    supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(6));
    assert_eq!(actions(&mut supervisor), [Command::Introduce(vec![A], vec![address(8)])]);
    ends(&mut supervisor, A, Exit::Code(0), seconds(9));

    assert_eq!(supervisor.outcome(), Some(DONE));
}

#[test]
fn a_job_that_has_made_no_checkpoint_begins_again_a_few_times() {
    let mut supervisor = recovering(OnLoss::Replace);
    let none = || Holdings::new(vec![], true);

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
fn a_late_end_of_the_output_of_a_lost_process_is_not_that_of_the_next_one() {
    let mut supervisor = recovering(OnLoss::Replace);
    supervisor.handle(Event::Exited { node: B, exit: Exit::Signal(9) }, seconds(5));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(5));
    // A process that it has left behind still has its standard error.
    supervisor.handle(Event::StreamEnded { node: B }, seconds(5));
    supervisor.handle_timeout(seconds(5) + DRAIN);
    let [Command::Recover(A), Command::GoOn(..)] = &actions(&mut supervisor)[..] else { panic!() };
    for (node, port) in [(A, 8), (B, 9)] {
        supervisor.handle(Event::Listening { node, address: address(port) }, seconds(7));
    }
    supervisor.handle(Event::StreamEnded { node: B }, seconds(8));

    ends(&mut supervisor, A, Exit::Code(0), seconds(9));
    supervisor.handle(Event::Exited { node: B, exit: Exit::Code(0) }, seconds(9));
    supervisor.handle(Event::StreamEnded { node: B }, seconds(9));
    assert_eq!(supervisor.outcome(), None, "its other output is still read");
    supervisor.handle(Event::StreamEnded { node: B }, seconds(9));
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
fn a_part_of_which_no_copy_is_left_is_read_from_the_folder() {
    let mut supervisor = recovering(OnLoss::Shrink);

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    let held = stored_holdings(3, &[0]);
    supervisor.handle(Event::Holds { node: A, holdings: held }, seconds(5));

    let all = commands(&mut supervisor);
    let text =
        "going back to checkpoint 3; the part of b/1 is read from the folder or object store";
    assert!(all.contains(&Command::TellRecovery(text.to_owned())), "{all:?}");
    let Some(Command::GoOn(members, Some(order))) = all.last() else { panic!("{all:?}") };
    assert_eq!((&members[..], &order.plan.readers[..]), (&[A][..], &[PeId(0); 2][..]));
    assert!(order.reads_stored, "the others wait longer for the node that reads");
}

#[test]
fn several_parts_that_are_read_from_the_folder_are_named() {
    let mut supervisor = recovering(OnLoss::Shrink);

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    supervisor.handle(Event::Holds { node: A, holdings: stored_holdings(3, &[]) }, seconds(5));

    let all = commands(&mut supervisor);
    let text = "going back to checkpoint 3; the parts of a/0, b/1 are read from the folder or \
                object store";
    assert!(all.contains(&Command::TellRecovery(text.to_owned())), "{all:?}");
}

#[test]
fn a_job_that_cannot_go_on_points_to_its_folder() {
    let mut supervisor = recovering(OnLoss::Shrink);
    supervisor.set_draining(Duration::from_secs(25), true, false);

    ends(&mut supervisor, A, Exit::Signal(9), seconds(5));
    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));

    let blame = supervisor.outcome().unwrap().blame.unwrap();
    assert_eq!(blame.message, "the job cannot go on without b/1: no node is left");
    assert!(blame.hint.unwrap().contains("--restart DIR"));
}

#[test]
fn a_node_that_is_started_again_reads_its_part_from_the_folder_itself() {
    let mut supervisor = recovering(OnLoss::Replace);

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    let held = stored_holdings(3, &[0]);
    supervisor.handle(Event::Holds { node: A, holdings: held }, seconds(5));

    let [.., Command::GoOn(members, Some(order))] = &actions(&mut supervisor)[..] else { panic!() };
    assert_eq!((&members[..], &order.plan.readers[..]), (&[A, B][..], &[PeId(0), PeId(1)][..]));
}

#[test]
fn the_user_learns_what_is_repeated_and_when_the_job_is_protected_again() {
    let mut supervisor = recovering(OnLoss::Replace);
    let complete = |checkpoint, age| Event::Checkpointed { checkpoint, age, pace: None };
    supervisor.handle(complete(3, Duration::from_millis(500)), seconds(3));

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(6));
    supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(7));
    supervisor.handle(Event::Listening { node: B, address: address(9) }, seconds(7));
    let remade = r#"{ "at": 8000000000, "checkpoint": 3 }"#;
    supervisor.handle(Event::CopiesRemade(serde_json::from_str(remade).unwrap()), seconds(8));
    supervisor.handle(complete(4, Duration::ZERO), seconds(9));

    let told: Vec<String> = commands(&mut supervisor)
        .into_iter()
        .filter_map(|command| match command {
            Command::TellRecovery(text) => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            "lost b/1: it was killed by SIGKILL (9); 1 node is left",
            "going back to checkpoint 3; this repeats 2.50 s",
            "lost b/1 (it was killed by SIGKILL (9), noticed at once); back to checkpoint 3, 2.50 s \
             repeated; 2 nodes go on, 2.00 s after the loss was noticed",
            "checkpoint 3 protects the job again, 3.00 s after the loss",
        ]
    );
}

#[test]
fn nothing_protects_the_last_node() {
    let mut supervisor = recovering(OnLoss::Shrink);
    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(6));
    supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(7));
    commands(&mut supervisor);

    let complete = Event::Checkpointed { checkpoint: 4, age: Duration::ZERO, pace: None };
    supervisor.handle(complete, seconds(9));

    let told = commands(&mut supervisor);
    assert!(!told.iter().any(|command| matches!(command, Command::TellRecovery(_))), "{told:?}");
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

#[test]
fn a_node_that_is_cut_off_and_reports_first_is_the_lost_one() {
    let grid = gridspan_topology::GridSpec::from_emulate("1x4").unwrap();
    let all: Vec<NodeId> = grid.layout().nodes().collect();
    let [main, b, c, cut_off] = all[..] else { panic!("{all:?}") };
    let new = || {
        let names = all.iter().map(ToString::to_string).collect();
        let mut supervisor = Supervisor::new(names, true, Time(0));
        supervisor.set_recovery(Runs::new(grid.clone(), &[]), OnLoss::Shrink);
        for (&node, port) in all.iter().zip(1..) {
            supervisor.handle(Event::Listening { node, address: address(port) }, Time(0));
        }
        let failure = report("lost main", Some(main), true);
        supervisor.handle(Event::Failed { node: cut_off, failure }, seconds(5));
        assert_eq!((supervisor.losses(), supervisor.poll_timeout()), (0, Some(seconds(10))));
        commands(&mut supervisor);
        supervisor
    };

    let mut supervisor = new();
    let failure = report("lost the other one", Some(cut_off), true);
    supervisor.handle(Event::Failed { node: main, failure }, seconds(6));
    let stopped = [main, b, c].map(Command::Recover);
    assert_eq!(actions(&mut supervisor), [&[Command::Kill(cut_off)][..], &stopped].concat());

    // No other node says anything.
    let mut supervisor = new();
    supervisor.handle_timeout(seconds(10));
    let stopped = [b, c, cut_off].map(Command::Recover);
    assert_eq!(actions(&mut supervisor), [&[Command::Kill(main)][..], &stopped].concat());
}

/// Two running nodes of a job of tasks.
fn repeating() -> Supervisor {
    let mut supervisor = recovering(OnLoss::Shrink);
    supervisor.handle(Event::RepeatsTasks, seconds(1));
    supervisor
}

fn tolerated() -> Event {
    let json = r#"{"node":1,"site":"b","reason":"it was silent","left":1}"#;
    Event::Tolerated(serde_json::from_str(json).unwrap())
}

fn told(commands: &[Command]) -> Vec<&str> {
    let texts = commands.iter().filter_map(|command| match command {
        Command::TellRecovery(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn a_job_of_tasks_goes_on_at_once_if_its_coordinator_says_so() {
    let mut supervisor = repeating();

    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    let notice = LossNotice { node: B, reason: "it was killed by SIGKILL (9)".to_owned() };
    assert_eq!(actions(&mut supervisor), [Command::TellLost(A, notice)]);
    assert_eq!(supervisor.losses(), 0, "it is not decided");
    supervisor.handle(tolerated(), seconds(6));

    let all = commands(&mut supervisor);
    let text = "lost b/1: it was killed by SIGKILL (9); 1 node is left, and repeats its tasks";
    assert_eq!((told(&all), all.len()), (vec![text], 1));
    assert_eq!((supervisor.losses(), supervisor.take_lost()), (1, vec![B]));
    supervisor.handle(tolerated(), seconds(7));
    supervisor.handle_timeout(seconds(60));
    assert_eq!(commands(&mut supervisor), [], "once, and for good");
    ends(&mut supervisor, A, Exit::Code(0), seconds(61));
    assert_eq!(supervisor.outcome(), Some(DONE));
}

#[test]
fn a_diagnosis_does_not_wait_for_a_node_without_which_the_job_goes_on() {
    let diagnose = |id| Event::Requested { id, request: Request::Diagnose };
    let mut found = Diagnosis::default();
    found.pes = 1;
    let diagnosed = |number| Event::Diagnosed { number, diagnosis: Box::new(found.clone()) };
    let awake = |number| Event::Awake { node: A, number, silent: vec![] };
    let mut supervisor = repeating();
    supervisor.handle(diagnose(1), seconds(5));
    [awake(1), diagnosed(1)].into_iter().for_each(|it| supervisor.handle(it, seconds(5)));
    assert_eq!(answers(commands(&mut supervisor)), []);

    supervisor.handle(tolerated(), seconds(6));
    supervisor.handle_timeout(seconds(6));

    assert_eq!(answers(commands(&mut supervisor)), [Answer::Diagnosis(found.clone())]);
    supervisor.handle(diagnose(2), seconds(8));
    assert_eq!(commands(&mut supervisor), [Command::Diagnose(A, 2)]);
    [awake(2), diagnosed(2)].into_iter().for_each(|it| supervisor.handle(it, seconds(8)));
    assert_eq!(answers(commands(&mut supervisor)), [Answer::Diagnosis(found)]);
}

#[test]
fn a_silent_node_without_which_the_job_goes_on_is_killed() {
    let mut supervisor = repeating();

    supervisor.handle(tolerated(), seconds(5));

    let all = commands(&mut supervisor);
    assert_eq!(all[0], Command::Kill(B));
    assert_eq!(told(&all), ["lost b/1: it was silent; 1 node is left, and repeats its tasks"]);
    ends(&mut supervisor, B, Exit::Signal(9), seconds(6));
    assert_eq!(actions(&mut supervisor), []);
}

#[test]
fn a_job_of_tasks_goes_back_if_it_needs_the_lost_node() {
    // The job says that it needs the node at once, or after it went on for a time.
    for is_later in [false, true] {
        let mut supervisor = repeating();
        ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
        if is_later {
            supervisor.handle(tolerated(), seconds(5));
        }
        commands(&mut supervisor);

        let failure = report("lost node1", Some(B), true);
        supervisor.handle(Event::Failed { node: A, failure }, seconds(6));

        let all = commands(&mut supervisor);
        assert!(all.contains(&Command::Recover(A)), "{all:?}");
        let text = match is_later {
            false => "lost b/1: it was killed by SIGKILL (9); 1 node is left",
            true => "the job cannot go on without b/1; 1 node is left",
        };
        assert_eq!(told(&all), [text]);
        assert_eq!(supervisor.losses(), 1);
        supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(6));
        let [Command::GoOn(members, Some(_))] = &actions(&mut supervisor)[..] else { panic!() };
        assert_eq!(members, &[A]);
    }
}

#[test]
fn a_job_of_tasks_goes_on_without_a_node_that_cannot_leave_in_time() {
    let mut supervisor = repeating();
    supervisor.set_draining(Duration::from_secs(25), false, false);
    supervisor.handle(Event::Leaving { node: B }, seconds(1));
    supervisor.handle_timeout(seconds(2));
    commands(&mut supervisor);

    supervisor.handle_timeout(seconds(26));

    let reason = "it had to leave, and main reached no progress point in time".to_owned();
    let notice = LossNotice { node: B, reason };
    assert_eq!(actions(&mut supervisor), [Command::TellLost(A, notice), Command::Kill(B)]);
    ends(&mut supervisor, B, Exit::Signal(9), seconds(26));
    supervisor.handle(tolerated(), seconds(27));
    let all = commands(&mut supervisor);
    assert_eq!(told(&all).len(), 1, "{all:?}");
    let repeats = "; 1 node is left, and repeats the tasks that it has not given back";
    assert!(told(&all)[0].ends_with(repeats), "{all:?}");
    assert_eq!((supervisor.losses(), supervisor.outcome()), (1, None));
}

#[test]
fn a_job_that_does_not_decide_goes_back_after_a_while() {
    let mut supervisor = repeating();
    ends(&mut supervisor, B, Exit::Code(3), seconds(5));
    assert!(matches!(actions(&mut supervisor)[..], [Command::TellLost(A, _)]));

    assert_eq!(supervisor.poll_timeout(), Some(seconds(25)));
    supervisor.handle_timeout(seconds(25));

    assert_eq!(actions(&mut supervisor), [Command::Recover(A)]);
}

#[test]
fn the_loss_of_mains_node_takes_others_in_doubt_along() {
    let mut supervisor = repeating();
    ends(&mut supervisor, B, Exit::Signal(9), seconds(5));
    commands(&mut supervisor);

    ends(&mut supervisor, A, Exit::Signal(9), seconds(6));

    let all = commands(&mut supervisor);
    assert_eq!(supervisor.losses(), 2, "{all:?}");
    assert!(!all.iter().any(|it| matches!(it, Command::TellLost(..))), "{all:?}");
    let message = supervisor.outcome().unwrap().blame.unwrap().message;
    assert!(message.contains("no node is left"), "{message}");
}

#[test]
fn a_node_that_the_others_have_given_up_does_not_decide_about_itself() {
    let mut supervisor = repeating();

    let failure = report("lost node1", Some(B), true);
    supervisor.handle(Event::Failed { node: B, failure }, seconds(5));
    assert_eq!(actions(&mut supervisor), []);
    ends(&mut supervisor, B, Exit::Code(1), seconds(5));
    assert!(matches!(actions(&mut supervisor)[..], [Command::TellLost(A, _)]));
    supervisor.handle(tolerated(), seconds(6));

    let text = "lost b/1: it ended on its own with exit code 1; 1 node is left, and repeats its \
                tasks";
    assert_eq!(told(&commands(&mut supervisor)), [text]);
    assert_eq!(supervisor.losses(), 1);
}

#[test]
fn a_change_that_waits_is_refused_when_the_job_goes_on_without_a_lost_node() {
    for is_under_way in [false, true] {
        let mut supervisor = repeating();
        let nodes = std::collections::BTreeSet::from([B]);
        let request = Request::Drain { nodes, deadline: None };
        supervisor.handle(Event::Requested { id: 7, request }, seconds(2));
        if is_under_way {
            supervisor.handle_timeout(seconds(3));
        }
        let all = commands(&mut supervisor);
        assert_eq!(all.iter().any(|it| matches!(it, Command::Pause(A, _))), is_under_way);

        supervisor.handle(tolerated(), seconds(4));

        let all = commands(&mut supervisor);
        let reason = all.iter().find_map(|command| match command {
            Command::Answer(7, Answer::Refused(reason)) => Some(reason.as_str()),
            _ => None,
        });
        assert!(reason.is_some_and(|it| it.starts_with("it has lost a node")), "{all:?}");
        supervisor.handle_timeout(seconds(5));
        assert_eq!(actions(&mut supervisor), []);
    }
}
