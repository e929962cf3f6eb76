//! Jobs of ranks, and their main, which begins the runs of the ranks and balances the ranks at
//! their migration points.

use crate::actor::{Parking, RankActor};
use crate::comm::Comm;
use crate::error::RankError;
use crate::main_watch::MainWatch;
use crate::packet::RankMessage;
use crate::places::Places;
use crate::program::{Function, FunctionProgram, Rank, RankProgram, StructProgram};
use crate::site_links::{SiteLinks, measured_uplinks};
use gridspan_runtime::{Collection, CollectionRef, Grid, GridError, Ix1, Job, JobError, List, Op};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// What main needs to go on from a checkpoint, besides the options of the job.
#[derive(Serialize, Deserialize)]
struct AtPoint<P: RankProgram> {
    #[serde(bound = "")]
    ranks: CollectionRef<RankActor<P>>,
}

/// Makes a job of `ranks` ranks that are structs. Each is built from what `init` returns for its
/// number; the values that the ranks return at their ends are dropped. See [`Rank`] for an example,
/// and [`job_then`].
///
/// Ranks move at their migration points, if the job has a [strategy](Job::strategy). A job with
/// [checkpoints](Job::checkpoints) makes them at migration points, each of which is one
/// [progress point](Grid::progress), and goes on from the last one after a loss.
pub fn job<R: Rank>(
    name: impl Into<String>,
    ranks: u32,
    init: impl Fn(u32) -> R::Init + Send + Sync + 'static,
) -> Job {
    job_then::<R>(name, move |_grid| Ok(ranks), init, |_grid, _values| Ok(()))
}

/// Like [`job`], with as many ranks as `ranks` returns for the grid. Gives the values that the
/// ranks return at their ends, in order, to `then`, which runs in main.
///
/// A job that goes on from a checkpoint has the ranks of the checkpoint.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::ranks::{self, Comm, Continuation, Rank, RankError};
///
/// /// Doubles a number, and may move after each time.
/// #[derive(Serialize, Deserialize)]
/// struct Doubler { number: u32 }
///
/// impl Rank for Doubler {
///     type Init = u32;
///     type Value = u32;
///
///     fn create(number: u32, _world: &Comm) -> Self { Doubler { number } }
///
///     async fn run(self, _world: Comm) -> Result<Continuation<Self, u32>, RankError> {
///         match self.number {
///             number @ 100.. => Ok(Continuation::Done(number)),
///             number => Ok(Continuation::Migrate(Doubler { number: 2 * number })),
///         }
///     }
/// }
///
/// let ranks = |grid: &Grid| Ok(2 * grid.layout().pe_count());
/// let job = ranks::job_then::<Doubler>("doublers", ranks, |rank| rank + 1, |_grid, numbers| {
///     assert_eq!(numbers, [128, 128, 192, 128]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
pub fn job_then<R: Rank>(
    name: impl Into<String>,
    ranks: impl Fn(&Grid) -> Result<u32, JobError> + Send + Sync + 'static,
    init: impl Fn(u32) -> R::Init + Send + Sync + 'static,
    then: impl Fn(&Grid, Vec<R::Value>) -> Result<(), JobError> + Send + Sync + 'static,
) -> Job {
    job_then_with::<R, ()>(name, (), ranks, init, then)
}

