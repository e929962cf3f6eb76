//! Data of groups on its way: bytes by themselves, not in JSON, and how fast they came.

use super::token::DoorError;
use super::wire::{Question, say};
use bytes::Bytes;
use quinn::{Connection, RecvStream, SendStream};
use std::time::{Duration, Instant};

/// So much of a stream is taken from the network at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Larger data is not brought: no server has room for it.
pub(super) const BYTES_MAX: u64 = 8 << 30;
/// The first byte of an answer to whoever asks for data.
const HERE: u8 = 1;
const NOT_HERE: u8 = 0;

/// How bytes came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flow {
    /// The bytes of the second half: while the first comes, the connection learns how much it may
    /// send.
    pub(super) bytes: u64,
    /// How long they took.
    pub(super) took: Duration,
    /// How long all took, from the first byte.
    pub(super) all: Duration,
}

/// Why data did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// Who was asked does not have it, or has something else.
    Missing,
    /// Who was asked did not say, or not all of it.
    Broken,
}

/// Gives data, or says that it is not here.
pub(super) async fn give(
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

/// Data of a group from the other end of a connection, as large as it must be.
pub(super) async fn fetch(
    from: &Connection,
    group: u64,
    data: u32,
    bytes: u64,
) -> Result<(Vec<u8>, Flow), Lack> {
    if bytes > BYTES_MAX {
        return Err(Lack::Missing);
    }
    let asked = ask(from, &Question::Give { group, data }).await;
    let (_send, mut receive) = asked.map_err(|_| Lack::Broken)?;
    let mut first = [NOT_HERE];
    receive.read_exact(&mut first).await.map_err(|_| Lack::Broken)?;
    match first {
        [HERE] => take(&mut receive, bytes, true).await,
        [NOT_HERE] => Err(Lack::Missing),
        // What is said to whoever asks too much.
        _ => Err(Lack::Broken),
    }
}

/// So many bytes of nothing from the other end of a connection, for how fast they come.
pub(super) async fn pour(from: &Connection, bytes: u64) -> Option<Flow> {
    let (_send, mut receive) = ask(from, &Question::Pour(bytes)).await.ok()?;
    take(&mut receive, bytes, false).await.ok().map(|(_, flow)| flow)
}

async fn ask(
    connection: &Connection,
    question: &Question,
) -> Result<(SendStream, RecvStream), DoorError> {
    let away = |error| DoorError::away(connection.remote_address(), &error);
    let (mut send, receive) = connection.open_bi().await.map_err(away)?;
    say(&mut send, question).await?;
    Ok((send, receive))
}

/// Takes as many bytes as there must be, and no more.
async fn take(from: &mut RecvStream, bytes: u64, is_kept: bool) -> Result<(Vec<u8>, Flow), Lack> {
    let (mut kept, mut taken) = (Vec::new(), 0);
    let (mut first, mut half) = (None, None);
    while let Some(chunk) = from.read_chunk(CHUNK_BYTES, true).await.map_err(|_| Lack::Broken)? {
        taken += chunk.bytes.len() as u64;
        if taken > bytes {
            return Err(Lack::Missing);
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
    if taken == bytes { Ok((kept, flow)) } else { Err(Lack::Missing) }
}
