//! gridspan
