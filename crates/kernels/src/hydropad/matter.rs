//! Dark matter: particles that feel gravity only, by the particle-mesh method.
//!
//! Each particle spreads its mass over a cloud of the size of a cell, and the force on it is
//! interpolated with the same weights, so that no particle attracts itself and the total momentum
//! is conserved (Hockney and Eastwood, "Computer Simulation Using Particles", 1988, chapter 5).
//! Time integration is the leapfrog: velocities are half a step behind positions.

use super::cells::Cells;
use thiserror::Error;

/// The reason that particles cannot be moved. They remain as they were when the error was found.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum MatterError {
    /// The numbers of positions and velocities differ.
    #[error("there are {positions} positions and {velocities} velocities; pass equal numbers")]
    Count {
        /// Number of positions.
        positions: usize,
        /// Number of velocities.
        velocities: usize,
    },
    /// A particle is outside the box.
    #[error("particle {particle} is at {position:?}, outside of the box; take smaller time steps")]
    Outside {
        /// Index of the particle.
        particle: usize,
        /// Its position.
        position: [f64; 3],
    },
}

/// Particles of equal mass.
#[derive(Clone, Debug, PartialEq)]
pub struct Matter {
    /// Positions in cells, within the box.
    pub positions: Vec<[f64; 3]>,
    /// Velocities in cells per time.
    pub velocities: Vec<[f64; 3]>,
}

/// A cell and the part of a cloud in it.
type Share = (usize, f64);

impl Matter {
    /// Checks that every particle has a velocity and is inside the box.
    ///
    /// # Errors
    /// If a particle has no velocity, or is outside the box.
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

    /// Computes the density of particles of mass `mass` each.
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

    /// Moves each particle for a time; a particle that leaves the box re-enters at the opposite
    /// side.
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

    /// Returns the total momentum of particles of mass `mass` each.
    pub fn momentum(&self, mass: f64) -> [f64; 3] {
        [0, 1, 2].map(|d| mass * self.velocities.iter().map(|velocity| velocity[d]).sum::<f64>())
    }

    /// Returns the total kinetic energy of particles of mass `mass` each.
    pub fn kinetic_energy(&self, mass: f64) -> f64 {
        let square = |velocity: &[f64; 3]| velocity.iter().map(|part| part * part).sum::<f64>();
        0.5 * mass * self.velocities.iter().map(square).sum::<f64>()
    }

    /// Returns the largest component of any velocity, in cells per time.
    pub fn speed_max(&self) -> f64 {
        self.velocities.iter().flatten().fold(0.0, |most, part| most.max(part.abs()))
    }
}

/// Returns the eight cells of a particle's cloud, and the part of the cloud in each.
fn cloud(cells: Cells, position: [f64; 3]) -> [Share; 8] {
    let (axes, strides) = (cells.axes(), cells.strides());
    // Along each axis: the cell whose centre is below the particle and the cell above, with their
    // parts.
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
    fn a_particle_at_the_centre_of_a_cell_adds_all_its_mass_to_that_cell() {
        let cells = Cells::cube(4).unwrap();
        let density = at(&[[2.5, 0.5, 3.5]]).density(cells, 3.0);
        assert_eq!(density[cells.at([2, 0, 3])], 3.0);
        assert_eq!(density.iter().sum::<f64>(), 3.0);
    }

    #[test]
    fn a_particle_at_a_corner_of_the_box_is_shared_by_the_eight_corner_cells() {
        let cells = Cells::cube(4).unwrap();
        let density = at(&[[0.0; 3]]).density(cells, 8.0);
        for corner in 0..8 {
            let cell = [corner >> 2, corner >> 1 & 1, corner & 1].map(|side| 3 * side);
            assert_eq!(density[cells.at(cell)], 1.0);
        }
    }

    #[test]
    fn a_linear_field_is_interpolated_exactly() {
        let cells = Cells::cube(8).unwrap();
        let field: Vec<[f64; 3]> =
            cells.iter().map(|[i, j, k]| [i as f64 + 0.5, 2.0 * j as f64, -(k as f64)]).collect();
        let mut matter = at(&[[2.75, 4.125, 5.5]]);
        matter.kick(cells, &field, 2.0);
        // Twice the field at the position of the particle.
        assert_eq!(matter.velocities[0], [5.5, 4.0 * 3.625, -10.0]);
    }

    #[test]
    fn particles_that_leave_the_box_re_enter_at_the_opposite_side() {
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
