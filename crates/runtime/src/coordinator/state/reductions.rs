//! Incomplete reductions, and results for main.

use crate::address::id::CollectionId;
use crate::coordinator::event::Asker;
use crate::message::{Contribution, ReductionGroup};
use crate::reduce::{Op, Value};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Incomplete reductions.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Accumulators(pub(crate) BTreeMap<(ReductionGroup, u64), Contribution>);

impl Accumulators {
    /// Returns the number of contributions to a reduction so far.
    pub(crate) fn count(&self, group: ReductionGroup, sequence: u64) -> u64 {
        self.0.get(&(group, sequence)).map_or(0, |here| here.count)
    }

    /// Whether some members of a collection have contributed to an operation, and others have not.
    pub(crate) fn has(&self, collection: CollectionId) -> bool {
        self.0.keys().any(|(group, _)| group.collection() == collection)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Results of reductions to main, or main's requests for them, in order.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct ForMain {
    pub(crate) results: VecDeque<(Op, Value)>,
    pub(crate) askers: VecDeque<Asker>,
}

impl ForMain {
    /// The results alone: an image does not contain the askers.
    pub(crate) fn unasked(&self) -> Self {
        Self { results: self.results.clone(), askers: VecDeque::new() }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        !self.askers.is_empty()
    }
}
