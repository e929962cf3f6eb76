//! Reads frames from the streams of one connection.
//!
//! A frame inside one packet is delivered as a slice of that packet, without a copy; it keeps the
//! packet's memory while it lives. Memory for a longer frame grows as its bytes arrive, regardless
//! of the length that its header claims. All connections share a budget of bytes for bulk frames.
//! Before a connection reads such a frame, it reserves the frame's length in the budget. A frame
//! that does not fit the budget waits in QUIC's windows, which stalls its sender. The first frame
//! always fits, so that some frame always completes.
//!
//! The frames of one connection may reserve at most as much as is still free (Choudhury and Hahne,
//! Dynamic queue length thresholds for shared-memory packet switches, 1998). If the connection is
//! the only one with frames, this is half of the budget. So a node that begins frames and does not
//! send the rest cannot block the frames of other nodes.

use super::wire::{Header, STREAM_BULK, STREAM_SMALL, WireError};
use crate::session::{Class, FrameVerdict, Receiver};
use bytes::{Buf, Bytes, BytesMut};
use quinn_proto::{Connection, ReadError, StreamId};
use std::collections::BTreeMap;

/// First allocation for a frame; it then grows fourfold, up to the length of the frame.
const FRAME_BYTES_FIRST: usize = 16 << 10;
/// Number of bytes of a bulk stream that are read before its header is known.
const BULK_HEAD_BYTES: usize = 32;

/// Bytes of bulk frames that are being assembled over all connections.
#[derive(Debug)]
pub(super) struct Assembly {
    used: u64,
    bytes_max: u64,
    /// Whether bytes were released since the last call of [`take_released`](Self::take_released).
    has_released: bool,
}

impl Assembly {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { used: 0, bytes_max, has_released: false }
    }

    /// Reserves room for a frame of a connection that has reserved `own` bytes.
    fn reserve(&mut self, own: &mut u64, bytes: u64) -> bool {
        let free = self.bytes_max.saturating_sub(self.used);
        let fits = self.used == 0 || own.saturating_add(bytes) <= free;
        if fits {
            self.used += bytes;
            *own += bytes;
        }
        fits
    }

    fn release(&mut self, own: &mut u64, bytes: u64) {
        self.used -= bytes;
        *own -= bytes;
        self.has_released |= bytes > 0;
    }

    /// Whether there may be more room than at the last call.
    pub(super) fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.has_released)
    }
}

/// Size limits of frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLimits {
    pub(super) small_bytes_max: u64,
    pub(super) frame_bytes_max: u64,
}

/// The receiving streams of one connection.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    streams: BTreeMap<StreamId, Inflow>,
    readable: Vec<StreamId>,
    /// Whether a bulk frame waits for room in the budget.
    pub(super) starved: bool,
    /// Bytes reserved for the frames of all streams.
    reserved: u64,
}

#[derive(Debug, Default)]
struct Inflow {
    kind: Option<Class>,
    frame: FrameReader,
    /// Bytes reserved for the frame of a bulk stream.
    reserved: Option<u64>,
    is_readable: bool,
}

impl Incoming {
    /// Adds a stream that the other side opened.
    pub(super) fn open(&mut self, stream: StreamId) {
        self.streams.insert(stream, Inflow::default());
        self.mark(stream);
    }

    /// Marks a stream as readable.
    pub(super) fn mark(&mut self, stream: StreamId) {
        if let Some(inflow) = self.streams.get_mut(&stream)
            && !inflow.is_readable
        {
            inflow.is_readable = true;
            self.readable.push(stream);
        }
    }

    /// Whether some stream is marked as readable.
    pub(super) fn is_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Marks all streams as readable if one has waited for room.
    pub(super) fn retry_starved(&mut self) {
        if std::mem::take(&mut self.starved) {
            let waiting: Vec<_> = self.streams.keys().copied().collect();
            waiting.into_iter().for_each(|stream| self.mark(stream));
        }
    }

    /// Drops the incomplete frames.
    pub(super) fn abandon(&mut self, assembly: &mut Assembly) {
        self.streams.clear();
        let reserved = self.reserved;
        assembly.release(&mut self.reserved, reserved);
        self.readable.clear();
    }

