//! The random stream of the NAS Parallel Benchmarks, portable to the last bit, with direct access
//! to any number.
//!
//! The recurrence is `x <- 5^13 x mod 2^46`, and the number drawn is `x / 2^46`. Source: Bailey and
//! others, "The NAS Parallel Benchmarks", RNR-94-007, section 2.3.

/// The multiplier, `5^13`.
pub const MULTIPLIER: u64 = 1_220_703_125;

const MODULUS_BITS: u32 = 46;
const MASK: u64 = (1 << MODULUS_BITS) - 1;

/// A position in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NasRandom {
    state: u64,
}

impl NasRandom {
    /// Creates a stream that starts at the low 46 bits of `seed`. An odd seed has the full period
    /// `2^44`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed & MASK }
    }

    /// Draws the next number, at least 0 and below 1. The value is exact, because 46 bits fit into
    /// the mantissa.
    pub fn next_unit(&mut self) -> f64 {
        self.state = multiply(MULTIPLIER, self.state);
        self.state as f64 / (1_u64 << MODULUS_BITS) as f64
    }

    /// Skips `count` numbers in `O(log count)` multiplications.
    pub fn skip(&mut self, count: u64) {
        self.state = multiply(power(MULTIPLIER, count), self.state);
    }
}

/// Multiplies modulo `2^46`. The low 46 bits of a product are exact despite wrapping at 64 bits.
fn multiply(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b) & MASK
}

fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_draw_from_seed_one_is_the_multiplier() {
        let mut stream = NasRandom::new(1);
        assert_eq!(stream.next_unit(), 1_220_703_125.0 / 70_368_744_177_664.0);
    }

    #[test]
    fn skipping_reaches_the_same_number_as_drawing() {
        let mut drawn = NasRandom::new(314_159_265);
        for _ in 0..1000 {
            drawn.next_unit();
        }
        let mut skipped = NasRandom::new(314_159_265);
        skipped.skip(1000);
        assert_eq!(drawn, skipped);
    }

    #[test]
    fn numbers_are_at_least_zero_and_below_one() {
        let mut stream = NasRandom::new(271_828_183);
        assert!((0..10_000).all(|_| (0.0..1.0).contains(&stream.next_unit())));
    }
}
