//! Tests of a PE that encodes its part of a checkpoint while it goes on.

use super::super::segments::SEGMENT_BYTES;
use super::super::slice::{SLICE_BYTES, SLICE_EVERY};
use super::*;
use crate::address::collection::{CollectionInfo, Map};
use crate::address::id::{ActorId, COORDINATOR, CollectionId, MAIN_PE, Sender};
use crate::address::index::ActorIndex;
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::payload::Payload;
use crate::message::{Content, Control, Packet, PartImage, codec};
use crate::pe::Next;
use crate::{Actor, Context, Ix1, Job};
use bytes::Bytes;
use gridspan_balance::Refine;
use gridspan_topology::{Layout, PeId, Time};
use serde::{Deserialize, Serialize};
use std::any::TypeId;

/// Adds up its messages, beside a block of bytes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Adder {
    sum: u64,
    block: Vec<u8>,
}

/// Bytes of the block of an actor, so that a turn encodes one.
const BLOCK: usize = SLICE_BYTES;

impl Actor for Adder {
    type Index = Ix1;
    type Init = ();
    type Message = u64;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { sum: 0, block: vec![0; BLOCK] }
    }

    fn handle(&mut self, number: u64, cx: &mut Context<'_, Self>) {
        self.sum += number;
        if number == END {
            cx.destroy();
        }
    }
}

/// After this message an actor ends.
const END: u64 = 99;

/// A PE alone, with this many members.
fn pe_with(members: u64) -> Pe {
    pe_of(Job::new("captured"), members)
}

/// The same for this job.
fn pe_of(job: Job, members: u64) -> Pe {
    let job = job.actor::<Adder>().main(async |_| Ok::<(), JobError>(()));
    let mut pe = Program::new(job, Layout::single(1)).unwrap().pe(MAIN_PE);
    let kind = pe.core.common.kind_of(TypeId::of::<Adder>()).unwrap();
    let info = CollectionInfo { id: CollectionId(0), kind, map: Map::Block, shape: None, members };
    let inits: Vec<_> = (0..members).map(|key| (Ix1(key as i32).key(), ())).collect();
    let inits = Payload::Bytes(codec::encode(&inits).into());
    pass(&mut pe, Control::Create { info, inits, more: 0 });
    pe
}

/// Passes a control to the PE.
fn pass(pe: &mut Pe, control: Control) {
    pe.handle(MAIN_PE, Packet::control(control));
}

fn order(pe: &mut Pe, message: CheckpointMessage) {
    pass(pe, Control::Checkpoint(Box::new(message)));
}

/// Sends a number to a member. It is not handled yet.
fn send(pe: &mut Pe, member: i32, number: u64) {
    let id = ActorId { collection: CollectionId(0), key: Ix1(member).key() };
    pe.core.send::<Adder>(Sender::Pe, id, 0, number);
}

/// Orders the PE to capture its part, and ends the turn.
fn capture(pe: &mut Pe) {
    for (round, captures) in [(1, false), (2, true)] {
        order(pe, CheckpointMessage::Drain { checkpoint: 1, round, captures });
        assert_eq!(turn(pe), (vec![], false));
    }
}

/// Tells the PE that the checkpoint is made.
fn made(is_pause: bool) -> CheckpointMessage {
    CheckpointMessage::Captured { checkpoint: 1, leaving: Vec::new(), is_pause }
}

/// Lets the PE take turns until it has reported its part. Returns the segments, decoded.
fn part(pe: &mut Pe) -> Vec<PartImage> {
    rest_of_part(pe, Vec::new())
}

/// The same for a PE that has kept these segments before.
fn rest_of_part(pe: &mut Pe, mut segments: Vec<CheckpointSegment>) -> Vec<PartImage> {
    for _ in 0..100 {
        assert_eq!(pe.next(true), Next::Turn);
        let (kept, is_reported) = turn(pe);
        segments.extend(kept);
        if is_reported {
            let numbers = segments.iter().map(|it| (it.segment.position, it.segment.is_last));
            let last = segments.len() as u32 - 1;
            assert!(numbers.eq((0..=last).map(|position| (position, position == last))));
            return segments.iter().map(|it| PartImage::decode(&it.bytes).unwrap()).collect();
        }
    }
    panic!("the PE does not report its part");
}

