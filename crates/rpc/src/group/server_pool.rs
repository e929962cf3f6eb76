//! The interface between groups and servers, which may be actors of a job or separate server
//! processes.

use super::ranges::Ranges;
use crate::block::{DATA_SEGMENT_BYTES, EncodedBlock};
use crate::calls::{RpcError, ServerCard};
use gridspan_runtime::Numbers;
use gridspan_topology::Link;
use gridspan_workflow::Platform;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Range;

/// The links to assume where there is no measurement, and whether to use measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AssumedLinks {
    /// Inside sites.
    pub lan: Link,
    /// From each site to the others.
    pub wan: Link,
    /// Whether measured links and observed speeds are used where they are known.
    pub measures: bool,
}

/// Servers on which groups are executed. Their numbers are not reused.
pub trait ServerPool {
    /// Returns the servers that take calls now.
    ///
    /// # Errors
    ///
    /// If the servers cannot be listed. The window or group that needs them ends with this error.
    fn cards(&self) -> impl Future<Output = Result<Vec<ServerCard>, RpcError>>;

    /// Waits before another look at the servers.
    fn pause(&self) -> impl Future<Output = ()>;

    /// Returns the platform of these servers, which it identifies by their positions in `cards`.
    /// `observed_speed` returns the observed speed of a server as a fraction of the speed that it
    /// declares.
    ///
    /// # Errors
    ///
    /// If the platform cannot be determined, such as because one of the servers is no longer known.
    /// The window or group that needs it ends with this error.
    fn platform(
        &self,
        cards: &[ServerCard],
        assumed: &AssumedLinks,
        observed_speed: &dyn Fn(u32) -> f64,
    ) -> impl Future<Output = Result<Platform, RpcError>>;

    /// Returns the server that has the data of this one: this server, or its last successor; `None`
    /// if the data is lost.
    fn standing(&self, server: u32) -> Option<u32>;

    /// Starts a group and returns its number.
    fn begin_group(&self) -> u32;

    /// Frees data of a group, on the servers that may have it.
    fn free(&self, group: u32, data: &Freed, servers: &BTreeSet<u32>);

    /// Makes servers accept data that they have freed: repeated calls produce it again. This
    /// happens only in groups that go on after a restoration of their job.
    ///
    /// # Errors
    ///
    /// If the servers cannot be notified. The window that needs the data ends with this error.
    fn take_back(
        &self,
        _group: u32,
        _data: &Freed,
        _servers: &BTreeSet<u32>,
    ) -> impl Future<Output = Result<(), RpcError>> {
        async { Ok(()) }
    }

    /// Ends a group, and notifies the servers that may have data of it.
    fn end_group(&self, group: u32, servers: BTreeSet<u32>);

    /// Fetches data of a group, of any size, to the client from a server that has it.
    ///
    /// # Errors
    ///
    /// If the server does not have the data, or does not send all of it.
    /// [`CallGroup::get`](crate::group::CallGroup::get) then tries the next server only if
    /// [`standing`](Self::standing) returns `None` for this one.
    fn fetch(
        &self,
        group: u32,
        data: u32,
        server: u32,
    ) -> impl Future<Output = Result<Encoded, RpcError>>;
}

/// An encoded value.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded(pub(super) EncodedBlock);

impl Encoded {
    /// Encodes a value; fails if it is too large or cannot be encoded. `what` names the value in
    /// the error.
    pub fn encode<T: Serialize>(what: &str, value: &T) -> Result<Self, RpcError> {
        let block = EncodedBlock::encode(what, value, DATA_SEGMENT_BYTES);
        block.map(Self).map_err(|reason| RpcError::RpcRefused { reason })
    }

    /// An encoded value from received bytes; fails if there are more than 1 GiB.
    pub fn new(bytes: Vec<u8>) -> Result<Self, RpcError> {
        let block = EncodedBlock::cut("the data", bytes, DATA_SEGMENT_BYTES);
        block.map(Self).map_err(|reason| RpcError::SessionFailed { reason })
    }

    /// An encoded value from any number of bytes, for the store of a server.
    pub fn cut(bytes: &[u8]) -> Self {
        let segments = bytes.chunks(DATA_SEGMENT_BYTES).map(Numbers::from);
        Self(EncodedBlock::of(segments.collect()))
    }

    /// An encoded result of a function.
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

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

/// A segment of an encoded value.
#[derive(Clone, Debug)]
pub struct DataSegment(pub(super) Numbers<u8>);

impl AsRef<[u8]> for DataSegment {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Versions of data that are no longer needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Freed(pub(super) Ranges);

impl Freed {
    /// The versions, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.0.ranges()
    }
}
