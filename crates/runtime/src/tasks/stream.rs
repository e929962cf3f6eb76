//! Streams of results: main hands in tasks from an iterator, as many as a window holds, and takes
//! their results as they come.

use super::engine::Work;
use super::lending::GRANT_BYTES;
use super::message::{Outputs, WorkerMessage, at};
use super::workers::{FOREVER, Pool};
use super::{Joining, Search, Searching, Task};
use crate::error::{AskError, GridError};
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use gridspan_topology::PeId;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::Ordering;

/// Default window of a stream for each PE of the job, in tasks: enough to keep a PE busy for two
/// wide-area round trips with tasks of a millisecond. The window bounds the tasks that are handed
/// in and whose outputs main has not taken.
const WINDOW_PER_PE: u64 = 256;
/// Minimum of the default window of all PEs together, in tasks.
const WINDOW_MIN: u64 = 1 << 10;
/// Maximum window of all PEs together, in tasks: its frames and queue entries take about 100 MB.
const WINDOW_MAX: u64 = 1 << 20;
/// Default for the bytes of tasks in the window at which a stream hands in no more. It is the
/// default of a PE's soft limit for messages, because all tasks begin on the first PE.
const WINDOW_BYTES: usize = 256 << 20;
/// Size, in bytes, below which a task's bytes are not counted: the window bounds the memory of such
/// tasks well enough.
const COUNTED_BYTES: usize = 1 << 10;
/// Number of tasks that a stream begins with, for each PE: one runs and one waits. The size of
/// outputs is not known before some have arrived.
const FIRST_PER_PE: u64 = 2;

/// The outputs of tasks, in the order in which they come.
///
/// When [`next`](Self::next) is called and at least half of the stream's room is free, the stream
/// fills the room with tasks from its iterator. It keeps at most [`window`](Self::window) tasks and
/// outputs. Its large tasks take about [`window_bytes`](Self::window_bytes) at most, and so do its
/// outputs; outputs still to come are estimated to be as large as the largest recent one. A stream
/// begins with room for two tasks for each PE, and each output that main takes adds room for one
/// more, up to the window. Dropping the stream drops the outputs that it has not given.
///
/// ```
/// use gridspan::TaskStream;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Square(u64);
/// # impl Task for Square {
/// #     type Output = u64;
/// #     type Join = ();
/// #     fn run(self, _cx: &mut TaskContext<Self>) -> Step<Self> { Step::Done(self.0 * self.0) }
/// #     fn collect((): &mut (), _child: u32, _output: u64) {}
/// #     fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> { Step::Done(0) }
/// # }
/// # let job = Job::new("squares").tasks::<Square>().main(async |grid: Grid| {
/// let pool = grid.task_pool::<Square>().await?;
/// let mut squares: TaskStream<Square> = pool.stream((0..100).map(Square));
/// while let Some(next) = squares.next().await {
///     let (number, square) = next?; // in the order in which they come
///     assert_eq!(square, number * number);
/// }
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct TaskStream<T: Task>(Stream<Joining<T>>);

/// The totals of searches, in the order in which they come. The notes of [`TaskStream`] hold for
/// searches too.
///
/// ```
/// use gridspan::SearchStream;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Default, Serialize, Deserialize)]
/// # struct Count(u64);
/// # impl Merge for Count {
/// #     fn merge(&mut self, other: Self) { self.0 += other.0 }
/// # }
/// # #[derive(Serialize, Deserialize)]
/// # struct Node { height: u32 }
/// # impl Search for Node {
/// #     type Total = Count;
/// #     fn visit(self, cx: &mut SearchContext<'_, Self>) {
/// #         cx.total().0 += 1;
/// #         for _ in 0..2 * self.height.min(1) {
/// #             cx.spawn(Node { height: self.height - 1 });
/// #         }
/// #     }
/// # }
/// # let job = Job::new("tree").search::<Node>().main(async |grid: Grid| {
/// let pool = grid.search_pool::<Node>().await?;
/// let mut totals: SearchStream<Node> = pool.stream((0..5).map(|height| Node { height }));
/// while let Some(next) = totals.next().await {
///     let (root, nodes) = next?; // in the order in which they come
///     assert_eq!(nodes.0, (2 << root) - 1);
/// }
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct SearchStream<S: Search>(Stream<Searching<S>>);

impl<T: Task> TaskStream<T> {
    pub(super) fn new(stream: Stream<Joining<T>>) -> Self {
        Self(stream)
    }

    /// Sets the maximum number of tasks that are handed in and whose outputs main has not taken,
    /// from 1 to 2^20. Default 256 for each PE, and at least 1,024.
    pub fn window(self, tasks: u64) -> Self {
        Self(self.0.window(tasks))
    }

