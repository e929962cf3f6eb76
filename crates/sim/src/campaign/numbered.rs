//! The indices of the members of the main collections: of one, five or six dimensions.

use gridspan_runtime::{ActorIndex, IndexBox, Ix1, Ix5, Ix6};

/// An index that holds a number. The order of keys is that of the numbers.
pub(super) trait Numbered: ActorIndex {
    /// Number of dimensions.
    const DIMENSIONS: u32;
    /// [`first`](Self::first) gives a multiple of this number of indices.
    const BLOCK: u32;

    /// The index with a number, which must not be negative.
    fn of(number: i32) -> Self;
    /// The number.
    fn number(self) -> i32;
    /// The indices with the numbers below `count`, a multiple of `BLOCK`: a box.
    fn first(count: u32) -> IndexBox<Self>;
}

impl Numbered for Ix1 {
    const DIMENSIONS: u32 = 1;
    const BLOCK: u32 = 1;

    fn of(number: i32) -> Self {
        Self(number)
    }

    fn number(self) -> i32 {
        self.0
    }

    fn first(count: u32) -> IndexBox<Self> {
        Self::range(count)
    }
}

impl Numbered for Ix5 {
    const DIMENSIONS: u32 = 5;
    const BLOCK: u32 = 4;

    fn of(number: i32) -> Self {
        let [high, middle, low] = digits(number);
        Self(high, middle, 0, low, 0)
    }

    fn number(self) -> i32 {
        number_of([self.0, self.1, self.3])
    }

    fn first(count: u32) -> IndexBox<Self> {
        Self::grid(count / Self::BLOCK, 2, 1, 2, 1)
    }
}

impl Numbered for Ix6 {
    const DIMENSIONS: u32 = 6;
    const BLOCK: u32 = 4;

    fn of(number: i32) -> Self {
        let [high, middle, low] = digits(number);
        Self(high, 0, middle, 0, 0, low)
    }

    fn number(self) -> i32 {
        number_of([self.0, self.2, self.5])
    }

    fn first(count: u32) -> IndexBox<Self> {
        Self::grid(count / Self::BLOCK, 1, 2, 1, 1, 2)
    }
}

/// The digits of a number. The lower two are binary.
fn digits(number: i32) -> [i16; 3] {
    [(number / 4) as i16, (number / 2 % 2) as i16, (number % 2) as i16]
}

fn number_of(digits: [i16; 3]) -> i32 {
    let [high, middle, low] = digits.map(i32::from);
    4 * high + 2 * middle + low
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::IndexSet;

    fn check<I: Numbered>() {
        let count = 5 * I::BLOCK;
        let numbers: Vec<i32> = I::first(count).into_indices().map(I::number).collect();

        assert_eq!(numbers, (0..count as i32).collect::<Vec<i32>>());
        let keys: Vec<_> = (0..2_000).map(|number| I::of(number).key()).collect();
        assert!(keys.is_sorted());
        for (number, key) in keys.into_iter().enumerate() {
            assert_eq!(I::from_key(key).number(), number as i32);
        }
    }

    #[test]
    fn an_index_of_any_dimensions_holds_a_number() {
        check::<Ix1>();
        check::<Ix5>();
        check::<Ix6>();
    }
}
