//! The rule by which members of an actor type are created on demand; see `demands`.

use crate::address::collection::CreateAt;
use crate::address::index::Key;
use crate::message::payload::Payload;
use std::sync::Arc;

/// How a missing member of an actor type is created.
#[derive(Clone)]
pub(crate) struct OnDemand {
    pub(crate) at: CreateAt,
    /// Makes the initial value of a member from its index, as a `Vec<(Key, Init)>` with one
    /// element.
    pub(crate) init: Arc<dyn Fn(Key) -> Payload + Send + Sync>,
}
