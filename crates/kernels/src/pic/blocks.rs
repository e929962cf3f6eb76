//! The particles of blocks of cells. A block is given by its column and row.

use std::collections::BTreeMap;

use super::cloud::Cloud;
use super::field::Field;
use super::particle::{Particle, Velocity};
use crate::block_partition::BlockPartition;

/// A block: column and row.
pub type BlockPosition = (u32, u32);

/// Advances particles by one step, and divides them among the blocks that then contain them. Each
/// of `targets` gets a list, perhaps an empty one.
///
/// # Errors
/// If a particle moves to a block that is not among `targets`; returns that particle.
pub fn advance(
    particles: Vec<Particle>,
    targets: &[BlockPosition],
    field: &Field,
    partition: &BlockPartition,
) -> Result<BTreeMap<BlockPosition, Vec<Particle>>, Particle> {
    let mut sorted: BTreeMap<BlockPosition, Vec<Particle>> =
        targets.iter().map(|&target| (target, Vec::new())).collect();
    for mut particle in particles {
        particle.advance(field);
        let (column, row) = field.cell_of(particle.x, particle.y);
        match sorted.get_mut(&(partition.block_of(column), partition.block_of(row))) {
            Some(there) => there.push(particle),
            None => return Err(particle),
        }
    }
    Ok(sorted)
}

/// Returns the number of particles, the sum of their ids, and the number of those that are not at
/// their exact positions after `steps` steps.
pub fn survey(particles: &[Particle], steps: u64, speed: Velocity, field: &Field) -> [u64; 3] {
    let wrong = |particle: &&Particle| particle.verify(steps, speed, field).is_err();
    let ids = particles.iter().map(|particle| particle.id).sum();
    [particles.len() as u64, ids, particles.iter().filter(wrong).count() as u64]
}

/// Returns the id of each block's first particle, and the number of particles.
pub fn first_ids(
    cloud: &Cloud,
    field: &Field,
    partition: &BlockPartition,
) -> (BTreeMap<BlockPosition, u64>, u64) {
    let mut ids = BTreeMap::new();
    for column in 0..partition.count() {
        ids.extend((0..partition.count()).map(|row| ((column, row), 0)));
    }
    for (column, row, count) in cloud.counts(0..field.cells(), field) {
        *ids.entry((partition.block_of(column), partition.block_of(row))).or_default() += count;
    }
    let mut next = 0;
    for id in ids.values_mut() {
        next += std::mem::replace(id, next);
    }
    (ids, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> (Cloud, Field, BlockPartition) {
        let cloud = Cloud { particles: 1000, ..Cloud::REFERENCE };
        (cloud, Field::new(20).unwrap(), BlockPartition::new(20, 3))
    }

    #[test]
    fn particle_ids_are_consecutive_from_block_to_block() {
        let (cloud, field, partition) = problem();
        let (ids, placed) = first_ids(&cloud, &field, &partition);
        let mut next = 0;
        for (&(column, row), &first) in &ids {
            assert_eq!(first, next);
            let [columns, rows] = [column, row].map(|block| partition.range(block));
            next += cloud.place_in(columns, rows, first, &field).len() as u64;
        }
        assert_eq!((next, placed), (placed, cloud.placed(&field)));
    }

    #[test]
    fn particles_go_to_the_blocks_that_contain_them() {
        let (cloud, field, partition) = problem();
        let particles = cloud.place(0..1, 0, &field);
        let all: Vec<BlockPosition> =
            (0..3).flat_map(|column| (0..3).map(move |row| (column, row))).collect();
        let sorted = advance(particles.clone(), &all, &field, &partition).unwrap();

        // Particles of column 0 move to column 3, which is in the first block, too.
        assert_eq!(sorted.len(), 9);
        let moved: Vec<Particle> = sorted
            .iter()
            .filter(|((column, _), _)| *column == 0)
            .flat_map(|(_, particles)| particles.clone())
            .collect();
        assert!(!particles.is_empty());
        let [count, _, wrong] = survey(&moved, 1, cloud.speed, &field);
        assert_eq!((count, wrong), (particles.len() as u64, 0));
        for ((_, row), particles) in &sorted {
            let rows = partition.range(*row);
            assert!(particles.iter().all(|particle| rows.contains(&(particle.y as u32))));
        }
        let lost = advance(particles, &[(1, 0)], &field, &partition).unwrap_err();
        lost.verify(1, cloud.speed, &field).unwrap();
    }
}
