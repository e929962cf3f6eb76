//! The catalogue of functions: the part of a program from which its servers are built.

use super::error::RpcError;
use super::finite::is_finite;
use super::function::{Body, Function, Work, guarded};
use super::signature::Signature;
use crate::block::{CALL_SEGMENT_BYTES, EncodedBlock};
use crate::group::parts::Parts;
use gridspan_runtime::Numbers;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The functions of a program. All nodes of a job have the same catalogue.
///
/// ```
/// use gridspan_rpc::calls::{Catalogue, Function, Functions};
///
/// const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
///
/// struct Numbers;
///
/// impl Catalogue for Numbers {
///     fn functions() -> Functions { Functions::new().with(&SQUARE) }
/// }
/// # assert_eq!(Numbers::functions().names().count(), 1);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a catalogue of functions",
    label = "this type does not implement `Catalogue`",
    note = "write `impl Catalogue for {Self}` with the function `functions`, which returns `Functions::new().with(&FUNCTION)`"
)]
pub trait Catalogue: Send + Sync + 'static {
    /// The functions that servers can execute.
    fn functions() -> Functions;
}

type Run = Box<dyn Fn(&[u8], &mut Work) -> Result<EncodedBlock, String> + Send>;

/// The results, each encoded separately, and the time that the function's formula predicts on a
/// server of speed 1, in seconds; `None` without a formula.
type Made = (Vec<Vec<u8>>, Option<f64>);
type RunParts = Box<dyn Fn(&[u8], &mut Work) -> Result<Made, String> + Send>;

/// Name, in messages about panics, of the code that decodes arguments and encodes results. Some of
/// it may be the user's.
const CODING: &str = "the encoding of arguments or results";

/// The text in place of a number that JSON does not have.
const NULL: &[u8] = b"null";

/// The entry points of a function, from its arguments to its results in each form.
struct Entry {
    encoded: Run,
    text: Run,
    signature: Signature,
}

/// Encoding of the arguments and results of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CallForm {
    /// The binary encoding that programs use.
    #[default]
    Encoded,
    /// In JSON.
    Text,
    /// The binary encoding, with each of this number of results in a separate segment, for groups.
    Parts(u32),
}

/// Functions by name.
///
/// ```
/// use gridspan_rpc::calls::{Function, Functions};
///
/// const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// // Arguments and results are tuples, so that groups can call it.
/// const FILL: Function<(u64,), (Vec<u64>,)> =
///     Function::new("fill", |(n,), _| Ok(((0..n).collect(),)));
///
/// let functions = Functions::new().with(&SQUARE).with_parts(&FILL);
/// assert!(functions.names().eq(["fill", "square"]));
/// ```
#[derive(Default)]
pub struct Functions {
    entries: BTreeMap<&'static str, Entry>,
    in_parts: BTreeMap<&'static str, RunParts>,
}

impl Functions {
    /// An empty set of functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function, and replaces one of the same name.
    pub fn with<I, O>(mut self, function: &Function<I, O>) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + DeserializeOwned + 'static,
    {
        let body = function.body();
        let entry = Entry {
            encoded: Box::new(move |bytes, work| run(body, bytes, work)),
            text: Box::new(move |text, work| run_text(body, text, work)),
            signature: function.signature(),
        };
        self.entries.insert(function.name(), entry);
        // Groups must not call a function that was replaced.
        self.in_parts.remove(function.name());
        self
    }

    /// Adds a function that can be called in groups as well, because its arguments and results are
    /// tuples.
    pub fn with_parts<I: Parts, O: Parts>(self, function: &Function<I, O>) -> Self {
        let of_call = *function;
        let run = move |bytes: &[u8], work: &mut Work| {
            let arguments: I = decode(bytes)?;
            let work_s = of_call.work_s(&arguments).map_err(|error| error.to_string())?;
            let parts = execute(of_call.body(), arguments, work)?.encode()?;
            Ok((parts, work_s))
        };
        let mut all = self.with(function);
        all.in_parts.insert(function.name(), Box::new(run));
        all
    }

    /// The names of the functions, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.keys().copied()
    }

    /// The signatures of the functions, by name.
    pub fn signatures(&self) -> BTreeMap<String, Signature> {
        let signed = |(name, entry): (&&str, &Entry)| ((*name).to_owned(), entry.signature.clone());
        self.entries.iter().map(signed).collect()
    }

    /// Checks that the signature of a call is that of the function on this server, if the server
    /// has the function. The error gives the reason.
    pub(super) fn check(&self, name: &str, called: &Signature, server: &str) -> Result<(), String> {
        match self.entries.get(name) {
            Some(entry) if entry.signature != *called => {
                Err(RpcError::differs(name, server, &entry.signature, called).to_string())
            }
            _ => Ok(()),
        }
    }

    /// Executes a function on arguments in a form. The error gives the reason if the function does
    /// not exist, refuses or panics.
    pub(super) fn run(
        &self,
        name: &str,
        form: CallForm,
        bytes: &[u8],
        work: &mut Work,
    ) -> Result<EncodedBlock, String> {
        if let CallForm::Parts(results) = form {
            let (parts, _) = self.run_parts(name, bytes, results as usize, work)?;
            return Ok(EncodedBlock::of(parts.into_iter().map(Numbers::from).collect()));
        }
        let entry = self.entries.get(name);
        let entry =
            entry.ok_or_else(|| format!("the server's program has no function `{name}`"))?;
        let run = if form == CallForm::Text { &entry.text } else { &entry.encoded };
        guarded(CODING, || run(bytes, work))?
    }

    /// Executes a function on arguments that are encoded one after the other; fails unless it gives
    /// `results` results.
    pub(super) fn run_parts(
        &self,
        name: &str,
        bytes: &[u8],
        results: usize,
        work: &mut Work,
    ) -> Result<Made, String> {
        let run = self.in_parts.get(name).ok_or_else(|| {
            format!("`{name}` cannot be called in a group; add it to the catalogue by `with_parts`")
        })?;
        let made = guarded(CODING, || run(bytes, work))??;
        match made.0.len() == results {
            true => Ok(made),
            false => Err(format!("`{name}` has {} results, not {results}", made.0.len())),
        }
    }
}

