//! How members of a collection are named: one- to four-dimensional indices, or the user's own.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::Hash;

/// An index in its fixed-size form, in which it travels and is looked up.
///
/// Packed, since every message and every actor carries some, and 128-bit numbers would otherwise
/// have all of those rounded up to multiples of 16 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u128", into = "u128")]
#[repr(Rust, packed(4))]
pub struct Key(pub u128);

impl From<u128> for Key {
    fn from(key: u128) -> Self {
        Self(key)
    }
}

impl From<Key> for u128 {
    fn from(key: Key) -> Self {
        key.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", { self.0 })
    }
}

/// Names a member within its collection.
///
/// [`Ix1`] to [`Ix4`] serve grids; anything that packs into 128 bits can be an index of its own,
/// for example a pair of cells.
pub trait ActorIndex: Copy + Eq + fmt::Debug + Send + 'static {
    /// Packs the index. Different indices give different keys.
    fn key(self) -> Key;
    /// Unpacks what [`key`](Self::key) packed.
    fn from_key(key: Key) -> Self;
}

/// A set of indices that a collection is created over.
pub trait IndexSet {
    /// The kind of index.
    type Index: ActorIndex;
    /// The extent, when the set is a full box of coordinates that start at zero.
    fn shape(&self) -> Option<Shape>;
    /// The indices, each once.
    fn into_indices(self) -> impl Iterator<Item = Self::Index>;
}

/// The extent of a box of indices, row-major, last coordinate fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u8, [u32; 4])", into = "(u8, [u32; 4])")]
pub struct Shape {
    dimensions: u8,
    extents: [u32; 4],
}

impl From<Shape> for (u8, [u32; 4]) {
    fn from(shape: Shape) -> Self {
        (shape.dimensions, shape.extents)
    }
}

impl TryFrom<(u8, [u32; 4])> for Shape {
    type Error = &'static str;

    fn try_from((dimensions, extents): (u8, [u32; 4])) -> Result<Self, &'static str> {
        if !(1..=4).contains(&dimensions) {
            return Err("a box of indices has one to four dimensions");
        }
        let used = &extents[..usize::from(dimensions)];
        match used.iter().try_fold(1u64, |len, &n| len.checked_mul(u64::from(n))) {
            Some(_) => Ok(Self { dimensions, extents }),
            None => Err("a box of indices has fewer than 2^64 of them"),
        }
    }
}

impl Shape {
    /// How many indices the box holds.
    #[inline]
    pub fn len(&self) -> u64 {
        if self.dimensions == 1 {
            return u64::from(self.extents[0]);
        }
        self.extents[..usize::from(self.dimensions)].iter().map(|&n| u64::from(n)).product()
    }

    /// Whether the box holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index at a position in row-major order.
    pub(crate) fn key(&self, mut rank: u64) -> Key {
        let dimensions = usize::from(self.dimensions);
        let mut key = 0;
        for axis in (0..dimensions).rev() {
            let extent = u64::from(self.extents[axis]);
            key |= u128::from(rank % extent) << (32 * (dimensions - 1 - axis));
            rank /= extent;
        }
        Key(key)
    }

    /// The position of `key` in row-major order, or `None` outside of the box.
    #[inline]
    pub fn rank(&self, key: Key) -> Option<u64> {
        // As a number, since what is called by reference has to lie in memory.
        let Key(key) = key;
        match self.dimensions {
            1 => (key < u128::from(self.extents[0])).then_some(key as u64),
            _ => self.rank_of_many(key),
        }
    }

    /// The same for any number of dimensions.
    fn rank_of_many(&self, key: u128) -> Option<u64> {
        let dimensions = usize::from(self.dimensions);
        let mut rank = 0;
        for (axis, &extent) in self.extents[..dimensions].iter().enumerate() {
            let coordinate = (key >> (32 * (dimensions - 1 - axis))) as u32;
            if coordinate >= extent {
                return None;
            }
            rank = rank * u64::from(extent) + u64::from(coordinate);
        }
        (key >> (32 * dimensions - 1) >> 1 == 0).then_some(rank)
    }
}

