//! Groups whose servers send data to each other.

use super::*;
use crate::graph::{GraphBuilder, TaskGraph};
use crate::mapping::Mapping;
use crate::platform::{ClientSpec, Platform, ServerSpec, Site};
use crate::stragglers::StragglerPolicy;
use gridspan_topology::Link;

const ONE: ServerId = ServerId(0);
const OTHER: ServerId = ServerId(1);
const THIRD: ServerId = ServerId(2);

/// A graph in which `first` reads data of the client, `second` and `third` read its output, and
/// `last` reads the output of `second`.
fn graph() -> TaskGraph {
    let mut graph = GraphBuilder::default();
    let [first, second, third, last] =
        ["first", "second", "third", "last"].map(|name| graph.task(name, 1.0));
    let start = graph.external("start", 8, [Endpoint::Client]);
    graph.read(first, start);
    let made = graph.write(first, "made", 8);
    graph.read(second, made);
    graph.read(third, made);
    let half = graph.write(second, "half", 8);
    graph.read(last, half);
    graph.write(last, "end", 8);
    graph.build().unwrap()
}

const START: DataId = DataId(0);
const MADE: DataId = DataId(1);
const HALF: DataId = DataId(2);

/// Three servers, of which the plain ones exchange data only with the client.
fn platform(plain: &[ServerId]) -> Platform {
    let server = |number: u32| ServerSpec {
        name: format!("s{number}"),
        site: 0,
        cores: 1,
        speed: 1.0,
        is_direct: !plain.contains(&ServerId(number)),
    };
    let site = Site { name: "here".to_owned(), lan: Link::lan(), uplink: Link::lan() };
    let client = ClientSpec { site: Some(0), link: Link::lan() };
    Platform::new((0..3).map(server).collect(), vec![site], client)
}

struct Run<'a>(Dispatcher<'a>);

impl<'a> Run<'a> {
    /// `first` and `third` go to the first server, `second` and `last` to the second.
    fn begin(graph: &'a TaskGraph, platform: &'a Platform) -> Self {
        let servers = [0, 1, 0, 1].map(ServerId).to_vec();
        let places = vec![0, 1, 2, 3];
        let mapping = Mapping { servers, places, relays: false, predicted_s: 0.0 };
        let policy = StragglerPolicy::StealAndCopy;
        let of = (graph, Delivery::Sent);
        let mut dispatcher = Dispatcher::new(of, platform, &mapping, policy, |_| false);
        dispatcher.begin(0.0);
        Self(dispatcher)
    }

    /// Returns the commands except notes of the locations of data.
    fn commands(&mut self) -> Vec<DispatchCommand> {
        let all = std::iter::from_fn(|| self.0.poll_command());
        let is_noted = |command: &DispatchCommand| {
            matches!(command, DispatchCommand::Has { .. } | DispatchCommand::HasNot(..))
        };
        all.filter(|command| !is_noted(command)).collect()
    }

    fn happens(&mut self, event: DispatchEvent) -> Vec<DispatchCommand> {
        self.0.handle(1.0, event);
        self.commands()
    }

    fn done(&mut self, attempt: AttemptId) -> Vec<DispatchCommand> {
        let fetched = Vec::new();
        self.happens(DispatchEvent::Done { attempt, took_s: Some(1.0), sizes: vec![8], fetched })
    }
}

fn order(
    attempt: AttemptId,
    (task, server): (u32, ServerId),
    readers: &[(DataId, &[ServerId])],
) -> DispatchCommand {
    let readers = readers.iter().map(|(data, servers)| (*data, servers.to_vec())).collect();
    DispatchCommand::Order { attempt, task: TaskId(task), server, inputs: Vec::new(), readers }
}

fn send(data: DataId, from: impl Into<Option<ServerId>>, to: &[ServerId]) -> DispatchCommand {
    let from = from.into().map_or(Endpoint::Client, Endpoint::Server);
    DispatchCommand::Send { data, from, to: to.to_vec() }
}

