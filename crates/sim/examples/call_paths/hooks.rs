//! Stands for the recorder that `call_paths` of `gridspan-studies` puts here: nothing is recorded.

/// Functions that run from now on are recorded.
pub(crate) fn begin() {}

/// Those that have run since, in the order in which they ran first.
pub(crate) fn end() -> Vec<&'static str> {
    Vec::new()
}
