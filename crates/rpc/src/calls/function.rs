//! Typed functions that servers execute.

use super::signature::Signature;
use gridspan_workflow::performance::{Formula, FormulaError};
use serde::de::DeserializeOwned;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use thiserror::Error;

/// Why it cannot be said how long a call computes. The function was not executed; correct what it
/// is said to cost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CostError {
    /// The text is no formula.
    #[error("the formula of the cost: {0}")]
    Formula(#[from] FormulaError),
    /// The scalars for the formula could not be taken from the arguments.
    #[error("the scalars of the cost: {0}")]
    Panicked(String),
}

/// Does what a user's program says; why not, if that panics.
pub(super) fn guarded<T>(what: &str, program: impl FnOnce() -> T) -> Result<T, String> {
    // Nothing that it could have left half done outlives it: it has its arguments for itself.
    let outcome = catch_unwind(AssertUnwindSafe(program));
    outcome.map_err(|panic| format!("{what} panicked: {}", text(&*panic)))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}

/// What a function can do while it is executed, besides computing.
#[derive(Debug)]
pub struct Work {
    speed: f64,
    emulated: Duration,
}

impl Work {
    pub(super) fn new(speed: f64) -> Self {
        Self { speed, emulated: Duration::ZERO }
    }

    /// Takes as long as a server of speed 1 would need this time, in the simulator's virtual time.
    /// Elsewhere it counts as load only.
    pub fn emulate(&mut self, time: Duration) {
        self.emulated += time.div_f64(self.speed);
    }

    pub(super) fn emulated(&self) -> Duration {
        self.emulated
    }
}

/// What a function does: from its arguments to its results. What it changes (the standard's
/// `INOUT`) is moved in and given back.
pub(super) type Body<I, O> = fn(I, &mut Work) -> Result<O, String>;

/// How long a function computes.
#[derive(Debug)]
struct Cost<I> {
    /// A formula: seconds on a server of speed 1.
    formula: &'static str,
    /// The names of the scalars in it.
    names: &'static [&'static str],
    /// Their values for a call.
    values: fn(&I) -> Vec<f64>,
}

impl<I> Clone for Cost<I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Cost<I> {}

/// A function of arguments `I` and results `O`, which servers know by its name. Both the client's
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

/// How volumes decide what a function computes and gives, by formulas of the sizes of its arguments
/// in bytes: `in0`, `in1` and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volumes {
    work: Option<&'static str>,
    results: &'static [&'static str],
}

/// What the formulas call the sizes of arguments.
const SIZES: [&str; 6] = ["in0", "in1", "in2", "in3", "in4", "in5"];

impl Volumes {
    /// How long a call computes on a server of speed 1, in seconds, if a formula says so.
    pub(crate) fn work_s(&self, sizes: &[f64]) -> Option<f64> {
        evaluate(self.work?, sizes)
    }

    /// How large a result is, in bytes, if a formula says so.
    pub(crate) fn result_bytes(&self, place: usize, sizes: &[f64]) -> Option<f64> {
        evaluate(self.results.get(place)?, sizes)
    }
}

/// A formula that cannot be read says nothing: what was learned counts then.
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
    /// A function whose time is learned from calls.
    pub const fn new(name: &'static str, body: Body<I, O>) -> Self {
        Self { name, body, cost: None, volumes: Volumes { work: None, results: &[] } }
    }

    /// The same function, whose time is a [formula](Formula) of scalars: seconds on a server of
    /// speed 1.
    pub const fn costs(
        mut self,
        formula: &'static str,
        names: &'static [&'static str],
        values: fn(&I) -> Vec<f64>,
    ) -> Self {
        self.cost = Some(Cost { formula, names, values });
        self
    }

    /// The same function, whose time in a group is a [formula](Formula) of the sizes of its
    /// arguments where those of [`costs`](Self::costs) are not known to the client: seconds on a
    /// server of speed 1, of bytes `in0`, `in1` and so on.
    pub const fn computes(mut self, formula: &'static str) -> Self {
        self.volumes.work = Some(formula);
        self
    }

    /// The same function, the sizes of whose results in a group are [formulas](Formula) of the
    /// sizes of its arguments: bytes, of bytes `in0`, `in1` and so on.
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

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it takes and gives, as it looks on the wire.
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

    /// How long a call with these arguments computes on a server of speed 1, in seconds; `None` if
    /// that is learned.
    pub fn work_s(&self, arguments: &I) -> Result<Option<f64>, CostError> {
        let Some(cost) = &self.cost else { return Ok(None) };
        let formula = Formula::parse(cost.formula, cost.names)?;
        let values = guarded("what gives them", || (cost.values)(arguments));
        Ok(Some(formula.value(&values.map_err(CostError::Panicked)?)))
    }
}
