//! Frames, the units of a session: bytes in two pieces, so that a large payload need not be copied
//! behind its header.

use bytes::{Bytes, BytesMut};

/// An outgoing frame. Its receiver gets the two pieces joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
}

impl Frame {
    /// Creates a frame of two pieces, which arrive joined.
    pub fn new(head: impl Into<Bytes>, body: impl Into<Bytes>) -> Self {
        Self { head: head.into(), body: body.into() }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether the frame is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the two pieces joined. Copies them unless the first is empty.
    pub fn into_bytes(self) -> Bytes {
        let Self { head, body } = self;
        if head.is_empty() {
            return body;
        }
        let mut whole = BytesMut::with_capacity(head.len() + body.len());
        whole.extend_from_slice(&head);
        whole.extend_from_slice(&body);
        whole.freeze()
    }
}

impl From<Bytes> for Frame {
    fn from(body: Bytes) -> Self {
        Self::new(Bytes::new(), body)
    }
}

impl From<Vec<u8>> for Frame {
    fn from(body: Vec<u8>) -> Self {
        Bytes::from(body).into()
    }
}