    /// Sets the number of bytes at which the stream hands in no more tasks, counted over the
    /// encoded tasks whose outputs main has not taken. Tasks of less than 1 KiB do not count.
    /// Outputs may have as many bytes, estimated from earlier ones. Default 256 MiB; raise it where
    /// it is too small to keep all PEs busy.
    pub fn window_bytes(self, bytes: usize) -> Self {
        Self(self.0.window_bytes(bytes))
    }

    /// Promises that main, if it begins again from a checkpoint, hands in again those tasks whose
    /// outputs it had not taken at the [progress point](crate::Grid::progress). Then tasks of this
    /// stream that are not done postpone no checkpoint, and a loss repeats only those whose outputs
    /// main has not remembered. Call it before the first [`next`](Self::next): earlier tasks
    /// postpone checkpoints. So do tasks of other pools that these tasks spawn.
    ///
    /// ```
    /// # use gridspan::{embed::Runner, prelude::*};
    /// # use std::collections::BTreeMap;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Square(u64);
    /// # impl Task for Square {
    /// #     type Output = u64;
    /// #     type Join = ();
    /// #     fn run(self, _cx: &mut TaskContext<Self>) -> Step<Self> {
    /// #         Step::Done(self.0 * self.0)
    /// #     }
    /// #     fn collect((): &mut (), _child: u32, _output: u64) {}
    /// #     fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> { Step::Done(0) }
    /// # }
    /// # let job = Job::new("squares").tasks::<Square>().main(async |grid: Grid| {
    /// let mut squares: BTreeMap<u64, u64> = grid.restored().await?.unwrap_or_default();
    /// let missing: Vec<u64> = (0..100).filter(|it| !squares.contains_key(it)).collect();
    /// let pool = grid.task_pool::<Square>().await?;
    /// let mut stream = pool.stream(missing.clone().into_iter().map(Square)).repeatable();
    /// while let Some(next) = stream.next().await {
    ///     let (number, square) = next?;
    ///     squares.insert(missing[number as usize], square);
    ///     grid.progress(&squares).await?;
    /// }
    /// assert_eq!(squares[&9], 81);
    /// # Ok(())
    /// # });
    /// # Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub fn repeatable(self) -> Self {
        Self(self.0.repeatable())
    }

    /// Returns the next output with the number of its task in the iterator, from 0 on; `None` when
    /// there are no more. Each output comes once. Cancel safe: an output that was not returned
    /// comes with the next call.
    ///
    /// # Errors
    ///
    /// `TooLarge` replaces the output of a task that no message can carry, and `Malformed` an
    /// output that cannot be decoded; all others still come. Any other error is the last item.
    pub async fn next(&mut self) -> Option<Result<(u64, T::Output), GridError>> {
        self.0.next().await
    }
}

impl<S: Search> SearchStream<S> {
    pub(super) fn new(stream: Stream<Searching<S>>) -> Self {
        Self(stream)
    }

    /// Sets the maximum number of searches that are handed in and whose totals main has not taken,
    /// from 1 to 2^20. Default 256 for each PE, and at least 1,024.
    pub fn window(self, searches: u64) -> Self {
        Self(self.0.window(searches))
    }

    /// Sets the number of bytes at which the stream hands in no more searches, counted over the
    /// encoded searches whose totals main has not taken. Searches of less than 1 KiB do not count.
    /// Totals may have as many bytes, estimated from earlier ones. Default 256 MiB; raise it where
    /// it is too small to keep all PEs busy.
    pub fn window_bytes(self, bytes: usize) -> Self {
        Self(self.0.window_bytes(bytes))
    }

    /// Promises that main, if it begins again from a checkpoint, hands in again those searches
    /// whose totals it had not taken at the [progress point](crate::Grid::progress). Then searches
    /// of this stream that are not done postpone no checkpoint, and a loss repeats only those whose
    /// totals main has not remembered. Call it before the first [`next`](Self::next): earlier
    /// searches postpone checkpoints. So do tasks of other pools that these searches spawn.
    ///
    /// ```
    /// # use gridspan::{Search, SearchStream};
    /// fn lasting<S: Search>(totals: SearchStream<S>) -> SearchStream<S> {
    ///     totals.window(100).repeatable()
    /// }
    /// ```
    pub fn repeatable(self) -> Self {
        Self(self.0.repeatable())
    }

    /// Returns the next total with the number of its search in the iterator, from 0 on; `None` when
    /// there are no more. Each total comes once. Cancel safe, with errors as in
    /// [`TaskStream::next`].
    pub async fn next(&mut self) -> Option<Result<(u64, S::Total), GridError>> {
        self.0.next().await
    }
}