/// Like [`job_then`], for ranks that follow the `options` of the job. Checkpoints contain the
/// options. A job with other options fails if it is to go on from a checkpoint, whose ranks would
/// follow the old ones.
///
/// ```
/// use gridspan::prelude::*;
/// use gridspan::ranks::{self, Comm, Continuation, Rank, RankError};
///
/// /// Counts to an end.
/// #[derive(Serialize, Deserialize)]
/// struct Counter { end: u32, number: u32 }
///
/// impl Rank for Counter {
///     type Init = u32;
///     type Value = u32;
///
///     fn create(end: u32, _world: &Comm) -> Self { Counter { end, number: 0 } }
///
///     async fn run(mut self, _world: Comm) -> Result<Continuation<Self, u32>, RankError> {
///         self.number += 1;
///         match self.number < self.end {
///             true => Ok(Continuation::Migrate(self)),
///             false => Ok(Continuation::Done(self.number)),
///         }
///     }
/// }
///
/// let end: u32 = 3; // An option of the program.
/// let ranks = |_grid: &Grid| Ok(4);
/// let init = move |_rank: u32| end;
/// let job = ranks::job_then_with::<Counter, u32>("counters", end, ranks, init, move |_, numbers| {
///     assert_eq!(numbers, [end; 4]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
pub fn job_then_with<R: Rank, O>(
    name: impl Into<String>,
    options: O,
    ranks: impl Fn(&Grid) -> Result<u32, JobError> + Send + Sync + 'static,
    init: impl Fn(u32) -> R::Init + Send + Sync + 'static,
    then: impl Fn(&Grid, Vec<R::Value>) -> Result<(), JobError> + Send + Sync + 'static,
) -> Job
where
    O: Serialize + DeserializeOwned + PartialEq + Send + Sync + 'static,
{
    let (init, then) = (Arc::new(init), Arc::new(then));
    add_program(Job::new(name), StructProgram::<R>::new()).restartable_main(
        async move |grid: Grid| {
            let ranks = match restored::<StructProgram<R>, O>(&grid, &options).await? {
                Some(ranks) => ranks,
                None => create(&grid, ranks(&grid)?, |rank| init(rank)).await?,
            };
            let values = run_all(&grid, &ranks, &options, true).await?;
            then(&grid, values)
        },
    )
}

/// Returns the ranks of the checkpoint from which the job goes on, if there is one. Fails if it was
/// made with other options.
async fn restored<P: RankProgram, O: DeserializeOwned + PartialEq>(
    grid: &Grid,
    options: &O,
) -> Result<Option<Collection<RankActor<P>>>, JobError> {
    let found: Option<(AtPoint<P>, O)> = grid.restored().await?;
    let Some((AtPoint { ranks }, before)) = found else { return Ok(None) };
    match before == *options {
        true => Ok(Some(grid.collection(ranks))),
        false => Err("the checkpoint was made with other options; start with those".into()),
    }
}

/// Makes a job of one function, which each of `ranks` ranks runs once. What it returns is dropped;
/// see [`run_then`] and [`RankFunctions`].
///
/// These ranks have no migration points, so they do not move to another node.
///
/// ```
/// use gridspan::ranks::{self, Comm};
///
/// let job = ranks::run(8, async |world: Comm| {
///     let right = (world.rank() + 1) % world.size();
///     world.send(&[world.rank()], right, 0).await?;
///     let (from_left, _) = world.recv::<u32>((world.rank() + 7) % 8, 0).await?;
///     assert_eq!((from_left[0] + 1) % 8, world.rank());
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
pub fn run<F, U, T>(ranks: u32, function: F) -> Job
where
    F: Fn(Comm) -> U + Send + Sync + 'static,
    U: Future<Output = Result<T, RankError>> + Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
{
    run_then(ranks, function, |_results| Ok(()))
}

/// Like [`run`], and gives the results of the ranks, in order, to a function, which runs in main.
/// Those of ranks that others have [spawned](Comm::spawn) are dropped.
///
/// ```
/// use gridspan::ranks;
///
/// let squares = async |world: ranks::Comm| Ok(world.rank() * world.rank());
/// let job = ranks::run_then(4, squares, |squares| {
///     assert_eq!(squares, [0, 1, 4, 9]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
pub fn run_then<F, U, T>(
    ranks: u32,
    function: F,
    then: impl Fn(Vec<T>) -> Result<(), JobError> + Send + Sync + 'static,
) -> Job
where
    F: Fn(Comm) -> U + Send + Sync + 'static,
    U: Future<Output = Result<T, RankError>> + Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let (job, functions) = RankFunctions::add(Job::new("ranks"), function);
    let then = Arc::new(then);
    job.restartable_main(async move |grid: Grid| then((functions.run)(grid, ranks, true).await?))
}

/// The results of ranks, once they have ended.
type Results<T> = Pin<Box<dyn Future<Output = Result<Vec<T>, JobError>>>>;

/// Runs a number of ranks.
type RunFunctions<T> = dyn Fn(Grid, u32, bool) -> Results<T> + Send + Sync;

