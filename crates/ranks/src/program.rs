//! What ranks run: a struct with an async method, or one async function for all.

use crate::comm::Comm;
use crate::error::RankError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

/// A rank that can move: a struct, which lives across migration points, with an async method that
/// runs from one to the next.
///
/// [`run`](Self::run) takes the struct, and returns it at a migration point. Nothing else of the
/// method survives; the compiler ensures this, because the struct must be complete when the method
/// returns. The next call goes on from the state in the struct, perhaps on another PE. See
/// [the crate](crate#migration) for the reason.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::ranks::{self, Comm, Continuation, Rank, RankError, ops};
///
/// /// Adds up numbers in three rounds, and may move after each.
/// #[derive(Serialize, Deserialize)]
/// struct Adder { round: u32, total: u32 }
///
/// impl Rank for Adder {
///     type Init = ();
///     type Value = ();
///
///     fn create((): (), _world: &Comm) -> Self { Adder { round: 0, total: 0 } }
///
///     async fn run(mut self, world: Comm) -> Result<Continuation<Self>, RankError> {
///         let sums = world.allreduce(&[world.rank() + self.round], ops::sum).await?;
///         (self.round, self.total) = (self.round + 1, self.total + sums[0]);
///         if self.round < 3 {
///             return Ok(Continuation::Migrate(self));
///         }
///         // The sum over 4 ranks is 6, and 4 more in each round.
///         assert_eq!(self.total, 6 + 10 + 14);
///         Ok(Continuation::Done(()))
///     }
/// }
///
/// let job = ranks::job::<Adder>("adder", 4, |_rank| ());
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rank",
    label = "this type does not implement `Rank`",
    note = "write `impl Rank for {Self}` with the types `Init` and `Value` and the functions `create` and `run`; ranks that need not move may be one function, see `ranks::run`"
)]
pub trait Rank: Serialize + DeserializeOwned + Send + 'static {
    /// The value from which a rank is built.
    type Init: Serialize + DeserializeOwned + Send + 'static;
    /// The value that the rank gives main at its end, see [`job_then`](crate::job_then); `()` for
    /// none.
    type Value: Serialize + DeserializeOwned + Send + 'static;

    /// Builds the rank on the PE where it first lives.
    fn create(init: Self::Init, world: &Comm) -> Self;

    /// Runs to the next migration point or to the end. A rank that returns an error ends the job,
    /// unless it has [`ErrorsReturn`](crate::ErrorsReturn).
    fn run(
        self,
        world: Comm,
    ) -> impl Future<Output = Result<Continuation<Self, Self::Value>, RankError>> + Send;
}

/// How a rank goes on; see [`Rank`] for an example.
///
/// A migration point is collective: a rank goes on once all ranks have come to one or are done.
///
/// ```
/// use gridspan::ranks::Continuation;
///
/// fn next(round: u32) -> Continuation<u32, &'static str> {
///     if round < 10 { Continuation::Migrate(round) } else { Continuation::Done("ten rounds") }
/// }
/// assert_eq!(next(3), Continuation::Migrate(3));
/// assert_eq!(next(10), Continuation::Done("ten rounds"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Continuation<R, V = ()> {
    /// The rank may move now, and then runs again.
    Migrate(R),
    /// The rank has ended, with the value that it gives main.
    Done(V),
}

/// How a run of a program ended.
pub(crate) enum RunEnd<S, V> {
    /// At a migration point, with the state to go on from.
    Moves(S),
    /// With a result.
    Value(V),
}

/// The future of a run.
pub(crate) type Run<P> = Pin<
    Box<
        dyn Future<
                Output = Result<
                    RunEnd<<P as RankProgram>::State, <P as RankProgram>::Value>,
                    RankError,
                >,
            > + Send,
    >,
>;

