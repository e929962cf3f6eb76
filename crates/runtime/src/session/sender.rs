//! The sending side: numbers frames and keeps them until they are acknowledged.

use super::fault::PlantedSessionFault;
use super::received::{Class, Received};
use crate::message::frame::Frame;
use std::collections::VecDeque;
use thiserror::Error;

/// The frame was not accepted, because too many bytes already wait for the other side. Nothing
/// changed; send it again when acknowledgements have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{unacknowledged} bytes to the node are unacknowledged, and {limit} are allowed: send less at \
     once, or raise the limit"
)]
pub struct Backlog {
    /// Bytes that wait.
    pub unacknowledged: u64,
    /// Bytes that may wait.
    pub limit: u64,
}

/// The other side claims to have received frames that were never sent. Nothing changed; the
/// connection cannot be trusted and must be closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the peer acknowledges frames that were never sent ({received:?}): close the connection")]
pub struct AcknowledgementError {
    /// The frames that the other side claims to have received.
    pub received: Received,
}

/// Frames under way to one node.
#[derive(Debug)]
pub struct Sender {
    small: Lane,
    bulk: Lane,
    bytes: u64,
    bytes_max: u64,
    /// Bytes that were acknowledged so far.
    acknowledged: u64,
    fault: PlantedSessionFault,
}

impl Sender {
    pub(super) fn new(bytes_max: u64, fault: PlantedSessionFault) -> Self {
        Self {
            small: Lane::default(),
            bulk: Lane::default(),
            bytes: 0,
            bytes_max,
            acknowledged: 0,
            fault,
        }
    }

    /// Queues a frame. A frame is always accepted if no other is unacknowledged, so that the limit
    /// cannot stop a job with larger frames.
    ///
    /// # Errors
    ///
    /// [`Backlog`] if too many bytes are not acknowledged yet. The frame is not queued then.
    pub fn push(&mut self, class: Class, frame: impl Into<Frame>) -> Result<(), Backlog> {
        let frame = frame.into();
        let bytes = frame.len() as u64;
        if self.bytes > 0 && self.bytes + bytes > self.bytes_max {
            return Err(Backlog { unacknowledged: self.bytes, limit: self.bytes_max });
        }
        self.bytes += bytes;
        self.lane(class).frames.push_back(Some(frame));
        Ok(())
    }

    /// Returns the next frame of `class` to write to the connection, with its number. Returns
    /// `None` if there is none, or while too many bulk frames are under way, so that the receiver
    /// would refuse another one.
    pub fn next(&mut self, class: Class) -> Option<(u64, Frame)> {
        if self.has_next(class) { self.lane(class).next() } else { None }
    }

    /// Whether [`next`](Self::next) returns a frame of `class`.
    pub fn has_next(&self, class: Class) -> bool {
        match class {
            Class::Small => self.small.unwritten() > 0,
            Class::Bulk => {
                self.bulk.unwritten() > 0
                    && self.bulk.written - self.bulk.first < Received::BULK_AHEAD_MAX
            }
        }
    }

    /// Releases the frames that the other side has received. Outdated acknowledgements change
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`AcknowledgementError`] if the other side claims frames that were never sent.
    pub fn acknowledge(&mut self, received: &Received) -> Result<(), AcknowledgementError> {
        let highest_bulk = received.bulk_above.last().map_or(received.bulk, |&(_, end)| end);
        if received.small > self.small.ever_written
            || highest_bulk > self.bulk.ever_written
            || !received.is_well_formed()
        {
            return Err(AcknowledgementError { received: received.clone() });
        }
        let mut released = self.small.release_before(received.small);
        released += self.bulk.release_before(received.bulk);
        for &(first, end) in &received.bulk_above {
            released += self.bulk.release(first, end);
        }
        self.bytes -= released;
        self.acknowledged += released;
        Ok(())
    }

    /// Starts a new connection to a node that has `received`: releases these frames. After that,
    /// [`next`](Self::next) returns all others again, from the first missing one on.
    ///
    /// # Errors
    ///
    /// Those of [`acknowledge`](Self::acknowledge).
    pub fn resume(&mut self, received: &Received) -> Result<(), AcknowledgementError> {
        if self.fault == PlantedSessionFault::ResendWithoutSequence {
            self.small.renumber();
            self.bulk.renumber();
            return Ok(());
        }
        self.acknowledge(received)?;
        self.small.write_from(self.small.first);
        self.bulk.write_from(self.bulk.first);
        Ok(())
    }

    /// Returns the bytes of frames that were queued and not acknowledged yet.
    pub fn bytes_unacknowledged(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes acknowledged so far.
    pub fn bytes_acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Whether frames wait because the connection has not accepted them yet.
    pub fn is_backed_up(&self) -> bool {
        self.small.unwritten() > 0 || self.bulk.unwritten() > 0
    }

    /// Whether all queued frames were acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.small.frames.is_empty() && self.bulk.frames.is_empty()
    }

    fn lane(&mut self, class: Class) -> &mut Lane {
        match class {
            Class::Small => &mut self.small,
            Class::Bulk => &mut self.bulk,
        }
    }
}