/// The estimate of the outputs that a stream has not seen yet.
struct Expected {
    /// Number of tasks to begin before any output has come.
    first: u64,
    /// Size of the largest recent output; each smaller output lowers it.
    output_bytes: usize,
}

impl Expected {
    /// Number of smaller outputs after which the excess of a larger one has fallen to about 1/e.
    const LATE: usize = 64;

    fn note(&mut self, bytes: usize) {
        let excess = self.output_bytes.saturating_sub(bytes);
        self.output_bytes = bytes + (excess - excess.div_ceil(Self::LATE).min(excess));
    }

    /// Returns the number of tasks that may be open after `given` outputs, at least one. It is
    /// chosen so that, by the estimate, their outputs have at most `bytes_max` bytes.
    fn room(&self, given: u64, bytes_max: usize) -> u64 {
        let by_bytes = bytes_max / self.output_bytes.max(1);
        self.first.saturating_add(given).min(by_bytes as u64).max(1)
    }
}

/// The future that main awaits until outputs have come.
type PendingOutputs = Pin<Box<dyn Future<Output = Result<Outputs, GridError>> + Send>>;

/// A stream for one kind of work.
pub(super) struct Stream<W: Work> {
    pool: Pool<W>,
    id: u64,
    inputs: std::iter::Peekable<Box<dyn Iterator<Item = W::Item> + Send>>,
    window: u64,
    window_bytes: usize,
    /// The sizes, in bytes, of large tasks whose outputs main has not taken, by number.
    sizes: BTreeMap<u64, usize>,
    /// The sum of `sizes`.
    open_bytes: usize,
    expected: Expected,
    /// Number of tasks handed in.
    begun: u64,
    /// Number of outputs, or errors in place of outputs, that main has received.
    given: u64,
    ready: VecDeque<(u64, bytes::Bytes)>,
    /// The answer that a call of [`Stream::next`] awaits; if that call is dropped, the next call
    /// awaits the same answer.
    pending: Option<PendingOutputs>,
    /// Whether an error has ended the stream.
    is_over: bool,
    /// Whether main hands in tasks again if it begins again.
    is_repeatable: bool,
}

