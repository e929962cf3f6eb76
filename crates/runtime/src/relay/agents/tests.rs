//! Tests of messages from other nodes, some of which must wait.

use super::*;
use crate::Job;
use crate::address::id::COORDINATOR;
use crate::job::program::Program;
use crate::message::{Content, MembershipMessage, Stage};
use crate::pe::Pe;
use gridspan_topology::{PeId, SiteId};
use std::sync::{Arc, Mutex};

const POOL: CollectionId = CollectionId(3);
const BYTES_MAX: u64 = 1 << 20;

/// Records the messages that it receives, and refuses those that begin with an `x`.
struct Recorder(Arc<Mutex<Vec<(u32, Bytes)>>>);

impl StealAgent for Recorder {
    fn connect(&mut self, _: &Nudge) {}

    fn handle_event(&mut self, _: Time, _: StealEvent, _: &mut Vec<StealCommand>) {}

    fn handle_membership(&mut self, _: Time, _: MembershipEvent, _: &mut Vec<StealCommand>) {}

    fn receive(
        &mut self,
        _: Time,
        from: NodeId,
        message: &Bytes,
        _: &mut Vec<StealCommand>,
    ) -> Result<(), DecodeError> {
        if message.starts_with(b"x") {
            return Err(DecodeError::new("a message", "it makes no sense"));
        }
        self.0.lock().unwrap().push((from.0, message.clone()));
        Ok(())
    }

    fn due(&self) -> Option<Time> {
        None
    }

    fn wake(&mut self, _: Time, _: &mut Vec<StealCommand>) {}
}

/// The agents of node 0, in a job with another founder and with guests.
struct Node {
    agents: StealAgents,
    program: Program,
    heard: Arc<Mutex<Vec<(u32, Bytes)>>>,
    out: Vec<RelayCommand>,
}

const FOUNDER: NodeId = NodeId(1);

impl Node {
    fn new() -> Self {
        let job = Job::new("messages").main(async |_| Ok::<(), JobError>(()));
        let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
        let program = Program::new(job, layout).unwrap();
        let (agents, heard) = (StealAgents::default(), Arc::default());
        Self { agents, program, heard, out: Vec::new() }
    }

    fn guest(&self, number: u32) -> NodeId {
        self.program.layout().guest(SiteId(0), number).unwrap()
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut StealAgents, &mut Post<'_>) -> R) -> R {
        let Self { agents, program, out, .. } = self;
        let (node, layout) = (NodeId(0), &**program.layout());
        let mut post = Post { node, layout, now: Time(0), bytes_max: BYTES_MAX, out };
        act(agents, &mut post)
    }

    fn open(&mut self) {
        let agent = Box::new(Recorder(self.heard.clone()));
        self.with(|agents, post| agents.handle_event(POOL, StealEvent::Open(agent), post));
    }

    fn receive(
        &mut self,
        from: NodeId,
        (number, pool): (u64, CollectionId),
        message: &[u8],
    ) -> Result<(), DecodeError> {
        let message = Bytes::copy_from_slice(message);
        self.with(|agents, post| {
            agents.receive(from, AgentMessageHead { pool, number }, message, post)
        })
    }

    fn heard(&self) -> Vec<(u32, Bytes)> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

#[test]
fn messages_of_a_node_are_accepted_once_and_in_order() {
    let mut node = Node::new();
    node.receive(FOUNDER, (1, POOL), b"b").unwrap();
    node.open();
    node.receive(FOUNDER, (2, POOL), b"c").unwrap();
    assert!(node.heard().is_empty());
    node.receive(FOUNDER, (0, POOL), b"a").unwrap();
    let messages = [b"a", b"b", b"c"].map(|message| (FOUNDER.0, Bytes::from_static(message)));
    assert_eq!(node.heard(), messages);

    for number in [0, 2] {
        assert!(node.receive(FOUNDER, (number, POOL), b"again").is_err());
    }
    node.receive(FOUNDER, (4, POOL), b"e").unwrap();
    assert!(node.receive(FOUNDER, (4, POOL), b"again").is_err());
    node.receive(FOUNDER, (3, POOL), b"d").unwrap();
    assert_eq!((node.heard().len(), node.agents.bytes()), (2, 0));
}

/// Sends copies of `message` from a node until one is refused, and returns the number accepted.
fn taken(node: &mut Node, from: NodeId, first: u64, pool: CollectionId, message: &[u8]) -> u64 {
    let bound = 4 * BYTES_MAX;
    let refused = (0..bound).find(|at| node.receive(from, (first + at, pool), message).is_err());
    refused.unwrap_or(bound)
}

#[test]
fn a_guest_beyond_its_limit_is_refused_and_other_nodes_are_not() {
    let unknown = CollectionId(9);
    let mut node = Node::new();
    node.open();
    // Empty messages behind a missing one, and large ones for a pool that does not exist.
    let (sparse, strange) = (node.guest(0), node.guest(1));
    let empty = taken(&mut node, sparse, 1, POOL, b"");
    let large = taken(&mut node, strange, 0, unknown, &[7; 1000]);
    assert!((100..10_000).contains(&empty), "{empty}");
    assert!((10..100).contains(&large), "{large}");
    assert!(node.agents.bytes() as u64 <= BYTES_MAX / 8);

    // Messages that need not wait are accepted whatever their size, and founders have more room.
    let other = node.guest(2);
    node.receive(other, (0, POOL), &vec![7; BYTES_MAX as usize]).unwrap();
    node.receive(FOUNDER, (1, POOL), &vec![7; BYTES_MAX as usize / 2]).unwrap();
    node.receive(FOUNDER, (0, POOL), b"").unwrap();
    assert_eq!(node.heard().len(), 3);

    for guest in [sparse, strange] {
        let event = MembershipEvent { node: guest, stage: Stage::Lost };
        node.with(|agents, post| agents.handle_membership(event, post));
        node.receive(guest, (77, POOL), b"late").unwrap();
    }
    assert_eq!((node.agents.bytes(), node.heard().len()), (0, 0));
}

#[test]
fn founders_have_room_beside_any_number_of_guests() {
    let mut node = Node::new();
    for number in 0..100 {
        let guest = node.guest(number);
        taken(&mut node, guest, 1, POOL, &[7; 1000]);
    }
    assert!(node.agents.bytes() as u64 <= BYTES_MAX / 4, "{}", node.agents.bytes());
    assert!(node.receive(FOUNDER, (1, POOL), &vec![7; BYTES_MAX as usize / 2]).is_ok());
}

#[test]
fn the_sender_of_an_invalid_early_message_is_blamed() {
    for (is_guest, ends_job) in [(true, false), (false, true)] {
        let mut node = Node::new();
        let from = if is_guest { node.guest(0) } else { FOUNDER };
        node.receive(from, (0, POOL), b"x").unwrap();
        node.open();

        let mut pe: Pe = node.program.pe(PeId(0));
        for command in std::mem::take(&mut node.out) {
            let RelayCommand::Act(action) = command else { panic!("not an action") };
            pe.act(action);
        }
        assert_eq!(pe.has_failed(), ends_job);
        let told: Vec<_> = pe.take_output().packets.collect();
        let [(COORDINATOR, Packet(Content::Control(control)))] = &told[..] else {
            panic!("not one control")
        };
        let is_lost = matches!(&**control, Control::Membership(MembershipMessage::Unreachable { node, .. }) if *node == from);
        assert_eq!(is_lost, is_guest, "{control:?}");
    }
}
