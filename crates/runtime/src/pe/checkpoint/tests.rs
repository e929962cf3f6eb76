//! Tests of a PE that stops for checkpoints.

use super::*;
use crate::address::collection::{CollectionInfo, Map};
use crate::address::id::{ActorId, CollectionId};
use crate::address::index::{ActorIndex, Key};
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::codec;
use crate::message::payload::Payload;
use crate::message::{
    CheckpointSegment, Content, Insertion, Manifest, MemberRecord, Packet, ReplicaOrder, Segment,
};
use crate::pe::checkpoint::state::sending::CopyToSend;
use crate::pe::replicas::{PrimaryStage, ReplicaState, Role};
use crate::pe::{Next, Restoration};
use crate::{Actor, Context, Ix1, Job, Limits};
use gridspan_balance::Refine;
use gridspan_topology::{Layout, NodeId, Time};
use serde::{Deserialize, Serialize};
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Idle;

impl Actor for Idle {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
}

/// A PE of a job, other than main's.
fn pe() -> Pe {
    let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
    let job = Job::new("late").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
    Program::new(job, layout).unwrap().pe(PeId(1))
}

/// Ends a turn of the PE. Returns the rounds of draining that it has answered.
fn answered(pe: &mut Pe) -> Vec<u64> {
    pe.finish_turn();
    let round = |(_, packet): (PeId, Packet)| match packet.0 {
        Content::Control(control) => match *control {
            Control::Checkpoint(message) => match *message {
                CheckpointMessage::Drained { round, .. } => Some(round),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    pe.take_output().packets.filter_map(round).collect()
}

#[test]
fn a_pe_stops_answers_each_round_and_continues() {
    let mut pe = pe();
    for round in [1, 2] {
        pe.handle_checkpoint(
            MAIN_PE,
            CheckpointMessage::Drain { checkpoint: 1, round, captures: false },
        );
        assert!(pe.core.checkpointing.is_stopped);
        assert_eq!(answered(&mut pe), [round]);
    }
    pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Resume { checkpoint: 1 });
    assert!(!pe.core.checkpointing.is_stopped);
    assert!(answered(&mut pe).is_empty());
}

#[test]
fn a_stopped_pe_reports_again_when_its_counts_change() {
    let mut pe = pe();
    let drain = |round, captures| CheckpointMessage::Drain { checkpoint: 1, round, captures };
    pe.handle_checkpoint(MAIN_PE, drain(1, false));
    assert_eq!(answered(&mut pe), [1]);
    assert!(answered(&mut pe).is_empty(), "nothing has changed");

    pe.core.processed += 1;
    assert!(answered(&mut pe).is_empty(), "it has just answered");
    let Next::Wait { wakeup: Some(wakeup), .. } = pe.next(true) else { panic!() };
    pe.core.now = wakeup;
    assert_eq!(answered(&mut pe), [1]);
    assert!(matches!(pe.next(true), Next::Wait { wakeup: None, .. }));

    pe.handle_checkpoint(MAIN_PE, drain(2, true));
    assert_eq!(answered(&mut pe), [2]);
    pe.core.processed += 1;
    pe.core.now += Duration::from_secs(1);
    assert!(answered(&mut pe).is_empty(), "it has captured its part");
}

/// Notes in which order it has arrived (`a`) and left its sync point (`r`).
#[derive(Serialize, Deserialize)]
struct Noting(String);

impl Actor for Noting {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self(String::new())
    }

    fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}

    fn arrived(&mut self, _cx: &mut Context<'_, Self>) {
        self.0.push('a');
    }

    fn resume(&mut self, _cx: &mut Context<'_, Self>) {
        self.0.push('r');
    }
}

/// A PE of this job with a restored member that waits at its first sync point, before the PE
/// continues. Also returns the type and slot of the member.
fn restored_at_a_sync_point(job: Job) -> (Pe, (KindId, u32)) {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let job = job.actor::<Noting>().main(async |_| Ok::<(), JobError>(()));
    let mut pe = Program::new(job, layout.clone()).unwrap().pe(PeId(1));
    let kind = pe.core.common.kind_of(TypeId::of::<Noting>()).unwrap();
    let collection = CollectionId(0);
    let info = CollectionInfo { id: collection, kind, map: Map::Block, shape: None, members: 1 };
    let inits: Vec<(Key, ())> = vec![(Ix1(0).key(), ())];
    let inits = Payload::Bytes(codec::encode(&inits).into());
    pe.handle(MAIN_PE, Packet::control(Control::Create { info, inits, more: 0 }));
    let slot = pe.core.resident(ActorId { collection, key: Ix1(0).key() }).unwrap();
    let member = pe.core.member(slot.0, slot.1).unwrap();
    (member.syncs, member.synced) = (1, true);
    let manifest = Manifest {
        number: 1,
        run: 1,
        job: "restored".to_owned(),
        types: Vec::new(),
        maps: Vec::new(),
        reducers: Vec::new(),
        at: Time::ZERO,
        layout,
        progress: Bytes::new(),
        phases: 0,
        collections: Vec::new(),
        coordinator: Bytes::new(),
        cost: Duration::ZERO,
        parts: Vec::new(),
    };
    let (kinds, earlier, groups) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let restoration = Restoration { manifest, kinds, earlier, groups, is_again: false };
    let checkpointing = &mut pe.core.checkpointing;
    checkpointing.restoring.restoration = Some(Arc::new(restoration));
    (checkpointing.stop, checkpointing.is_stopped) = (1, true);
    checkpointing.restoring.restored.push(slot);
    (pe, slot)
}

