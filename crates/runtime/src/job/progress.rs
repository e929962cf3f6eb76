//! Main's progress points, at which checkpoints are made, and from which a later main continues.

use crate::error::GridError;
use crate::job::grid::Grid;
use crate::job::main_handle::wait;
use crate::message::codec;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::sync::atomic::Ordering;

/// Largest value that main can give to [`Grid::progress`].
const PROGRESS_BYTES_MAX: usize = 4 << 20;

impl Grid {
    /// Marks a point from which the job can continue later, in which case main gets `progress`
    /// back. Makes a checkpoint if one is [due](crate::Job::checkpoints): a consistent image
    /// of all actors with the messages in their mailboxes, delayed messages, questions
    /// [with a tag](crate::Context::ask_tagged), published data, incomplete reductions and phases.
    /// Resolves once the image is captured. Until then no PE handles messages: for four crossings
    /// of the link with the largest latency, more if messages are in flight, and the time to encode
    /// waiting messages and published data. After that, PEs encode actors between handlers, each
    /// before it handles another message, and nodes store the image. Another checkpoint is
    /// [postponed](Progress::Postponed) meanwhile.
    ///
    /// A job that continues from a checkpoint runs main from its beginning; main finds `progress`
    /// in [`restored`](Self::restored). Put into it what main needs: counters, and the
    /// [references](crate::Collection::reference) of collections, which
    /// [`collection`](Self::collection) turns into collections again. Main repeats what it printed
    /// and sent after the checkpoint. A checkpoint has no pools of tasks: main opens them again.
    ///
    /// The checkpoint is postponed while tasks are not done, while a stream has outputs that main
    /// has not taken, and while a question without a tag has no answer. Questions that main
    /// [asks again](crate::Member::ask_repeatable) and
    /// [repeatable](crate::TaskStream::repeatable) streams do not postpone it.
    ///
    /// ```
    /// # use gridspan::{embed::Runner, prelude::*, CheckpointEvery, Checkpoints, CollectionRef};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Cell(u64);
    /// # impl Actor for Cell {
    /// #     type Index = Ix1;
    /// #     type Init = ();
    /// #     type Message = ();
    /// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
    /// #     fn handle(&mut self, (): (), cx: &mut Context<Self>) {
    /// #         self.0 += 1;
    /// #         cx.contribute(Sum, self.0, To::main());
    /// #     }
    /// # }
    /// #[derive(Serialize, Deserialize)]
    /// struct AtStep {
    ///     step: u32,
    ///     cells: CollectionRef<Cell>,
    /// }
    ///
    /// let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
    ///     let (first, cells) = match grid.restored::<AtStep>().await? {
    ///         Some(AtStep { step, cells }) => (step, grid.collection(cells)),
    ///         None => (0, grid.create::<Cell>(Ix1::range(8), |_| ()).await?),
    ///     };
    ///     for step in first..10 {
    ///         grid.progress(&AtStep { step, cells: cells.reference() }).await?;
    ///         cells.broadcast(());
    ///         let sum: u64 = cells.reduction(Sum).await?;
    ///         assert_eq!(sum, 8 * (u64::from(step) + 1));
    ///     }
    ///     Ok(())
    /// });
    /// let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(4)));
    /// # Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// - [`GridError::ProgressWhileWaiting`] if main waits for something else at the same time, or
    ///   has dropped the future of a reduction or a change of a link and has not asked again. A
    ///   later main could not receive the result.
    /// - [`GridError::TooLarge`] for more than 4 MiB; put such data into actors.
    pub async fn progress<P: Serialize>(&self, progress: &P) -> Result<Progress, GridError> {
        let progress: Bytes = codec::encode(progress).into();
        if progress.len() > PROGRESS_BYTES_MAX {
            let (bytes, limit) = (progress.len(), PROGRESS_BYTES_MAX);
            return Err(GridError::TooLarge { bytes, limit });
        }
        if self.main.has_given_up() {
            return Err(GridError::ProgressWhileWaiting);
        }
        let phases = self.main.phases().load(Ordering::Relaxed);
        let streamed = self.main.streamed().load(Ordering::Relaxed);
        let (resolve, done) = self.main.promise();
        self.main.run(move |core| match core.main_waits() {
            true => resolve.with(Err(GridError::ProgressWhileWaiting)),
            false => core.progress(progress, phases, streamed, |made| resolve.with(Ok(made))),
        });
        Ok(match wait(done).await? {
            Ok(None) => Progress::NotDue,
            Ok(Some(number)) => Progress::Taken { number },
            Err(reason) => Progress::Postponed { reason },
        })
    }

    /// Returns what main gave to [`progress`](Self::progress) at the checkpoint from which the job
    /// continues. `None` if it continues from none, and at later calls.
    ///
    /// # Errors
    ///
    /// [`GridError::Restored`] if the value has another structure.
    pub async fn restored<P: DeserializeOwned>(&self) -> Result<Option<P>, GridError> {
        let (resolve, found) = self.main.promise();
        self.main.run(move |core| resolve.with(Ok(core.take_progress())));
        let bytes: Option<Bytes> = wait(found).await?;
        let decode = |bytes: Bytes| codec::decode(type_name::<P>(), &bytes);
        bytes
            .map(decode)
            .transpose()
            .map_err(|error| GridError::Restored { reason: error.to_string() })
    }
}

/// The result of a [progress point](Grid::progress).
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// use gridspan::{CheckpointEvery, Checkpoints, Progress};
///
/// let job = Job::new("nothing").main(async |grid: Grid| {
///     for step in 1..=4_u64 {
///         match grid.progress(&step).await? {
///             Progress::Taken { number } => assert_eq!(2 * number, step),
///             Progress::Postponed { reason } => println!("step {step}: {reason}"),
///             _ => {}
///         }
///     }
///     Ok(())
/// });
/// let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(2)));
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// No checkpoint was due.
    NotDue,
    /// A checkpoint was captured, and is being encoded and stored.
    Taken {
        /// Its number, counted over all runs of the job.
        number: u64,
    },
    /// A checkpoint was due and could not be made; the next progress point tries again.
    Postponed {
        /// The reason.
        reason: String,
    },
}
