//! Allocates the space of one file: records which parts are taken and which are free.

use std::collections::BTreeMap;

/// The free parts of a file that grows at its end. It does no I/O: the owner of the file allocates
/// space before it writes.
#[derive(Debug, Default)]
pub(super) struct FreeList {
    /// The lengths of free parts by offset. They neither overlap nor touch, and none is at the end.
    free: BTreeMap<u64, u64>,
    /// Length of the file.
    end: u64,
}

impl FreeList {
    /// Takes `bytes` bytes and returns their offset: the first free part that is long enough, or
    /// the end.
    pub(super) fn take(&mut self, bytes: u64) -> u64 {
        let fits = self.free.iter().find(|(_, length)| **length >= bytes);
        let Some((&offset, &length)) = fits else {
            self.end += bytes;
            return self.end - bytes;
        };
        if bytes > 0 {
            self.free.remove(&offset);
            if length > bytes {
                self.free.insert(offset + bytes, length - bytes);
            }
        }
        offset
    }

    /// Frees `bytes` bytes that were taken at `offset`.
    pub(super) fn give_back(&mut self, mut offset: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(after) = self.free.remove(&(offset + bytes)) {
            bytes += after;
        }
        if let Some((&before, &length)) = self.free.range(..offset).next_back()
            && before + length == offset
        {
            self.free.remove(&before);
            (offset, bytes) = (before, bytes + length);
        }
        if offset + bytes == self.end {
            self.end = offset;
        } else {
            self.free.insert(offset, bytes);
        }
    }

    /// Length that the file must have.
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn freed_space_is_reused_and_a_free_end_shortens_the_file() {
        let mut extents = FreeList::default();
        let [first, second, third] = [10, 20, 30].map(|bytes| extents.take(bytes));
        assert_eq!([first, second, third, extents.end()], [0, 10, 30, 60]);

        extents.give_back(first, 10);
        extents.give_back(second, 20);
        assert_eq!([extents.take(25), extents.take(5), extents.take(1)], [0, 25, 60]);

        extents.give_back(60, 1);
        extents.give_back(third, 30);
        assert_eq!(extents.end(), 30);
    }

    proptest! {
        #[test]
        fn no_byte_is_taken_twice_and_all_are_free_in_the_end(
            steps in prop::collection::vec((0_u64..50, any::<prop::sample::Index>(), any::<bool>()), 1..80)
        ) {
            let (mut extents, mut taken) = (FreeList::default(), Vec::<(u64, u64)>::new());
            for (bytes, which, gives_back) in steps {
                if gives_back && !taken.is_empty() {
                    let (offset, bytes) = taken.swap_remove(which.index(taken.len()));
                    extents.give_back(offset, bytes);
                } else {
                    let offset = extents.take(bytes);
                    let is_apart = |&(other, length): &(u64, u64)| {
                        offset + bytes <= other || other + length <= offset || bytes * length == 0
                    };
                    prop_assert!(taken.iter().all(is_apart) && offset + bytes <= extents.end());
                    taken.push((offset, bytes));
                }
            }
            taken.into_iter().for_each(|(offset, bytes)| extents.give_back(offset, bytes));
            prop_assert_eq!((extents.end(), extents.free.len()), (0, 0));
        }
    }
}
