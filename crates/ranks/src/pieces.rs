//! Long messages to ranks on other nodes: cut into pieces by the sender, joined by the receiver.
//!
//! The runtime carries a message in one piece, of at most 60 MiB by default. Messages between two
//! actors arrive in the order in which they were sent, so the pieces of one message follow each
//! other, and the next message of that sender comes after the last of them.

use crate::packet::RankMessage;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Size of a piece, and of the largest message that is not cut, in bytes.
pub(crate) const PIECE_BYTES: usize = 16 << 20;

/// Cuts a message of a rank of the job into pieces of at most `bytes` bytes.
pub(crate) fn cut(
    from: u32,
    message: &RankMessage,
    bytes: usize,
) -> Result<Vec<RankMessage>, postcard::Error> {
    let whole = Bytes::from(postcard::to_stdvec(message)?);
    let begins = (0..whole.len()).step_by(bytes);
    let piece = |begin| {
        let end = whole.len().min(begin + bytes);
        let is_last = end == whole.len();
        RankMessage::Piece { from, is_last, bytes: whole.slice(begin..end) }
    };
    Ok(begins.map(piece).collect())
}

/// The pieces of messages whose last piece has not come, by sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Joiner {
    begun: BTreeMap<u32, Vec<u8>>,
}

impl Joiner {
    /// Adds a piece. Returns the message after its last piece.
    pub(crate) fn add(
        &mut self,
        from: u32,
        is_last: bool,
        bytes: &[u8],
    ) -> Result<Option<RankMessage>, postcard::Error> {
        self.begun.entry(from).or_default().extend_from_slice(bytes);
        if !is_last {
            return Ok(None);
        }
        let whole = self.begun.remove(&from).unwrap_or_default();
        postcard::from_bytes(&whole).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::matching::Label;
    use crate::packet::{Load, Payload};

    fn message(origin: u32, numbers: u64) -> RankMessage {
        let content = Content::owned((0..numbers).collect());
        let load = Load::Whole { content, acknowledge: None };
        let label = Label { context: 0, source: origin, tag: 5 };
        RankMessage::Message(label, Payload { origin, load })
    }

    fn joined(joiner: &mut Joiner, piece: RankMessage) -> Option<RankMessage> {
        let RankMessage::Piece { from, is_last, bytes } = piece else { panic!("not a piece") };
        joiner.add(from, is_last, &bytes).unwrap()
    }

    #[test]
    fn messages_are_joined_while_those_of_others_arrive() {
        let messages = [message(0, 100), message(1, 333)];
        let [first, second] =
            [0, 1].map(|from: u32| cut(from, &messages[from as usize], 256).unwrap());
        assert_eq!((first.len(), second.len()), (4, 11));
        let mut joiner = Joiner::default();
        let mut ends = Vec::new();
        for (at, of_second) in second.into_iter().enumerate() {
            let of_first = first.get(at).cloned();
            let pieces = of_first.into_iter().chain([of_second]);
            ends.extend(pieces.filter_map(|piece| joined(&mut joiner, piece)));
            // The pieces that have come survive a move.
            let bytes = postcard::to_stdvec(&joiner).unwrap();
            joiner = postcard::from_bytes(&bytes).unwrap();
        }
        assert_eq!(joiner, Joiner::default());
        let payload = |message: &RankMessage| match message {
            RankMessage::Message(label, payload) => (*label, payload.clone()),
            _ => panic!("not a message"),
        };
        assert_eq!(ends.len(), 2);
        assert!(ends.iter().map(payload).eq(messages.iter().map(payload)));
    }

    #[test]
    fn pieces_that_are_no_message_are_an_error() {
        assert!(Joiner::default().add(3, true, &[250, 250, 250]).is_err());
    }
}