/// What the member in a slot has noted, encoded.
fn noted(pe: &Pe, (kind, slot): (KindId, u32)) -> Bytes {
    pe.stores[kind.index()].encode(slot)
}

#[test]
fn a_restored_member_arrives_before_it_leaves_a_sync_point_that_was_settled_meanwhile() {
    let (mut pe, slot) = restored_at_a_sync_point(Job::new("restored").strategy(Refine));

    let collection = CollectionId(0);
    pe.handle(MAIN_PE, Packet::control(Control::SettleSyncs { collection, syncs: 1 }));
    assert_eq!(noted(&pe, slot), codec::encode(&Noting(String::new())));
    pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Resume { checkpoint: 1 });

    assert_eq!(noted(&pe, slot), codec::encode(&Noting("ar".to_owned())));
}

#[test]
fn a_restored_member_leaves_its_sync_point_if_the_job_has_a_strategy_no_longer() {
    for (job, expected) in
        [(Job::new("restored").strategy(Refine), "a"), (Job::new("restored"), "ar")]
    {
        let (mut pe, slot) = restored_at_a_sync_point(job);

        pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Resume { checkpoint: 1 });

        assert_eq!(noted(&pe, slot), codec::encode(&Noting(expected.to_owned())), "{expected}");
    }
}

#[test]
fn a_pe_that_stops_after_the_checkpoint_was_given_up_answers_and_continues_at_once() {
    let mut pe = pe();
    // The PE must stop, and waits for the end of a replica.
    (pe.core.checkpointing.stop, pe.core.checkpointing.first_round) = (1, Some(1));

    pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Resume { checkpoint: 1 });

    assert!(!pe.core.checkpointing.is_stopped, "the replica ends while it goes on");
    assert_eq!(answered(&mut pe), [1], "no replica is left");
    assert!(!pe.core.checkpointing.is_stopped);
    assert!(answered(&mut pe).is_empty());
    pe.handle_checkpoint(
        MAIN_PE,
        CheckpointMessage::Drain { checkpoint: 2, round: 1, captures: false },
    );
    assert!(pe.core.checkpointing.is_stopped, "it stops for the next one");
    assert_eq!(answered(&mut pe), [1]);
}

#[test]
fn a_pe_that_waits_for_its_replicas_does_not_wait_for_those_that_others_begin_here() {
    let mut pe = pe();
    let actor = |key| ActorId { collection: CollectionId(1), key: Key(key) };
    let replica = |role| ReplicaState { other: MAIN_PE, epoch: 1, serves: BTreeSet::new(), role };
    let (own, of_others) = (actor(1), actor(2));
    let ending = PrimaryStage::Ending { broadcasts: 0, then: vec![] };
    pe.core.replicas.insert(own, replica(Role::Primary(ending)));
    pe.core.checkpointing.ended_replicas =
        vec![ReplicaOrder { id: own, at: MAIN_PE, serves: vec![] }];
    (pe.core.checkpointing.stop, pe.core.checkpointing.first_round) = (1, Some(1));
    pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Resume { checkpoint: 1 });
    pe.core.replicas.insert(of_others, replica(Role::Secondary { until: None }));
    assert!(answered(&mut pe).is_empty(), "its own has not ended");

    pe.core.replicas.remove(own);

    assert_eq!(answered(&mut pe), [1]);
    assert!(!pe.core.checkpointing.is_stopped);
    assert!(pe.core.checkpointing.ended_replicas.is_empty(), "it has begun again, if it can");
}

/// Passes a control to main's PE as a packet from itself. What it sends to others is dropped.
fn pass(pe: &mut Pe, control: Control) {
    pe.core.post(MAIN_PE, control);
    let packets: Vec<(PeId, Packet)> = pe.take_output().packets.collect();
    for (_, packet) in packets.into_iter().filter(|(to, _)| *to == MAIN_PE) {
        pe.handle(MAIN_PE, packet);
    }
}

