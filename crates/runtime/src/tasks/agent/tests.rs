//! Tests an agent with messages of other nodes and with invalid tasks.

use super::super::{Merge, Search, SearchContext, Searching};
use super::*;
use crate::message::steal_agent::CopyId;
use crate::pe::LoanLogs;
use crate::tasks::engine::Engine;
use crate::tasks::frame::{FrameId, Frames, Lender};
use crate::tasks::lineage::Repeats;
use gridspan_balance::stealing::RandomStealing;
use gridspan_topology::{PeId, SiteId};
use serde::{Deserialize, Serialize, Serializer};

/// A node of a tree that panics when it is serialised.
#[derive(Deserialize)]
struct Shy;

impl Serialize for Shy {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("not me")
    }
}

/// A node of a tree with a text of any size.
#[derive(Serialize, Deserialize)]
struct Text(String);

#[derive(Default, Serialize, Deserialize)]
struct Nothing;

impl Merge for Nothing {
    fn merge(&mut self, Self: Self) {}
}

impl Search for Shy {
    type Total = Nothing;

    fn visit(self, _: &mut SearchContext<'_, Self>) {}
}

impl Search for Text {
    type Total = Nothing;

    fn visit(self, _: &mut SearchContext<'_, Self>) {}
}

const OTHER: NodeId = NodeId(1);

/// The agent of the first of two nodes with two PEs each, and the engine of its first PE, which
/// offers all its tasks.
fn agent<S: Search>(tasks: Vec<S>) -> (PoolAgent<Searching<S>>, Engine<Searching<S>>) {
    let layout = Arc::new(Layout::new(vec![("a".to_owned(), vec![2, 2])]));
    let node = Arc::new(Deques::new(0..2));
    let mut engine = Engine::new(PeId(0), 0, node.clone(), false);
    for (root, task) in tasks.into_iter().enumerate() {
        engine.submit([(task, root as u64)], Repeats::default());
    }
    engine.share();
    let (me, places) = (NodeId(0), StealingLayout::new(&Hierarchy::from_layout(&layout)));
    let policy = Box::new(RandomStealing::one());
    let stealing = Stealing::new(policy, me, 2, Arc::new(places), 0);
    let (budget, due) = (Budget::default(), None);
    (
        PoolAgent {
            stealing,
            node,
            budget,
            guest_bytes_max: 10_000,
            me,
            may_ask: true,
            resting: BTreeSet::new(),
            is_silent: false,
            spread: BoundSpread::new(Arc::default(), me, layout.clone()),
            log: None,
            lost: BTreeSet::new(),
            recalled: BTreeSet::new(),
            due,
            backups_at: None,
            layout,
        },
        engine,
    )
}

fn receive<S: Search>(
    agent: &mut PoolAgent<Searching<S>>,
    message: &AgentMessage,
) -> Result<Vec<StealCommand>, DecodeError> {
    let mut out = Vec::new();
    let message = codec::encode(message).into();
    agent.handle_event(Time(0), StealEvent::StockChanged, &mut out);
    out.clear();
    agent.receive(Time(0), OTHER, &message, &mut out).map(|()| out)
}

fn grant(pe: PeId, text: &str) -> AgentMessage {
    let frame: FrameId = Frames::<()>::default().reserve();
    let lender = Lender { pe, frame, child: 0, items: 1, copy: None };
    let items = codec::encode(&[Text(text.to_owned())]).into();
    AgentMessage::Grant {
        grant: Grant::Answer,
        loans: vec![Loan { lender, lineage: Vec::new(), repeats: Repeats::default(), items }],
    }
}

#[test]
fn a_panic_in_serialize_is_reported_with_the_task_and_does_not_end_the_thread() {
    let (mut agent, _engine) = agent(vec![Shy, Shy, Shy]);
    let out = receive(&mut agent, &AgentMessage::Steal(StealMessage::Request)).unwrap();
    let [StealCommand::Panicked { task, reason }] = &out[..] else { panic!("{out:?}") };
    assert!(task.ends_with("Shy"), "{task}");
    assert_eq!(reason, "not me");
    // A second request gets no answer.
    assert_eq!(receive(&mut agent, &AgentMessage::Steal(StealMessage::Request)), Ok(Vec::new()));
}

#[test]
fn a_task_too_large_to_send_is_put_back_in_its_place() {
    let too_large = "x".repeat(crate::message::limits::PIECE_BYTES_MAX);
    let tasks = vec![Text("young".to_owned()), Text("middle".to_owned()), Text(too_large)];
    let (mut agent, mut engine) = agent(tasks);

    let out = receive(&mut agent, &AgentMessage::Steal(StealMessage::Request)).unwrap();

    let [StealCommand::ToAgent { to: OTHER, message }] = &out[..] else { panic!("{out:?}") };
    let Ok(AgentMessage::Grant { loans, .. }) = codec::decode("a message", message) else {
        panic!("no grant")
    };
    assert_eq!(loans[0].lender.items, 1);
    for arrival in agent.node.take_arrivals() {
        let Arrival::Back(slot, token) = arrival else { panic!("not a task that was put back") };
        engine.put_back(slot, token);
    }
    let kept: Vec<usize> = engine.kept.iter().map(|token| token.item.0.len()).collect();
    assert_eq!(kept, [crate::message::limits::PIECE_BYTES_MAX, "young".len()]);
}

#[test]
fn a_grant_is_refused_if_its_sender_cannot_have_loans_of_the_lender() {
    let (mut agent, _engine) = agent::<Text>(Vec::new());
    for stranger in [PeId(4), PeId(u32::MAX)] {
        let error = receive(&mut agent, &grant(stranger, "mine")).unwrap_err();
        assert!(error.to_string().contains("not a PE of node1"), "{error}");
    }
    assert!(!agent.node.has_arrivals());
    // Founders pass on the loans of founders, including those of this node.
    for lender in [PeId(0), PeId(3)] {
        assert!(receive(&mut agent, &grant(lender, "ours")).is_ok());
    }

    let guest = agent.layout.guest(SiteId(0), 0).unwrap();
    let near = near(&agent.layout, guest).unwrap();
    agent.stealing.handle_joined(Time(0), guest, near);
    let message = codec::encode(&grant(PeId(0), "yours")).into();
    assert!(agent.receive(Time(0), guest, &message, &mut Vec::new()).is_err());
}

#[test]
fn tasks_lent_to_a_lost_founder_run_again_and_their_late_output_does_not_count() {
    let (mut agent, _engine) = agent(vec![Text("young".to_owned()), Text("old".to_owned())]);
    agent.log = Some(LoanLogs::new(1000).of(NodeId(0)));
    let loans = given(&mut agent, 1);
    let copy = loans[0].0.copy.unwrap();
    let event = |stage| MembershipEvent { node: OTHER, stage };
    let mut out = Vec::new();

    agent.handle_membership(Time(1), event(Stage::Suspended), &mut out);
    agent.give(Time(1), (OTHER, Grant::Answer), Amount::UpTo(1), &mut out);
    assert!(out.is_empty(), "it gets no more tasks");
    assert!(!agent.node.has_arrivals(), "it is not decided whether the job goes on");

    agent.handle_membership(Time(2), event(Stage::Lost), &mut out);
    let again: Vec<_> = agent.node.take_arrivals().into_iter().collect();
    let [Arrival::Lent(NodeId(0), loan)] = &again[..] else { panic!("{} loans", again.len()) };
    assert_eq!((loan.lender.copy, loan.lineage.len()), (None, 0));
    assert_eq!(loan.repeats, Repeats { is_backup: false, is_rerun: true });
    let texts: Vec<Text> = codec::decode("tasks", &loan.items).unwrap();
    assert_eq!(texts[0].0, "old");
    assert!(!agent.node.backups.settle(copy).counts);
}

/// Makes the agent give at most `limit` tasks, and returns the loans that it sends to the other
/// node, with their texts.
fn given(agent: &mut PoolAgent<Searching<Text>>, limit: u64) -> Vec<(Lender, Vec<String>)> {
    let mut out = Vec::new();
    agent.give(Time(0), (OTHER, Grant::Answer), Amount::UpTo(limit), &mut out);
    let [StealCommand::ToAgent { to: OTHER, message }] = &out[..] else { panic!("{out:?}") };
    let Ok(AgentMessage::Grant { loans, .. }) = codec::decode("a message", message) else {
        panic!("no grant")
    };
    let texts = |loan: &Loan| codec::decode::<Vec<Text>>("tasks", &loan.items).unwrap();
    let texts = |loan| texts(loan).into_iter().map(|text| text.0).collect();
    loans.iter().map(|loan| (loan.lender, texts(loan))).collect()
}

#[test]
fn loans_that_no_pe_has_taken_are_passed_on_for_their_lender() {
    let (mut agent, _engine) = agent::<Text>(Vec::new());
    let frame: FrameId = Frames::<()>::default().reserve();
    let lender = |items| Lender { pe: PeId(2), frame, child: 0, items, copy: None };
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let items: Vec<Text> = ["a", "b", "c"].map(|text| Text(text.to_owned())).into();
    let items = codec::encode(&items).into();
    let (lineage, repeats) = (Vec::new(), Repeats { is_backup: false, is_rerun: true });
    let loans = vec![Loan { lender: lender(3), lineage, repeats, items }];
    receive(&mut agent, &AgentMessage::Grant { grant: Grant::Answer, loans }).unwrap();
    assert_eq!(agent.node.stock(), 3);

    assert_eq!(given(&mut agent, 2), [(lender(2), texts(&["a", "b"]))]);
    assert_eq!(agent.node.stock(), 1);
    assert_eq!(given(&mut agent, 2), [(lender(1), texts(&["c"]))]);
    assert_eq!((agent.node.stock(), agent.budget.bytes()), (0, 0));
}

#[test]
fn a_guest_does_not_pass_loans_on() {
    let (mut agent, _engine) = agent::<Text>(Vec::new());
    agent.me = agent.layout.guest(SiteId(0), 0).unwrap();
    receive(&mut agent, &grant(PeId(2), "owed")).unwrap();

    let mut out = Vec::new();
    agent.give(Time(0), (NodeId(0), Grant::Answer), Amount::One, &mut out);

    assert!(!out.iter().any(|command| matches!(command, StealCommand::ToAgent { .. })), "{out:?}");
    assert!(agent.node.has_arrivals());
}

#[test]
fn a_guest_does_not_pass_on_that_a_copy_is_superseded() {
    let (mut agent, _engine) = agent::<Text>(Vec::new());
    let guest = agent.layout.guest(SiteId(0), 0).unwrap();
    // The guest does not know yet that both nodes are in one site.
    let site = |name: &str| (name.to_owned(), vec![2]);
    let apart = Hierarchy::from_layout(&Layout::new(vec![site("a"), site("b")]));
    let apart = StealingLayout::new(&apart);
    agent.stealing.handle_places(Time(0), Arc::new(apart));
    agent.stealing.handle_joined(Time(0), guest, NodeId(0));
    for (me, is_passed_on) in [(guest, false), (NodeId(0), true)] {
        agent.me = me;
        let copy = CopyId { loan: u64::from(me.0), is_backup: true };
        let message = codec::encode(&AgentMessage::Superseded(OTHER, copy)).into();
        let mut out = Vec::new();

        agent.receive(Time(0), OTHER, &message, &mut out).unwrap();

        assert!(agent.node.lineages.is_any_gone(&[Via::Copy(OTHER, copy)]));
        let to_agent = |command: &StealCommand| matches!(command, StealCommand::ToAgent { .. });
        assert_eq!(out.iter().any(to_agent), is_passed_on, "{out:?}");
    }
}

#[test]
fn loans_of_guests_are_not_passed_on() {
    let (mut agent, _engine) = agent::<Text>(Vec::new());
    let guest = agent.layout.guest(SiteId(0), 0).unwrap();
    let near = near(&agent.layout, guest).unwrap();
    agent.stealing.handle_joined(Time(0), guest, near);
    let message = codec::encode(&grant(agent.layout.leader(guest), "its own")).into();
    agent.receive(Time(0), guest, &message, &mut Vec::new()).unwrap();

    let mut out = Vec::new();
    agent.give(Time(0), (OTHER, Grant::Answer), Amount::One, &mut out);

    assert!(!out.iter().any(|command| matches!(command, StealCommand::ToAgent { .. })), "{out:?}");
    assert!(agent.node.has_arrivals());
}

#[test]
fn loans_count_in_the_budget_until_a_pe_takes_them_or_their_lender_is_gone() {
    let (mut agent, _engine) = agent::<Text>(Vec::new());
    let text = "x".repeat(5000);
    for takes in [true, false] {
        receive(&mut agent, &grant(PeId(2), &text)).unwrap();
        receive(&mut agent, &grant(PeId(3), &text)).unwrap();
        assert!((10_000..11_000).contains(&agent.budget.bytes()), "{}", agent.budget.bytes());
        match takes {
            true => drop(agent.node.take_arrivals()),
            false => agent.node.forget_arrivals(OTHER),
        }
        assert_eq!(agent.budget.bytes(), 0);
    }
}

#[test]
fn loans_from_a_guest_are_limited_and_loans_from_founders_are_not() {
    let (mut agent, _engine) = agent::<Text>(Vec::new());
    let text = "x".repeat(4000);
    let guest = agent.layout.guest(SiteId(0), 0).unwrap();
    let near = near(&agent.layout, guest).unwrap();
    agent.stealing.handle_joined(Time(0), guest, near);
    let give = |agent: &mut PoolAgent<_>, from: NodeId| {
        let message = codec::encode(&grant(agent.layout.leader(from), &text)).into();
        agent.receive(Time(0), from, &message, &mut Vec::new())
    };

    for _ in 0..3 {
        give(&mut agent, OTHER).unwrap();
    }
    give(&mut agent, guest).unwrap();
    give(&mut agent, guest).unwrap();
    assert!(give(&mut agent, guest).is_err());
    drop(agent.node.take_arrivals());
    give(&mut agent, guest).unwrap();
}
