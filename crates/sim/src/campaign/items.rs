//! The items of phases in the reference model.

use std::collections::BTreeMap;

/// The numbers of items that were produced and consumed in each phase.
#[derive(Debug, Default)]
pub(super) struct Items {
    counts: BTreeMap<u64, (u64, u64)>,
    /// The phase that main awaits, or awaited last.
    pub(super) awaited: u64,
    /// Number of actors that pass items on.
    pub(super) carriers: u64,
}

impl Items {
    /// Counts an item that was produced.
    pub(super) fn produced(&mut self, phase: u64) {
        self.counts.entry(phase).or_default().0 += 1;
    }

    /// Counts an item that was consumed.
    pub(super) fn consumed(&mut self, phase: u64) {
        self.counts.entry(phase).or_default().1 += 1;
    }

    /// Checks that all items of the awaited phase are consumed.
    pub(super) fn check_completion(&self) -> Result<(), String> {
        let phase = self.awaited;
        match self.counts.get(&phase).copied().unwrap_or_default() {
            (produced, consumed) if produced == consumed => Ok(()),
            (produced, consumed) => Err(format!(
                "phase {phase} was complete with {consumed} of {produced} items consumed"
            )),
        }
    }
}