/// A function of ranks that a job of any kind can run, from its main.
///
/// ```
/// use gridspan::embed::Runner;
/// use gridspan::prelude::*;
/// use gridspan::ranks::{Comm, RankFunctions, ops};
///
/// let (job, sums) = RankFunctions::add(Job::new("sums"), async |world: Comm| {
///     Ok(world.allreduce(&[world.rank()], ops::sum).await?[0])
/// });
/// let running = Runner::on_threads(2).start(job, async move |grid| sums.run(&grid, 5).await);
/// assert_eq!(running.wait(), Ok(vec![10; 5]));
/// ```
pub struct RankFunctions<T> {
    run: Arc<RunFunctions<T>>,
}

impl<T> Clone for RankFunctions<T> {
    fn clone(&self) -> Self {
        Self { run: self.run.clone() }
    }
}

impl<T> fmt::Debug for RankFunctions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RankFunctions")
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> RankFunctions<T> {
    /// Adds a function to a job. Each closure of a program can be added once.
    pub fn add<F, U>(job: Job, function: F) -> (Job, Self)
    where
        F: Fn(Comm) -> U + Send + Sync + 'static,
        U: Future<Output = Result<T, RankError>> + Send + 'static,
    {
        let program = FunctionProgram::new(Function::new(function));
        (add_program(job, program), Self { run: Arc::new(run_of::<Function<F, T>, T>()) })
    }

    /// Runs the function on `ranks` ranks, and returns their results in order. A deadlock of the
    /// ranks is not reported, since the job may have other actors.
    ///
    /// # Errors
    ///
    /// [`JobError`] if the job ends, as it does when a rank returns an error.
    pub async fn run(&self, grid: &Grid, ranks: u32) -> Result<Vec<T>, JobError> {
        (self.run)(grid.clone(), ranks, false).await
    }
}

/// Adds a program to a job: the actors that run it, and what they need.
fn add_program<P: RankProgram>(job: Job, program: P) -> Job {
    job.actor::<RankActor<P>>().resource(program).resource(Parking::<P>::new())
}

/// The function that runs the ranks of a program.
fn run_of<F, T>() -> impl Fn(Grid, u32, bool) -> Results<T> + Send + Sync
where
    F: crate::program::RankFunction<Value = T>,
    T: Serialize + DeserializeOwned + Send + 'static,
{
    |grid, ranks, is_alone| {
        Box::pin(async move {
            let ranks = create::<FunctionProgram<F>>(&grid, ranks, |_| ()).await?;
            run_all(&grid, &ranks, &(), is_alone).await
        })
    }
}

async fn create<P: RankProgram>(
    grid: &Grid,
    ranks: u32,
    init: impl Fn(u32) -> P::Init,
) -> Result<Collection<RankActor<P>>, JobError> {
    if i32::try_from(ranks).is_err() || ranks == 0 {
        return Err(format!("{ranks} ranks; there must be at least 1 and at most 2^31 - 1").into());
    }
    Ok(grid.create::<RankActor<P>>(Ix1::range(ranks), |index| init(index.0 as u32)).await?)
}

/// Runs ranks to their ends, and returns their results. Checkpoints contain the options. If
/// `is_alone`, the job has no other actors, so main looks for deadlocks of the ranks.
async fn run_all<P: RankProgram>(
    grid: &Grid,
    ranks: &Collection<RankActor<P>>,
    options: &impl Serialize,
    is_alone: bool,
) -> Result<Vec<P::Value>, JobError> {
    let mut watch = is_alone.then(|| MainWatch::new(grid));
    while run_once(grid, ranks, watch.as_mut()).await? {
        grid.rebalance_if_due().await?;
        grid.progress(&(AtPoint::<P> { ranks: ranks.reference() }, options)).await?;
    }
    ranks.broadcast(RankMessage::Results);
    let List(results) = ranks.reduction(Op::Concat).await?;
    Ok(results)
}