#[test]
fn insertions_that_wait_for_one_partner_each_count() {
    let job = Job::new("partners").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
    let mut pe = Program::new(job, Layout::single(1)).unwrap().pe(MAIN_PE);
    let kind = pe.core.common.kind_of(TypeId::of::<Idle>()).unwrap();
    let bound = Map::Bound(CollectionId(0));
    for (number, map) in [(0, Map::Block), (1, bound), (2, bound)] {
        let info = CollectionInfo { id: CollectionId(number), kind, map, shape: None, members: 0 };
        let inits = Payload::new(Vec::<(Key, ())>::new());
        pass(&mut pe, Control::Create { info, inits, more: 0 });
    }
    let key = Ix1(7).key();
    for collection in [1, 2].map(CollectionId) {
        let (id, init) = (ActorId { collection, key }, Payload::new(vec![(key, ())]));
        let (at, record) = (MAIN_PE, MemberRecord::default());
        let insertion = Insertion { id, init, at, epoch: 0, record, held: Vec::new() };
        pass(&mut pe, Control::Insert(Box::new(insertion)));
    }
    assert_eq!(pe.core.created - pe.core.processed, 2);

    pe.handle_checkpoint(
        MAIN_PE,
        CheckpointMessage::Drain { checkpoint: 1, round: 1, captures: false },
    );

    let insertions = |(_, packet): (PeId, Packet)| match packet.0 {
        Content::Control(control) => match *control {
            Control::Checkpoint(message) => match *message {
                CheckpointMessage::Drained { counts, .. } => Some(counts.insertions),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    assert_eq!(pe.take_output().packets.filter_map(insertions).collect::<Vec<_>>(), [2]);
}

#[test]
fn copies_wait_while_many_bytes_wait_for_the_network() {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let job = Job::new("large")
        .actor::<Idle>()
        .limits(Limits::default().with_soft_bytes(1_000))
        .main(async |_| Ok::<(), JobError>(()));
    let mut pe = Program::new(job, layout).unwrap().pe(MAIN_PE);
    // The number of copies that leave at this time, while `for_network` bytes wait.
    let sent_at = |pe: &mut Pe, millis: u64, for_network: usize| {
        pe.core.now = Time::ZERO + Duration::from_millis(millis);
        pe.set_waiting_bytes(for_network, for_network);
        pe.finish_turn();
        let is_copy = |(_, packet): &(PeId, Packet)| match &packet.0 {
            Content::Control(control) => match &**control {
                Control::Checkpoint(message) => matches!(**message, CheckpointMessage::Copy { .. }),
                _ => false,
            },
            _ => false,
        };
        pe.take_output().packets.filter(is_copy).count()
    };

    let part = pe.core.me;
    for position in 0..7 {
        let segment = Segment { checkpoint: 1, part, position, is_last: position == 6 };
        let copy = CopyToSend::new(NodeId(1), segment, Bytes::from(vec![0_u8; 400]));
        pe.core.checkpointing.sending.copies.push_back(copy);
    }
    pe.core.send_copies();

    assert_eq!(sent_at(&mut pe, 0, 0), 2, "one at once, and one in the turn");
    assert_eq!(sent_at(&mut pe, 1, 0), 1, "one in each turn");
    pe.core.checkpointing.is_stopped = true;
    assert_eq!(sent_at(&mut pe, 2, 0), 1, "although timers wait");
    assert_eq!([3, 8].map(|millis| sent_at(&mut pe, millis, 600)), [0; 2]);
    assert_eq!(sent_at(&mut pe, 1_000, 600), 1, "others use the network all the time");
    assert_eq!(sent_at(&mut pe, 1_001, 0), 0, "it is too early to look again");
    assert_eq!([1_010, 1_070].map(|millis| sent_at(&mut pe, millis, 600)), [0, 1]);
    assert_eq!(sent_at(&mut pe, 2_020, 1_000), 0, "PEs are held back");
    assert_eq!(sent_at(&mut pe, 2_030, 0), 1, "the last one");
    assert_eq!(pe.core.checkpointing.sending.room_at, None);
}

#[test]
fn a_copy_leaves_in_pieces_and_arrives_whole() {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let job = Job::new("large").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
    let program = Program::new(job, layout).unwrap();
    let [mut from, mut to] = [MAIN_PE, PeId(1)].map(|pe| program.pe(pe));
    let segment = Segment { checkpoint: 1, part: MAIN_PE, position: 0, is_last: true };
    let bytes: Bytes = (0..1_200_000_u32).map(|at| (at % 251) as u8).collect();
    let copy = CopyToSend::new(NodeId(1), segment, bytes.clone());
    from.core.checkpointing.sending.copies.push_back(copy);
    from.core.send_copies();
    let mut packets = Vec::new();
    // After a long turn, several pieces leave.
    for (millis, sent) in [(0, 2), (17, 5), (18, 5)] {
        from.core.now = Time::ZERO + Duration::from_millis(millis);
        from.finish_turn();
        packets.extend(from.take_output().packets);
        assert_eq!(packets.len(), sent, "after {millis} ms");
    }

    packets.reverse();
    packets.into_iter().for_each(|(_, packet)| to.handle(MAIN_PE, packet));

    let kept = CheckpointSegment { segment, bytes, is_copy: true };
    let commands = to.take_output().commands;
    let [PeCommand::Keep(found)] = &commands[..] else { panic!("{} commands", commands.len()) };
    assert_eq!(*found, kept);
}
