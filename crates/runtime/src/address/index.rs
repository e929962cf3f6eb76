//! Names of collection members: one- to six-dimensional indices, or the user's own.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::Hash;

/// An index in its fixed-size form, used on the wire and in lookups.
///
/// The type is packed, because every message and every actor holds several keys, and the alignment
/// of 128-bit numbers would round all of those structures up to multiples of 16 bytes.
///
/// ```
/// use gridspan::{ActorIndex, Ix2, Key};
///
/// let key = Ix2(1, 2).key();
/// assert_eq!(key, Key(1 << 32 | 2));
/// assert_eq!(Ix2::from_key(key), Ix2(1, 2));
/// ```
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
/// [`Ix1`] to [`Ix6`] are indices of grids. Any other type that packs into 128 bits can be an index
/// too, for example a pair of cells.
///
/// ```
/// use gridspan::{ActorIndex, Key};
///
/// /// A pair of cells.
/// #[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// struct PairIx { low: u32, high: u32 }
///
/// impl ActorIndex for PairIx {
///     fn key(self) -> Key { Key(u128::from(self.low) << 32 | u128::from(self.high)) }
///
///     fn from_key(Key(key): Key) -> Self { PairIx { low: (key >> 32) as u32, high: key as u32 } }
/// }
///
/// let pair = PairIx { low: 3, high: 8 };
/// assert_eq!(PairIx::from_key(pair.key()), pair);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index of actors",
    label = "a member cannot be named by this type",
    note = "use `Ix1` to `Ix6`, or implement `ActorIndex` for your type, which must pack into 128 bits"
)]
pub trait ActorIndex: Copy + Eq + fmt::Debug + Send + 'static {
    /// Packs the index. Different indices give different keys.
    fn key(self) -> Key;
    /// Unpacks a key that [`key`](Self::key) packed.
    fn from_key(key: Key) -> Self;
}

/// The set of indices over which a collection is created.
///
/// ```
/// use gridspan::{IndexSet, Ix1, Ix2};
///
/// // A box, or any indices.
/// assert_eq!(Ix2::grid(3, 4).into_indices().count(), 12);
/// let odd: Vec<Ix1> = (0..10).filter(|i| i % 2 == 1).map(Ix1).collect();
/// assert!(odd.shape().is_none());
/// assert_eq!(odd.into_indices().next(), Some(Ix1(1)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of indices",
    label = "a collection is created over a box or a `Vec` of indices",
    note = "write `Ix1::range(n)`, the box of another `Ix`, or a `Vec` such as `vec![Ix1(3), Ix1(5)]`"
)]
pub trait IndexSet {
    /// The type of the indices.
    type Index: ActorIndex;
    /// The extent, if the set is a full box of coordinates that start at zero.
    fn shape(&self) -> Option<Shape>;
    /// The indices, each once.
    fn into_indices(self) -> impl Iterator<Item = Self::Index>;
}

/// The largest number of dimensions of a box of indices.
const AXES_MAX: usize = 6;

/// Bits of each coordinate in a key of this many dimensions.
const fn coordinate_bits(dimensions: usize) -> usize {
    if dimensions <= 4 { 32 } else { 16 }
}

/// The extents of a box of indices. The indices are in row-major order: the last coordinate varies
/// fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ShapeOnWire", into = "ShapeOnWire")]
pub struct Shape {
    dimensions: u8,
    extents: [u32; AXES_MAX],
}

/// Number of dimensions, and extents. Extents of boxes of five and six dimensions fit into 16 bits,
/// and each number holds two of them.
type ShapeOnWire = (u8, [u32; 4]);

impl From<Shape> for ShapeOnWire {
    fn from(Shape { dimensions, extents: e }: Shape) -> Self {
        let pair = |low: u32, high: u32| low | high << 16;
        let extents = match dimensions {
            ..=4 => [e[0], e[1], e[2], e[3]],
            _ => [pair(e[0], e[1]), pair(e[2], e[3]), pair(e[4], e[5]), 1],
        };
        (dimensions, extents)
    }
}

impl TryFrom<ShapeOnWire> for Shape {
    type Error = &'static str;