/// The sums and mailboxes of the members of a part, by member.
fn sums(part: &[PartImage]) -> Vec<(u64, Vec<u64>)> {
    let members = part.iter().flat_map(|image| &image.members);
    let mut sums: Vec<_> = members
        .map(|member| {
            let adder: Adder = codec::decode("an actor", &member.state).unwrap();
            let message = |(_, bytes): &(i32, Bytes)| codec::decode("a message", bytes).unwrap();
            (member.id, (adder.sum, member.mailbox.iter().map(message).collect()))
        })
        .collect();
    sums.sort_by_key(|(id, _)| *id);
    sums.into_iter().map(|(_, sum)| sum).collect()
}

#[test]
fn a_part_has_the_states_and_messages_of_the_moment_of_the_capture() {
    let mut pe = pe_with(4);
    send(&mut pe, 3, 7);
    assert_eq!(pe.run(1), 1);
    send(&mut pe, 2, 5);
    capture(&mut pe);
    // The third member handles the message that was in its mailbox, and ends.
    send(&mut pe, 2, END);
    send(&mut pe, 3, 1);
    order(&mut pe, made(false));

    let part = part(&mut pe);

    assert_eq!(sums(&part), [(0, vec![]), (0, vec![]), (0, vec![5]), (7, vec![])]);
    assert_eq!(pe.run(9), 0, "all messages are handled meanwhile");
    assert_eq!(pe.core.members[0].iter().flatten().count(), 3);
    assert_eq!(pe.next(true), Next::Wait { wakeup: None, trial: None });
}

#[test]
fn messages_are_handled_while_actors_are_encoded() {
    let members = 3 * SEGMENT_BYTES / BLOCK;
    let mut pe = pe_with(members as u64);
    capture(&mut pe);
    (0..4).for_each(|_| send(&mut pe, 0, 1));
    order(&mut pe, made(false));

    let (mut turns, mut segments) = (0, Vec::new());
    while pe.core.processed < pe.core.created && turns < members {
        segments.extend(turn(&mut pe).0);
        turns += 1;
    }

    assert!(turns < 9, "{turns} turns for 4 messages and {members} actors");
    assert!(pe.core.checkpointing.captured.is_some());
    assert_eq!(sums(&rest_of_part(&mut pe, segments)), vec![(0, vec![]); members]);
}

#[test]
fn more_is_encoded_after_a_long_handler() {
    let mut pe = pe_with(20);
    capture(&mut pe);
    order(&mut pe, made(false));
    let mut encoded_at = |at: Duration| {
        pe.core.now = Time::ZERO + at;
        pe.finish_turn();
        pe.take_output().encoded / BLOCK as u64
    };

    assert_eq!([Duration::ZERO, 9 * SLICE_EVERY].map(&mut encoded_at), [1, 10]);
    assert_eq!(encoded_at(9 * SLICE_EVERY + SLICE_EVERY / 2), 1);
}

#[test]
fn slow_encoding_is_no_reason_to_encode_more() {
    let mut pe = pe_with(20);
    capture(&mut pe);
    order(&mut pe, made(false));
    let mut now = Time::ZERO;
    for _ in 0..5 {
        pe.core.now = now;
        pe.finish_turn();
        assert_eq!(pe.take_output().encoded / BLOCK as u64, 1);
        let took = Duration::from_secs(1);
        pe.note_encoding(took);
        now += took;
    }
}

