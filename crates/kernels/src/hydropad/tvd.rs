//! One sweep of the Euler equations along a line of cells, by a total variation diminishing scheme.
//!
//! The scheme is Harten's modified flux ("High resolution schemes for hyperbolic conservation
//! laws", 1983) with Roe averages, as in Ryu, Ostriker, Kang and Cen ("A cosmological hydrodynamic
//! code based on the total variation diminishing scheme", 1993, section 2). The outflow of a cell
//! through a face is the inflow of its neighbour, so mass, momentum and energy are conserved to
//! rounding.
//!
//! Where gas moves much faster than sound, heat is only in the last digits of the energy. Therefore
//! a line also carries the *modified entropy* `p / ρ^(2/3)`, a density that is conserved where no
//! shock passes (section 2.4 of Ryu and others).

/// Adiabatic exponent of a monatomic gas, for which the expansion of the background drops out of
/// the equations.
pub(super) const GAMMA: f64 = 5.0 / 3.0;

/// Minimum damping of sound waves, in cells per step (Harten's ε). It affects waves slower than
/// twice this, so that no rarefaction becomes a shock.
const DAMPED: f64 = 0.1;

/// One cell of a line. The first component of the velocity is along the line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) density: f64,
    pub(super) velocity: [f64; 3],
    pub(super) pressure: f64,
    /// The modified entropy over the density.
    pub(super) entropy: f64,
}

/// The flux through a face per time: mass, momentum, energy and modified entropy.
pub(super) type Flux = [f64; 6];

/// The waves at a face: the backward sound wave, the entropy wave, the two shear waves, and the
/// forward sound wave.
type Waves = [f64; 5];

/// The face between a cell and the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Face {
    /// Roe average of the velocities of the two cells.
    velocity: [f64; 3],
    /// Roe average of the enthalpies of the two cells.
    enthalpy: f64,
    /// Speed of sound of the Roe averages.
    sound: f64,
    /// Number of cells that each wave passes in the step.
    passed: Waves,
    /// Strength of each wave.
    strength: Waves,
    /// The correction of second order, before it is limited.
    correction: Waves,
}

/// A periodic line of cells, with the buffers of a sweep.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) cells: Vec<Cell>,
    /// The flux through the face after each cell, set by [`Self::compute`].
    pub(super) fluxes: Vec<Flux>,
    faces: Vec<Face>,
    limited: Vec<Waves>,
}

impl Line {
    /// Computes the flux through each face in a step of length `time`.
    pub(super) fn compute(&mut self, time: f64) {
        let count = self.cells.len();
        let next = |i: usize| if i + 1 == count { 0 } else { i + 1 };
        let before = |i: usize| if i == 0 { count - 1 } else { i - 1 };
        let cells = &self.cells;
        self.faces.clear();
        self.faces.extend((0..count).map(|i| Face::new(&cells[i], &cells[next(i)], time)));
        let faces = &self.faces;
        self.limited.clear();
        self.limited.extend((0..count).map(|i| {
            let (here, there) = (&faces[i].correction, &faces[before(i)].correction);
            std::array::from_fn(|wave| least(here[wave], there[wave]))
        }));
        let limited = &self.limited;
        self.fluxes.clear();
        self.fluxes.extend((0..count).map(|i| {
            let after = next(i);
            let mut flux =
                faces[i].flux([&cells[i], &cells[after]], [&limited[i], &limited[after]], time);
            // Entropy flows with the mass.
            let upwind = match flux[0] >= 0.0 {
                true => entropy_at_face(cells, [before(i), i, after], flux[0] * time),
                false => entropy_at_face(cells, [next(after), after, i], -flux[0] * time),
            };
            flux[5] = flux[0] * upwind;
            flux
        }));
    }
}

/// Returns the value nearer to zero, or zero if the signs differ (the minmod limiter).
fn least(one: f64, other: f64) -> f64 {
    match one * other > 0.0 {
        true if one.abs() < other.abs() => one,
        true => other,
        false => 0.0,
    }
}

/// Returns the entropy of the mass that leaves the middle one of three cells towards the last, by
/// limited linear reconstruction.
fn entropy_at_face(cells: &[Cell], [behind, here, ahead]: [usize; 3], mass: f64) -> f64 {
    let [behind, here, ahead] = [behind, here, ahead].map(|i| &cells[i]);
    let slope = least(here.entropy - behind.entropy, ahead.entropy - here.entropy);
    here.entropy + 0.5 * (1.0 - mass / here.density).max(0.0) * slope
}

