//! The pair kernel: forces between the atoms of two cells, several pairs at a time.
//!
//! Cells are wider than the cutoff, so most pairs of atoms are too far apart to interact. The atoms
//! that can interact are first packed into groups and sorted along the line between the cells; then
//! each packed atom of A is paired with the groups of B within its reach. A group is computed whole
//! and without branches: a lane beyond the cutoff divides 0 instead of 1 by its clamped squared
//! distance, which makes all derived values zero. A group with no lane inside the cutoff is
//! skipped.
//!
//! The image of B is selected once per cell pair by shifting B, so there is no minimum-image
//! rounding per pair, and boxes of one or two cells per axis need no special treatment.
//!
//! All additions happen in an order that only the inputs determine: the same two cells give the
//! same bits on every PE.

use serde::{Deserialize, Serialize};

use super::lanes::{LANES, Lanes};
use super::packed::{Bounds, Group, Packed};
use super::potential::{LennardJones, Truncation};
use super::vectors::Vectors;

/// Sums over a set of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairSums {
    /// Potential energy in epsilon.
    pub energy: f64,
    /// Virial, the sum of `r . F` over the pairs, in epsilon.
    pub virial: f64,
    /// Number of pairs closer than the cutoff.
    pub pairs: u64,
}

impl PairSums {
    /// Adds another set of pairs.
    pub fn add(&mut self, other: PairSums) {
        self.energy += other.energy;
        self.virial += other.virial;
        self.pairs += other.pairs;
    }
}

/// Buffers that the kernel reuses between calls. They do not affect results; a new one costs only
/// allocations.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    a: Packed,
    b: Packed,
}

/// Adds the forces between every atom of A and every atom of B, where B is moved by `shift_b`
/// (sigma). B is another set of atoms, or A itself, which the shift makes a periodic image. `on_a`
/// and `on_b` are as long as `a` and `b`.
///
/// Time: linear in the atoms of both cells, plus the product of those near the other cell.
///
/// # Panics
/// If `on_a` is shorter than `a`, or `on_b` than `b`.
pub fn between(
    law: &LennardJones,
    a: &Vectors,
    b: &Vectors,
    shift_b: [f64; 3],
    on_a: &mut Vectors,
    on_b: &mut Vectors,
    scratch: &mut Scratch,
) -> PairSums {
    let (Some(box_a), Some(box_b)) = (Bounds::of(a, [0.0; 3]), Bounds::of(b, shift_b)) else {
        return PairSums::default();
    };
    let line = box_a.line_to(&box_b);
    scratch.a.pack(a, [0.0; 3], &box_b, law.cutoff(), line);
    scratch.b.pack(b, shift_b, &box_a, law.cutoff(), line);
    let sums = run(law, &mut scratch.a, &mut scratch.b, false);
    scratch.a.add_forces_to(on_a);
    scratch.b.add_forces_to(on_b);
    sums
}

/// Adds the forces among the atoms of one cell, each pair once; `on` is as long as `atoms`.
///
/// # Panics
/// If `on` is shorter than `atoms`.
pub fn within(
    law: &LennardJones,
    atoms: &Vectors,
    on: &mut Vectors,
    scratch: &mut Scratch,
) -> PairSums {
    let Some(bounds) = Bounds::of(atoms, [0.0; 3]) else {
        return PairSums::default();
    };
    scratch.a.pack(atoms, [0.0; 3], &bounds, law.cutoff(), bounds.line_to(&bounds));
    scratch.b.clone_from(&scratch.a);
    let sums = run(law, &mut scratch.a, &mut scratch.b, true);
    scratch.a.add_forces_to(on);
    scratch.b.add_forces_to(on);
    sums
}

/// Chooses the sweep for the truncation, so that the inner loop has no such choice.
fn run(law: &LennardJones, a: &mut Packed, b: &mut Packed, same: bool) -> PairSums {
    let cutoff = law.cutoff();
    let (energy_shift, force_shift) = law.shift();
    let [energy_shift, force_shift] = [energy_shift, force_shift].map(Lanes::splat);
    match law.truncation() {
        Truncation::Truncated => sweep(cutoff, a, b, same, |_, _, inverse| full(inverse)),
        Truncation::EnergyShift => sweep(cutoff, a, b, same, |_, weight, inverse| {
            let (energy, force_over_r) = full(inverse);
            (energy - weight * energy_shift, force_over_r)
        }),
        Truncation::LinearForceShift => sweep(cutoff, a, b, same, |r2, weight, inverse| {
            let (energy, force_over_r) = full(inverse);
            let r = r2.sqrt();
            let shift = energy_shift - (r - Lanes::splat(cutoff)) * force_shift;
            (energy - weight * shift, force_over_r - force_shift * r * inverse)
        }),
    }
}