/// The links of the job that have been measured by now, and the uplinks that the user describes.
async fn known_links(grid: &Grid) -> Result<SiteLinks, GridError> {
    let layout = grid.layout();
    if layout.node_count() < 2 {
        return Ok(SiteLinks::default());
    }
    let (links, mut uplinks) = match grid.known_links().await? {
        Some(links) => {
            let hierarchy = &links.places.hierarchy;
            let uplinks = measured_uplinks(layout, hierarchy, &links.uplinks);
            (SiteLinks::new(layout, hierarchy, &links.estimates), uplinks)
        }
        None => (SiteLinks::not_measured(layout), BTreeMap::new()),
    };
    uplinks.extend(grid.described_uplinks().iter().copied());
    Ok(links.with_uplinks(layout, &uplinks))
}

/// Awaits two futures at the same time.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(found) = one.as_mut().poll(cx)
        {
            first = Some(found);
        }
        if second.is_none()
            && let Poll::Ready(found) = other.as_mut().poll(cx)
        {
            second = Some(found);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}

/// Lets all ranks run to their next migration points. Returns whether any goes on.
async fn run_once<P: RankProgram>(
    grid: &Grid,
    ranks: &Collection<RankActor<P>>,
    watch: Option<&mut MainWatch>,
) -> Result<bool, JobError> {
    ranks.broadcast(RankMessage::Report);
    let (pes, links) = both(ranks.reduction::<Vec<u64>>(Op::Concat), known_links(grid)).await;
    let pes = pes?;
    let places = Places::new(&pes, grid.layout(), links?);
    ranks.broadcast(RankMessage::Begin(Arc::new(places)));
    let mut arriving = pin!(ranks.reduction::<u64>(Op::Sum));
    let Some(watch) = watch else { return Ok(arriving.await? > 0) };
    watch.begin(pes.len());
    let arrived = poll_fn(|cx| match arriving.as_mut().poll(cx) {
        Poll::Ready(left) => Poll::Ready(Some(left)),
        Poll::Pending => {
            if watch.is_time_to_look(cx) {
                ranks.broadcast(RankMessage::Look { is_late_next: watch.pauses_long() });
            }
            watch.is_quiet(cx).map(|()| None)
        }
    });
    let left = match arrived.await {
        Some(left) => left?,
        None => {
            // No message is on its way, and ranks wait.
            ranks.broadcast(RankMessage::Explain);
            arriving.await?
        }
    };
    if watch.pauses_long() {
        // Otherwise main would wait for the timers of the ranks.
        ranks.broadcast(RankMessage::Rest);
    }
    watch.settle().await?;
    Ok(left > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::error::CallSite;
    use crate::name_server::{PlacedRanks, ServerRequest, Spawn, SpawnPlacement};
    use crate::program::Continuation;
    use crate::ticket::{Asker, Ticket};
    use gridspan_runtime::driver::embedded;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Number of ranks that have run.
    static HAVE_RUN: AtomicU32 = AtomicU32::new(0);

    #[derive(Serialize, Deserialize)]
    struct Counted;

    impl Rank for Counted {
        type Init = ();
        type Value = u32;

        fn create((): (), _world: &Comm) -> Self {
            Self
        }

        async fn run(self, world: Comm) -> Result<Continuation<Self, u32>, RankError> {
            HAVE_RUN.fetch_add(1, Ordering::Relaxed);
            Ok(Continuation::Done(world.size()))
        }
    }

    #[test]
    fn a_request_to_spawn_ranks_waits_until_rank_0_knows_the_number_of_ranks() {
        let job = add_program(Job::new("early"), StructProgram::<Counted>::new());
        let job = job.main(async |grid: Grid| {
            let ranks = create::<StructProgram<Counted>>(&grid, 2, |_| ()).await?;
            let inits = Content::encoded(&vec![(); 3], CallSite::new("spawn", 0)).unwrap();
            let (parents, links) = (PlacedRanks::default(), SiteLinks::default());
            let spawn = Spawn { placement: SpawnPlacement::Block, inits, parents, links };
            let request = Box::new(ServerRequest::Spawn(spawn));
            let asker = Asker { rank: 1, ticket: Ticket { slot: 0, generation: 0 } };
            ranks.member(Ix1(0)).send(RankMessage::Ask { asker, request });
            assert_eq!(run_all(&grid, &ranks, &(), false).await?, [2, 2]);
            Ok(())
        });
        embedded::run(job, 2).unwrap();
        assert_eq!(HAVE_RUN.load(Ordering::Relaxed), 5);
    }
}