/// Returns the damping of a wave that passes `passed` cells in the step, at least `least` (Harten's
/// Q).
fn damping(passed: f64, least: f64) -> f64 {
    let passed = passed.abs();
    if passed < 2.0 * least { passed * passed / (4.0 * least) + least } else { passed }
}

/// Returns the damping of each wave: [`damping`] for waves of sound. Waves of entropy and shear
/// have no minimum damping, because they do not steepen.
fn damping_of(passed: &Waves) -> Waves {
    let [backward, entropy, one, other, forward] = *passed;
    let sound = |passed| damping(passed, DAMPED);
    [sound(backward), entropy.abs(), one.abs(), other.abs(), sound(forward)]
}

impl Cell {
    /// Returns the energy plus the pressure, over density.
    fn enthalpy(&self) -> f64 {
        let square: f64 = self.velocity.iter().map(|part| part * part).sum();
        GAMMA / (GAMMA - 1.0) * self.pressure / self.density + 0.5 * square
    }
}

impl Face {
    fn new(left: &Cell, right: &Cell, time: f64) -> Self {
        let [root, other] = [left.density.sqrt(), right.density.sqrt()];
        let part = root / (root + other);
        let mean = |one: f64, two: f64| part * one + (1.0 - part) * two;
        let velocity: [f64; 3] = std::array::from_fn(|d| mean(left.velocity[d], right.velocity[d]));
        let jump: [f64; 3] = std::array::from_fn(|d| right.velocity[d] - left.velocity[d]);
        // The square of the speed of sound is computed from positive terms: the difference of
        // enthalpy and energy of motion would lose all digits in a fast gas.
        let heat = |cell: &Cell| GAMMA / (GAMMA - 1.0) * cell.pressure / cell.density;
        let between: f64 = jump.iter().map(|part| part * part).sum();
        let heat = mean(heat(left), heat(right)) + 0.5 * part * (1.0 - part) * between;
        let square = (GAMMA - 1.0) * heat;
        let sound = square.sqrt();
        let density = root * other;
        let pressure = right.pressure - left.pressure;
        let strength = [
            (pressure - density * sound * jump[0]) / (2.0 * square),
            right.density - left.density - pressure / square,
            density * jump[1],
            density * jump[2],
            (pressure + density * sound * jump[0]) / (2.0 * square),
        ];
        let passed = [
            (velocity[0] - sound) * time,
            velocity[0] * time,
            velocity[0] * time,
            velocity[0] * time,
            (velocity[0] + sound) * time,
        ];
        let dampings = damping_of(&passed);
        let correction = std::array::from_fn(|wave| {
            0.5 * (dampings[wave] - passed[wave] * passed[wave]) * strength[wave]
        });
        let motion: f64 = velocity.iter().map(|part| part * part).sum();
        let enthalpy = heat + 0.5 * motion;
        Self { velocity, enthalpy, sound, passed, strength, correction }
    }

    /// Returns the flux through the face, without entropy.
    fn flux(&self, cells: [&Cell; 2], limited: [&Waves; 2], time: f64) -> Flux {
        let fast: Waves = std::array::from_fn(|wave| {
            let strength = self.strength[wave];
            let more = limited[1][wave] - limited[0][wave];
            self.passed[wave] + if strength == 0.0 { 0.0 } else { more / strength }
        });
        let dampings = damping_of(&fast);
        let [backward, entropy, one, other, forward]: Waves = std::array::from_fn(|wave| {
            dampings[wave] * self.strength[wave] - limited[0][wave] - limited[1][wave]
        });
        let [u, v, w] = self.velocity;
        let motion = 0.5 * (u * u + v * v + w * w);
        let sound = forward - backward;
        let mass = backward + entropy + forward;
        let energy = (backward + forward) * self.enthalpy
            + sound * u * self.sound
            + entropy * motion
            + one * v
            + other * w;
        let spread =
            [mass, mass * u + sound * self.sound, mass * v + one, mass * w + other, energy];
        let mut flux = [0.0; 6];
        for cell in cells {
            let [u, v, w] = cell.velocity;
            let mass = cell.density * u;
            let passes =
                [mass, mass * u + cell.pressure, mass * v, mass * w, mass * cell.enthalpy()];
            for (flux, passes) in flux.iter_mut().zip(passes) {
                *flux += 0.5 * passes;
            }
        }
        for (flux, spread) in flux.iter_mut().zip(spread) {
            *flux -= 0.5 * spread / time;
        }
        flux
    }
}