#[test]
fn members_that_leave_a_sync_point_after_the_capture_wait_at_it_in_the_part() {
    let mut pe = pe_of(Job::new("captured").strategy(Refine), 3);
    for member in [0, 2] {
        let member = pe.core.member(KindId(0), member).unwrap();
        (member.syncs, member.synced) = (1, true);
    }
    capture(&mut pe);
    order(&mut pe, made(false));
    let collection = CollectionId(0);
    pass(&mut pe, Control::SettleSyncs { collection, syncs: 1 });
    assert!(pe.core.members[0].iter().flatten().all(|member| !member.synced));

    let part = part(&mut pe);

    let members = part.iter().flat_map(|image| &image.members);
    let mut waiting: Vec<_> = members.map(|member| (member.id, member.synced)).collect();
    waiting.sort_by_key(|(id, _)| *id);
    let waiting: Vec<bool> = waiting.into_iter().map(|(_, synced)| synced).collect();
    assert_eq!(waiting, [true, false, true]);
}

#[test]
fn segments_are_kept_as_soon_as_they_are_full_and_the_checkpoint_is_made() {
    let members = 3 * SEGMENT_BYTES / BLOCK;
    let mut pe = pe_with(members as u64);
    capture(&mut pe);
    for _ in 0..members / 2 {
        assert_eq!(turn(&mut pe), (vec![], false), "it may be given up");
    }
    order(&mut pe, made(true));

    let (kept, is_reported) = turn(&mut pe);

    let positions: Vec<u32> = kept.iter().map(|it| it.segment.position).collect();
    assert_eq!((positions, is_reported), (vec![0], false));
    assert!(pe.core.checkpointing.is_stopped, "its job stays stopped");
    let reported = (0..members).find(|_| turn(&mut pe).1);
    assert!(reported.is_some());
    assert_eq!(pe.next(true), Next::Wait { wakeup: None, trial: None });
}

#[test]
fn a_capture_is_dropped_if_the_checkpoint_is_given_up_or_another_one_follows() {
    let mut pe = pe_with(2);
    capture(&mut pe);
    order(&mut pe, CheckpointMessage::Resume { checkpoint: 1 });
    assert!(pe.core.checkpointing.captured.is_none());
    send(&mut pe, 0, 1);
    assert_eq!((pe.run(9), turn(&mut pe)), (1, (vec![], false)));

    // Something was in flight in the round before, so another round captures the part again.
    order(&mut pe, CheckpointMessage::Drain { checkpoint: 2, round: 1, captures: false });
    order(&mut pe, CheckpointMessage::Drain { checkpoint: 2, round: 2, captures: true });
    send(&mut pe, 1, 3);
    order(&mut pe, CheckpointMessage::Drain { checkpoint: 2, round: 3, captures: true });
    let message = CheckpointMessage::Captured { checkpoint: 2, leaving: vec![], is_pause: false };
    order(&mut pe, message);

    assert_eq!(sums(&part(&mut pe)), [(1, vec![]), (0, vec![3])]);
}

#[test]
fn the_planted_fault_encodes_states_that_have_changed() {
    let mut pe = pe_with(3);
    let mut common = pe.core.common.clone();
    common.fault = PlantedFault::ChangedBeforeEncoding;
    pe.core.common = common;
    capture(&mut pe);
    send(&mut pe, 2, 4);
    order(&mut pe, made(false));

    assert_eq!(sums(&part(&mut pe)), [(0, vec![]), (0, vec![]), (4, vec![])]);
}

/// What a turn of the PE has produced for a checkpoint: segments, and whether it has reported.
fn turn(pe: &mut Pe) -> (Vec<CheckpointSegment>, bool) {
    pe.run(1);
    pe.finish_turn();
    let output = pe.take_output();
    let kept = output.commands.into_iter().filter_map(|command| match command {
        PeCommand::Keep(segment) => Some(segment),
        _ => None,
    });
    let kept = kept.collect();
    let is_report = |(to, packet): (PeId, Packet)| match packet.0 {
        Content::Control(control) if to == COORDINATOR => match *control {
            Control::Checkpoint(message) => matches!(*message, CheckpointMessage::Encoded { .. }),
            _ => false,
        },
        _ => false,
    };
    let mut packets = output.packets;
    (kept, packets.any(is_report))
}