#[test]
fn all_tasks_are_ordered_at_once_and_need_no_further_commands() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);

    let first = [
        send(START, None, &[ONE]),
        order(0, (0, ONE), &[(MADE, &[OTHER])]),
        order(1, (1, OTHER), &[(HALF, &[])]),
        order(2, (2, ONE), &[]),
        order(3, (3, OTHER), &[(DataId(3), &[])]),
    ];
    assert_eq!(run.commands(), first);
    for attempt in 0..4 {
        assert!(!run.0.is_over());
        assert_eq!(run.done(attempt), [], "after {attempt}");
    }
    assert!(run.0.is_over() && run.0.failure().is_none());
}

#[test]
fn tasks_of_a_lost_server_go_elsewhere_with_data_of_other_holders() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);
    run.commands();
    run.done(0);

    // The third task reads data that the second server has been sent.
    let again = run.happens(DispatchEvent::Lost(ONE, "gone".to_owned()));
    assert_eq!(again, [send(MADE, OTHER, &[THIRD]), order(4, (2, THIRD), &[])]);

    // The second server does not have the data yet, so the first task runs again, on the server
    // with the least load.
    let (data, from, to, is_sent) = (MADE, OTHER, vec![THIRD], false);
    let made_again = run.happens(DispatchEvent::Sent { data, from, to, is_sent });
    let expected = [send(START, None, &[THIRD]), order(5, (0, THIRD), &[(MADE, &[OTHER])])];
    assert_eq!(made_again, expected);
    assert_eq!(run.done(5), []);
    for attempt in [1, 3, 4] {
        run.done(attempt);
    }
    assert!(run.0.is_over() && run.0.failure().is_none());
}

#[test]
fn only_data_that_a_lost_server_had_is_reported_as_gone() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);
    run.commands();
    run.done(0);

    run.0.handle(1.0, DispatchEvent::Lost(ONE, "gone".to_owned()));

    let all = std::iter::from_fn(|| run.0.poll_command());
    let gone = all.filter(|command| matches!(command, DispatchCommand::HasNot(..)));
    let expected = [START, MADE].map(|data| DispatchCommand::HasNot(data, ONE));
    assert_eq!(gone.collect::<Vec<_>>(), expected);
}

#[test]
fn data_that_a_lost_server_had_to_pass_on_is_sent_again_unless_it_was_used() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);
    run.commands();
    let stranded = |data, to| DispatchEvent::Stranded { data, to: vec![to] };
    let to_other = send(MADE, ONE, &[OTHER]);

    assert_eq!(run.happens(stranded(START, ONE)), [send(START, None, &[ONE])]);
    assert_eq!(run.happens(stranded(MADE, OTHER)), [], "it does not exist yet");
    assert_eq!(run.done(0), std::slice::from_ref(&to_other));
    assert_eq!(
        run.happens(stranded(MADE, OTHER)),
        std::slice::from_ref(&to_other),
        "it is being sent"
    );
    let sent = || {
        let (data, from, to, is_sent) = (MADE, ONE, vec![OTHER], true);
        DispatchEvent::Sent { data, from, to, is_sent }
    };
    assert_eq!(run.happens(sent()), []);
    assert_eq!(run.happens(stranded(MADE, OTHER)), [to_other], "it was sent");
    assert_eq!(run.happens(sent()), []);
    assert_eq!(run.done(1), []);
    assert_eq!(run.happens(stranded(MADE, OTHER)), []);
    for attempt in [2, 3] {
        assert_eq!(run.done(attempt), []);
    }
    assert!(run.0.is_over());
}

#[test]
fn data_that_its_last_receiver_does_not_have_is_made_again() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);
    run.commands();
    run.done(0);
    run.happens(DispatchEvent::Lost(ONE, "gone".to_owned()));
    let not_sent = |to: &[ServerId]| {
        let (data, from, to, is_sent) = (MADE, OTHER, to.to_vec(), false);
        DispatchEvent::Sent { data, from, to, is_sent }
    };
    let stranded = DispatchEvent::Stranded { data: MADE, to: vec![OTHER] };

    assert_eq!(run.happens(stranded), [send(MADE, OTHER, &[])], "it is asked for the data");
    assert_eq!(run.happens(not_sent(&[])), [], "it has another command to send the data");
    let made_again = [send(START, None, &[THIRD]), order(5, (0, THIRD), &[(MADE, &[OTHER])])];
    assert_eq!(run.happens(not_sent(&[THIRD])), made_again);
    for attempt in [5, 1, 3, 4] {
        run.done(attempt);
    }
    assert!(run.0.is_over() && run.0.failure().is_none());
}