    /// Reads all available bytes and delivers the frames that are complete and new. Afterwards
    /// flow-control updates may have to be sent to the other side.
    pub(super) fn read(
        &mut self,
        connection: &mut Connection,
        receiver: &mut Receiver,
        limits: FrameLimits,
        assembly: &mut Assembly,
        deliver: &mut dyn FnMut(Bytes),
    ) -> Result<(), WireError> {
        for stream in std::mem::take(&mut self.readable) {
            let Some(inflow) = self.streams.get_mut(&stream) else { continue };
            inflow.is_readable = false;
            let reserved = &mut self.reserved;
            let mut reading = Reading { receiver, limits, assembly, reserved, deliver };
            match inflow.read(stream, connection, &mut reading)? {
                Progress::Blocked => {}
                Progress::Starved => self.starved = true,
                Progress::Ended => {
                    self.streams.remove(&stream);
                }
            }
        }
        Ok(())
    }
}

/// The state outside a stream that is needed to read it.
struct Reading<'a> {
    receiver: &'a mut Receiver,
    limits: FrameLimits,
    assembly: &'a mut Assembly,
    /// Bytes that the connection has reserved.
    reserved: &'a mut u64,
    deliver: &'a mut dyn FnMut(Bytes),
}

enum Progress {
    Blocked,
    Starved,
    Ended,
}

impl Inflow {
    fn read(
        &mut self,
        stream: StreamId,
        connection: &mut Connection,
        reading: &mut Reading<'_>,
    ) -> Result<Progress, WireError> {
        let mut recv = connection.recv_stream(stream);
        let Ok(mut chunks) = recv.read(true) else { return Ok(Progress::Ended) };
        let progress = loop {
            let is_bulk = self.kind == Some(Class::Bulk);
            if is_bulk
                && self.reserved.is_none()
                && let Some(header) = self.frame.header
            {
                if !reading.assembly.reserve(reading.reserved, header.bytes) {
                    break Progress::Starved;
                }
                self.reserved = Some(header.bytes);
            }
            let head = self.kind.is_none() || (is_bulk && self.reserved.is_none());
            match chunks.next(if head { BULK_HEAD_BYTES } else { usize::MAX }) {
                Ok(Some(chunk)) => self.feed(chunk.bytes, reading)?,
                Ok(None) => {
                    let finished =
                        is_bulk && self.frame.is_between_frames() && self.reserved.is_none();
                    if !finished {
                        return Err(WireError::Truncated);
                    }
                    break Progress::Ended;
                }
                Err(ReadError::Blocked) => break Progress::Blocked,
                Err(ReadError::Reset(_)) => return Err(WireError::Truncated),
            }
        };
        // The caller polls the connection for packets in any case.
        let _ = chunks.finalize();
        Ok(progress)
    }

    fn feed(&mut self, mut data: Bytes, reading: &mut Reading<'_>) -> Result<(), WireError> {
        let class = match self.kind {
            Some(class) => class,
            None => {
                let class = match data.first() {
                    Some(&STREAM_SMALL) => Class::Small,
                    Some(&STREAM_BULK) => Class::Bulk,
                    Some(&other) => return Err(WireError::StreamKind(other)),
                    None => return Ok(()),
                };
                data.advance(1);
                *self.kind.insert(class)
            }
        };
        let limit = match class {
            Class::Small => reading.limits.small_bytes_max,
            Class::Bulk => reading.limits.frame_bytes_max,
        };
        while let Some((number, frame)) = self.frame.next(&mut data, limit, |number| {
            if class == Class::Bulk {
                reading.receiver.begin_bulk(number);
            }
        })? {
            if class == Class::Bulk {
                reading.assembly.release(reading.reserved, self.reserved.take().unwrap_or(0));
            }
            match reading.receiver.accept(class, number, frame.len() as u64) {
                FrameVerdict::Deliver => (reading.deliver)(frame),
                FrameVerdict::Duplicate => {}
                FrameVerdict::OutOfOrder { expected } => {
                    return Err(WireError::OutOfOrder { number, expected });
                }
            }
        }
        Ok(())
    }
}

/// Splits a stream of bytes into frames.
#[derive(Debug, Default)]
struct FrameReader {
    header: Option<Header>,
    /// The start of a header, or of a frame whose header is known.
    partial: BytesMut,
}

impl FrameReader {
    fn is_between_frames(&self) -> bool {
        self.header.is_none() && self.partial.is_empty()
    }

    /// Returns the next frame that `data` completes. Consumes its bytes from `data`, or all of
    /// `data` if no frame is complete.
    fn next(
        &mut self,
        data: &mut Bytes,
        limit: u64,
        on_header: impl FnOnce(u64),
    ) -> Result<Option<(u64, Bytes)>, WireError> {
        let header = match self.header {
            Some(header) => header,
            None => {
                let Some(header) = self.read_header(data, limit)? else { return Ok(None) };
                on_header(header.number);
                *self.header.insert(header)
            }
        };
        let bytes = header.bytes as usize;
        let frame = if self.partial.is_empty() && data.len() >= bytes {
            data.split_to(bytes)
        } else {
            let take = data.len().min(bytes - self.partial.len());
            self.grow(take, bytes);
            self.partial.extend_from_slice(&data[..take]);
            data.advance(take);
            if self.partial.len() < bytes {
                return Ok(None);
            }
            std::mem::take(&mut self.partial).freeze()
        };
        self.header = None;
        Ok(Some((header.number, frame)))
    }

