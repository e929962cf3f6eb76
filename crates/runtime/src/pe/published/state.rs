//! Read-only data that main has published on every PE.

use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;

/// A published value: its bytes, and its decoded form after the first use.
pub(crate) struct Published {
    pub(crate) bytes: Bytes,
    pub(crate) value: Option<Arc<dyn Any + Send + Sync>>,
}
