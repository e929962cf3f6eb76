//! What the documentation of each policy promises.
