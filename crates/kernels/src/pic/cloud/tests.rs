//! Compares clouds with an independent program, and the parts of a cloud with the whole.

use super::*;

const SPEED: Velocity = Velocity { k: 1, m: 2 };

#[test]
fn skipping_reaches_the_same_number_as_drawing() {
    for count in [0, 1, 2, 3, 1000, 12_345] {
        let (mut drawn, mut skipped) = (Dice::new(), Dice::new());
        (0..count).for_each(|_| {
            drawn.next();
        });
        skipped.skip(count);
        assert_eq!(drawn.state, skipped.state, "{count}");
    }
}

#[test]
fn columns_placed_separately_equal_those_placed_together() {
    let field = Field::new(40).unwrap();
    for shape in shapes() {
        let cloud = Cloud { particles: 5_000, shape, speed: SPEED };
        let together = cloud.place(0..40, 0, &field);
        let mut apart = Vec::new();
        for columns in [0..7, 7..8, 8..8, 8..33, 33..40] {
            apart.extend(cloud.place(columns, apart.len() as u64, &field));
        }
        assert_eq!(together, apart);
        assert_eq!(cloud.placed(&field), together.len() as u64);
    }
}

#[test]
fn blocks_placed_separately_equal_the_square_placed_together() {
    let field = Field::new(20).unwrap();
    for shape in shapes() {
        let shape = match shape {
            CloudShape::Patch { .. } => {
                CloudShape::Patch { left: 3, right: 15, bottom: 2, top: 11 }
            }
            other => other,
        };
        let cloud = Cloud { particles: 3_000, shape, speed: SPEED };
        let place = |particle: &Particle| (particle.x.to_bits(), particle.y.to_bits());
        let mut together: Vec<_> = cloud.place(0..20, 0, &field).iter().map(place).collect();
        let mut apart = Vec::new();
        for (columns, rows) in [(0..20, 0..7), (0..11, 7..20), (11..20, 7..20)] {
            let first_id = apart.len() as u64;
            let block = cloud.place_in(columns, rows, first_id, &field);
            assert!(block.iter().zip(first_id..).all(|(particle, id)| particle.id == id));
            apart.extend(block.iter().map(place));
        }
        together.sort_unstable();
        apart.sort_unstable();
        assert_eq!(together, apart);
    }
}

/// The expected number of particles and sum of their columns are from a program written from the
/// problem statement in another language.
#[test]
fn clouds_have_the_particles_that_an_independent_program_places() {
    let field = Field::new(100).unwrap();
    let expected =
        [(99_771, 1_832_785), (101_117, 5_015_979), (100_143, 4_632_374), (100_261, 1_000_568)];
    for (shape, expected) in shapes().into_iter().zip(expected) {
        assert_eq!(
            sums(&Cloud { particles: 100_000, shape, speed: SPEED }, &field),
            expected,
            "{shape:?}"
        );
    }
}

#[test]
fn the_reference_cloud_has_997651_particles() {
    assert_eq!(sums(&Cloud::REFERENCE, &Field::new(1000).unwrap()), (997_651, 98_408_971));
}

#[test]
fn a_geometric_cloud_is_thinner_to_the_right_and_a_patch_is_empty_outside() {
    let field = Field::new(40).unwrap();
    let [geometric, .., patch] =
        shapes().map(|shape| Cloud { particles: 20_000, shape, speed: SPEED });
    let of = |cloud: &Cloud, columns| {
        cloud.counts(columns, &field).map(|(_, _, count)| count).sum::<u64>()
    };
    assert!(of(&geometric, 0..20) > 2 * of(&geometric, 20..40));
    assert_eq!(of(&patch, 0..5) + of(&patch, 16..40), 0);
    assert!(patch.counts(5..16, &field).all(|(_, row, _)| (2..=30).contains(&row)));
}

#[test]
fn every_particle_of_every_cloud_verifies_after_many_steps() {
    let field = Field::new(40).unwrap();
    for shape in shapes() {
        let cloud = Cloud { particles: 2_000, shape, speed: SPEED };
        let mut particles = cloud.place(0..40, 0, &field);
        for _ in 0..51 {
            particles.iter_mut().for_each(|particle| particle.advance(&field));
        }
        particles.iter().try_for_each(|particle| particle.verify(51, SPEED, &field)).unwrap();
    }
}

#[test]
fn invalid_clouds_are_refused() {
    let field = Field::new(40).unwrap();
    let check = |shape| Cloud { particles: 1, shape, speed: SPEED }.check(&field);
    for shape in shapes() {
        check(shape).unwrap();
    }
    assert!(check(CloudShape::Geometric { rho: 1.0 }).is_err());
    // 1e9 to the power of 40 overflows, and 1e7 to the power of 40 does not.
    let error = check(CloudShape::Geometric { rho: 1e9 }).unwrap_err().to_string();
    assert!(error.contains("use a rho nearer to 1"), "{error}");
    check(CloudShape::Geometric { rho: 1e7 }).unwrap();
    check(CloudShape::Geometric { rho: 1e-300 }).unwrap();
    assert!(check(CloudShape::Linear { alpha: 1.0, beta: 1e307 }).is_err());
    assert!(check(CloudShape::Linear { alpha: -1e307, beta: 1.0 }).is_err());
    assert!(check(CloudShape::Linear { alpha: 2.0, beta: 1.0 }).is_err());
    assert!(check(CloudShape::Patch { left: 0, right: 40, bottom: 0, top: 3 }).is_err());
    assert!(Cloud { particles: 0, ..Cloud::REFERENCE }.check(&field).is_err());
    assert!(
        Cloud { speed: Velocity { k: 0, m: i32::MIN }, ..Cloud::REFERENCE }.check(&field).is_err()
    );
}

fn shapes() -> [CloudShape; 4] {
    [
        CloudShape::Geometric { rho: 0.95 },
        CloudShape::Sinusoidal,
        CloudShape::Linear { alpha: 1.0, beta: 3.0 },
        CloudShape::Patch { left: 5, right: 15, bottom: 2, top: 30 },
    ]
}

fn sums(cloud: &Cloud, field: &Field) -> (u64, u64) {
    cloud.counts(0..field.cells(), field).fold(
        (0, 0),
        |(particles, columns), (column, _, count)| {
            (particles + count, columns + count * u64::from(column))
        },
    )
}
