//! A value of a type that only its receiver knows: moved within a process, encoded between nodes.

use crate::message::codec::{self, DecodeError};
use crate::message::trace::Trace;
use bytes::Bytes;
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::{Any, type_name};
use std::fmt;

/// A value in transit. It stays a value within the process, and is encoded for the network.
pub(crate) enum Payload {
    /// A value that is not yet encoded.
    Value(Box<dyn AnyValue>),
    /// A value that is not yet encoded, and where it comes from, while the job is recorded.
    Traced(Box<dyn AnyValue>, Trace),
    /// The bytes received from the network.
    Bytes(Bytes),
}

impl Payload {
    pub(crate) fn new<T: Serialize + Send + 'static>(value: T) -> Self {
        Self::Value(Box::new(value))
    }

    /// Unpacks a value that was packed as a `T`.
    pub(crate) fn open<T: DeserializeOwned + 'static>(self) -> Result<T, DecodeError> {
        match self {
            Self::Value(value) | Self::Traced(value, _) => value
                .into_any()
                .downcast()
                .map(|value| *value)
                .map_err(|_| DecodeError::new(type_name::<T>(), "the value has another type")),
            Self::Bytes(bytes) => codec::decode(type_name::<T>(), &bytes),
        }
    }

    /// Attaches a trace to the payload: next to a value, or at the end of encoded bytes.
    pub(crate) fn with_trace(self, trace: Trace) -> Self {
        match self {
            Self::Value(value) | Self::Traced(value, _) => Self::Traced(value, trace),
            Self::Bytes(bytes) => {
                let mut bytes = bytes.to_vec();
                trace.append(&mut bytes);
                Self::Bytes(bytes.into())
            }
        }
    }

    /// Takes the trace off the payload, if it has one.
    pub(crate) fn take_trace(self) -> (Self, Option<Trace>) {
        match self {
            Self::Value(_) => (self, None),
            Self::Traced(value, trace) => (Self::Value(value), Some(trace)),
            Self::Bytes(bytes) => {
                let (bytes, trace) = Trace::take(bytes);
                (Self::Bytes(bytes), trace)
            }
        }
    }

    /// Returns the payload as bytes, for sending to several nodes without encoding it again.
    pub(crate) fn to_bytes(&self) -> Bytes {
        match self {
            Self::Value(value) => encoded(&**value, None).into(),
            Self::Traced(value, trace) => encoded(&**value, Some(*trace)).into(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }

    /// Returns the number of bytes on the wire, or zero while the payload is a value.
    pub(crate) fn wire_len(&self) -> usize {
        match self {
            Self::Value(_) | Self::Traced(..) => 0,
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value"),
            Self::Traced(_, trace) => write!(f, "Traced({trace:?})"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
        }
    }
}

/// Encodes a value, with its trace behind it.
fn encoded(value: &dyn AnyValue, trace: Option<Trace>) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.append(&mut bytes);
    if let Some(trace) = trace {
        trace.append(&mut bytes);
    }
    bytes
}

/// Any value that can be encoded.
pub(crate) trait AnyValue: Send {
    /// Appends the encoded value.
    fn append(&self, bytes: &mut Vec<u8>);
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Serialize + Send + 'static> AnyValue for T {
    fn append(&self, bytes: &mut Vec<u8>) {
        codec::append(self, bytes);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => serializer.serialize_bytes(&encoded(&**value, None)),
            Self::Traced(value, trace) => {
                serializer.serialize_bytes(&encoded(&**value, Some(*trace)))
            }
            Self::Bytes(bytes) => serializer.serialize_bytes(bytes),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(PayloadVisitor)
    }
}

struct PayloadVisitor;

impl Visitor<'_> for PayloadVisitor {
    type Value = Payload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an encoded value")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Payload, E> {
        Ok(Payload::Bytes(Bytes::copy_from_slice(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_gives_the_same_value_before_and_after_encoding() {
        let sent = Payload::new(vec![1u32, 2, 3]);
        let bytes = codec::encode(&sent);
        let received: Payload = codec::decode("a payload", &bytes).unwrap();
        assert_eq!(sent.open::<Vec<u32>>().unwrap(), [1, 2, 3]);
        assert_eq!(received.open::<Vec<u32>>().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn a_trace_comes_off_a_payload_before_and_after_encoding() {
        let trace = Trace { pe: 3, span: Some(9), sent_ns: 1_000 };
        let sent = Payload::new(vec![1u32, 2, 3]).with_trace(trace);
        let received: Payload = codec::decode("a payload", &codec::encode(&sent)).unwrap();
        let again = Payload::Bytes(Payload::new(vec![1u32, 2, 3]).to_bytes()).with_trace(trace);
        assert_eq!(again.to_bytes(), sent.to_bytes());
        for payload in [sent, received, again] {
            let (payload, found) = payload.take_trace();
            assert_eq!(found, Some(trace));
            assert_eq!(payload.open::<Vec<u32>>().unwrap(), [1, 2, 3]);
        }
        assert!(Payload::new(5_u8).take_trace().1.is_none());
    }

    #[test]
    fn a_traced_value_that_stays_in_its_process_is_not_encoded() {
        /// Cannot be read from bytes.
        #[derive(Serialize)]
        struct Unreadable;

        impl<'de> Deserialize<'de> for Unreadable {
            fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                Err(D::Error::custom("unreadable"))
            }
        }

        let trace = Trace { pe: 0, span: None, sent_ns: 5 };
        let (payload, _) = Payload::new(Unreadable).with_trace(trace).take_trace();
        assert!(payload.open::<Unreadable>().is_ok());
    }

    #[test]
    fn a_payload_of_another_type_is_an_error() {
        assert!(Payload::new(1u32).open::<String>().is_err());
        assert!(Payload::Bytes(Bytes::from_static(b"\xff")).open::<String>().is_err());
    }
}
