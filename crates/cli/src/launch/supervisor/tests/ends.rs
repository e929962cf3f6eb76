//! How a job ends: done, failed, interrupted, or not started.

use super::*;

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
fn a_lost_reader_or_terminal_is_no_second_request_to_end() {
    // SIGINT, SIGPIPE, SIGHUP and SIGTERM.
    for signals in [[2, 13], [1, 1], [13, 1], [15, 1]] {
        let mut supervisor = running();
        for signal in signals {
            supervisor.handle(Event::Interrupted { signal }, seconds(1));
        }
        let asked = [Command::TellStopping, Command::Ask(A), Command::Ask(B)];
        assert_eq!(commands(&mut supervisor), asked, "{signals:?}");
        supervisor.handle_timeout(seconds(6));
        assert_eq!(commands(&mut supervisor), [Command::Kill(A), Command::Kill(B)], "{signals:?}");
    }
    let mut stopping = recovering(OnLoss::Shrink);
    stopping.set_draining(Duration::from_secs(25), true, false);
    for signal in [15, 13, 1] {
        stopping.handle(Event::Interrupted { signal }, seconds(1));
    }
    assert_eq!(actions(&mut stopping), [], "there is time for the last checkpoint");
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
    let refused = Event::TaskRefused { nodes: vec![B], reason: "no node is left".to_owned() };
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
fn a_time_to_start_that_the_user_has_set_holds_whatever_would_extend_it() {
    let mut supervisor = starting();
    supervisor.set_crowding(17);
    supervisor.set_start_patience(Duration::from_secs(120));
    supervisor.limit_start(Duration::from_secs(5), Time(0));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(5)));
    supervisor.set_start_patience(Duration::from_secs(300));
    supervisor.set_crowding(33);
    assert_eq!(supervisor.poll_timeout(), Some(seconds(5)));
    // Another process was started.
    supervisor.started(seconds(2));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(7)));
    supervisor.await_srun(true, seconds(3));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(8)));

    let mut supervisor = starting();
    supervisor.limit_start(Duration::from_secs(600), Time(0));
    assert_eq!(supervisor.poll_timeout(), Some(seconds(600)));
}

#[test]
fn all_nodes_that_did_not_join_are_named_and_hosts_can_be_checked() {
    let names = ["a/0", "a/1", "a/2", "b/3"].map(str::to_owned).to_vec();
    let blame = |way: Option<Way>| {
        let mut supervisor = Supervisor::new(names.clone(), true, Time(0));
        if let Some(way) = way {
            supervisor.set_way(NodeId(3), way);
        }
        supervisor.limit_start(Duration::from_millis(2500), Time(0));
        supervisor.handle(Event::Listening { node: A, address: address(1) }, seconds(1));
        supervisor.handle_timeout(seconds(3));
        for node in 0..4 {
            ends(&mut supervisor, NodeId(node), Exit::Signal(15), seconds(4));
        }
        supervisor.outcome().unwrap().blame.unwrap()
    };
    let ssh = Way::Ssh { host: "b1".to_owned(), login: "ssh b1".to_owned() };
    let srun = Way::Srun { host: "b1".to_owned() };

    for (way, check) in [
        (None, "`gridctl check --emulate 1x1`"),
        (Some(ssh), "`gridctl check`, with the same `--grid`"),
        (Some(srun), "`srun --overlap --label gridctl check --emulate 1x1`"),
    ] {
        let blame = blame(way);
        assert_eq!(blame.message, "a/[1-2], b/3 did not join the job within 2.5 s");
        assert_eq!(blame.node, B);
        let hint = blame.hint.unwrap();
        assert!(hint.starts_with(check), "{hint}");
        assert!(hint.contains("`--connect-timeout`") && hint.contains("must be linked"), "{hint}");
    }
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
