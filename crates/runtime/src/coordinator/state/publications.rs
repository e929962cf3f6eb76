//! Publications in progress.

use crate::coordinator::event::Asker;
use crate::message::pending_work::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Publications that main waits for: the number of PEs still to confirm, and the asker.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Publications {
    pub(crate) next: u32,
    pub(crate) waiting: BTreeMap<u32, (u32, Asker)>,
}

impl Publications {
    /// Describes, in readable text, the publications that main waits for.
    pub(crate) fn waits(&self) -> impl Iterator<Item = String> {
        self.waiting.iter().map(|(id, (missing, _))| {
            let missing = counted(*missing, "more PE", "more PEs");
            format!("publication {id} to reach {missing}")
        })
    }
}
