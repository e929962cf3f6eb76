//! Functions that a client calls, and calls that are under way.

use super::function::Function;
use super::sessions::SessionId;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// A function that this client calls, on any server or bound to one (the standard's function
/// handle).
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with(&SQUARE) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// # let mut client = GridRpc::new(&services);
/// # client.initialize(&Config::default())?;
/// let square: Handle<u64, u64> = client.handle(&SQUARE).await?;
/// assert_eq!((square.name(), square.is_bound()), ("square", false));
/// for n in 1..=3 {
///     assert_eq!(client.call(&square, &n).await?, n * n);
/// }
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Debug)]
pub struct Handle<I, O> {
    owner: u32,
    function: Function<I, O>,
    bound: Option<u32>,
}

impl<I, O> Handle<I, O> {
    /// A handle of the client with number `owner`, bound to the server with number `bound`, if any.
    pub fn new(owner: u32, function: &Function<I, O>, bound: Option<u32>) -> Self {
        Self { owner, function: *function, bound }
    }

    /// The number of the client that owns the handle.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The function.
    pub fn function(&self) -> &Function<I, O> {
        &self.function
    }

    /// The number of the server to which the handle is bound.
    pub fn bound(&self) -> Option<u32> {
        self.bound
    }

    /// The function's name.
    pub fn name(&self) -> &'static str {
        self.function.name()
    }

    /// Whether the handle is bound, so that only one server may execute the function.
    pub fn is_bound(&self) -> bool {
        self.bound.is_some()
    }
}

/// A call that does not block, and the type of its results.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with(&SQUARE) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// # let mut client = GridRpc::new(&services);
/// # client.initialize(&Config::default())?;
/// let square = client.handle(&SQUARE).await?;
/// let first: CallSession<u64> = client.call_async(&square, &12).await?;
/// let second = client.call_async(&square, &13).await?; // both calls are under way
/// assert_eq!(client.wait(&first).await?, 144);
/// assert_eq!(client.wait(&second).await?, 169);
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct CallSession<O> {
    owner: u32,
    id: SessionId,
    results: PhantomData<fn() -> O>,
}

impl<O> Clone for CallSession<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for CallSession<O> {}

impl<O> CallSession<O> {
    /// A session of the client with number `owner`.
    pub fn new(owner: u32, id: SessionId) -> Self {
        Self { owner, id, results: PhantomData }
    }

    /// The number of the client that owns the session.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The session's identifier, for verbs that take several sessions.
    pub fn id(&self) -> SessionId {
        self.id
    }
}
