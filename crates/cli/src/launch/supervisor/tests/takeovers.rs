//! Supervisors of launchers that take over a job from another launcher.

use super::*;

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
fn another_launcher_goes_on_with_a_stop_whose_order_was_not_saved() {
    let before = recovering(OnLoss::Shrink);
    let mut next = taking_over(&before, OnLoss::Shrink);
    next.handle(pause(1, 3), seconds(10));
    assert_eq!(actions(&mut next), [Command::Recover(A), Command::Recover(B)]);
    for (node, part) in [(A, 0), (B, 1)] {
        next.handle(Event::Holds { node, holdings: holdings(3, &[part]) }, seconds(10));
    }
    let [Command::GoOn(members, _)] = &actions(&mut next)[..] else { panic!() };
    assert_eq!(members, &[A, B]);
    for (node, port) in [(A, 1), (B, 2)] {
        next.handle(Event::Listening { node, address: address(port) }, seconds(10));
    }
    let introduced = Command::Introduce(vec![A, B], vec![address(1), address(2)]);
    assert_eq!(actions(&mut next), [introduced]);

    // The next order has another number.
    next.handle(drain(B), seconds(11));
    next.handle_timeout(seconds(12));
    assert_eq!(actions(&mut next), [stop_for(2, &[B])]);
    next.handle(pause(1, 3), seconds(12));
    assert_eq!(actions(&mut next), [], "a late report");
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
