//! Seeded dice: all random numbers that a seed reproduces.
//!
//! A seed gives the same run on every machine and after every update. So the generator is a named
//! and portable one ([`Pcg64Mcg`]; O'Neill, "PCG: A family of simple fast space-efficient
//! statistically good algorithms for random number generation", 2014), and the functions below draw
//! ranges, orders and durations from its bits, because the functions of `rand` may change with a
//! release. Only the last bits of [`Dice::logarithmic`] and [`Dice::exponential`] may differ between
//! machines. The tests contain stored sequences of all these functions. [`Dice`] is also a
//! [`rand::Rng`], from which distributions of that crate can draw where the sequence may change.
//!
//! These numbers are not secret. Keys, tokens, and numbers that must not be guessed come from the
//! system.

use rand::rand_core::{Infallible, TryRng};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A generator of random numbers that a seed determines. Serialisation includes the state, so that
/// an actor that contains a generator continues the same sequence after a migration.
///
/// ```
/// use gridspan_topology::dice::Dice;
///
/// let mut dice = Dice::new(1);
/// let mut order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
/// dice.shuffle(&mut order);
/// assert_eq!(order, [7, 0, 4, 9, 6, 2, 5, 3, 1, 8]);
///
/// // What `rand` draws may change with its releases.
/// use rand::RngExt;
/// let drawn: u8 = dice.random_range(1..=6);
/// assert!((1..=6).contains(&drawn));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// Creates a generator with the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Creates a generator with the sequence of these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Pcg64Mcg::from_seed(bytes))
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `end`, or 0 if `end` is 0. All numbers are equally likely up to an
    /// error of `end` in 2^64.
    #[inline]
    pub fn below<N: Whole>(&mut self, end: N) -> N {
        let product = u128::from(self.next_u64()) * u128::from(end.to_u64());
        N::from_u64((product >> 64) as u64)
    }

    /// Returns the next bits modulo `end`, as uniform as [`below`](Self::below). Use it only for
    /// sequences behind published results. Panics if `end` is 0.
    #[inline]
    pub fn remainder<N: Whole>(&mut self, end: N) -> N {
        N::from_u64(self.next_u64() % end.to_u64())
    }

    /// Returns a number in `0.0..1.0`, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a number in `low..high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns a number in `low..high`, both positive, whose logarithm is uniform. Its last bits
    /// may differ between machines.
    pub fn logarithmic(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// Returns a number from an exponential distribution. Its last bits may differ between
    /// machines.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Returns a duration from zero to `longest`, in whole nanoseconds. A `longest` above 584 years
    /// counts as 584 years.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        let longest_ns = u128::from(nanoseconds(longest));
        let drawn = (u128::from(self.next_u64()) * (longest_ns + 1)) >> 64;
        Duration::from_nanos(drawn as u64)
    }

    /// Returns a duration from zero to `longest` of any order of magnitude: `longest` is halved up
    /// to 15 times first. A `longest` above 584 years counts as 584 years.
    pub fn any_scale_up_to(&mut self, longest: Duration) -> Duration {
        let halvings = self.below(16_u32);
        self.up_to(Duration::from_nanos(nanoseconds(longest) >> halvings))
    }

    /// Returns one of `choices`. Panics if there is none.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Shuffles `items` (Fisher and Yates, from the last item on).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

impl TryRng for Dice {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(bytes)
    }
}

/// Converts to whole nanoseconds; longer times become the maximum, 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The integer types that dice draw.
pub trait Whole: Copy {
    /// Converts to `u64`; no type has more than 64 bits.
    fn to_u64(self) -> u64;
    /// Converts from `u64`; the number fits.
    fn from_u64(number: u64) -> Self;
}

macro_rules! whole {
    ($($number:ty)*) => {$(
        impl Whole for $number {
            #[inline]
            fn to_u64(self) -> u64 {
                self as u64
            }

            #[inline]
            fn from_u64(number: u64) -> Self {
                number as Self
            }
        }
    )*};
}

whole!(u32 u64 usize);

