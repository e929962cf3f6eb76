//! Results as they come: main hands in tasks from an iterator, and no more of them than it has room
//! for.

use super::engine::Work;
use super::lending::GIFT_BYTES;
use super::order::{Order, Outputs, at};
use super::workers::{FOREVER, Pool};
use super::{Joining, Search, Searching, Task};
use crate::codec;
use crate::error::{AskError, GridError};
use crate::limits::PIECE_BYTES_MAX;
use gridspan_topology::PeId;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::Ordering;

/// Tasks of a stream that are handed in and not yet taken by main, at most, for each PE of the job:
/// enough for a PE to be busy for two wide-area round trips with tasks of a millisecond.
const WINDOW_PER_PE: u64 = 256;
/// The least of all PEs together, and the most: frames and queue entries of so many take about 100
/// MB.
const WINDOW_MIN: u64 = 1 << 10;
const WINDOW_MAX: u64 = 1 << 20;
/// The bytes of such tasks, at most, unless a single one is larger: as many as a PE holds of
/// messages by default. All of them begin at the first node.
const WINDOW_BYTES: usize = 256 << 20;
/// Smaller tasks do not count: the number of tasks bounds them well enough.
const COUNTED_BYTES: usize = 1 << 10;

/// The outputs of tasks, in the order in which they come.
///
/// A stream takes from its iterator what it has room for, when [`next`](Self::next) is called. It
/// keeps at most [`window`](Self::window) tasks and outputs, 256 for each PE if not set otherwise,
/// and of large tasks about [`window_bytes`](Self::window_bytes). Outputs count by their number
/// only.
/// Dropping it drops what it has not given.
pub struct TaskStream<T: Task>(Stream<Joining<T>>);

/// The totals of searches, in the order in which they come. What [`TaskStream`] says is so for
/// searches too.
pub struct SearchStream<S: Search>(Stream<Searching<S>>);

impl<T: Task> TaskStream<T> {
    pub(super) fn new(stream: Stream<Joining<T>>) -> Self {
        Self(stream)
    }

    /// Sets how many tasks are handed in and not yet taken, at most. Default 256 for each PE. At
    /// least one.
    pub fn window(self, tasks: u64) -> Self {
        Self(self.0.window(tasks))
    }

    /// Sets how many bytes the tasks have, encoded, that are handed in and not yet taken: none is
    /// handed in while there are as many. Those of less than 1 KiB do not count. Default 256 MiB;
    /// raise it where these are too few to keep all PEs busy.
    pub fn window_bytes(self, bytes: usize) -> Self {
        Self(self.0.window_bytes(bytes))
    }

    /// The next output with the number of its task in the iterator, from 0 on; `None` when there
    /// are no more. Each comes once. Cancel safe: an output that was not returned comes with the
    /// next call.
    ///
    /// # Errors
    ///
    /// `TooLarge` stands for one task that no message can carry; all others still come.
    pub async fn next(&mut self) -> Option<Result<(u64, T::Output), GridError>> {
        self.0.next().await
    }
}

impl<S: Search> SearchStream<S> {
    pub(super) fn new(stream: Stream<Searching<S>>) -> Self {
        Self(stream)
    }

    /// Sets how many searches are handed in and not yet taken, at most. Default 256 for each PE. At
    /// least one.
    pub fn window(self, searches: u64) -> Self {
        Self(self.0.window(searches))
    }

    /// Sets how many bytes the searches have, encoded, that are handed in and not yet taken: none
    /// is handed in while there are as many. Those of less than 1 KiB do not count. Default 256
    /// MiB; raise it where these are too few to keep all PEs busy.
    pub fn window_bytes(self, bytes: usize) -> Self {
        Self(self.0.window_bytes(bytes))
    }

    /// The next total with the number of its search in the iterator, from 0 on; `None` when there
    /// are no more. Each comes once. Cancel safe, with errors as in [`TaskStream::next`].
    pub async fn next(&mut self) -> Option<Result<(u64, S::Total), GridError>> {
        self.0.next().await
    }
}

/// What main awaits until outputs are there.
type PendingOutputs = Pin<Box<dyn Future<Output = Result<Outputs, GridError>> + Send>>;

/// A stream for one kind of work.
pub(super) struct Stream<W: Work> {
    pool: Pool<W>,
    id: u64,
    inputs: std::iter::Peekable<Box<dyn Iterator<Item = W::Item> + Send>>,
    window: u64,
    window_bytes: usize,
    /// The sizes of large ones that main has not got, by number, and their sum.
    sizes: BTreeMap<u64, usize>,
    open_bytes: usize,
    /// How many were handed in.
    begun: u64,
    /// How many of them main has got.
    given: u64,
    ready: VecDeque<(u64, bytes::Bytes)>,
    /// The answer that a call of [`Stream::next`] awaits; the next call goes on if that one is
    /// dropped.
    pending: Option<PendingOutputs>,
}

