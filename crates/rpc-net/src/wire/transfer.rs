//! Transfers of group data, as bytes instead of JSON, and measurements of their rates.

use crate::wire::messages::{Request, write_message};
use bytes::Bytes;
use quinn::{Connection, RecvStream, SendStream, VarInt};
use std::io;
use std::time::{Duration, Instant};

/// Number of bytes of a stream that are taken from the network at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Size in bytes of the largest data that is fetched: a fetch holds all of it in memory.
pub(crate) const BYTES_MAX: u64 = 8 << 30;
/// First byte of the answer to a request for data, if the data follows.
const HERE: u8 = 1;
/// The answer to a request for data that is not here.
const NOT_HERE: u8 = 0;

/// Measurement of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Flow {
    /// Bytes of the second half: during the first half, the connection learns how much it may send.
    pub(crate) bytes: u64,
    /// Time that these bytes took.
    pub(crate) took: Duration,
    /// Time of the whole transfer, from the first byte.
    pub(crate) all: Duration,
}

/// Reason why data was not fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// The other side does not have the data, or has another number of bytes.
    Missing,
    /// The other side gave no answer, or an incomplete one.
    Broken,
}

/// Sends data, or reports that it is not here.
pub(crate) async fn give(
    segments: Option<Vec<Bytes>>,
    to: &mut SendStream,
) -> Result<(), quinn::WriteError> {
    match segments {
        None => to.write_all(&[NOT_HERE]).await?,
        Some(segments) => {
            to.write_all(&[HERE]).await?;
            for segment in segments {
                to.write_chunk(segment).await?;
            }
        }
    }
    // This succeeds, because the stream is not closed yet.
    let _ = to.finish();
    Ok(())
}

/// Sends data in segments. `segment` reads one segment, and returns it with the number of segments.
pub(crate) async fn give_segments(
    mut segment: impl FnMut(u32) -> Option<(Bytes, u32)>,
    to: &mut SendStream,
) -> Result<(), quinn::WriteError> {
    let Some((first, count)) = segment(0) else { return give(None, to).await };
    to.write_all(&[HERE]).await?;
    to.write_chunk(first).await?;
    for index in 1..count {
        let Some((segment, _)) = segment(index) else {
            // The segment was freed, or cannot be read again: the data is incomplete.
            let _ = to.reset(VarInt::from_u32(0));
            return Ok(());
        };
        to.write_chunk(segment).await?;
    }
    // This succeeds, because the stream is not closed yet.
    let _ = to.finish();
    Ok(())
}

/// Fetches data of a group, of this size in bytes, from the other end of a connection.
pub(crate) async fn fetch(
    from: &Connection,
    group: u64,
    data: u32,
    bytes: u64,
) -> Result<(Vec<u8>, Flow), FetchError> {
    if bytes > BYTES_MAX {
        return Err(FetchError::Missing);
    }
    let asked = request_response(from, &Request::Give { group, data }).await;
    let (_send, mut receive) = asked.map_err(|_| FetchError::Broken)?;
    let mut first = [NOT_HERE];
    receive.read_exact(&mut first).await.map_err(|_| FetchError::Broken)?;
    match first {
        [HERE] => take(&mut receive, bytes, true).await,
        [NOT_HERE] => Err(FetchError::Missing),
        // The refusal of a request that exceeds the budget starts with another byte.
        _ => Err(FetchError::Broken),
    }
}

/// Receives `bytes` zero bytes from the other end of a connection, to measure their rate.
pub(crate) async fn pour(from: &Connection, bytes: u64) -> Option<Flow> {
    let (_send, mut receive) = request_response(from, &Request::Pour(bytes)).await.ok()?;
    take(&mut receive, bytes, false).await.ok().map(|(_, flow)| flow)
}

async fn request_response(
    connection: &Connection,
    request: &Request,
) -> io::Result<(SendStream, RecvStream)> {
    let (mut send, receive) = connection.open_bi().await?;
    write_message(&mut send, request).await?;
    Ok((send, receive))
}

/// Reads the expected number of bytes; more or fewer are an error.
async fn take(
    from: &mut RecvStream,
    bytes: u64,
    is_kept: bool,
) -> Result<(Vec<u8>, Flow), FetchError> {
    let (mut kept, mut taken) = (Vec::new(), 0);
    let (mut first, mut half) = (None, None);
    while let Some(chunk) =
        from.read_chunk(CHUNK_BYTES, true).await.map_err(|_| FetchError::Broken)?
    {
        taken += chunk.bytes.len() as u64;
        if taken > bytes {
            return Err(FetchError::Missing);
        }
        if is_kept {
            kept.extend_from_slice(&chunk.bytes);
        }
        let now = Instant::now();
        first.get_or_insert(now);
        if taken >= bytes / 2 {
            half.get_or_insert((now, taken));
        }
    }
    let since = |at: Option<Instant>| at.map_or(Duration::ZERO, |at| at.elapsed());
    let (half, before) = half.map_or((None, taken), |(at, before)| (Some(at), before));
    let flow = Flow { bytes: taken - before, took: since(half), all: since(first) };
    if taken == bytes { Ok((kept, flow)) } else { Err(FetchError::Missing) }
}