fn run<I: DeserializeOwned, O: Serialize>(
    body: Body<I, O>,
    bytes: &[u8],
    work: &mut Work,
) -> Result<EncodedBlock, String> {
    let results = execute(body, decode(bytes)?, work)?;
    EncodedBlock::encode("the tuple of the results", &results, CALL_SEGMENT_BYTES)
}

fn run_text<I: DeserializeOwned, O: Serialize>(
    body: Body<I, O>,
    text: &[u8],
    work: &mut Work,
) -> Result<EncodedBlock, String> {
    let arguments = serde_json::from_slice(text);
    let arguments: I = arguments
        .map_err(|error| format!("the arguments are not those of the function: {error}"))?;
    let results = execute(body, arguments, work)?;
    let text = serde_json::to_vec(&results);
    let text = text.map_err(|error| format!("the results cannot be written: {error}"))?;
    // `serde_json` writes null in place of a number that JSON does not have.
    if text.windows(NULL.len()).any(|bytes| bytes == NULL) && !is_finite(&results) {
        let reason = "the results are not in JSON, which has no infinite numbers and no NaN";
        return Err(reason.to_owned());
    }
    EncodedBlock::cut("the text of the results", text, CALL_SEGMENT_BYTES)
}

fn decode<I: DeserializeOwned>(bytes: &[u8]) -> Result<I, String> {
    let (arguments, rest) = postcard::take_from_bytes(bytes)
        .map_err(|error| format!("the arguments are not those of the function: {error}"))?;
    match rest.len() {
        0 => Ok(arguments),
        more => Err(format!("the arguments are {more} bytes longer than the function's")),
    }
}

fn execute<I, O>(body: Body<I, O>, arguments: I, work: &mut Work) -> Result<O, String> {
    guarded("the function", || body(arguments, work))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Function<(u64,), (u64,)> = Function::new("f", |(n,), _| Ok((n + 1,)));
    const OTHER: Function<(u64,), (u64,)> = Function::new("f", |(n,), _| Ok((n + 2,)));

    const ADD: Function<(f64, f64), f64> = Function::new("add", |(one, other), _| Ok(one + other));
    const ROOT: Function<f64, Option<f64>> =
        Function::new("root", |square, _| Ok((square >= 0.0).then(|| square.sqrt())));
    const INVERSE: Function<f64, Option<f64>> =
        Function::new("inverse", |number, _| Ok(Some(1.0 / number)));

    #[test]
    fn results_that_json_does_not_have_are_an_error() {
        let functions = Functions::new().with(&ADD).with(&ROOT).with(&INVERSE);
        let called = |name: &str, arguments: &str| {
            let mut work = Work::new(1.0);
            let results = functions.run(name, CallForm::Text, arguments.as_bytes(), &mut work);
            results.map(|results| String::from_utf8(results.contiguous().to_vec()).unwrap())
        };

        assert_eq!(called("add", "[1, 2.5]"), Ok("3.5".to_owned()));
        assert_eq!(called("root", "-1"), Ok("null".to_owned()));
        assert_eq!(called("inverse", "-4"), Ok("-0.25".to_owned()));
        for (name, arguments) in [("add", "[1e308, 1e308]"), ("inverse", "0")] {
            let error = called(name, arguments).unwrap_err();
            assert!(error.contains("which has no infinite numbers and no NaN"), "{error}");
        }
    }

    /// The outcome of the function for 0, in a group.
    fn in_group(functions: &Functions) -> Result<Vec<Vec<u8>>, String> {
        functions.run_parts("f", &[0], 1, &mut Work::new(1.0)).map(|(parts, _)| parts)
    }

    #[test]
    fn a_function_replaces_one_of_its_name_also_for_groups() {
        let replaced = Functions::new().with_parts(&ONE).with_parts(&OTHER);
        assert_eq!(in_group(&replaced), Ok(vec![vec![2]]));

        let replaced = Functions::new().with_parts(&ONE).with(&OTHER);

        assert!(
            in_group(&replaced).unwrap_err().contains("add it to the catalogue by `with_parts`")
        );
    }
}
