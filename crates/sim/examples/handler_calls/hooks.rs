//! Placeholder for the recorder that `call_paths` of `gridspan-studies` puts here: it records
//! nothing.

/// Starts to record the functions that run.
pub(crate) fn begin() {}

/// Returns the functions that have run since [`begin`], in the order in which they first ran.
pub(crate) fn end() -> Vec<&'static str> {
    Vec::new()
}
