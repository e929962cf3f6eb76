//! Controls of any size between nodes: encoded, in pieces that each fit into a frame.
//!
//! The controls of a rebalance grow with the number of actors, and the size of frames is bounded.

use crate::message::codec::{self, DecodeError};
use crate::message::{Assemblies, Control, Piece};
use bytes::Bytes;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// Maximum size of a piece: far below that of a frame, so that other packets can pass in between.
const PIECE_BYTES: usize = 256 << 10;

/// State of a PE for controls in pieces.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Pieces {
    /// Number of controls that were sent in pieces.
    sent: u64,
    /// Incomplete controls, by sender and number.
    coming: Assemblies<(PeId, u64)>,
}

impl Pieces {
    /// The state of a sender that numbers its controls in pieces from `number` on.
    pub(crate) fn numbered_from(number: u64) -> Self {
        Self { sent: number, ..Self::default() }
    }

    /// Splits a control into pieces.
    pub(crate) fn split(&mut self, control: &Control) -> impl Iterator<Item = Piece> + use<> {
        self.split_by(PIECE_BYTES, control)
    }

    fn split_by(
        &mut self,
        piece_bytes: usize,
        control: &Control,
    ) -> impl Iterator<Item = Piece> + use<> {
        let whole = Bytes::from(codec::encode(control));
        let (number, total) = (self.sent, whole.len() as u64);
        self.sent += 1;
        (0..whole.len()).step_by(piece_bytes).map(move |offset| {
            let bytes = whole.slice(offset..whole.len().min(offset + piece_bytes));
            Piece { number, total, offset: offset as u64, bytes }
        })
    }

    /// Takes a piece that has arrived. Returns the control once it is complete. Refuses a piece
    /// that does not match the earlier pieces of its control. Also refuses a piece if all
    /// incomplete controls together would then hold more than `bytes_max`.
    pub(crate) fn take(
        &mut self,
        from: PeId,
        piece: Piece,
        bytes_max: usize,
    ) -> Result<Option<Control>, DecodeError> {
        const WHAT: &str = "a control in pieces";
        let Piece { number, total, offset, bytes } = piece;
        let whole = self.coming.take((from, number), (offset, total, bytes), bytes_max)?;
        let Some(whole) = whole else { return Ok(None) };
        match codec::decode(WHAT, &whole)? {
            Control::Piece(_) => Err(DecodeError::new(WHAT, "pieces of pieces")),
            control => Ok(Some(control)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn pieces() -> Vec<Piece> {
        let control = Control::Location {
            id: crate::address::id::ActorId {
                collection: crate::address::id::CollectionId(3),
                key: crate::address::index::Key(1 << 90),
            },
            pe: PeId(7),
            epoch: 9,
            gone: false,
            replica: None,
        };
        Pieces::default().split_by(3, &control).collect()
    }

    fn is_whole(taken: &Result<Option<Control>, DecodeError>) -> bool {
        matches!(taken, Ok(Some(Control::Location { pe: PeId(7), epoch: 9, gone: false, .. })))
    }

    #[test]
    fn a_control_comes_together_from_pieces_in_any_order() {
        let (mut all, mut pieces) = (Pieces::default(), pieces());
        assert!(pieces.len() > 4);
        pieces.reverse();
        let last = pieces.pop().unwrap();
        for piece in pieces {
            assert!(matches!(all.take(PeId(1), piece, LIMIT), Ok(None)));
        }
        assert!(is_whole(&all.take(PeId(1), last, LIMIT)));
        assert_eq!(all.coming.count(), 0);
    }

    #[test]
    fn controls_of_several_senders_and_numbers_are_kept_apart() {
        let (mut all, pieces) = (Pieces::default(), pieces());
        for (at, piece) in pieces.iter().enumerate() {
            let is_last = at + 1 == pieces.len();
            for (from, number) in [(1, 0), (2, 0), (2, 5)] {
                let taken = all.take(PeId(from), Piece { number, ..piece.clone() }, LIMIT);
                assert_eq!(is_whole(&taken), is_last);
            }
        }
    }

    #[test]
    fn pieces_that_do_not_fit_or_exceed_the_limit_are_refused() {
        let mut all = Pieces::default();
        let [first, second] = [0, 1].map(|at| pieces()[at].clone());
        assert!(all.take(PeId(1), first.clone(), LIMIT).is_ok());
        assert!(all.take(PeId(1), first.clone(), LIMIT).is_err(), "twice");
        let longer = Piece { total: first.total + 1, ..second.clone() };
        assert!(all.take(PeId(1), longer, LIMIT).is_err(), "of another length");
        let empty = Piece { total: 0, number: 9, bytes: Bytes::new(), ..first };
        assert!(all.take(PeId(1), empty, LIMIT).is_err(), "of nothing");
        assert!(all.take(PeId(1), second, 4).is_err(), "more bytes than the limit");
    }

    #[test]
    fn a_piece_inside_a_control_in_pieces_is_refused() {
        let mut all = Pieces::default();
        let nested = Control::Piece(pieces().remove(0));
        let whole: Vec<Piece> = Pieces::default().split(&nested).collect();
        assert_eq!(whole.len(), 1);
        assert!(all.take(PeId(1), whole[0].clone(), LIMIT).is_err());
    }
}
