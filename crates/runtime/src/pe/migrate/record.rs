//! The runtime's state of an actor, which moves with it: its channels and its part in collective
//! operations.

use crate::address::id::{ActorId, KindId};
use crate::message::MemberRecord;
use crate::message::codec::DecodeError;
use crate::message::envelope::AnyEnvelope;
use crate::pe::core::Core;
use crate::pe::delivery::{Channels, Counters, SentBroadcasts};
use crate::pe::measure::edges::EdgeCache;
use crate::pe::members::member::{Member, Paced};
use crate::pe::rank::FAR;
use bytes::Bytes;

/// Returns the runtime's state of a member, in a fixed order.
pub(crate) fn record(member: &Member) -> MemberRecord {
    let mut record = MemberRecord {
        broadcasts: member.broadcasts,
        reductions: member.reductions,
        syncs: member.syncs,
        synced: member.synced,
        load_ns: member.load_ns,
        pace: member.paced.last,
        ..MemberRecord::default()
    };
    if let Some(channels) = &member.channels {
        write_counters(channels, &mut record);
    }
    record
}

/// Writes the counters of channels into a record.
pub(crate) fn write_counters(channels: &Channels, record: &mut MemberRecord) {
    let counters = |counters: &Counters| {
        let mut list: Vec<_> =
            counters.iter().map(|((id, channel), next)| (id, channel, next)).collect();
        list.sort_unstable();
        list
    };
    record.expected = counters(&channels.expected);
    record.next = counters(&channels.next);
    record.sent_broadcasts = channels.sent_broadcasts.records();
    record.section_reductions =
        channels.section_reductions.iter().map(|(&section, &next)| (section, next)).collect();
}

/// The encoded messages that a member holds because they wait for an earlier one.
pub(crate) fn held(member: &Member) -> Vec<Bytes> {
    member.channels.as_deref().map_or_else(Vec::new, held_in)
}

pub(crate) fn held_in(channels: &Channels) -> Vec<Bytes> {
    let encoded = |envelope: &dyn AnyEnvelope| {
        let mut bytes = Vec::new();
        envelope.append(&mut bytes);
        bytes.into()
    };
    channels.held.values().map(|envelope| encoded(&***envelope)).collect()
}

/// Restores an actor's channels from its record and its held messages.
pub(crate) fn channels(
    core: &Core,
    kind: KindId,
    record: &MemberRecord,
    held: &[Bytes],
) -> Result<Option<Box<Channels>>, DecodeError> {
    let MemberRecord { expected, next, sent_broadcasts, section_reductions, .. } = record;
    // A sender that has broadcast has numbered its requests, so that `next` is not empty.
    if expected.len() + next.len() + section_reductions.len() + held.len() == 0 {
        return Ok(None);
    }
    let counters = |list: &[(ActorId, i32, u64)]| {
        list.iter().map(|&(id, channel, next)| ((id, channel), next)).collect()
    };
    let mut channels = Channels {
        expected: counters(expected),
        next: counters(next),
        section_reductions: section_reductions.iter().copied().collect(),
        sent_broadcasts: SentBroadcasts::from_records(sent_broadcasts),
        ..Channels::default()
    };
    if let Some(known) = core.common.kind(kind) {
        for bytes in held {
            let envelope = core.keep(kind, known.decode_envelope(bytes)?);
            channels.held.insert(Channels::held_key(envelope.header()), envelope);
        }
    }
    channels.find_blocked();
    Ok(Some(Box::new(channels)))
}

/// Makes a member from its record.
pub(crate) fn member(
    id: ActorId,
    epoch: u32,
    record: &MemberRecord,
    channels: Option<Box<Channels>>,
    state_bytes: u64,
) -> Member {
    Member {
        id,
        epoch,
        broadcasts: record.broadcasts,
        reductions: record.reductions,
        syncs: record.syncs,
        synced: record.synced,
        load_ns: record.load_ns,
        paced: Paced { carried_ns: record.load_ns, last: record.pace, ..Paced::default() },
        state_bytes: Some(state_bytes),
        channels,
        ring: EdgeCache::default(),
        border_hops: FAR,
        is_replicated: false,
    }
}
