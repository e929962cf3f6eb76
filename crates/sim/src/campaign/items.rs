//! The items of phases in the reference model.

use std::collections::BTreeMap;

/// The numbers of items that were produced and consumed in each phase.
#[derive(Debug, Default)]
pub(super) struct Items {
    counts: BTreeMap<u64, (u64, u64)>,
    /// The phase that main awaits, or awaited last.
    pub(super) awaited: u64,
    /// The last phase that was complete. Phases are numbered from 1, and follow each other.
    complete: u64,
    /// Number of actors that pass items on.
    pub(super) carriers: u64,
}

impl Items {
    /// Counts an item that was produced. Checks that its phase was not complete before.
    pub(super) fn produced(&mut self, phase: u64) -> Result<(), String> {
        self.counts.entry(phase).or_default().0 += 1;
        match phase <= self.complete {
            true => Err(format!("an item of phase {phase} was produced after its completion")),
            false => Ok(()),
        }
    }

    /// Counts an item that was consumed.
    pub(super) fn consumed(&mut self, phase: u64) {
        self.counts.entry(phase).or_default().1 += 1;
    }

    /// Notes that the awaited phase is complete. Checks that all its items are consumed.
    pub(super) fn check_completion(&mut self) -> Result<(), String> {
        let phase = self.awaited;
        self.complete = phase;
        match self.counts.get(&phase).copied().unwrap_or_default() {
            (produced, consumed) if produced == consumed => Ok(()),
            (produced, consumed) => Err(format!(
                "phase {phase} was complete with {consumed} of {produced} items consumed"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_complete_once_and_after_all_its_items() {
        let mut items = Items { awaited: 1, ..Items::default() };
        assert_eq!(items.produced(1), Ok(()));
        assert!(items.check_completion().is_err(), "an item is not consumed");

        let mut items = Items { awaited: 1, ..Items::default() };
        assert_eq!(items.check_completion(), Ok(()));
        assert!(items.produced(1).is_err(), "a producer was not done");
        items.awaited = 2;
        assert_eq!(items.produced(2), Ok(()));
        items.consumed(2);
        assert_eq!(items.check_completion(), Ok(()));
    }
}
