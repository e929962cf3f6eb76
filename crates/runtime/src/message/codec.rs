//! Encoding of values as bytes, and decoding.

use crate::error::AskError;
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes that do not decode. They came from a faulty or hostile peer, or from a program with other
/// types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode {what}: {reason}")]
#[non_exhaustive]
pub struct DecodeError {
    /// The value that was being decoded.
    pub what: &'static str,
    /// Why it failed.
    pub reason: String,
}

impl DecodeError {
    pub(crate) fn new(what: &'static str, reason: impl std::fmt::Display) -> Self {
        Self { what, reason: reason.to_string() }
    }
}

impl From<DecodeError> for AskError {
    fn from(DecodeError { what, reason }: DecodeError) -> Self {
        Self::Malformed { what: what.to_owned(), reason }
    }
}

/// Appends `value` to `bytes`. Panics if the type's `Serialize` reports an error, as it does only
/// for types that cannot cross the network. The driver turns the panic into an error that names the
/// actor.
pub(crate) fn append<T: Serialize + ?Sized>(value: &T, bytes: &mut Vec<u8>) {
    if let Err(error) = postcard::serialize_with_flavor(value, Tail(bytes)) {
        panic!(
            "a value of type {} does not serialise ({error}); messages, actors and results must",
            std::any::type_name::<T>()
        );
    }
}

/// Writes to the end of a vector.
struct Tail<'a>(&'a mut Vec<u8>);

impl Flavor for Tail<'_> {
    type Output = ();

    #[inline]
    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        // Most data are numbers of up to ten bytes, for which the call of a copy function would
        // cost more than all other work; a copy of known length needs no call.
        match data.len() {
            2 => extend_by::<2>(self.0, data),
            3 => extend_by::<3>(self.0, data),
            4 => extend_by::<4>(self.0, data),
            5 => extend_by::<5>(self.0, data),
            6 => extend_by::<6>(self.0, data),
            7 => extend_by::<7>(self.0, data),
            8 => extend_by::<8>(self.0, data),
            9 => extend_by::<9>(self.0, data),
            10 => extend_by::<10>(self.0, data),
            _ => self.0.extend_from_slice(data),
        }
        Ok(())
    }

    #[inline]
    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.push(data);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[inline]
fn extend_by<const N: usize>(bytes: &mut Vec<u8>, data: &[u8]) {
    if let Some(data) = data.first_chunk::<N>() {
        bytes.extend_from_slice(data);
    }
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(value, &mut bytes);
    bytes
}

/// Returns the length of `value` once encoded.
pub(crate) fn encoded_len<T: Serialize>(value: &T) -> usize {
    // Types that do not serialise have failed before this call.
    postcard::experimental::serialized_size(value).unwrap_or(usize::MAX)
}

/// Reads one value that takes up all of `bytes`.
pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, DecodeError> {
    let (value, rest) = decode_front(what, bytes)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(DecodeError::new(what, format_args!("{} bytes too many", rest.len())))
    }
}

/// Reads one value from the front of `bytes`, and returns it with the rest.
pub(crate) fn decode_front<'a, T: DeserializeOwned>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<(T, &'a [u8]), DecodeError> {
    postcard::take_from_bytes(bytes).map_err(|error| DecodeError::new(what, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_bytes_are_an_error() {
        let mut bytes = encode(&7u32);
        bytes.push(0);
        assert_eq!(
            decode::<u32>("a number", &bytes).unwrap_err().to_string(),
            "cannot decode a number: 1 bytes too many"
        );
    }

    #[test]
    fn a_length_beyond_the_end_is_an_error() {
        let bytes = encode(&u64::MAX);
        assert!(decode::<Vec<u64>>("numbers", &bytes).is_err());
    }
}
