//! What a session carries: bytes in two pieces, so that what is large need not be copied behind
//! what is said of it.

use bytes::{Bytes, BytesMut};

/// A frame on its way out; where it arrives, its pieces lie one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
}

impl Frame {
    /// A frame whose pieces arrive one behind the other.
    pub fn new(head: impl Into<Bytes>, body: impl Into<Bytes>) -> Self {
        Self { head: head.into(), body: body.into() }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The frame as it arrives. Copies it if it is in two pieces.
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
