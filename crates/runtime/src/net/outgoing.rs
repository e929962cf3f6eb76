//! Writes a session's frames to the streams of one connection.
//!
//! Quinn gets small frames in chunks, because it searches its unacknowledged pieces for every
//! packet: many small pieces cost more than the network. A chunk is created when the connection is
//! about to transmit, so that the frames of one turn share packets, and no frame waits for a chunk
//! to fill. Frames that quinn does not accept (its window is full) stay in the session; so a slow
//! link costs references, not copies.

use super::wire::{HEADER_BYTES_MAX, Header, STREAM_BULK, STREAM_SMALL};
use crate::session::{Class, Sender};
use bytes::{BufMut, Bytes, BytesMut};
use quinn_proto::{Connection, Dir, FinishError, StreamId, WriteError};

/// Size in bytes at which a chunk is complete: large enough that a window holds few of them, small
/// enough that the frames behind it can still overtake bulk.
const CHUNK_BYTES: usize = 32 << 10;
/// Bulk frames that are written at once: one would be enough; a second fills the window while the
/// first ends.
const BULK_WRITES: usize = 2;
/// Priority of small frames, which overtake bulk frames.
const PRIORITY_SMALL: i32 = 1;

/// The sending streams of one connection.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    small: Option<StreamId>,
    /// The first byte of the stream `small`, which states its kind; empty once it is written. It
    /// has to wait if bulk frames have filled the window.
    kind: Bytes,
    /// Unwritten rest of the current chunk.
    chunk: Bytes,
    /// Memory for the next chunks.
    buffer: BytesMut,
    bulk: Vec<BulkWrite>,
    /// Whether quinn accepts no more small frames until [`unblock`](Self::unblock).
    small_blocked: bool,
    /// Whether quinn opens no more bulk streams until [`unblock`](Self::unblock).
    bulk_blocked: bool,
}

/// A bulk frame being written.
#[derive(Debug)]
struct BulkWrite {
    stream: StreamId,
    /// The unwritten parts of the header and head of the frame, and of its body.
    rest: [Bytes; 2],
    blocked: bool,
}

/// The other side stopped a stream that it must read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

impl Outgoing {
    /// Notes that quinn accepts more on some stream, or can open another.
    pub(super) fn unblock(&mut self) {
        self.small_blocked = false;
        self.bulk_blocked = false;
        for write in &mut self.bulk {
            write.blocked = false;
        }
    }

    /// Writes the frames of `sender` until quinn accepts no more.
    pub(super) fn write(
        &mut self,
        connection: &mut Connection,
        sender: &mut Sender,
    ) -> Result<(), Stopped> {
        self.write_small(connection, sender)?;
        if !self.bulk.is_empty() || sender.has_next(Class::Bulk) {
            self.write_bulk(connection, sender)?;
        }
        Ok(())
    }

    fn write_small(
        &mut self,
        connection: &mut Connection,
        sender: &mut Sender,
    ) -> Result<(), Stopped> {
        while !self.small_blocked {
            if self.chunk.is_empty() && !self.fill_chunk(sender) {
                return Ok(());
            }
            let stream = match self.small {
                Some(stream) => stream,
                None => {
                    let Some(stream) = connection.streams().open(Dir::Uni) else {
                        self.small_blocked = true;
                        return Ok(());
                    };
                    let mut opened = connection.send_stream(stream);
                    opened.set_priority(PRIORITY_SMALL).map_err(|_| Stopped)?;
                    self.kind = Bytes::from_static(&[STREAM_SMALL]);
                    *self.small.insert(stream)
                }
            };
            let mut rest = [std::mem::take(&mut self.kind), std::mem::take(&mut self.chunk)];
            let done = usize::from(rest[0].is_empty());
            let written = connection.send_stream(stream).write_chunks(&mut rest[done..]);
            [self.kind, self.chunk] = rest;
            match written {
                Ok(_) => {}
                Err(WriteError::Blocked) => self.small_blocked = true,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Err(Stopped),
            }
        }
        Ok(())
    }

    fn fill_chunk(&mut self, sender: &mut Sender) -> bool {
        while self.buffer.len() < CHUNK_BYTES
            && let Some((number, frame)) = sender.next(Class::Small)
        {
            if self.buffer.capacity() - self.buffer.len() < HEADER_BYTES_MAX + frame.len() {
                self.buffer.reserve((HEADER_BYTES_MAX + frame.len()).max(2 * CHUNK_BYTES));
            }
            Header { number, bytes: frame.len() as u64 }.write(&mut self.buffer);
            self.buffer.extend_from_slice(&frame.head);
            self.buffer.extend_from_slice(&frame.body);
        }
        self.chunk = self.buffer.split().freeze();
        !self.chunk.is_empty()
    }

    fn write_bulk(
        &mut self,
        connection: &mut Connection,
        sender: &mut Sender,
    ) -> Result<(), Stopped> {
        loop {
            let mut at = 0;
            while let Some(write) = self.bulk.get_mut(at) {
                if write.advance(connection)? {
                    self.bulk.remove(at);
                } else {
                    at += 1;
                }
            }
            if self.bulk.len() >= BULK_WRITES || self.bulk_blocked || !sender.has_next(Class::Bulk)
            {
                return Ok(());
            }
            let Some(stream) = connection.streams().open(Dir::Uni) else {
                self.bulk_blocked = true;
                return Ok(());
            };
            let Some((number, frame)) = sender.next(Class::Bulk) else { return Ok(()) };
            let mut header = BytesMut::with_capacity(1 + HEADER_BYTES_MAX + frame.head.len());
            header.put_u8(STREAM_BULK);
            Header { number, bytes: frame.len() as u64 }.write(&mut header);
            header.put_slice(&frame.head);
            let rest = [header.freeze(), frame.body];
            self.bulk.push(BulkWrite { stream, rest, blocked: false });
        }
    }
}

impl BulkWrite {
    /// Continues writing. Returns whether all was written.
    fn advance(&mut self, connection: &mut Connection) -> Result<bool, Stopped> {
        while !self.blocked {
            let done = usize::from(self.rest[0].is_empty());
            if self.rest[1].is_empty() && done == 1 {
                return match connection.send_stream(self.stream).finish() {
                    Ok(()) => Ok(true),
                    Err(FinishError::Stopped(_) | FinishError::ClosedStream) => Err(Stopped),
                };
            }
            match connection.send_stream(self.stream).write_chunks(&mut self.rest[done..]) {
                Ok(_) => {}
                Err(WriteError::Blocked) => self.blocked = true,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Err(Stopped),
            }
        }
        Ok(false)
    }
}