    fn try_from((dimensions, e): ShapeOnWire) -> Result<Self, &'static str> {
        let (low, high) = (|pair: u32| pair & 0xffff, |pair: u32| pair >> 16);
        let extents = match dimensions {
            1..=4 => [e[0], e[1], e[2], e[3], 1, 1],
            5 | 6 => [low(e[0]), high(e[0]), low(e[1]), high(e[1]), low(e[2]), high(e[2])],
            _ => return Err("a box of indices has one to six dimensions"),
        };
        let used = &extents[..usize::from(dimensions)];
        match used.iter().try_fold(1u64, |len, &n| len.checked_mul(u64::from(n))) {
            Some(_) => Ok(Self { dimensions, extents }),
            None => Err("a box of indices must have fewer than 2^64 indices"),
        }
    }
}

impl Shape {
    /// Number of indices in the box.
    #[inline]
    pub fn len(&self) -> u64 {
        if self.dimensions == 1 {
            return u64::from(self.extents[0]);
        }
        self.extents[..usize::from(self.dimensions)].iter().map(|&n| u64::from(n)).product()
    }

    /// Whether the box contains no index.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index at a position in row-major order.
    pub(crate) fn key(&self, mut rank: u64) -> Key {
        let dimensions = usize::from(self.dimensions);
        let bits = coordinate_bits(dimensions);
        let mut key = 0;
        for axis in (0..dimensions).rev() {
            let extent = u64::from(self.extents[axis]);
            key |= u128::from(rank % extent) << (bits * (dimensions - 1 - axis));
            rank /= extent;
        }
        Key(key)
    }

    /// Returns the position of `key` in row-major order, or `None` outside of the box.
    #[inline]
    pub fn rank(&self, key: Key) -> Option<u64> {
        // Passed on as a number, because a value passed by reference has to lie in memory.
        let Key(key) = key;
        match self.dimensions {
            1 => (key < u128::from(self.extents[0])).then_some(key as u64),
            _ => self.rank_of_many(key),
        }
    }

    /// [`rank`](Self::rank) for any number of dimensions.
    fn rank_of_many(&self, key: u128) -> Option<u64> {
        let dimensions = usize::from(self.dimensions);
        let bits = coordinate_bits(dimensions);
        let mut rank = 0;
        for (axis, &extent) in self.extents[..dimensions].iter().enumerate() {
            let coordinate =
                (key >> (bits * (dimensions - 1 - axis))) as u32 & (u32::MAX >> (32 - bits));
            if coordinate >= extent {
                return None;
            }
            rank = rank * u64::from(extent) + u64::from(coordinate);
        }
        (key >> (bits * dimensions - 1) >> 1 == 0).then_some(rank)
    }
}

/// All indices of a box, in row-major order. Made by [`Ix1::range`], [`Ix2::grid`], …
///
/// ```
/// use gridspan::{IndexBox, IndexSet, Ix2};
///
/// let square: IndexBox<Ix2> = Ix2::grid(2, 2);
/// let all: Vec<Ix2> = square.into_indices().collect();
/// assert_eq!(all, [Ix2(0, 0), Ix2(0, 1), Ix2(1, 0), Ix2(1, 1)]);
/// ```
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
    ($(#[$doc:meta])* $name:ident, $dimensions:literal of $coordinate:ty as $bits:ty, $make:ident($($axis:ident: $field:tt),*)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name($(#[doc = concat!("Coordinate `", stringify!($axis), "`.")] pub grid_index!(@of $coordinate, $axis)),*);

        impl $name {
            /// All indices of a box whose coordinates start at zero.
            ///
            /// # Panics
            ///
            /// If an extent of a box of five or six dimensions is above 32,768.
            pub const fn $make($($axis: u32),*) -> IndexBox<Self> {
                let mut extents = [1; AXES_MAX];
                $(
                    assert!(<$bits>::BITS == 32 || $axis <= 1 << 15, "an extent is at most 32768 here");
                    extents[$field] = $axis;
                )*
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
                $(key = key << <$bits>::BITS | u128::from(self.$field as $bits);)*
                Key(key)
            }

            #[inline]
            fn from_key(key: Key) -> Self {
                Self($((key.0 >> (<$bits>::BITS * ($dimensions - 1 - $field))) as $bits as $coordinate),*)
            }
        }
    };
    (@of $coordinate:ty, $axis:ident) => { $coordinate };
}

