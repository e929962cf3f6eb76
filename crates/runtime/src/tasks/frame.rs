//! Frames, which wait for the outputs of tasks.

use super::lineage::{Held, LineageId};
use crate::message::steal_agent::CopyId;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// The name of a frame of a PE. Places are reused; the serial number tells the frames of a place
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FrameId {
    place: u32,
    serial: u32,
}

/// The frame of another PE that receives the output of a loan, and the child number of that output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lender {
    pub(super) pe: PeId,
    pub(super) frame: FrameId,
    pub(super) child: u32,
    /// Number of items of the loan.
    pub(super) items: u64,
    /// Which copy of the loan this is, if there may be two.
    pub(super) copy: Option<CopyId>,
}

impl Lender {
    /// Whether the output of the loan goes to this frame of `pe`.
    pub(super) fn works_for(&self, pe: PeId, frame: FrameId) -> bool {
        (self.pe, self.frame) == (pe, frame)
    }
}

/// Work that another PE has lent.
pub(crate) struct Borrowed {
    pub(super) lender: Lender,
    /// The lineage of the work, held as long as the loan exists.
    pub(super) _lineage: Held,
}

/// The destination of a frame's own output.
pub(crate) enum Up {
    /// To a frame of the same PE, as the child of this number.
    Frame(FrameId, u32),
    /// To the PE that the work was taken from. Boxed, since most frames are not loans.
    Lender(Box<Borrowed>),
    /// To the origin of this root.
    Root(u64),
}

/// An item with the frame on its PE that waits for it.
#[derive(Debug)]
pub(crate) struct QueuedTask<I> {
    pub(super) item: I,
    pub(super) frame: FrameId,
    pub(super) child: u32,
    pub(super) lineage: LineageId,
}

/// A frame that waits for outputs.
pub(crate) struct Frame<S> {
    pub(super) up: Up,
    /// Number of outputs to come.
    pub(super) pending: u64,
    /// The lineage of the tasks that work for the frame.
    pub(super) lineage: LineageId,
    pub(super) state: S,
}

/// The frames of a PE.
pub(crate) struct Frames<S> {
    places: Vec<(u32, Option<Frame<S>>)>,
    free: Vec<u32>,
}

impl<S> Default for Frames<S> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<S> Frames<S> {
    /// Reserves the name of the next frame; [`fill`](Self::fill) or [`release`](Self::release)
    /// follows.
    #[inline]
    pub(super) fn reserve(&mut self) -> FrameId {
        match self.free.pop() {
            Some(place) => FrameId { place, serial: self.places[place as usize].0 },
            None => {
                let place = self.places.len() as u32;
                self.places.push((0, None));
                FrameId { place, serial: 0 }
            }
        }
    }

    #[inline]
    pub(super) fn fill(&mut self, id: FrameId, frame: Frame<S>) {
        self.places[id.place as usize].1 = Some(frame);
    }

    /// Opens a frame for a loan of another PE.
    pub(super) fn borrow(&mut self, lender: Lender, lineage: Held, state: S) -> FrameId {
        let (id, pending) = (lineage.id(), lender.items);
        let up = Up::Lender(Borrowed { lender, _lineage: lineage }.into());
        self.open(Frame { up, pending, lineage: id, state })
    }

    pub(super) fn open(&mut self, frame: Frame<S>) -> FrameId {
        let id = self.reserve();
        self.fill(id, frame);
        id
    }

    /// Adds an item to a loan.
    pub(super) fn extend(&mut self, id: FrameId) {
        if let Some(frame) = self.get(id) {
            frame.pending += 1;
            if let Up::Lender(borrowed) = &mut frame.up {
                borrowed.lender.items += 1;
            }
        }
    }

    /// The frame, if it still exists.
    #[inline]
    pub(super) fn get(&mut self, id: FrameId) -> Option<&mut Frame<S>> {
        match self.places.get_mut(id.place as usize) {
            Some((serial, frame)) if *serial == id.serial => frame.as_mut(),
            _ => None,
        }
    }

    /// Closes a frame, or gives up a reserved name.
    #[inline]
    pub(super) fn release(&mut self, id: FrameId) -> Option<Frame<S>> {
        let (serial, frame) = self.places.get_mut(id.place as usize)?;
        if *serial != id.serial {
            return None;
        }
        *serial = serial.wrapping_add(1);
        self.free.push(id.place);
        frame.take()
    }

    /// The frames with a lineage for which `is_wanted` holds.
    pub(super) fn find(&self, mut is_wanted: impl FnMut(LineageId) -> bool) -> Vec<FrameId> {
        let places = self.places.iter().enumerate();
        let open = places
            .filter(|(_, (_, frame))| frame.as_ref().is_some_and(|frame| is_wanted(frame.lineage)));
        open.map(|(place, &(serial, _))| FrameId { place: place as u32, serial }).collect()
    }

    /// Number of open frames and reserved names.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_match_the_next_frame_in_its_place() {
        let mut frames = Frames::default();
        let frame =
            |state| Frame { up: Up::Root(0), pending: 1, lineage: LineageId::FOUNDERS, state };
        let first = frames.open(frame('a'));
        assert_eq!(frames.release(first).map(|frame| frame.state), Some('a'));
        let second = frames.open(frame('b'));
        assert!(frames.get(first).is_none());
        assert!(frames.release(first).is_none());
        assert_eq!(frames.get(second).map(|frame| frame.state), Some('b'));
        assert_eq!(frames.len(), 1);
    }
}
