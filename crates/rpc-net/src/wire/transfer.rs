//! Data of groups on its way: bytes by themselves, not in JSON, and how fast they came.

use crate::wire::messages::{Request, write_message};
use crate::wire::token::RemoteError;
use bytes::Bytes;
use quinn::{Connection, RecvStream, SendStream, VarInt};
use std::time::{Duration, Instant};

/// So much of a stream is taken from the network at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Larger data is not brought: no server has room for it.
pub(crate) const BYTES_MAX: u64 = 8 << 30;
/// The first byte of an answer to whoever asks for data.
const HERE: u8 = 1;
const NOT_HERE: u8 = 0;

/// How bytes came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Flow {
    /// The bytes of the second half: while the first comes, the connection learns how much it may
    /// send.
    pub(crate) bytes: u64,
    /// How long they took.
    pub(crate) took: Duration,
    /// How long all took, from the first byte.
    pub(crate) all: Duration,
}

/// Why data did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// Who was asked does not have it, or has something else.
    Missing,
    /// Who was asked did not say, or not all of it.
    Broken,
}

/// Gives data, or says that it is not here.
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
    // The stream is not closed yet.
    let _ = to.finish();
    Ok(())
}

/// The same of data whose segments come one by one, each with how many there are.
pub(crate) async fn give_segments(
    mut segment: impl FnMut(u32) -> Option<(Bytes, u32)>,
    to: &mut SendStream,
) -> Result<(), quinn::WriteError> {
    let Some((first, count)) = segment(0) else { return give(None, to).await };
    to.write_all(&[HERE]).await?;
    to.write_chunk(first).await?;
    for index in 1..count {
        let Some((segment, _)) = segment(index) else {
            // It was freed, or cannot be read again: what has come is not all of it.
            let _ = to.reset(VarInt::from_u32(0));
            return Ok(());
        };
        to.write_chunk(segment).await?;
    }
    // The stream is not closed yet.
    let _ = to.finish();
    Ok(())
}

/// Data of a group from the other end of a connection, as large as it must be.
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
        // What is said to whoever asks too much.
        _ => Err(FetchError::Broken),
    }
}

/// So many bytes of nothing from the other end of a connection, for how fast they come.
pub(crate) async fn pour(from: &Connection, bytes: u64) -> Option<Flow> {
    let (_send, mut receive) = request_response(from, &Request::Pour(bytes)).await.ok()?;
    take(&mut receive, bytes, false).await.ok().map(|(_, flow)| flow)
}

async fn request_response(
    connection: &Connection,
    request: &Request,
) -> Result<(SendStream, RecvStream), RemoteError> {
    let away = |error| RemoteError::away(connection.remote_address(), &error);
    let (mut send, receive) = connection.open_bi().await.map_err(away)?;
    write_message(&mut send, request).await?;
    Ok((send, receive))
}

/// Takes as many bytes as there must be, and no more.
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