impl<W: Work> Stream<W> {
    pub(super) fn new(
        pool: Pool<W>,
        inputs: impl IntoIterator<Item = W::Item, IntoIter: Send + 'static>,
    ) -> Self {
        let pes = u64::from(pool.grid.layout().pe_count());
        let window = (pes * WINDOW_PER_PE).clamp(WINDOW_MIN, WINDOW_MAX);
        let expected = Expected { first: pes * FIRST_PER_PE, output_bytes: 0 };
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
            expected,
            begun: 0,
            given: 0,
            ready,
            pending: None,
            is_over: false,
            is_repeatable: false,
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

    fn repeatable(mut self) -> Self {
        if !self.is_repeatable && self.pool.check_open().is_ok() {
            self.count_untaken(self.begun - self.given, false);
            self.is_repeatable = true;
            self.send(WorkerMessage::Repeatable { stream: self.id });
        }
        self
    }

    /// Counts outputs that main has to take before a checkpoint: adds `tasks` if `are_begun`, and
    /// otherwise subtracts it. Outputs of a repeatable stream do not count.
    fn count_untaken(&self, tasks: u64, are_begun: bool) {
        if self.is_repeatable {
            return;
        }
        let counted = self.pool.grid.streamed();
        match are_begun {
            true => counted.fetch_add(tasks, Ordering::Relaxed),
            false => counted.fetch_sub(tasks, Ordering::Relaxed),
        };
    }

    /// Number of tasks that may be handed in and whose outputs main has not taken: the window, or
    /// fewer by the estimate of outputs.
    fn room(&self) -> u64 {
        self.window.min(self.expected.room(self.given, self.window_bytes))
    }

    /// Whether one more task may be handed in.
    fn has_room(&self) -> bool {
        self.begun - self.given < self.room() && self.open_bytes < self.window_bytes
    }

    /// Whether at least half of the room is free. The stream hands in many tasks at a time, since
    /// each time costs a message.
    fn has_much_room(&self) -> bool {
        self.begun - self.given <= self.room() / 2 && self.open_bytes <= self.window_bytes / 2
    }

    /// Notes that a task of `bytes` is handed in.
    fn note_begun(&mut self, number: u64, bytes: usize) {
        self.count_untaken(1, true);
        if bytes >= COUNTED_BYTES {
            self.sizes.insert(number, bytes);
            self.open_bytes += bytes;
        }
    }

    /// Notes that main receives the output of a task.
    fn note_given(&mut self, number: u64) {
        self.count_untaken(1, false);
        self.given += 1;
        self.open_bytes -= self.sizes.remove(&number).unwrap_or(0);
    }

    async fn next(&mut self) -> Option<Result<(u64, W::Output), GridError>> {
        if self.is_over {
            return None;
        }
        let next = self.advance().await;
        self.is_over = matches!(&next, Some(Err(error)) if !is_of_one_task(error));
        if self.is_over {
            self.give_up_outputs();
        }
        next
    }

    async fn advance(&mut self) -> Option<Result<(u64, W::Output), GridError>> {
        loop {
            if self.has_much_room() {
                match self.feed() {
                    // The error comes after the outputs that are here.
                    Err(GridError::PoolClosed) if !self.ready.is_empty() => {}
                    Err(error) => return Some(Err(error)),
                    Ok(()) => {}
                }
            }
            if let Some((number, output)) = self.ready.pop_front() {
                self.note_given(number);
                self.expected.note(output.len());
                let output = codec::decode(W::name(), &output);
                let output = output.map_err(|error| AskError::from(error).into());
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

    /// Hands in as many tasks as there is room for.
    fn feed(&mut self) -> Result<(), GridError> {
        while self.has_room() && self.inputs.peek().is_some() {
            self.pool.check_open()?;
            let first = self.begun;
            let (mut items, mut bytes, mut refused) = (Vec::new(), 0, None);
            while self.has_room()
                && bytes < GRANT_BYTES
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
                self.send(WorkerMessage::Feed { stream: self.id, first, items });
            }
            if let Some(bytes) = refused {
                // The task has a number like all others, and main receives this error for it.
                self.given += 1;
                return Err(GridError::TooLarge { bytes, limit: PIECE_BYTES_MAX });
            }
        }
        Ok(())
    }

    /// Notes that main will not receive the outputs that are missing.
    fn give_up_outputs(&mut self) {
        self.count_untaken(self.begun - self.given, false);
        self.given = self.begun;
    }

    /// Asks for outputs, or continues to wait for those that a dropped call has asked for.
    async fn collect(&mut self) -> Result<Outputs, GridError> {
        let pending = match &mut self.pending {
            Some(pending) => pending,
            none => {
                self.pool.check_open()?;
                let (worker, stream) = (self.pool.workers.member(at(PeId(0))), self.id);
                // In a repeatable stream, this request must not postpone checkpoints, even if main
                // has dropped the call that made it.
                let is_repeatable = self.is_repeatable;
                none.insert(Box::pin(async move {
                    let ask = move |reply| WorkerMessage::Collect { stream, reply };
                    let outputs: Option<Outputs> = match is_repeatable {
                        true => worker.ask_repeatable(FOREVER, ask).await?,
                        false => worker.ask(FOREVER, ask).await?,
                    };
                    outputs.ok_or(GridError::PoolClosed)
                }))
            }
        };
        let outputs = pending.as_mut().await;
        self.pending = None;
        outputs
    }

    fn send(&self, message: WorkerMessage) {
        self.pool.workers.member(at(PeId(0))).send(message);
    }
}

/// Whether an error replaces the output of one task, so that others still come.
fn is_of_one_task(error: &GridError) -> bool {
    matches!(error, GridError::TooLarge { .. } | GridError::Ask(AskError::Malformed { .. }))
}

impl<W: Work> Drop for Stream<W> {
    fn drop(&mut self) {
        self.give_up_outputs();
        if self.pool.check_open().is_ok() {
            self.send(WorkerMessage::EndStream { stream: self.id });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Step, TaskContext};
    use super::*;
    use crate::Job;
    use crate::driver::embedded;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Number(u64);

    impl Task for Number {
        type Output = u64;
        type Join = ();

        fn run(self, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
            Step::Done(self.0)
        }

        fn collect((): &mut (), _child: u32, _output: u64) {}

        fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
            Step::Done(0)
        }
    }

    #[test]
    fn outputs_that_are_here_come_before_the_error_of_a_closed_pool() {
        let job = Job::new("closed").tasks::<Number>().main(async |grid| {
            let pool = grid.task_pool::<Number>().await?;
            let mut stream = pool.stream((1..100).map(Number));
            // As if two tasks were done, and their outputs had come together.
            for number in 0..2 {
                stream.0.begun += 1;
                stream.0.note_begun(number, 1);
                stream.0.ready.push_back((number, codec::encode(&(40 + number)).into()));
            }
            pool.close();

            for number in 0..2 {
                assert_eq!(stream.next().await.unwrap()?, (number, 40 + number));
            }
            assert!(matches!(stream.next().await, Some(Err(GridError::PoolClosed))));
            assert!(stream.next().await.is_none());
            Ok(())
        });
        embedded::run(job, 1).unwrap();
    }
}