    fn read_header(&mut self, data: &mut Bytes, limit: u64) -> Result<Option<Header>, WireError> {
        if self.partial.is_empty() {
            if let Some((header, bytes)) = Header::read(data, limit)? {
                data.advance(bytes);
                return Ok(Some(header));
            }
            self.partial.extend_from_slice(data);
            data.clear();
            return Ok(None);
        }
        while data.has_remaining() {
            self.partial.extend_from_slice(&[data.get_u8()]);
            if let Some((header, _)) = Header::read(&self.partial, limit)? {
                self.partial.clear();
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// Reserves memory for `more` bytes of a frame of `bytes`.
    fn grow(&mut self, more: usize, bytes: usize) {
        let needed = self.partial.len() + more;
        if needed > self.partial.capacity() {
            let target = (4 * needed).clamp(FRAME_BYTES_FIRST, bytes.max(FRAME_BYTES_FIRST));
            self.partial.reserve(target.max(needed) - self.partial.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_grows_with_arrived_bytes_not_with_the_stated_length() {
        let mut reader = FrameReader::default();
        let mut head = BytesMut::new();
        Header { number: 0, bytes: 60 << 20 }.write(&mut head);
        head.extend_from_slice(&[0; 1000]);
        let frame = reader.next(&mut head.freeze(), 64 << 20, |_| {}).unwrap();
        assert_eq!(frame, None);
        assert!(reader.partial.capacity() < 64 << 10, "{}", reader.partial.capacity());
    }

    #[test]
    fn the_first_frame_always_fits_the_budget() {
        let mut assembly = Assembly::new(100);
        let (mut own, mut other) = (0, 0);
        assert!(assembly.reserve(&mut own, 1000));
        assert!(!assembly.reserve(&mut other, 1));
        assembly.release(&mut own, 1000);
        assert!(assembly.reserve(&mut own, 60) && assembly.reserve(&mut other, 40));
        assert!(!assembly.reserve(&mut 0, 1));
    }

    #[test]
    fn a_connection_that_sends_nothing_leaves_half_of_the_budget() {
        let mut assembly = Assembly::new(100);
        let (mut silent, mut other) = (0, 0);
        while assembly.reserve(&mut silent, 10) {}
        assert_eq!(silent, 50);
        while assembly.reserve(&mut other, 5) {}
        assert_eq!(other, 25);
        assembly.release(&mut silent, 10);
        assert!(assembly.reserve(&mut other, 5));
    }

    #[test]
    fn there_is_more_room_only_after_bytes_were_released() {
        let mut assembly = Assembly::new(100);
        let mut own = 0;
        assert!(assembly.reserve(&mut own, 60) && !assembly.reserve(&mut own, 50));
        assembly.release(&mut own, 0);
        assert!(!assembly.take_released());
        assembly.release(&mut own, 60);
        assert!(assembly.take_released() && !assembly.take_released());
    }

    proptest! {
        #[test]
        fn a_stream_cut_anywhere_gives_the_same_frames(
            lengths in prop::collection::vec(0usize..300, 1..20),
            cuts in prop::collection::vec(1usize..200, 1..100),
        ) {
            let mut stream = BytesMut::new();
            for (number, &length) in lengths.iter().enumerate() {
                Header { number: number as u64 * 100, bytes: length as u64 }.write(&mut stream);
                stream.extend_from_slice(&vec![number as u8; length]);
            }
            let mut stream = stream.freeze();
            let mut reader = FrameReader::default();
            let mut read = vec![];
            let mut cuts = cuts.into_iter().cycle();
            while !stream.is_empty() {
                let cut = cuts.next().unwrap().min(stream.len());
                let mut piece = stream.split_to(cut);
                while let Some((number, frame)) = reader.next(&mut piece, 1000, |_| {}).unwrap() {
                    prop_assert!(frame.iter().all(|&byte| u64::from(byte) * 100 == number));
                    read.push(frame.len());
                }
                prop_assert!(piece.is_empty());
            }
            prop_assert_eq!(read, lengths);
            prop_assert!(reader.is_between_frames());
        }
    }
}