#[test]
fn a_successor_takes_over_data_and_orders() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);
    run.commands();
    run.done(0);

    assert_eq!(run.happens(DispatchEvent::HandedOver(ONE, Some(THIRD))), []);

    assert_eq!(run.0.attempt(2), (TaskId(2), THIRD));
    for attempt in [1, 2, 3] {
        assert_eq!(run.done(attempt), []);
    }
    assert!(run.0.is_over());
}

#[test]
fn data_for_plain_servers_goes_through_the_client() {
    let (graph, platform) = (graph(), platform(&[OTHER]));
    let mut run = Run::begin(&graph, &platform);
    assert!(run.commands().contains(&order(0, (0, ONE), &[(MADE, &[])])));

    let (data, from, is_relay) = (MADE, ONE, true);
    assert_eq!(run.done(0), [DispatchCommand::Fetch { data, from, is_relay }]);
    let bytes = Some(8);
    let sent = run.happens(DispatchEvent::Fetched { data, from, is_relay, bytes });

    assert_eq!(sent, [send(MADE, None, &[OTHER]), DispatchCommand::Drop(MADE)]);
}

#[test]
fn a_failed_function_withdraws_only_its_dependents() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);
    run.commands();
    run.done(0);

    let failed = run.happens(DispatchEvent::Failed(1, "as asked".to_owned()));

    let failure = TaskFailure::Failed("as asked".to_owned());
    let of = |task| {
        let failure = failure.clone();
        DispatchCommand::Failed { task: TaskId(task), first: TaskId(1), failure }
    };
    assert_eq!(failed, [of(1), of(3), DispatchCommand::Withdraw(1), DispatchCommand::Withdraw(3)]);
    assert_eq!(run.done(2), []);
    assert!(run.0.is_over());
    assert_eq!(run.0.failure(), Some(&(TaskId(1), failure)));
}

#[test]
fn a_task_that_each_server_may_refuse_once_fails_after_the_last_server() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);
    run.0 = run.0.with_refusals_once();
    run.commands();
    let of_first = |command: &DispatchCommand| match command {
        DispatchCommand::Order { attempt, task: TaskId(0), server, .. } => {
            Some((*attempt, *server))
        }
        _ => None,
    };

    let (mut next, mut servers) = (Some((0, ONE)), Vec::new());
    while let Some((attempt, server)) = next {
        servers.push(server);
        let commands = run.happens(DispatchEvent::Refused(attempt, "not today".to_owned()));
        next = commands.iter().find_map(of_first);
    }

    servers.sort_unstable();
    assert_eq!(servers, [ONE, OTHER, THIRD]);
    let reason = "no server executed it; `s0`: not today; `s1`: not today; `s2`: not today";
    let failure = TaskFailure::NotExecuted { reason: reason.to_owned(), is_refused: true };
    assert_eq!(run.0.failure(), Some(&(TaskId(0), failure)));
}

#[test]
fn a_withdrawn_attempt_counts_if_it_had_begun_before() {
    let (graph, platform) = (graph(), platform(&[]));
    let mut run = Run::begin(&graph, &platform);
    run.commands();
    // The first task should have ended long ago: an idle server tries it a second time with the
    // client's data, and the task that waits on the first server goes elsewhere.
    run.0.handle(100.0, DispatchEvent::Look);
    let reassigned = run.commands();
    let moved = [DispatchCommand::Withdraw(2), order(4, (2, OTHER), &[])];
    let copied = [send(START, None, &[OTHER]), order(5, (0, OTHER), &[(MADE, &[])])];
    assert_eq!(reassigned, [&moved[..], &copied].concat());

    assert_eq!(run.done(0), [DispatchCommand::Withdraw(5)]);

    assert!(!run.0.is_of_use(5) && run.0.is_of_use(1) && run.0.is_of_use(2));
}
