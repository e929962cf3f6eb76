//! A PE's part of a checkpoint, from the capture until it is encoded.

use crate::address::id::CollectionId;
use crate::message::{MemberImage, PartImage, PartSummary};
use crate::pe::checkpoint::segments::Segments;
use gridspan_topology::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a PE has captured for a checkpoint.
pub(crate) struct CapturedPart {
    pub(super) checkpoint: u64,
    pub(super) stage: Stage,
    /// Set once the coordinator knows that nothing was in flight.
    pub(super) accepted: Option<Accepted>,
    pub(super) segments: Segments,
    pub(super) summary: PartSummary,
    /// Number of encoded members of each collection.
    members: BTreeMap<CollectionId, u64>,
    /// When the PE last had encoded some of it.
    encoded_at: Option<Time>,
    /// Time that the encoding of members has taken in this turn, before that.
    early: Duration,
    /// Time that the encoding has taken so far.
    pub(super) took: Duration,
}

/// How far a part is encoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The part was captured in this turn.
    Captured,
    /// Some states are not encoded.
    Encoding,
    /// All segments are encoded, the last ones in this turn, in virtual time.
    Encoded,
    /// The time that the encoding has taken is known, too.
    Timed,
}

/// Where the segments of a part go.
pub(super) struct Accepted {
    /// The nodes that get copies.
    pub(super) partners: Vec<NodeId>,
}

impl CapturedPart {
    /// A part of which everything but the members is in `image`.
    pub(super) fn new(checkpoint: u64, image: &PartImage) -> Self {
        let PartImage { delayed, gone, questions, gone_sections, published, .. } = image;
        let others = delayed.len() + gone.len() + questions.len() + gone_sections.len();
        let summary = PartSummary {
            others: others as u64,
            published: published.len() as u64,
            ..PartSummary::default()
        };
        Self {
            checkpoint,
            stage: Stage::Captured,
            accepted: None,
            segments: Segments::new(image),
            summary,
            members: BTreeMap::new(),
            encoded_at: None,
            early: Duration::ZERO,
            took: Duration::ZERO,
        }
    }

    /// The time from the end of the last encoding to this turn, which began at `now`.
    pub(super) fn since_encoding(&mut self, now: Time) -> Duration {
        let early = std::mem::take(&mut self.early);
        now.since(self.encoded_at.replace(now + early).unwrap_or(now))
    }

    /// Adds to the time that the encoding has taken, before the members of this turn.
    pub(super) fn note_early_encoding(&mut self, took: Duration) {
        self.took = self.took.saturating_add(took);
        self.early = self.early.saturating_add(took);
    }

    /// Adds to the time that the encoding has taken. This is no time since the last encoding:
    /// otherwise slow encoding would have more encoded in the next turn.
    pub(super) fn note_encoding(&mut self, took: Duration) {
        self.took = self.took.saturating_add(took);
        self.encoded_at = self.encoded_at.map(|at| at + took);
    }

    /// Adds a member whose state is encoded.
    pub(crate) fn add(&mut self, member: &MemberImage) {
        *self.members.entry(member.id.collection).or_default() += 1;
        self.segments.add(member);
    }

    /// Adds a member. `encode` appends the encoded state to a vector.
    pub(crate) fn encode(&mut self, member: MemberImage<()>, encode: impl FnOnce(&mut Vec<u8>)) {
        *self.members.entry(member.id.collection).or_default() += 1;
        self.segments.encode(member, encode);
    }

    /// Number of bytes encoded in this turn.
    pub(crate) fn written(&self) -> usize {
        self.segments.written()
    }

    /// Ends the last segment, and counts the members, and those that `is_movable` says.
    pub(super) fn end(&mut self, is_movable: impl Fn(CollectionId) -> bool) {
        self.segments.end();
        for (&collection, &members) in &self.members {
            self.summary.members += members;
            self.summary.movable += if is_movable(collection) { members } else { 0 };
        }
    }

    /// Whether the PE has something to do for the part, although nothing arrives.
    pub(crate) fn is_to_encode(&self) -> bool {
        self.stage != Stage::Timed
    }
}
