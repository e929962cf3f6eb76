//! The first message on a connection: the identity of each side, and the state of their session.
//!
//! # Start
//!
//! The side that dialled opens the only two-way stream and writes a [`Hello`]. The other side
//! checks it, checks that the certificate of the connection belongs to the node and incarnation
//! that the hello names, and answers with its own hello. Neither side reads or writes a frame
//! before it has accepted the other's hello. (In TLS 1.3 the client regards the handshake as
//! finished before the server has verified the client's certificate, so a finished handshake alone
//! proves nothing to the side that dialled.)
//!
//! # Failure
//!
//! A refused hello ends the connection with a [`HelloRefusal`]; the other side receives its code
//! and text. Nothing else changes on either side.

use super::identity::PROTOCOL_VERSION;
use crate::error::RefusalCause;
use crate::session::Received;
use bytes::{BufMut, Bytes, BytesMut};
use gridspan_topology::NodeId;
use quinn_proto::VarInt;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Prefix of every hello, in every version.
const MAGIC: [u8; 4] = *b"GSPN";
/// Magic, version and length.
const PREFIX_BYTES: usize = 8;
/// Size of the largest hello: names and a few numbers, with room for the ranges of a session.
const HELLO_BYTES_MAX: usize = 16 * 1024;

/// The QUIC error code of a node that ends normally.
pub(super) const CODE_CLOSED: VarInt = VarInt::from_u32(0);
/// The QUIC error code of a connection that another one replaces.
pub(super) const CODE_REPLACED: VarInt = VarInt::from_u32(1);

/// The first message of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) job: String,
    /// The sending node.
    pub(super) node: NodeId,
    /// The incarnation of the sending node.
    pub(super) incarnation: u64,
    /// The node to which the sender writes.
    pub(super) to: NodeId,
    /// The incarnation of the other side with which the sender has a session, if any.
    pub(super) session_with: Option<u64>,
    /// Number of earlier connections of this session that the sender knows of.
    pub(super) connections: u64,
    /// The frames that the sender received in this session.
    pub(super) received: Received,
}

/// Why a node refuses a connection with another. Nothing changed on either side.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HelloRefusal {
    /// The other side speaks another version.
    #[error("it speaks protocol version {theirs}, this node {PROTOCOL_VERSION}: use one build")]
    Version {
        /// The version it speaks.
        theirs: u16,
    },
    /// The other side belongs to another job.
    #[error("it belongs to the job {theirs:?}: check the addresses")]
    Job {
        /// The job it belongs to.
        theirs: String,
    },
    /// The other side is not the expected node, or not in this job.
    #[error("it is {claimed}, which was not expected there: check the addresses")]
    Node {
        /// The node that it claims to be.
        claimed: NodeId,
    },
    /// The certificate does not name the node and incarnation that the hello claims.
    #[error("its certificate does not name {claimed}, incarnation {incarnation}")]
    Certificate {
        /// The node that it claims to be.
        claimed: NodeId,
        /// The incarnation that it claims.
        incarnation: u64,
    },
    /// A later incarnation of the node is known.
    #[error("incarnation {theirs} of the node has ended, {known} is known: end the old process")]
    Incarnation {
        /// The incarnation that it claims.
        theirs: u64,
        /// The latest incarnation known.
        known: u64,
    },
    /// The node was declared lost in this incarnation.
    #[error("the node was declared lost: start it again with a higher incarnation")]
    Lost,
    /// The hello cannot be decoded.
    #[error("it sent a malformed hello")]
    Malformed,
    /// The hello did not arrive in time.
    #[error("its hello did not arrive in time")]
    Silent,
    /// The other side refused this node.
    #[error("it refuses this node: {text}")]
    ByPeer {
        /// Its reason.
        cause: RefusalCause,
        /// Its reason as text.
        text: String,
    },
    /// The handshake failed, for example because the certificate is of another authority.
    #[error("no secure connection: {0}")]
    Handshake(String),
}

impl HelloRefusal {
    /// Returns the QUIC error code of a connection that ends for this reason.
    pub(super) fn code(&self) -> VarInt {
        VarInt::from_u32(match self {
            Self::Version { .. } => 10,
            Self::Job { .. } => 11,
            Self::Node { .. } => 12,
            Self::Certificate { .. } => 13,
            Self::Incarnation { .. } => 14,
            Self::Lost => 15,
            Self::Malformed => 16,
            Self::Silent => 17,
            Self::ByPeer { .. } => 18,
            Self::Handshake(_) => 19,
        })
    }

    /// Why the other side refuses this node, if its error code is a refusal.
    pub(super) fn cause_of(code: VarInt) -> Option<RefusalCause> {
        Some(match code.into_inner() {
            10 => RefusalCause::Version,
            11 => RefusalCause::Job,
            12 => RefusalCause::Node,
            13 => RefusalCause::Certificate,
            14 => RefusalCause::Incarnation,
            15 => RefusalCause::Lost,
            16 => RefusalCause::Malformed,
            17 => RefusalCause::Late,
            18 => RefusalCause::Other,
            19 => RefusalCause::Handshake,
            _ => return None,
        })
    }

