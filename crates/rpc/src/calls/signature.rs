//! The types of a function's arguments and results on the wire, compared before a call is executed.

use gridspan_runtime::schema::{Fingerprint, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Approximate maximum length in bytes of each side of a signature's text: the text goes with each
/// call and each registration. Typical sides have a tenth of that.
const SIDE_BYTES_MAX: usize = 500;
/// Maximum length of a signature's text in bytes. It is above that of two sides, which are limited
/// only approximately. A longer text from another process is refused.
pub const SIGNATURE_BYTES_MAX: usize = 8 * SIDE_BYTES_MAX;

/// The structure of the arguments and results of a function on the wire. Two signatures are equal
/// if their fingerprints are.
///
/// ```
/// use gridspan_rpc::calls::{Function, Signature};
///
/// const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// let signature: Signature = SQUARE.signature();
/// assert_eq!(&*signature.text, "u64 -> u64");
/// assert_ne!(signature, Signature::of::<f64, f64>());
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Signature {
    /// Fingerprint of the arguments and the results together.
    pub fingerprint: Fingerprint,
    /// Readable form of both, possibly cut short.
    pub text: Arc<str>,
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Signature {}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.text, self.fingerprint)
    }
}

/// Cache of signatures, so that the text is not built for each call.
static KNOWN: Mutex<BTreeMap<(TypeId, TypeId), Signature>> = Mutex::new(BTreeMap::new());

impl Signature {
    /// The signature of a function from `I` to `O`.
    pub fn of<I: DeserializeOwned + 'static, O: DeserializeOwned + 'static>() -> Self {
        let key = (TypeId::of::<I>(), TypeId::of::<O>());
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signature) = known().get(&key) {
            return signature.clone();
        }
        let (from, to) = (Schema::of::<I>(), Schema::of::<O>());
        let fingerprint = Fingerprint::of_all([from.fingerprint(), to.fingerprint()]);
        let text = format!("{} -> {}", from.brief(SIDE_BYTES_MAX), to.brief(SIDE_BYTES_MAX));
        let signature = Self { fingerprint, text: text.into() };
        known().entry(key).or_insert(signature).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::Numbers;

    #[test]
    fn signatures_differ_if_arguments_or_results_differ() {
        let all = [
            Signature::of::<(u32,), (u64,)>(),
            Signature::of::<(u64,), (u32,)>(),
            Signature::of::<(u32, u64), ()>(),
            Signature::of::<(Numbers<f64>,), (u64,)>(),
            Signature::of::<(Numbers<u64>,), (u64,)>(),
        ];

        for (place, one) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|other| other != one), "{one}");
        }
        assert_eq!(&*all[3].text, "(Numbers<f64>) -> (u64)");
    }
}