/// Energy and force over distance without a cutoff, from the inverse squared distance. Both are
/// zero if that is zero.
#[inline(always)]
fn full(inverse: Lanes) -> (Lanes, Lanes) {
    let inverse_6 = inverse * inverse * inverse;
    let energy = Lanes::splat(4.0) * inverse_6 * (inverse_6 - Lanes::splat(1.0));
    let force_over_r =
        Lanes::splat(24.0) * inverse_6 * (inverse_6 + inverse_6 - Lanes::splat(1.0)) * inverse;
    (energy, force_over_r)
}

/// Computes all pairs of packed atoms within reach. If `same`, A and B contain the same atoms and
/// each pair counts once.
///
/// `law` takes three numbers: the squared distance, clamped to the squared cutoff; the weight,
/// which is 1 inside the cutoff and 0 outside; and the weight over the squared distance. It returns
/// the energy and the force over distance.
#[inline(always)]
fn sweep(
    cutoff: f64,
    a: &mut Packed,
    b: &mut Packed,
    same: bool,
    law: impl Fn(Lanes, Lanes, Lanes) -> (Lanes, Lanes),
) -> PairSums {
    let limit = Lanes::splat(cutoff * cutoff);
    let (mut energy, mut virial, mut pairs) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
    let mut end = 0;
    for atom in 0..a.len() {
        let (group, lane) = (atom / LANES, atom % LANES);
        let own = &a.groups[group];
        let [x, y, z] = [own.x, own.y, own.z].map(|axis| Lanes::splat(axis.0[lane]));
        let (mut fx, mut fy, mut fz) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
        // The compiler does not inline this, because two places call it. Inlined into the loop, it
        // exhausts the vector registers, and the sweep takes almost twice as long.
        let mut meet = |other: &mut Group, handicap: Lanes| {
            let (dx, dy, dz) = (x - other.x, y - other.y, z - other.z);
            let r2 = dx * dx + dy * dy + dz * dz + handicap;
            if !r2.any_below(limit) {
                return;
            }
            let weight = r2.below(limit);
            let r2 = r2.min(limit);
            let (u, f) = law(r2, weight, weight / r2);
            energy = energy + u;
            virial = virial + f * r2;
            pairs = pairs + weight;
            let (px, py, pz) = (f * dx, f * dy, f * dz);
            (fx, fy, fz) = (fx + px, fy + py, fz + pz);
            (other.fx, other.fy, other.fz) = (other.fx - px, other.fy - py, other.fz - pz);
        };
        end = b.advance(end, a, atom, cutoff);
        let mut start = 0;
        if same {
            // The atom's own group: a handicap of the squared cutoff excludes the atom itself and
            // those before it.
            meet(&mut b.groups[group], limit.up_to(lane));
            start = group + 1;
        }
        for other in b.groups.iter_mut().take(end).skip(start) {
            meet(other, Lanes::ZERO);
        }
        let own = &mut a.groups[group];
        (own.fx.0[lane], own.fy.0[lane], own.fz.0[lane]) = (fx.sum(), fy.sum(), fz.sum());
    }
    PairSums { energy: energy.sum(), virial: virial.sum(), pairs: pairs.sum() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::NasRandom;

    const TRUNCATIONS: [Truncation; 3] =
        [Truncation::Truncated, Truncation::EnergyShift, Truncation::LinearForceShift];

    #[test]
    fn forces_between_two_cells_agree_with_a_plain_double_loop() {
        for truncation in TRUNCATIONS {
            let law = LennardJones::new(2.5, truncation).unwrap();
            for (direction, size) in [
                ([1.0, 0.0, 0.0], 97),
                ([1.0, -1.0, 0.0], 50),
                ([-1.0, 1.0, 1.0], 3),
                ([0.0, 0.0, 1.0], 1),
            ] {
                let (a, b) = (cloud(size, 1), cloud(size + 5, 7));
                let shift: [f64; 3] = direction.map(|axis: f64| axis * 4.0);
                let (mut on_a, mut on_b) = (Vectors::zeros(a.len()), Vectors::zeros(b.len()));
                let sums =
                    between(&law, &a, &b, shift, &mut on_a, &mut on_b, &mut Scratch::default());
                let (expected, plain_a, plain_b) = plain(&law, &a, &b, shift, false);
                assert_close(&sums, &expected);
                assert_near(&on_a, &plain_a);
                assert_near(&on_b, &plain_b);
            }
        }
    }

    #[test]
    fn forces_within_a_cell_agree_with_a_plain_double_loop() {
        for truncation in TRUNCATIONS {
            let law = LennardJones::new(2.5, truncation).unwrap();
            for size in [1, 2, 4, 5, 63] {
                let atoms = cloud(size, 11);
                let mut on = Vectors::zeros(size);
                let sums = within(&law, &atoms, &mut on, &mut Scratch::default());
                let (expected, mut forces, others) = plain(&law, &atoms, &atoms, [0.0; 3], true);
                forces.add(&others);
                assert_close(&sums, &expected);
                assert_near(&on, &forces);
            }
        }
    }

    #[test]
    fn reused_scratch_does_not_change_the_result() {
        let law = LennardJones::new(2.5, Truncation::LinearForceShift).unwrap();
        let (a, b) = (cloud(40, 3), cloud(37, 5));
        let mut scratch = Scratch::default();
        let run = |scratch: &mut Scratch| {
            let (mut on_a, mut on_b) = (Vectors::zeros(a.len()), Vectors::zeros(b.len()));
            let sums = between(&law, &a, &b, [4.0, 0.0, 0.0], &mut on_a, &mut on_b, scratch);
            (sums, on_a, on_b)
        };
        within(&law, &cloud(200, 9), &mut Vectors::zeros(200), &mut scratch);
        assert_eq!(run(&mut scratch), run(&mut Scratch::default()));
    }

    #[test]
    fn a_pair_exactly_at_the_cutoff_does_not_count() {
        let law = LennardJones::new(2.5, Truncation::Truncated).unwrap();
        let (a, b) = ([[0.0; 3]].into_iter().collect(), [[2.5, 0.0, 0.0]].into_iter().collect());
        let sums = between(
            &law,
            &a,
            &b,
            [0.0; 3],
            &mut Vectors::zeros(1),
            &mut Vectors::zeros(1),
            &mut Scratch::default(),
        );
        assert_eq!(sums, PairSums::default());
    }

    #[test]
    fn empty_cells_add_nothing() {
        let law = LennardJones::new(2.5, Truncation::Truncated).unwrap();
        let (none, some) = (Vectors::default(), cloud(5, 1));
        let sums = between(
            &law,
            &none,
            &some,
            [0.0; 3],
            &mut Vectors::default(),
            &mut Vectors::zeros(5),
            &mut Scratch::default(),
        );
        assert_eq!(sums, PairSums::default());
    }

    /// Atoms in a cube of side 4, on a jittered grid so that none overlap.
    fn cloud(size: usize, seed: u64) -> Vectors {
        let mut random = NasRandom::new(seed);
        let per_axis = (1..).find(|n: &usize| n.pow(3) >= size).unwrap();
        let spacing = 4.0 / per_axis as f64;
        let site = |number: usize| {
            [number % per_axis, number / per_axis % per_axis, number / per_axis / per_axis]
        };
        (0..size)
            .map(|number| {
                site(number).map(|axis| (axis as f64 + 0.2 + 0.6 * random.next_unit()) * spacing)
            })
            .collect()
    }

    fn plain(
        law: &LennardJones,
        a: &Vectors,
        b: &Vectors,
        shift: [f64; 3],
        same: bool,
    ) -> (PairSums, Vectors, Vectors) {
        let mut sums = PairSums::default();
        let (mut on_a, mut on_b) = (Vectors::zeros(a.len()), Vectors::zeros(b.len()));
        for i in 0..a.len() {
            for j in (if same { i + 1 } else { 0 })..b.len() {
                let (p, q) = (a.at(i), b.at(j));
                let d: [f64; 3] = std::array::from_fn(|axis| p[axis] - q[axis] - shift[axis]);
                let r2 = d.iter().map(|axis| axis * axis).sum();
                let (energy, force_over_r) = law.at_squared(r2);
                sums.energy += energy;
                sums.virial += force_over_r * r2;
                sums.pairs += u64::from(r2 < law.cutoff() * law.cutoff());
                on_a.add_at(i, d.map(|axis| force_over_r * axis));
                on_b.add_at(j, d.map(|axis| -force_over_r * axis));
            }
        }
        (sums, on_a, on_b)
    }

    fn assert_close(found: &PairSums, expected: &PairSums) {
        assert_eq!(found.pairs, expected.pairs);
        assert!(
            (found.energy - expected.energy).abs() <= 1e-11 * expected.energy.abs().max(1.0),
            "{found:?} {expected:?}"
        );
        assert!(
            (found.virial - expected.virial).abs() <= 1e-11 * expected.virial.abs().max(1.0),
            "{found:?} {expected:?}"
        );
    }

    fn assert_near(found: &Vectors, expected: &Vectors) {
        let scale = expected.iter().flatten().fold(1.0_f64, |most, axis| most.max(axis.abs()));
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() <= 1e-11 * scale, "{found} instead of {expected}");
        }
    }
}
