//! Typed functions that servers execute.

use super::signature::Signature;
use gridspan_workflow::performance::{Formula, FormulaError};
use serde::de::DeserializeOwned;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use thiserror::Error;

/// The reason why the time of a call cannot be computed. The function was not executed; correct its
/// [`costs`](Function::costs).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// The text is not a formula.
    #[error("the formula of the cost: {0}")]
    Formula(#[from] FormulaError),
    /// The scalars for the formula could not be taken from the arguments.
    #[error("the scalars of the cost: {0}")]
    Panicked(String),
}

/// Runs the user's code; returns the reason if it panics.
pub(super) fn guarded<T>(what: &str, program: impl FnOnce() -> T) -> Result<T, String> {
    // Unwind safe: after a panic, no half-changed value is used.
    let outcome = catch_unwind(AssertUnwindSafe(program));
    outcome.map_err(|panic| format!("{what} panicked: {}", text(&*panic)))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}

/// Services for a function while it is executed.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # use std::time::Duration;
/// /// Computes for a second per item on a server of speed 1, but in virtual time only.
/// fn count(items: u64, work: &mut Work) -> Result<u64, String> {
///     work.emulate(Duration::from_secs(items));
///     Ok(items)
/// }
///
/// const COUNT: Function<u64, u64> = Function::new("count", count);
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with(&COUNT) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// # let mut client = GridRpc::new(&services);
/// # client.initialize(&Config::default())?;
/// let handle = client.handle(&COUNT).await?;
/// assert_eq!(client.call(&handle, &1000).await?, 1000); // at once on real servers
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Debug)]
pub struct Work {
    speed: f64,
    emulated: Duration,
}

impl Work {
    pub(super) fn new(speed: f64) -> Self {
        Self { speed, emulated: Duration::ZERO }
    }

    /// Emulates work that takes this time on a server of speed 1. In the simulator it takes virtual
    /// time; elsewhere it counts as load only.
    pub fn emulate(&mut self, time: Duration) {
        self.emulated += time.div_f64(self.speed);
    }

    pub(super) fn emulated(&self) -> Duration {
        self.emulated
    }
}

/// Body of a function, from its arguments to its results. A value that the function changes (the
/// standard's `INOUT`) is moved in and returned.
pub(super) type Body<I, O> = fn(I, &mut Work) -> Result<O, String>;

/// Predicted time of a function.
#[derive(Debug)]
struct Cost<I> {
    /// A formula: seconds on a server of speed 1.
    formula: &'static str,
    /// The names of the scalars in the formula.
    names: &'static [&'static str],
    /// Computes the scalars from the arguments of a call.
    values: fn(&I) -> Vec<f64>,
}

impl<I> Clone for Cost<I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Cost<I> {}

/// A function with arguments `I` and results `O`, which servers look up by name. Both the client's
/// and the servers' programs name it, as a constant:
///
/// ```
/// use gridspan_rpc::calls::{Function, Work};
///
/// fn dot((a, b): (Vec<f64>, Vec<f64>), _work: &mut Work) -> Result<f64, String> {
///     Ok(a.iter().zip(&b).map(|(a, b)| a * b).sum())
/// }
///
/// const DOT: Function<(Vec<f64>, Vec<f64>), f64> =
///     Function::new("dot", dot).costs("1e-9 * n", &["n"], |(a, _)| vec![a.len() as f64]);
/// assert_eq!(DOT.name(), "dot");
/// ```
#[derive(Debug)]
pub struct Function<I, O> {
    name: &'static str,
    body: Body<I, O>,
    cost: Option<Cost<I>>,
    volumes: Volumes,
}

/// Formulas for the time of a function and the sizes of its results, in terms of the sizes of its
/// arguments in bytes: `in0`, `in1` and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volumes {
    work: Option<&'static str>,
    results: &'static [&'static str],
}

/// Names of the sizes of arguments in formulas.
const SIZES: [&str; 6] = ["in0", "in1", "in2", "in3", "in4", "in5"];

impl Volumes {
    /// Time of a call on a server of speed 1, in seconds, if there is a formula for it.
    pub(crate) fn work_s(&self, sizes: &[f64]) -> Option<f64> {
        evaluate(self.work?, sizes)
    }

    /// Size of a result in bytes, if there is a formula for it.
    pub(crate) fn result_bytes(&self, place: usize, sizes: &[f64]) -> Option<f64> {
        evaluate(self.results.get(place)?, sizes)
    }
}

/// Evaluates a formula. `None` if it cannot be parsed, or if there are more than six sizes: then
/// the learned value is used.
fn evaluate(formula: &str, sizes: &[f64]) -> Option<f64> {
    let names = SIZES.get(..sizes.len())?;
    Some(Formula::parse(formula, names).ok()?.value(sizes))
}

impl<I, O> Clone for Function<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Function<I, O> {}

impl<I, O> Function<I, O> {
    /// A function whose time is learned from its calls.
    pub const fn new(name: &'static str, body: Body<I, O>) -> Self {
        Self { name, body, cost: None, volumes: Volumes { work: None, results: &[] } }
    }

    /// Sets the function's time to a [formula](Formula) of scalars, in seconds on a server of speed
    /// 1.
    pub const fn costs(
        mut self,
        formula: &'static str,
        names: &'static [&'static str],
        values: fn(&I) -> Vec<f64>,
    ) -> Self {
        self.cost = Some(Cost { formula, names, values });
        self
    }

    /// Sets the function's time in a group, in seconds on a server of speed 1, to a
    /// [formula](Formula) of the sizes of its arguments: `in0`, `in1` and so on, in bytes. It
    /// counts if the client does not know the scalars of [`costs`](Self::costs).
    pub const fn computes(mut self, formula: &'static str) -> Self {
        self.volumes.work = Some(formula);
        self
    }

    /// Sets the sizes of the function's results in a group, in bytes, to [formulas](Formula) of the
    /// sizes of its arguments: `in0`, `in1` and so on, in bytes.
    pub const fn gives(mut self, results: &'static [&'static str]) -> Self {
        self.volumes.results = results;
        self
    }

    pub(crate) fn volumes(&self) -> Volumes {
        self.volumes
    }

    pub(crate) fn has_formula(&self) -> bool {
        self.cost.is_some()
    }

    /// The function's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The function's signature: the types of its arguments and results on the wire.
    pub fn signature(&self) -> Signature
    where
        I: DeserializeOwned + 'static,
        O: DeserializeOwned + 'static,
    {
        Signature::of::<I, O>()
    }

    pub(super) fn body(&self) -> Body<I, O> {
        self.body
    }

    /// Time of a call with these arguments on a server of speed 1, in seconds; `None` if the time
    /// is learned.
    ///
    /// # Errors
    ///
    /// [`CostError::Formula`] if the text in [`costs`](Self::costs) is not a formula of its names;
    /// [`CostError::Panicked`] if the computation of the scalars panics.
    pub fn work_s(&self, arguments: &I) -> Result<Option<f64>, CostError> {
        let Some(cost) = &self.cost else { return Ok(None) };
        let formula = Formula::parse(cost.formula, cost.names)?;
        let values = guarded("the function that computes them", || (cost.values)(arguments));
        Ok(Some(formula.value(&values.map_err(CostError::Panicked)?)))
    }
}