grid_index!(
    /// A one-dimensional index.
    ///
    /// ```
    /// use gridspan::{IndexSet, Ix1};
    ///
    /// let all: Vec<Ix1> = Ix1::range(3).into_indices().collect();
    /// assert_eq!(all, [Ix1(0), Ix1(1), Ix1(2)]);
    /// ```
    Ix1, 1 of i32 as u32, range(i: 0)
);
grid_index!(
    /// A two-dimensional index.
    ///
    /// ```
    /// use gridspan::{IndexSet, Ix2};
    ///
    /// let all: Vec<Ix2> = Ix2::grid(2, 3).into_indices().collect();
    /// assert_eq!((all.len(), all.last()), (6, Some(&Ix2(1, 2))));
    /// ```
    Ix2, 2 of i32 as u32, grid(i: 0, j: 1)
);
grid_index!(
    /// A three-dimensional index.
    ///
    /// ```
    /// use gridspan::{IndexSet, Ix3};
    ///
    /// let all: Vec<Ix3> = Ix3::grid(2, 3, 4).into_indices().collect();
    /// assert_eq!((all.len(), all.last()), (24, Some(&Ix3(1, 2, 3))));
    /// ```
    Ix3, 3 of i32 as u32, grid(i: 0, j: 1, k: 2)
);
grid_index!(
    /// A four-dimensional index.
    ///
    /// ```
    /// use gridspan::{IndexSet, Ix4};
    ///
    /// let all: Vec<Ix4> = Ix4::grid(2, 2, 2, 2).into_indices().collect();
    /// assert_eq!((all.len(), all.last()), (16, Some(&Ix4(1, 1, 1, 1))));
    /// ```
    Ix4, 4 of i32 as u32, grid(i: 0, j: 1, k: 2, l: 3)
);
grid_index!(
    /// A five-dimensional index, of coordinates of 16 bits.
    ///
    /// ```
    /// use gridspan::{IndexSet, Ix5};
    ///
    /// let all: Vec<Ix5> = Ix5::grid(2, 2, 2, 2, 3).into_indices().collect();
    /// assert_eq!((all.len(), all.last()), (48, Some(&Ix5(1, 1, 1, 1, 2))));
    /// ```
    Ix5, 5 of i16 as u16, grid(i: 0, j: 1, k: 2, l: 3, m: 4)
);
grid_index!(
    /// A six-dimensional index, of coordinates of 16 bits.
    ///
    /// ```
    /// use gridspan::{IndexSet, Ix6};
    ///
    /// let all: Vec<Ix6> = Ix6::grid(2, 2, 2, 2, 2, 2).into_indices().collect();
    /// assert_eq!((all.len(), all.last()), (64, Some(&Ix6(1, 1, 1, 1, 1, 1))));
    /// ```
    Ix6, 6 of i16 as u16, grid(i: 0, j: 1, k: 2, l: 3, m: 4, n: 5)
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
    fn rank_is_the_position_in_the_list_of_indices() {
        let shape = Ix4::grid(2, 3, 4, 5).shape().unwrap();
        for (rank, index) in Ix4::grid(2, 3, 4, 5).into_indices().enumerate() {
            assert_eq!(shape.rank(index.key()), Some(rank as u64));
        }
        assert_eq!(shape.len(), 120);
    }

    #[test]
    fn six_dimensions_fit_into_a_key() {
        let all = Ix6::grid(2, 3, 1, 4, 2, 5);
        let shape = all.shape().unwrap();
        for (rank, index) in all.into_indices().enumerate() {
            assert_eq!(shape.rank(index.key()), Some(rank as u64));
        }
        assert_eq!(shape.len(), 240);
        assert_eq!(Shape::try_from(ShapeOnWire::from(shape)), Ok(shape));
        assert_eq!(shape.rank(Ix6(0, 0, 0, 0, 0, -1).key()), None);
        let index = Ix5(-1, i16::MIN, i16::MAX, 0, 7);
        assert_eq!(Ix5::from_key(index.key()), index);
        assert_eq!(Ix5::grid(1, 2, 3, 4, 5).into_indices().last(), Some(Ix5(0, 1, 2, 3, 4)));
    }

    #[test]
    #[should_panic(expected = "at most 32768")]
    fn an_extent_above_32768_is_refused_in_five_dimensions() {
        let _ = Ix5::grid(1, 1, 1, 1, 40_000);
    }

    #[test]
    fn an_index_outside_of_the_box_has_no_rank() {
        let shape = Ix2::grid(2, 3).shape().unwrap();
        assert_eq!(shape.rank(Ix2(2, 0).key()), None);
        assert_eq!(shape.rank(Ix2(0, -1).key()), None);
        assert_eq!(shape.rank(Ix3(1, 0, 0).key()), None);
    }

    #[test]
    fn negative_coordinates_are_unchanged_after_packing() {
        let index = Ix3(-1, i32::MIN, 7);
        assert_eq!(Ix3::from_key(index.key()), index);
    }
}