/// All indices of a box, in row-major order. Made by [`Ix1::range`], [`Ix2::grid`], …
#[derive(Clone, Copy, Debug)]
pub struct IndexBox<I> {
    shape: Shape,
    kind: std::marker::PhantomData<fn() -> I>,
}

impl<I: ActorIndex> IndexSet for IndexBox<I> {
    type Index = I;

    fn shape(&self) -> Option<Shape> {
        Some(self.shape)
    }

    fn into_indices(self) -> impl Iterator<Item = I> {
        (0..self.shape.len()).map(move |rank| I::from_key(self.shape.key(rank)))
    }
}

impl<I: ActorIndex> IndexSet for Vec<I> {
    type Index = I;

    fn shape(&self) -> Option<Shape> {
        None
    }

    fn into_indices(self) -> impl Iterator<Item = I> {
        self.into_iter()
    }
}

macro_rules! grid_index {
    ($(#[$doc:meta])* $name:ident, $dimensions:literal, $make:ident($($axis:ident: $field:tt),*)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name($(#[doc = concat!("Coordinate `", stringify!($axis), "`.")] pub grid_index!(@i32 $axis)),*);

        impl $name {
            /// All indices of a box whose coordinates start at zero.
            pub const fn $make($($axis: u32),*) -> IndexBox<Self> {
                let mut extents = [1; 4];
                $(extents[$field] = $axis;)*
                IndexBox {
                    shape: Shape { dimensions: $dimensions, extents },
                    kind: std::marker::PhantomData,
                }
            }
        }

        impl ActorIndex for $name {
            #[inline]
            fn key(self) -> Key {
                let mut key = 0;
                $(key = key << 32 | u128::from(self.$field as u32);)*
                Key(key)
            }

            #[inline]
            fn from_key(key: Key) -> Self {
                Self($((key.0 >> (32 * ($dimensions - 1 - $field))) as u32 as i32),*)
            }
        }
    };
    (@i32 $axis:ident) => { i32 };
}

grid_index!(
    /// A one-dimensional index.
    Ix1, 1, range(i: 0)
);
grid_index!(
    /// A two-dimensional index.
    Ix2, 2, grid(i: 0, j: 1)
);
grid_index!(
    /// A three-dimensional index.
    Ix3, 3, grid(i: 0, j: 1, k: 2)
);
grid_index!(
    /// A four-dimensional index.
    Ix4, 4, grid(i: 0, j: 1, k: 2, l: 3)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_lists_its_indices_row_by_row() {
        let all: Vec<_> = Ix2::grid(2, 3).into_indices().collect();
        assert_eq!(all, [Ix2(0, 0), Ix2(0, 1), Ix2(0, 2), Ix2(1, 0), Ix2(1, 1), Ix2(1, 2)]);
    }

    #[test]
    fn rank_follows_the_order_of_listing_in_every_dimension() {
        let shape = Ix4::grid(2, 3, 4, 5).shape().unwrap();
        for (rank, index) in Ix4::grid(2, 3, 4, 5).into_indices().enumerate() {
            assert_eq!(shape.rank(index.key()), Some(rank as u64));
        }
        assert_eq!(shape.len(), 120);
    }

    #[test]
    fn an_index_outside_of_the_box_has_no_rank() {
        let shape = Ix2::grid(2, 3).shape().unwrap();
        assert_eq!(shape.rank(Ix2(2, 0).key()), None);
        assert_eq!(shape.rank(Ix2(0, -1).key()), None);
        assert_eq!(shape.rank(Ix3(1, 0, 0).key()), None);
    }

    #[test]
    fn negative_coordinates_survive_packing() {
        let index = Ix3(-1, i32::MIN, 7);
        assert_eq!(Ix3::from_key(index.key()), index);
    }
}
