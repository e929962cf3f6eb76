//! Which functions there are: the part of a program that servers are made of.

use super::function::{Body, Function, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The functions of a program. All nodes of a job have the same.
pub trait Catalogue: Send + Sync + 'static {
    /// The functions that servers can execute.
    fn functions() -> Functions;
}

type Run = Box<dyn Fn(&[u8], &mut Work) -> Result<Vec<u8>, String> + Send>;

/// Functions by name.
#[derive(Default)]
pub struct Functions {
    entries: BTreeMap<&'static str, Run>,
}

impl Functions {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same and one more, in place of one of the same name.
    pub fn with<I, O>(mut self, function: &Function<I, O>) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
    {
        let body = function.body();
        self.entries.insert(function.name(), Box::new(move |bytes, work| run(body, bytes, work)));
        self
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.keys().copied()
    }

    /// Executes a function on encoded arguments; why not, if it does not exist, refuses or panics.
    pub(super) fn run(&self, name: &str, bytes: &[u8], work: &mut Work) -> Result<Vec<u8>, String> {
        match self.entries.get(name) {
            Some(run) => run(bytes, work),
            None => Err(format!("the server's program has no function `{name}`")),
        }
    }
}

fn run<I: DeserializeOwned, O: Serialize>(
    body: Body<I, O>,
    bytes: &[u8],
    work: &mut Work,
) -> Result<Vec<u8>, String> {
    let (arguments, rest): (I, &[u8]) = postcard::take_from_bytes(bytes)
        .map_err(|error| format!("the arguments are not those of the function: {error}"))?;
    if !rest.is_empty() {
        return Err(format!("the arguments are {} bytes longer than the function's", rest.len()));
    }
    // Nothing that the function could have left half done outlives it: it has its arguments for itself.
    let outcome = catch_unwind(AssertUnwindSafe(|| body(arguments, work)));
    let results =
        outcome.map_err(|panic| format!("the function panicked: {}", text(&*panic)))??;
    postcard::to_stdvec(&results).map_err(|error| format!("the results cannot be encoded: {error}"))
}

fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}
