//! The model of notes: a member writes to a deterministic forwarder, which forwards the note to the
//! member's reader. Every note is read once, in the order written, and with the forwarder's count
//! of notes, wherever the forwarder and its replica are.

use gridspan_runtime::Ix1;
use std::collections::{BTreeMap, VecDeque};

/// Notes from one writer to one forwarder.
#[derive(Default)]
struct Way {
    unread: VecDeque<u64>,
    read: u64,
}

#[derive(Default)]
pub(super) struct Notes {
    /// By writer and forwarder.
    ways: BTreeMap<(i32, i32), Way>,
    numbers: u64,
    /// Number of forwarders and readers that were created.
    pub(super) forwarders_and_readers: u64,
}

impl Notes {
    /// Number of notes; a note to several forwarders counts once.
    pub(super) fn count(&self) -> u64 {
        self.numbers
    }

    /// Records a note that is about to be written to these forwarders, and returns its number.
    pub(super) fn written(&mut self, writer: Ix1, forwarders: impl Iterator<Item = i32>) -> u64 {
        self.numbers += 1;
        for forwarder in forwarders {
            let way = self.ways.entry((writer.0, forwarder)).or_default();
            way.unread.push_back(self.numbers);
        }
        self.numbers
    }

    /// Checks a note that a reader receives as the `count`th from a forwarder.
    pub(super) fn read(
        &mut self,
        reader: Ix1,
        forwarder: i32,
        number: u64,
        count: u64,
    ) -> Result<(), String> {
        let way = self.ways.entry((reader.0, forwarder)).or_default();
        let next = way.unread.pop_front();
        way.read += 1;
        if (next, way.read) != (Some(number), count) {
            return Err(format!(
                "reader {} received note {number} from forwarder {forwarder} as number {count}, but number {} is {next:?}",
                reader.0, way.read
            ));
        }
        Ok(())
    }

    /// Checks that all notes have been read.
    pub(super) fn check(&self) -> Result<(), String> {
        let unread = self.ways.iter().find(|(_, way)| !way.unread.is_empty());
        unread.map_or(Ok(()), |((writer, forwarder), way)| {
            let count = way.unread.len();
            Err(format!("{count} notes of {writer} to forwarder {forwarder} have not been read"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_must_be_read_once_in_order_and_with_the_right_count() {
        let mut notes = Notes::default();
        let first = notes.written(Ix1(3), [0, 1].into_iter());
        let second = notes.written(Ix1(3), [1].into_iter());
        assert_eq!(notes.read(Ix1(3), 1, first, 1), Ok(()));
        assert!(notes.check().is_err());
        assert_eq!(notes.read(Ix1(3), 1, second, 2), Ok(()));
        assert_eq!(notes.read(Ix1(3), 0, first, 1), Ok(()));
        assert_eq!(notes.check(), Ok(()));
        assert!(notes.read(Ix1(3), 0, first, 2).is_err(), "twice");
    }
}
