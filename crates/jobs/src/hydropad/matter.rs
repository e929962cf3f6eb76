//! Dark matter: particles that feel gravity only, by the particle-mesh method.
//!
//! Mass goes to cells as a cloud of the size of a cell, and the force comes back with the same
//! weights, so that no particle pulls itself and the whole keeps its momentum (Hockney and
//! Eastwood, "Computer Simulation Using Particles", 1988, chapter 5). Steps are those of the
//! leapfrog: velocities are half a step behind positions.

use super::cells::Cells;
use thiserror::Error;

/// Why particles cannot go on. They are as they were when it was found.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum MatterError {
    /// As many positions as velocities, three for each particle, make particles.
    #[error("{positions} coordinates and {velocities} parts of velocities make no particles")]
    Count {
        /// Of coordinates.
        positions: usize,
        /// Of parts of velocities.
        velocities: usize,
    },
    /// A particle is outside of the box.
    #[error("particle {particle} is at {position:?}, outside of the box; take smaller time steps")]
    Outside {
        /// Which.
        particle: usize,
        /// Where it is.
        position: [f64; 3],
    },
}

/// Particles of equal mass.
#[derive(Clone, Debug, PartialEq)]
pub struct Matter {
    /// Where each is, in cells, within the box.
    pub positions: Vec<[f64; 3]>,
    /// How fast each is, in cells per time.
    pub velocities: Vec<[f64; 3]>,
}

/// The part of a cloud in one cell.
type Share = (usize, f64);

impl Matter {
    /// Checks particles that come from elsewhere.
    ///
    /// # Errors
    /// If a particle has no velocity, or is outside of the box.
    pub fn check(&self, cells: Cells) -> Result<(), MatterError> {
        let (positions, velocities) = (self.positions.len(), self.velocities.len());
        if positions != velocities {
            return Err(MatterError::Count { positions, velocities });
        }
        let edges = cells.axes().map(|count| count as f64);
        let is_inside =
            |position: &[f64; 3]| (0..3).all(|d| position[d] >= 0.0 && position[d] < edges[d]);
        match self.positions.iter().position(|position| !is_inside(position)) {
            None => Ok(()),
            Some(particle) => {
                Err(MatterError::Outside { particle, position: self.positions[particle] })
            }
        }
    }

    /// The density of particles of this mass each.
    pub fn density(&self, cells: Cells, mass: f64) -> Vec<f64> {
        let mut density = vec![0.0; cells.count()];
        for &position in &self.positions {
            for (cell, share) in cloud(cells, position) {
                density[cell] += mass * share;
            }
        }
        density
    }

    /// Accelerates each particle for a time.
    pub fn kick(&mut self, cells: Cells, acceleration: &[[f64; 3]], time: f64) {
        for (velocity, &position) in self.velocities.iter_mut().zip(&self.positions) {
            let mut change = [0.0; 3];
            for (cell, share) in cloud(cells, position) {
                let acceleration = &acceleration[cell];
                for d in 0..3 {
                    change[d] += share * acceleration[d];
                }
            }
            for d in 0..3 {
                velocity[d] += time * change[d];
            }
        }
    }

    /// Moves each particle for a time; what leaves the box comes in at the other side.
    pub fn drift(&mut self, cells: Cells, time: f64) {
        let edges = cells.axes().map(|count| count as f64);
        for (position, velocity) in self.positions.iter_mut().zip(&self.velocities) {
            for d in 0..3 {
                let moved = (position[d] + time * velocity[d]).rem_euclid(edges[d]);
                // The remainder of a tiny negative number rounds to the whole edge.
                position[d] = if moved < edges[d] { moved } else { 0.0 };
            }
        }
    }

    /// The momentum of particles of this mass each.
    pub fn momentum(&self, mass: f64) -> [f64; 3] {
        [0, 1, 2].map(|d| mass * self.velocities.iter().map(|velocity| velocity[d]).sum::<f64>())
    }

    /// Their energy of motion.
    pub fn kinetic_energy(&self, mass: f64) -> f64 {
        let square = |velocity: &[f64; 3]| velocity.iter().map(|part| part * part).sum::<f64>();
        0.5 * mass * self.velocities.iter().map(square).sum::<f64>()
    }

    /// The fastest part of any velocity, in cells per time.
    pub fn speed_max(&self) -> f64 {
        self.velocities.iter().flatten().fold(0.0, |most, part| most.max(part.abs()))
    }
}

/// The eight cells that a particle's cloud lies in, and how much of it does in each.
fn cloud(cells: Cells, position: [f64; 3]) -> [Share; 8] {
    let (axes, strides) = (cells.axes(), cells.strides());
    // Along each axis: the cell whose centre is below, the one above, and the part of the latter.
    let along = [0, 1, 2].map(|d| {
        let from_centre = position[d] - 0.5;
        let below = from_centre.floor();
        let part = from_centre - below;
        // Positions are in the box, so the lowest cell is -1.
        let below = if below < 0.0 { axes[d] - 1 } else { (below as usize).min(axes[d] - 1) };
        let above = if below + 1 == axes[d] { 0 } else { below + 1 };
        [(below * strides[d], 1.0 - part), (above * strides[d], part)]
    });
    std::array::from_fn(|corner| {
        let [x, y, z] = [along[0][corner >> 2], along[1][corner >> 1 & 1], along[2][corner & 1]];
        (x.0 + y.0 + z.0, x.1 * y.1 * z.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(positions: &[[f64; 3]]) -> Matter {
        Matter { positions: positions.to_vec(), velocities: vec![[0.0; 3]; positions.len()] }
    }

    #[test]
    fn a_particle_at_the_centre_of_a_cell_is_all_in_it() {
        let cells = Cells::cube(4).unwrap();
        let density = at(&[[2.5, 0.5, 3.5]]).density(cells, 3.0);
        assert_eq!(density[cells.at([2, 0, 3])], 3.0);
        assert_eq!(density.iter().sum::<f64>(), 3.0);
    }

    #[test]
    fn a_particle_at_a_corner_of_the_box_is_in_eight_cells_at_its_corners() {
        let cells = Cells::cube(4).unwrap();
        let density = at(&[[0.0; 3]]).density(cells, 8.0);
        for corner in 0..8 {
            let cell = [corner >> 2, corner >> 1 & 1, corner & 1].map(|side| 3 * side);
            assert_eq!(density[cells.at(cell)], 1.0);
        }
    }

    #[test]
    fn the_same_weights_give_back_a_field_that_is_linear() {
        let cells = Cells::cube(8).unwrap();
        let field: Vec<[f64; 3]> =
            cells.iter().map(|[i, j, k]| [i as f64 + 0.5, 2.0 * j as f64, -(k as f64)]).collect();
        let mut matter = at(&[[2.75, 4.125, 5.5]]);
        matter.kick(cells, &field, 2.0);
        // Twice the field at the place of the particle.
        assert_eq!(matter.velocities[0], [5.5, 4.0 * 3.625, -10.0]);
    }

    #[test]
    fn what_leaves_the_box_comes_back_at_the_other_side() {
        let cells = Cells::new([4, 2, 8]).unwrap();
        let mut matter = at(&[[3.5, 0.25, 0.0]]);
        matter.velocities[0] = [1.0, -1.0, -1e-20];
        matter.drift(cells, 1.0);
        assert_eq!(matter.positions[0], [0.5, 1.25, 0.0]);
        assert_eq!(matter.check(cells), Ok(()));
        let outside = at(&[[0.0, f64::NAN, 0.0]]).check(cells);
        assert!(matches!(outside, Err(MatterError::Outside { particle: 0, .. })));
    }
}