/// What a rank's actor runs.
pub(crate) trait RankProgram: Sized + Send + Sync + 'static {
    /// What a rank is built from.
    type Init: Serialize + DeserializeOwned + Send + 'static;
    /// What lives across migration points.
    type State: Serialize + DeserializeOwned + Send + 'static;
    /// What a rank gives main at its end.
    type Value: Serialize + DeserializeOwned + Send + 'static;

    fn create(init: Self::Init, world: &Comm) -> Self::State;

    /// Begins a run. `self` is a resource of the job.
    fn begin(&self, state: Self::State, world: Comm) -> Run<Self>;
}

/// The program whose ranks are structs.
pub(crate) struct StructProgram<R>(PhantomData<fn() -> R>);

impl<R> StructProgram<R> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<R: Rank> RankProgram for StructProgram<R> {
    type Init = R::Init;
    type State = R;
    type Value = R::Value;

    fn create(init: R::Init, world: &Comm) -> R {
        R::create(init, world)
    }

    fn begin(&self, state: R, world: Comm) -> Run<Self> {
        Box::pin(async move {
            Ok(match state.run(world).await? {
                Continuation::Migrate(state) => RunEnd::Moves(state),
                Continuation::Done(value) => RunEnd::Value(value),
            })
        })
    }
}

/// The program of one function, which every rank runs once.
pub(crate) struct FunctionProgram<F> {
    function: Arc<F>,
}

impl<F> FunctionProgram<F> {
    pub(crate) fn new(function: F) -> Self {
        Self { function: Arc::new(function) }
    }
}

/// The state of a rank that runs a function: nothing, since it never moves.
#[derive(Serialize, Deserialize)]
pub(crate) struct NoState;

/// The future of a run of a function.
type FunctionRun<T> = Pin<Box<dyn Future<Output = Result<RunEnd<NoState, T>, RankError>> + Send>>;

/// A function that ranks can run.
pub(crate) trait RankFunction: Send + Sync + 'static {
    type Value: Serialize + DeserializeOwned + Send + 'static;

    fn run(self: Arc<Self>, world: Comm) -> FunctionRun<Self::Value>;
}

/// A closure with the type of its future and of its result.
pub(crate) struct Function<F, T> {
    closure: F,
    value: PhantomData<fn() -> T>,
}

impl<F, T> Function<F, T> {
    pub(crate) fn new(closure: F) -> Self {
        Self { closure, value: PhantomData }
    }
}

impl<F, T, U> RankFunction for Function<F, T>
where
    F: Fn(Comm) -> U + Send + Sync + 'static,
    U: Future<Output = Result<T, RankError>> + Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
{
    type Value = T;

    fn run(self: Arc<Self>, world: Comm) -> FunctionRun<T> {
        // Calls the closure inside the future: a closure that panics must do so in the first poll.
        Box::pin(async move { Ok(RunEnd::Value((self.closure)(world).await?)) })
    }
}

impl<F: RankFunction> RankProgram for FunctionProgram<F> {
    type Init = ();
    type State = NoState;
    type Value = F::Value;

    fn create((): (), _world: &Comm) -> NoState {
        NoState
    }

    fn begin(&self, _state: NoState, world: Comm) -> Run<Self> {
        self.function.clone().run(world)
    }
}

/// The number of bytes up to which messages are sent at once; longer ones wait for their receive.
///
/// A [resource](gridspan_runtime::Job::resource) of the job. Default 64 KiB.
///
/// ```
/// use gridspan::ranks::{self, EagerLimit};
///
/// let job = ranks::run(2, async |world| {
///     let other = 1 - world.rank();
///     world.send(&vec![0.5; 1 << 20], other, 0).await?; // 8 MiB, and no rank receives yet
///     world.recv::<f64>(other, 0).await?;
///     Ok(())
/// });
/// let job = job.resource(EagerLimit::new(16 << 20));
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EagerLimit {
    /// Number of bytes.
    pub bytes: usize,
}

impl EagerLimit {
    /// Creates a limit of this number of bytes.
    pub const fn new(bytes: usize) -> Self {
        Self { bytes }
    }
}