    /// The reason without its details.
    pub(super) fn cause(&self) -> RefusalCause {
        match self {
            Self::ByPeer { cause, .. } => *cause,
            other => Self::cause_of(other.code()).unwrap_or(RefusalCause::Other),
        }
    }
}

/// A hello cannot be sent. The connection ends, and nothing else changes.
#[derive(Debug, Error)]
pub(super) enum HelloWriteError {
    /// The other side would refuse it.
    #[error("a hello of {bytes} bytes exceeds {HELLO_BYTES_MAX}")]
    TooLong { bytes: usize },
    /// It cannot be encoded.
    #[error("a hello cannot be encoded: {0}")]
    Encoding(#[from] postcard::Error),
}

impl Hello {
    /// Encodes the hello.
    ///
    /// # Errors
    ///
    /// [`HelloWriteError`] if it is too long or cannot be encoded.
    pub(super) fn write(&self) -> Result<Bytes, HelloWriteError> {
        let body = postcard::to_allocvec(self)?;
        let too_long = HelloWriteError::TooLong { bytes: body.len() };
        let body_bytes = u16::try_from(body.len()).ok();
        let fits = |&bytes: &u16| usize::from(bytes) <= HELLO_BYTES_MAX;
        let body_bytes = body_bytes.filter(fits).ok_or(too_long)?;
        let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + body.len());
        bytes.put_slice(&MAGIC);
        bytes.put_u16(PROTOCOL_VERSION);
        bytes.put_u16(body_bytes);
        bytes.put_slice(&body);
        Ok(bytes.freeze())
    }

    /// Decodes a hello; returns `None` if `from` ends before the hello does.
    pub(super) fn read(from: &[u8]) -> Result<Option<Self>, HelloRefusal> {
        if from.len() < PREFIX_BYTES {
            let start = &MAGIC[..from.len().min(MAGIC.len())];
            return if from.starts_with(start) { Ok(None) } else { Err(HelloRefusal::Malformed) };
        }
        let theirs = u16::from_be_bytes([from[4], from[5]]);
        if from[..4] != MAGIC {
            return Err(HelloRefusal::Malformed);
        }
        if theirs != PROTOCOL_VERSION {
            return Err(HelloRefusal::Version { theirs });
        }
        let bytes = usize::from(u16::from_be_bytes([from[6], from[7]]));
        if bytes > HELLO_BYTES_MAX {
            return Err(HelloRefusal::Malformed);
        }
        match from.get(PREFIX_BYTES..PREFIX_BYTES + bytes) {
            Some(body) => match postcard::from_bytes::<Self>(body) {
                Ok(hello) if hello.received.is_well_formed() => Ok(Some(hello)),
                _ => Err(HelloRefusal::Malformed),
            },
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            job: "heat".to_owned(),
            node: NodeId(1),
            incarnation: 2,
            to: NodeId(0),
            session_with: Some(1),
            connections: 3,
            received: Received { small: 4, bulk: 5, bulk_above: vec![(7, 9)] },
        }
    }

    #[test]
    fn a_hello_decodes_once_all_bytes_have_arrived() {
        let bytes = hello().write().unwrap();
        for end in 0..bytes.len() {
            assert_eq!(Hello::read(&bytes[..end]), Ok(None), "{end}");
        }
        assert_eq!(Hello::read(&bytes), Ok(Some(hello())));
    }

    #[test]
    fn a_hello_is_not_sent_if_the_other_side_would_refuse_its_length() {
        let named = |bytes| Hello { job: "x".repeat(bytes), ..hello() };
        let longest = (0..HELLO_BYTES_MAX).rev().find_map(|bytes| named(bytes).write().ok());
        let longest = longest.unwrap();
        assert_eq!(longest.len(), PREFIX_BYTES + HELLO_BYTES_MAX);
        assert!(Hello::read(&longest).unwrap().is_some());
        for bytes in [HELLO_BYTES_MAX, 1 << 20] {
            let error = named(bytes).write().unwrap_err();
            assert!(matches!(error, HelloWriteError::TooLong { .. }), "{error}");
        }
    }

    #[test]
    fn another_version_is_named_in_the_refusal() {
        let mut bytes = hello().write().unwrap().to_vec();
        bytes[5] = 9;
        assert_eq!(Hello::read(&bytes), Err(HelloRefusal::Version { theirs: 9 }));
    }

    #[test]
    fn the_other_side_learns_the_cause_of_a_refusal_by_its_code() {
        let lost = HelloRefusal::Lost;
        let cause = HelloRefusal::cause_of(lost.code());
        assert_eq!((cause, lost.cause()), (Some(RefusalCause::Lost), RefusalCause::Lost));
        let text = lost.to_string();
        assert_eq!(
            HelloRefusal::ByPeer { cause: RefusalCause::Lost, text }.cause(),
            RefusalCause::Lost
        );
        for code in [CODE_CLOSED, CODE_REPLACED, VarInt::from_u32(9), VarInt::from_u32(20)] {
            assert_eq!(HelloRefusal::cause_of(code), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            prefix: bool,
        ) {
            if prefix {
                let start = b"GSPN\x00\x01\x00\x20";
                bytes.splice(0..bytes.len().min(8), start.iter().copied());
            }
            let _ = Hello::read(&bytes);
        }
    }
}
