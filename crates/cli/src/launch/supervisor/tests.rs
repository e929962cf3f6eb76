//! Tests of the supervisor, event by event: shared helpers, and tests of changes of the nodes.

mod ends;
mod losses;
mod requests;
mod takeovers;

use super::*;
use crate::request::{Answer, NodeState, Request};
use crate::roster::{NewNode, Roster};
use gridspan::control::{Failure, Pause};
use gridspan_runtime::net::bootstrap::PauseOrder;

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
    let mut failure = Failure::new(message, None, node);
    failure.lost = node.filter(|_| is_loss).into_iter().collect();
    failure
}

fn seconds(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

/// What a node holds of a checkpoint of a job on two nodes of one PE each: the manifest and
/// `parts`.
fn holdings(number: u64, parts: &[u32]) -> Holdings {
    let parts = parts.iter().map(|&pe| gridspan_runtime::PeId(pe)).collect();
    let manifest =
        Some(gridspan_runtime::EncodedManifest::without_actors(number, grid().layout().clone()));
    let holding = gridspan_runtime::Holding { number, manifest, parts, is_stored: false };
    Holdings::new(vec![holding], true)
}

/// The same for a job that stores its checkpoints in a folder.
fn stored_holdings(number: u64, parts: &[u32]) -> Holdings {
    let mut holdings = holdings(number, parts);
    holdings.checkpoints.iter_mut().for_each(|holding| holding.is_stored = true);
    holdings
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

fn pause(order: u64, checkpoint: u64) -> Event {
    Event::Paused(Pause::new(order, checkpoint))
}

/// The order that makes main's node, A, stop the job so that these nodes can leave.
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

    let request = Request::Add { nodes: [B].into() };
    supervisor.handle(Event::Requested { id: 5, request }, seconds(4));
    supervisor.handle_timeout(seconds(5));
    assert_eq!(actions(&mut supervisor), [], "the process of B has not ended");
    ends(&mut supervisor, B, Exit::Code(0), seconds(5));
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
    assert_eq!(supervisor.may_outnumber(2), Ok(()), "half of the members decide");
    assert!(supervisor.may_outnumber(3).is_err());
    supervisor.add_node("a/2".to_owned(), None);
    supervisor.set_roster(roster);
    supervisor.handle(Event::Requested { id: 6, request: Request::Nodes }, seconds(1));
    let states = vec![NodeState::Member, NodeState::Member, NodeState::Absent];
    assert_eq!(answers(commands(&mut supervisor)), [Answer::Nodes(states)]);

    let request = Request::Add { nodes: [c].into() };
    supervisor.handle(Event::Requested { id: 7, request }, seconds(1));
    assert_eq!(supervisor.may_outnumber(1), Ok(()));
    assert!(supervisor.may_outnumber(2).is_err(), "another one joins");
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
fn absent_nodes_do_not_outnumber_those_that_stay() {
    let mut roster = Roster::from(grid());
    let host = gridspan_topology::HostSpec::new("a2", 1);
    let new = NewNode { site: "a".to_owned(), host };
    let added = roster.add(&[new.clone(), new.clone(), new]).unwrap();
    let mut supervisor = recovering(OnLoss::Shrink);
    for node in &added {
        supervisor.add_node(roster.name(*node), None);
    }
    supervisor.set_roster(roster);

    let [first, second, third] = added[..] else { panic!() };
    assert_eq!(supervisor.may_join(&[first, second].into()), Ok(()));
    let reason = supervisor.may_join(&[first, second, third].into()).unwrap_err();
    let limit = "it has 2 nodes that stay, and at most as many can join at a time";
    assert!(reason.starts_with(limit), "{reason}");
    let reason = supervisor.may_join(&[A, first, second].into()).unwrap_err();
    assert_eq!(reason, "a/0 is a member of the job already");
    supervisor.handle(drain(B), seconds(1));
    let reason = supervisor.may_join(&[first, second].into()).unwrap_err();
    assert!(reason.starts_with("it has 1 node that stays"), "{reason}");
    assert_eq!(supervisor.may_join(&[first].into()), Ok(()));
}

#[test]
fn nodes_do_not_leave_while_more_join_than_would_stay() {
    let mut roster = Roster::from(grid());
    let host = gridspan_topology::HostSpec::new("a2", 1);
    let new = NewNode { site: "a".to_owned(), host };
    let added = roster.add(&[new.clone(), new]).unwrap();
    let mut supervisor = recovering(OnLoss::Shrink);
    for node in &added {
        supervisor.add_node(roster.name(*node), None);
    }
    supervisor.set_roster(roster);

    for (id, (node, may_leave)) in (1..).zip([(added[0], true), (added[1], false)]) {
        let request = Request::Add { nodes: [node].into() };
        supervisor.handle(Event::Requested { id, request }, seconds(1));
        assert_eq!(supervisor.may_leave(&[B].into()).is_ok(), may_leave);
    }
    let reason = supervisor.may_leave(&[B].into()).unwrap_err();
    assert!(reason.starts_with("2 nodes join at present"), "{reason}");
    let reason = supervisor.may_leave(&added.into_iter().collect()).unwrap_err();
    assert!(reason.ends_with("is no member of the job"), "{reason}");
}

#[test]
fn nodes_that_would_outnumber_the_members_after_a_loss_do_not_join() {
    for (is_kept, has_stopped) in [(true, false), (true, true), (false, true)] {
        let mut roster = Roster::from(grid());
        let host = gridspan_topology::HostSpec::new("a2", 1);
        let new = NewNode { site: "a".to_owned(), host };
        let added = roster.add(&[new.clone(), new]).unwrap();
        let mut supervisor = recovering(OnLoss::Shrink);
        if is_kept {
            supervisor.set_kept();
        }
        for node in &added {
            supervisor.add_node(roster.name(*node), None);
        }
        supervisor.set_roster(roster);
        let request = Request::Add { nodes: added.into_iter().collect() };
        supervisor.handle(Event::Requested { id: 5, request }, seconds(1));
        supervisor.handle_timeout(seconds(2));
        assert_eq!(actions(&mut supervisor), [stop_for(1, &[])]);

        if has_stopped {
            supervisor.handle(pause(1, 3), seconds(3));
        }
        ends(&mut supervisor, B, Exit::Signal(9), seconds(3));
        let held = holdings(3, &[0, 1]);
        supervisor.handle(Event::Holds { node: A, holdings: held }, seconds(3));
        supervisor.handle(Event::Listening { node: A, address: address(8) }, seconds(4));
        supervisor.handle_timeout(seconds(5));

        let all = commands(&mut supervisor);
        let goes_on = |it: &Command| matches!(it, Command::GoOn(members, _) if members[..] == [A]);
        assert_eq!(all.iter().any(goes_on), is_kept, "{all:?}");
        assert!(!all.iter().any(|it| matches!(it, Command::Pause(..))), "{all:?}");
        assert_eq!(matches!(&answers(all)[..], [Answer::Refused(_)]), is_kept);
    }
}

#[test]
fn nodes_join_in_place_of_members_that_got_sigterm() {
    let mut roster = Roster::from(grid());
    let host = gridspan_topology::HostSpec::new("a2", 1);
    let new = NewNode { site: "a".to_owned(), host };
    let added = roster.add(&[new.clone(), new]).unwrap();
    let mut supervisor = recovering(OnLoss::Shrink);
    supervisor.set_kept();
    supervisor.set_draining(Duration::from_secs(25), false, false);
    for node in &added {
        supervisor.add_node(roster.name(*node), None);
    }
    supervisor.set_roster(roster);
    let request = Request::Add { nodes: added.into_iter().collect() };
    supervisor.handle(Event::Requested { id: 5, request }, seconds(1));
    supervisor.handle(Event::Leaving { node: B }, seconds(1));

    supervisor.handle_timeout(seconds(2));

    let all = commands(&mut supervisor);
    assert!(all.contains(&stop_for(1, &[B])), "{all:?}");
    assert_eq!(answers(all), []);
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
    for how in 0..4 {
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
            2 => {
                let (nodes, reason) = (vec![B], "another build".to_owned());
                supervisor.handle(Event::TaskRefused { nodes, reason }, seconds(4));
            }
            _ => {
                supervisor.handle(Event::Listening { node: A, address: address(7) }, seconds(4));
                supervisor.handle_timeout(seconds(40));
            }
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
fn a_job_that_is_ending_does_not_go_on_without_a_node_that_cannot_join() {
    let mut supervisor = starting();
    supervisor.set_recovery(Runs::new(grid(), &[B]), OnLoss::Shrink);
    supervisor.handle(Event::Listening { node: A, address: address(1) }, Time(0));
    let request = Request::Add { nodes: [B].into() };
    supervisor.handle(Event::Requested { id: 5, request }, seconds(1));
    supervisor.handle_timeout(seconds(2));
    supervisor.handle(pause(1, 3), seconds(3));
    supervisor.handle(Event::Holds { node: A, holdings: holdings(3, &[0, 1]) }, seconds(3));
    supervisor.handle(Event::OutputFailed, seconds(3));
    commands(&mut supervisor);

    ends(&mut supervisor, B, Exit::Code(127), seconds(3));

    supervisor.handle_timeout(seconds(5));
    assert_eq!(actions(&mut supervisor), [Command::Ask(A)]);
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
