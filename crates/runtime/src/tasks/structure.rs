//! The structure of a pool's types that nodes compare: its workers exchange tasks and outputs as
//! bytes, so no message type shows their structure.

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

/// The structure of the state is the structure of the tasks and outputs that workers exchange.
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
