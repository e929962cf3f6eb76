//! Digests that show whether two final states are identical bit for bit.

use super::gas::Gas;
use super::matter::Matter;

/// The hash of Fowler, Noll and Vo (FNV-1a, 64 bits), over the bits of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

impl Digest {
    /// Digest of positions and velocities.
    pub fn of_matter(matter: &Matter) -> u64 {
        let digest = Self(OFFSET).with(matter.positions.as_flattened());
        digest.with(matter.velocities.as_flattened()).0
    }

    /// Digest of the whole state of a gas.
    pub fn of_gas(gas: &Gas) -> u64 {
        let digest = Self(OFFSET).with(&gas.density).with(gas.momentum.as_flattened());
        digest.with(&gas.energy).with(&gas.entropy).0
    }

    fn with(self, numbers: &[f64]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        Self(bytes.fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv_1a() {
        // Zero consists of eight zero bytes: the digest is the offset times the prime to the power
        // of 8.
        assert_eq!(Digest(OFFSET).with(&[0.0]).0, 0xa8c7_f832_281a_39c5);
        assert_eq!(Digest(OFFSET).with(&[]).0, 0xcbf2_9ce4_8422_2325);
        assert_ne!(Digest(OFFSET).with(&[0.0]).0, Digest(OFFSET).with(&[-0.0]).0);
    }
}
