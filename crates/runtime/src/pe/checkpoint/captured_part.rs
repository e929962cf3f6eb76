//! A PE's part of a checkpoint, from the capture until it is encoded.

use crate::message::{PartImage, PartSummary};
use crate::pe::checkpoint::segments::Segments;
use gridspan_topology::{NodeId, Time};
use std::time::Duration;

/// What a PE has captured for a checkpoint.
pub(crate) struct CapturedPart {
    pub(super) checkpoint: u64,
    pub(super) stage: Stage,
    /// Set once the coordinator knows that nothing was in flight.
    pub(super) accepted: Option<Accepted>,
    pub(super) segments: Segments,
    pub(super) summary: PartSummary,
    /// When the PE last encoded some of it.
    pub(super) encoded_at: Option<Time>,
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
#[derive(Clone, Copy)]
pub(super) struct Accepted {
    /// The node that gets copies.
    pub(super) partner: Option<NodeId>,
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
            encoded_at: None,
            took: Duration::ZERO,
        }
    }

    /// Adds to the time that the encoding has taken.
    pub(super) fn note_encoding(&mut self, took: Duration) {
        self.took = self.took.saturating_add(took);
    }

    /// Whether the PE has something to do for the part, although nothing arrives.
    pub(crate) fn is_to_encode(&self) -> bool {
        self.stage != Stage::Timed
    }
}