/// The increment of the state of SplitMix64: 2^64 divided by the golden ratio. Its multiples are
/// far apart, which makes them good seeds for numbered items.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maps numbers one to one, so that every bit of the result depends on all bits of the number. This
/// is the output function of SplitMix64: `mix(n * GOLDEN_GAMMA)` is its `n`th number for seed 0,
/// counted from 1 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014, figure 16).
#[inline]
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn<T>(count: usize, mut draw: impl FnMut(&mut Dice) -> T) -> Vec<T> {
        let mut dice = Dice::new(1);
        (0..count).map(|_| draw(&mut dice)).collect()
    }

    #[test]
    fn the_bits_are_those_of_the_reference_implementation() {
        // From the tests of rand_pcg, which took them from the authors of the generator.
        assert_eq!(Dice::new(0).next_u64(), 6_198_063_878_555_692_194);
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        assert_eq!(Dice::from_bytes(bytes).next_u64(), 7_071_994_460_355_047_496);
        // From another implementation of the generator and its seeding, in Python.
        let expected = [
            15_803_641_690_485_367_939,
            2_537_432_388_316_380_799,
            8_678_483_373_067_562_792,
            13_396_942_736_186_438_980,
        ];
        assert_eq!(drawn(4, Dice::next_u64), expected);
    }

    // The expected values below come from the same sequence in Python, by the documented formulas.

    #[test]
    fn ranges_repeat_their_stored_sequences() {
        let expected = [85, 13, 47, 72, 36, 55, 39, 73, 15, 41, 7, 8];
        assert_eq!(drawn(12, |dice| dice.below(100_u64)), expected);
        assert_eq!(drawn(12, |dice| dice.below(100_u32)), expected.map(|n| n as u32));
        assert_eq!(drawn(12, |dice| dice.below(100_usize)), expected.map(|n| n as usize));
        assert_eq!(drawn(2, |dice| dice.below(0_u64)), [0, 0]);

        let expected = [39, 99, 92, 80, 36, 23, 11, 86, 80, 69, 43, 91];
        assert_eq!(drawn(12, |dice| dice.remainder(100_u64)), expected);
    }

    #[test]
    fn fractions_repeat_their_stored_sequences() {
        let units = [0.8567171327003362, 0.13755448539738502, 0.4704615263479589];
        assert_eq!(drawn(3, Dice::unit), units);
        let between = [7.850756990505044, -2.936682719039225, 2.056922895219383];
        assert_eq!(drawn(3, |dice| dice.between(-5.0, 10.0)), between);
        let is_small = drawn(12, |dice| dice.chance(0.3));
        assert_eq!((0..12).filter(|&at| is_small[at]).collect::<Vec<_>>(), [1, 8, 10, 11]);

        // Logarithms and powers may differ in their last bits between machines.
        let is_near = |one: &[f64], other: &[f64]| {
            one.iter().zip(other).all(|(one, other)| (one / other - 1.0).abs() < 1e-12)
        };
        let logarithmic = [371.6647714610561, 2.5862080321596146, 25.78603566720597];
        assert!(is_near(&drawn(3, |dice| dice.logarithmic(1.0, 1e3)), &logarithmic));
        let exponential = [3.885869019134764, 0.29596660709450584, 1.2714989124730254];
        assert!(is_near(&drawn(3, |dice| dice.exponential(2.0)), &exponential));
    }

    #[test]
    fn choices_orders_and_times_repeat_their_stored_sequences() {
        assert_eq!(
            drawn(8, |dice| dice.one_of(&['a', 'b', 'c', 'd', 'e'])),
            ['e', 'a', 'c', 'd', 'b', 'c', 'b', 'd']
        );
        let mut order: Vec<u32> = (0..10).collect();
        Dice::new(1).shuffle(&mut order);
        assert_eq!(order, [7, 0, 4, 9, 6, 2, 5, 3, 1, 8]);

        let times = drawn(3, |dice| dice.up_to(Duration::from_millis(1)).as_nanos());
        assert_eq!(times, [856_717, 137_554, 470_461]);
        assert!(Dice::new(1).up_to(Duration::MAX) > Duration::from_secs(1 << 33));
        // One nanosecond more than 64 bits hold.
        let long = Duration::from_nanos(u64::MAX) + Duration::from_nanos(1);
        assert!(Dice::new(1).any_scale_up_to(long) > Duration::from_secs(1));
    }

    #[test]
    fn mix_gives_the_numbers_of_splitmix64() {
        // The first three numbers of SplitMix64 for seed 0, from the authors' reference code.
        let expected = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([1, 2, 3].map(|n| mix(GOLDEN_GAMMA.wrapping_mul(n))), expected);
    }

    #[test]
    fn serialised_dice_go_on_with_their_sequence() {
        let mut dice = Dice::new(5);
        dice.next_u64();
        let bytes = postcard::to_allocvec(&dice).unwrap();
        let mut again: Dice = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(again.next_u64(), dice.next_u64());
    }
}
