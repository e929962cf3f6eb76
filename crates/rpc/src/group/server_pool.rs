//! What groups need of servers, whoever runs them: actors of a job, or processes that somebody
//! serves.

use super::ranges::Ranges;
use crate::block::{DATA_SEGMENT_BYTES, EncodedBlock};
use crate::calls::{RpcError, ServerCard};
use gridspan_runtime::Numbers;
use gridspan_topology::Link;
use gridspan_workflow::Platform;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Range;

/// Links as long as nothing better is known, and whether what was measured is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beliefs {
    /// Inside sites.
    pub lan: Link,
    /// From each site to the others.
    pub wan: Link,
    /// Whether links as measured, and servers as fast as they turned out to be, are taken where
    /// that is known.
    pub measures: bool,
}

/// Servers that groups are executed on. They are known by numbers, which are not used again.
pub trait ServerPool {
    /// The servers that take calls now.
    fn cards(&self) -> impl Future<Output = Result<Vec<ServerCard>, RpcError>>;

    /// Waits a moment, after which there may be others.
    fn pause(&self) -> impl Future<Output = ()>;

    /// What a mapping sees of these servers, which are known by their positions there. `observed_speed` says
    /// how fast each turned out to be, as a part of what it says of itself.
    fn platform(
        &self,
        cards: &[ServerCard],
        beliefs: &Beliefs,
        observed_speed: &dyn Fn(u32) -> f64,
    ) -> impl Future<Output = Result<Platform, RpcError>>;

    /// Who has what a server kept: itself, or who took over from it; nobody if that is lost.
    fn standing(&self, server: u32) -> Option<u32>;

    /// A number that no other group has.
    fn begin_group(&self) -> u32;

    /// Nobody needs this data of a group any more, which these servers may have.
    fn free(&self, group: u32, data: &Freed, servers: &BTreeSet<u32>);

    /// A group has ended, of which these servers may have something.
    fn end_group(&self, group: u32, servers: BTreeSet<u32>);

    /// Brings data of a group to the client from a server that has it, as large as is known.
    fn fetch(
        &self,
        group: u32,
        data: u32,
        server: u32,
    ) -> impl Future<Output = Result<Encoded, RpcError>>;
}

/// A value, encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded(pub(super) EncodedBlock);

impl Encoded {
    /// A value; why not, if it cannot be sent. `what` it is, should it be too large.
    pub fn encode<T: Serialize>(what: &str, value: &T) -> Result<Self, RpcError> {
        let block = EncodedBlock::encode(what, value, DATA_SEGMENT_BYTES);
        block.map(Self).map_err(|reason| RpcError::RpcRefused { reason })
    }

    /// Of bytes that came; why not, if they are too many.
    pub fn new(bytes: Vec<u8>) -> Result<Self, RpcError> {
        let block = EncodedBlock::cut("the data", bytes, DATA_SEGMENT_BYTES);
        block.map(Self).map_err(|reason| RpcError::SessionFailed { reason })
    }

    /// Of bytes, however many, for the store of a server.
    pub fn cut(bytes: &[u8]) -> Self {
        let segments = bytes.chunks(DATA_SEGMENT_BYTES).map(Numbers::from);
        Self(EncodedBlock::of(segments.collect()))
    }

    /// A result of a function.
    pub fn result(part: Numbers<u8>) -> Self {
        match part.len() <= DATA_SEGMENT_BYTES {
            true => Self(EncodedBlock::of(vec![part])),
            false => Self::cut(&part),
        }
    }

    /// The bytes, in segments that clones share.
    pub fn into_segments(self) -> impl Iterator<Item = DataSegment> {
        self.0.into_segments().into_iter().map(DataSegment)
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

/// A part of a value, encoded.
#[derive(Clone, Debug)]
pub struct DataSegment(pub(super) Numbers<u8>);

impl AsRef<[u8]> for DataSegment {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Data that nobody needs any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Freed(pub(super) Ranges);

impl Freed {
    /// The versions, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.0.ranges()
    }
}
