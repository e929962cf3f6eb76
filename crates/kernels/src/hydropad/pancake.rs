//! A Zel'dovich pancake: a plane wave that grows until matter from both sides meets, with the exact
//! solution until then.
//!
//! Matter that started at `q` is at `q - (a / a_c) sin(k q) / k` along the wave at scale factor
//! `a`, so all matter near the middle meets at `a_c` (Zel'dovich, "Gravitational instability",
//! 1970). In a universe of matter without pressure this is exact, not only for small waves.

use super::cells::Cells;
use super::gas::Gas;
use super::matter::Matter;
use std::f64::consts::TAU;

/// A plane wave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pancake {
    /// Number of waves along each axis of the box; not 0 along all axes.
    pub waves: [u32; 3],
    /// The scale factor at which matter meets.
    pub meets_at: f64,
}

/// Maximum number of bisections and Newton steps to find an origin.
const ROUNDS: u32 = 60;

impl Pancake {
    /// The wave numbers along the axes, in radians per cell.
    fn wave_numbers(&self, cells: Cells) -> [f64; 3] {
        let axes = cells.axes();
        [0, 1, 2].map(|d| TAU * f64::from(self.waves[d]) / axes[d] as f64)
    }

    /// Returns the displacement and the velocity, at a scale factor, of matter that started at
    /// `origin`.
    fn moved(&self, cells: Cells, origin: [f64; 3], scale: f64) -> ([f64; 3], [f64; 3]) {
        let numbers = self.wave_numbers(cells);
        let square: f64 = numbers.iter().map(|number| number * number).sum();
        let phase: f64 = (0..3).map(|d| numbers[d] * origin[d]).sum();
        let far = -scale / self.meets_at * phase.sin() / square;
        // The derivative of the scale factor `a` in super-comoving time is `a^(3/2)`.
        let fast = far * scale.sqrt();
        (numbers.map(|number| far * number), numbers.map(|number| fast * number))
    }

    /// Returns the starting phase `φ` of the matter that is now at `phase`: the solution of
    /// `phase = φ - scale / meets_at * sin φ`, unique until matter meets.
    fn origin_phase(&self, phase: f64, scale: f64) -> f64 {
        let part = scale / self.meets_at;
        let (mut low, mut high, mut found) = (phase - part, phase + part, phase);
        for _ in 0..ROUNDS {
            let wrong = found - part * found.sin() - phase;
            if wrong == 0.0 {
                break;
            }
            if wrong > 0.0 {
                high = found
            } else {
                low = found
            }
            let newton = found - wrong / (1.0 - part * found.cos());
            found = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        }
        found
    }

    /// Returns a lattice of `per_axis` particles along each axis with more than one cell, displaced
    /// by the wave at a scale factor, with their velocities.
    pub fn matter(&self, cells: Cells, per_axis: usize, scale: f64) -> Matter {
        let (mut positions, mut velocities) = (Vec::new(), Vec::new());
        let edges = cells.axes().map(|count| count as f64);
        for origin in lattice(cells, per_axis) {
            let (far, fast) = self.moved(cells, origin, scale);
            positions.push([0, 1, 2].map(|d| {
                let place = (origin[d] + far[d]).rem_euclid(edges[d]);
                if place < edges[d] { place } else { 0.0 }
            }));
            velocities.push(fast);
        }
        Matter { positions, velocities }
    }

    /// Returns a gas of mean density `mean` that moves with the wave. Its entropy is uniform: the
    /// pressure at the mean density is `pressure`.
    pub fn gas(&self, cells: Cells, mean: f64, pressure: f64, scale: f64) -> Gas {
        let numbers = self.wave_numbers(cells);
        let square: f64 = numbers.iter().map(|number| number * number).sum();
        let part = scale / self.meets_at;
        let (mut density, mut velocity) = (Vec::new(), Vec::new());
        for cell in cells.iter() {
            let phase: f64 = (0..3).map(|d| numbers[d] * (cell[d] as f64 + 0.5)).sum();
            let origin = self.origin_phase(phase, scale);
            density.push(mean / (1.0 - part * origin.cos()));
            let fast = -part * scale.sqrt() * origin.sin() / square;
            velocity.push(numbers.map(|number| fast * number));
        }
        let pressures: Vec<f64> =
            density.iter().map(|density| pressure * (density / mean).powf(5.0 / 3.0)).collect();
        Gas::new(density, &velocity, &pressures)
    }

    /// Returns the root mean square deviation of particles of a lattice from their exact positions
    /// at a scale factor, in cells.
    pub fn error(&self, cells: Cells, per_axis: usize, scale: f64, positions: &[[f64; 3]]) -> f64 {
        let edges = cells.axes().map(|count| count as f64);
        let mut squares = 0.0;
        for (origin, position) in lattice(cells, per_axis).zip(positions) {
            let (far, _) = self.moved(cells, origin, scale);
            for d in 0..3 {
                let wrong = (position[d] - origin[d] - far[d]).rem_euclid(edges[d]);
                squares += wrong.min(edges[d] - wrong).powi(2);
            }
        }
        (squares / positions.len().max(1) as f64).sqrt()
    }

    /// Returns the largest speed along an axis at a scale factor, in cells per time.
    pub fn speed(&self, cells: Cells, scale: f64) -> f64 {
        let numbers = self.wave_numbers(cells);
        let square: f64 = numbers.iter().map(|number| number * number).sum();
        let steepest = numbers.into_iter().fold(0.0, f64::max);
        scale / self.meets_at * scale.sqrt() * steepest / square
    }
}

/// The initial positions of particles: evenly spaced in the box, `per_axis` of them along each axis
/// with more than one cell.
fn lattice(cells: Cells, per_axis: usize) -> impl Iterator<Item = [f64; 3]> {
    let counts = cells.axes().map(|count| if count > 1 { per_axis } else { 1 });
    let [x, y, z] = counts;
    let axes = cells.axes();
    let place = move |d: usize, i: usize| (i as f64 + 0.5) * axes[d] as f64 / counts[d] as f64;
    (0..x).flat_map(move |i| {
        (0..y).flat_map(move |j| (0..z).map(move |k| [place(0, i), place(1, j), place(2, k)]))
    })
}
