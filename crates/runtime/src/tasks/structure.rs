//! Lets nodes compare the structure of a pool's task and output types. Workers exchange tasks and
//! outputs as bytes, so no message type shows it.

use super::Worker;
use super::engine::Work;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A worker never leaves its PE, so its state is never sent.
impl<W: Work> Serialize for Worker<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

/// Nodes take the structure of a type from its decoding, so this decodes the types that workers
/// exchange.
impl<'de, W: Work> Deserialize<'de> for Worker<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Traded::<W::Item, W::Output>::deserialize(deserializer)?;
        Err(D::Error::custom("a worker does not move"))
    }
}

/// The types that workers exchange.
#[derive(Deserialize)]
struct Traded<I, O> {
    #[serde(rename = "task")]
    _task: I,
    #[serde(rename = "output")]
    _output: O,
}