impl<W: Work> Stream<W> {
    pub(super) fn new(
        pool: Pool<W>,
        inputs: impl IntoIterator<Item = W::Item, IntoIter: Send + 'static>,
    ) -> Self {
        let pes = u64::from(pool.grid.layout().pe_count());
        let window = (pes * WINDOW_PER_PE).clamp(WINDOW_MIN, WINDOW_MAX);
        let id = pool.streams.fetch_add(1, Ordering::Relaxed);
        let inputs: Box<dyn Iterator<Item = W::Item> + Send> = Box::new(inputs.into_iter());
        let (inputs, ready) = (inputs.peekable(), VecDeque::new());
        Self {
            pool,
            id,
            inputs,
            window,
            window_bytes: WINDOW_BYTES,
            sizes: BTreeMap::new(),
            open_bytes: 0,
            begun: 0,
            given: 0,
            ready,
            pending: None,
        }
    }

    fn window(mut self, tasks: u64) -> Self {
        self.window = tasks.clamp(1, WINDOW_MAX);
        self
    }

    fn window_bytes(mut self, bytes: usize) -> Self {
        self.window_bytes = bytes.max(1);
        self
    }

    /// Whether one more task may be handed in.
    fn has_room(&self) -> bool {
        self.begun - self.given < self.window && self.open_bytes < self.window_bytes
    }

    /// Whether there is room for a portion of tasks: each takes a message.
    fn has_much_room(&self) -> bool {
        self.begun - self.given <= self.window / 2 && self.open_bytes <= self.window_bytes / 2
    }

    /// A task of so many bytes is handed in.
    fn note_begun(&mut self, number: u64, bytes: usize) {
        if bytes >= COUNTED_BYTES {
            self.sizes.insert(number, bytes);
            self.open_bytes += bytes;
        }
    }

    /// Main gets the output of a task.
    fn note_given(&mut self, number: u64) {
        self.given += 1;
        self.open_bytes -= self.sizes.remove(&number).unwrap_or(0);
    }

    async fn next(&mut self) -> Option<Result<(u64, W::Output), GridError>> {
        loop {
            if self.has_much_room()
                && let Err(error) = self.feed()
            {
                return Some(Err(error));
            }
            if let Some((number, output)) = self.ready.pop_front() {
                self.note_given(number);
                let output = codec::decode(W::name(), &output);
                let output = output.map_err(|error| AskError::Malformed(error.to_string()).into());
                return Some(output.map(|output| (number, output)));
            }
            if self.begun == self.given {
                return None;
            }
            match self.collect().await {
                Ok(outputs) => self.ready.extend(outputs),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Hands in as many as there is room for.
    fn feed(&mut self) -> Result<(), GridError> {
        self.pool.check_open()?;
        while self.has_room() && self.inputs.peek().is_some() {
            let first = self.begun;
            let (mut items, mut bytes, mut refused) = (Vec::new(), 0, None);
            while self.has_room()
                && bytes < GIFT_BYTES
                && let Some(item) = self.inputs.next()
            {
                let size = codec::encoded_len(&item);
                self.begun += 1;
                if size > PIECE_BYTES_MAX {
                    refused = Some(size);
                    break;
                }
                bytes += size;
                self.note_begun(self.begun - 1, size);
                items.push(item);
            }
            if !items.is_empty() {
                let items = codec::encode(&items).into();
                self.tell(Order::Feed { stream: self.id, first, items });
            }
            if let Some(bytes) = refused {
                // It has a number as all others, and this is what main gets for it.
                self.given += 1;
                return Err(GridError::TooLarge { bytes, limit: PIECE_BYTES_MAX });
            }
        }
        Ok(())
    }

    /// Asks for outputs, or goes on waiting for those that a dropped call has asked for.
    async fn collect(&mut self) -> Result<Outputs, GridError> {
        let pending = match &mut self.pending {
            Some(pending) => pending,
            none => {
                self.pool.check_open()?;
                let (worker, stream) = (self.pool.workers.member(at(PeId(0))), self.id);
                none.insert(Box::pin(async move {
                    let outputs: Option<_> =
                        worker.ask(FOREVER, move |reply| Order::Collect { stream, reply }).await?;
                    outputs.ok_or(GridError::PoolClosed)
                }))
            }
        };
        let outputs = pending.as_mut().await;
        self.pending = None;
        outputs
    }

    fn tell(&self, order: Order) {
        self.pool.workers.member(at(PeId(0))).send(order);
    }
}

impl<W: Work> Drop for Stream<W> {
    fn drop(&mut self) {
        if self.pool.check_open().is_ok() {
            self.tell(Order::EndStream { stream: self.id });
        }
    }
}
