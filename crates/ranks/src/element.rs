//! The types of numbers whose slices are sent without encoding each number.

use bytemuck::Pod;

/// A plain number, or a fixed-size group of numbers, whose slices are sent as one block of memory.
///
/// Implemented for the integers and floats of Rust, and for arrays of elements, such as `[f64; 2]`
/// for a complex number. Other plain types can implement it, with a name that distinguishes them.
///
/// ```
/// use gridspan::ranks::{self, Element};
///
/// assert_eq!(<f64 as Element>::NAME, "f64");
/// assert_ne!(<[f64; 2] as Element>::KIND, <[f64; 3] as Element>::KIND);
///
/// let job = ranks::run(2, async |world| {
///     let mut pair = [[world.rank() as f64, 0.5]];
///     world.bcast(&mut pair, 1).await?;
///     assert_eq!(pair, [[1.0, 0.5]]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of a message",
    label = "this type does not implement `Element`",
    note = "send slices of numbers or of arrays of numbers; implement `Element` for a type that is `bytemuck::Pod`; or send a value that `serde` encodes by `send_value`, and receive it by `recv_value`"
)]
pub trait Element: Pod + Send + Sync + 'static {
    /// A name that distinguishes the type from other elements; that of an array is the name of its
    /// elements.
    const NAME: &'static str;
    /// Identifies the type in a message. It follows from the name and, for an array, the length.
    const KIND: u64 = kind_of(Self::NAME);
}

/// Hashes a name (FNV-1a).
pub(crate) const fn kind_of(name: &str) -> u64 {
    let (bytes, mut at, mut hash) = (name.as_bytes(), 0, 0xcbf2_9ce4_8422_2325_u64);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

macro_rules! elements {
    ($($type:ident),*) => {
        $(impl Element for $type {
            const NAME: &'static str = stringify!($type);
        })*

        /// Returns the name of a kind of number, if it is one of the built-in ones.
        pub(crate) fn name_of(kind: u64) -> Option<&'static str> {
            [$(stringify!($type)),*].into_iter().find(|name| kind_of(name) == kind)
        }
    };
}

elements!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);

impl<T: Element, const N: usize> Element for [T; N]
where
    [T; N]: Pod,
{
    const NAME: &'static str = T::NAME;
    const KIND: u64 = (T::KIND ^ N as u64).wrapping_mul(0x0100_0000_01b3);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_differ_and_have_names() {
        let kinds = [u8::KIND, i8::KIND, u64::KIND, f64::KIND, <[f64; 2]>::KIND, <[f64; 1]>::KIND];
        for (at, kind) in kinds.iter().enumerate() {
            assert!(!kinds[at + 1..].contains(kind));
        }
        assert_eq!((name_of(f64::KIND), name_of(<[f64; 2]>::KIND)), (Some("f64"), None));
    }
}