/// The frames of one class, oldest first; an acknowledged frame behind an unacknowledged one is
/// `None`.
#[derive(Debug, Default)]
struct Lane {
    /// The number of the first frame in `frames`.
    first: u64,
    frames: VecDeque<Option<Frame>>,
    /// The number of the next frame to write. Never below `first`, and never that of an
    /// acknowledged frame.
    written: u64,
    /// The highest `written` of all connections: a packet of an earlier connection may still
    /// arrive.
    ever_written: u64,
}

impl Lane {
    fn unwritten(&self) -> u64 {
        self.first + self.frames.len() as u64 - self.written
    }

    fn next(&mut self) -> Option<(u64, Frame)> {
        let number = self.written;
        let frame = self.frames.get((number - self.first) as usize)?.clone()?;
        self.ever_written = self.ever_written.max(number + 1);
        self.write_from(number + 1);
        Some((number, frame))
    }

    /// Makes the first unacknowledged frame from `number` on the next to write. This skips
    /// acknowledged frames at once, because [`Sender::has_next`] compares `written` with `first`.
    fn write_from(&mut self, number: u64) {
        self.written = number.max(self.first);
        while let Some(None) = self.frames.get((self.written - self.first) as usize) {
            self.written += 1;
        }
    }

    /// Releases the frames below `end`, and the acknowledged ones that follow. Returns their bytes.
    fn release_before(&mut self, end: u64) -> u64 {
        let mut bytes = 0;
        while let Some(front) = self.frames.front()
            && (self.first < end || front.is_none())
        {
            bytes += front.as_ref().map_or(0, |frame| frame.len() as u64);
            self.frames.pop_front();
            self.first += 1;
        }
        self.write_from(self.written);
        bytes
    }

    /// Releases the frames in `first..end`, some of which may already be released.
    fn release(&mut self, first: u64, end: u64) -> u64 {
        let mut bytes = 0;
        for number in first.max(self.first)..end {
            let frame = self.frames.get_mut((number - self.first) as usize).and_then(Option::take);
            bytes += frame.map_or(0, |frame| frame.len() as u64);
        }
        bytes + self.release_before(0)
    }

    /// Gives all frames new numbers.
    fn renumber(&mut self) {
        self.first += self.frames.len() as u64;
        self.write_from(self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(byte: u8) -> Frame {
        vec![byte; 10].into()
    }

    #[test]
    fn only_missing_frames_are_written_again() {
        let mut sender = Sender::new(1000, PlantedSessionFault::None);
        for byte in 0..5 {
            sender.push(Class::Bulk, frame(byte)).unwrap();
        }
        while sender.next(Class::Bulk).is_some() {}
        let received = Received { small: 0, bulk: 1, bulk_above: vec![(2, 4)] };
        sender.resume(&received).unwrap();
        assert_eq!(sender.bytes_unacknowledged(), 20);
        assert_eq!(sender.next(Class::Bulk), Some((1, frame(1))));
        assert_eq!(sender.next(Class::Bulk), Some((4, frame(4))));
        assert_eq!(sender.next(Class::Bulk), None);
    }

    #[test]
    fn frames_acknowledged_on_an_earlier_connection_do_not_extend_the_distance_ahead() {
        let ahead = Received::BULK_AHEAD_MAX;
        let mut sender = Sender::new(u64::MAX, PlantedSessionFault::None);
        for _ in 0..=ahead {
            sender.push(Class::Bulk, frame(0)).unwrap();
        }
        while sender.next(Class::Bulk).is_some() {}
        sender.resume(&Received { small: 0, bulk: 0, bulk_above: vec![(1, ahead)] }).unwrap();

        assert_eq!(sender.next(Class::Bulk), Some((0, frame(0))));
        assert!(!sender.has_next(Class::Bulk));
        assert_eq!(sender.next(Class::Bulk), None);

        sender.acknowledge(&Received { small: 0, bulk: ahead, bulk_above: vec![] }).unwrap();
        assert_eq!(sender.next(Class::Bulk), Some((ahead, frame(0))));
    }

    #[test]
    fn without_an_unacknowledged_frame_there_is_none_to_write() {
        let mut sender = Sender::new(1000, PlantedSessionFault::None);
        for byte in 0..2 {
            sender.push(Class::Bulk, frame(byte)).unwrap();
        }
        while sender.next(Class::Bulk).is_some() {}
        sender.resume(&Received { small: 0, bulk: 0, bulk_above: vec![(1, 2)] }).unwrap();

        assert_eq!(sender.next(Class::Bulk), Some((0, frame(0))));
        assert!(!sender.has_next(Class::Bulk) && !sender.is_backed_up());
    }

    #[test]
    fn a_full_sender_refuses_a_frame_and_an_empty_one_accepts_any() {
        let mut sender = Sender::new(15, PlantedSessionFault::None);
        sender.push(Class::Small, vec![0; 100]).unwrap();
        let refused = sender.push(Class::Small, frame(1)).unwrap_err();
        assert_eq!(refused, Backlog { unacknowledged: 100, limit: 15 });
    }

    #[test]
    fn a_claim_to_unsent_frames_is_refused_and_changes_nothing() {
        let mut sender = Sender::new(1000, PlantedSessionFault::None);
        sender.push(Class::Small, frame(0)).unwrap();
        let claim = Received { small: 1, ..Received::default() };
        assert!(sender.acknowledge(&claim).is_err());
        assert_eq!(sender.bytes_unacknowledged(), 10);
    }
}
