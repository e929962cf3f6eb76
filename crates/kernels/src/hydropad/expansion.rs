//! The expanding background: a flat universe of matter (Einstein and de Sitter), in super-comoving
//! variables.
//!
//! Positions are comoving, velocities are `a² dx/dt`, and time `T` is defined by `dT = dt / a²`
//! (Martel and Shapiro, "A convenient set of comoving cosmological variables", 1998). In these
//! variables matter moves under gravity, and a gas with the adiabatic exponent 5/3 flows, as in a
//! static universe. Only the strength of gravity grows with the scale factor `a`: the potential
//! satisfies `∇²φ = 3/2 a δ`, where `δ` is the density divided by its mean, less one. The unit of
//! time is the Hubble time at `a` = 1. Then `a = 4 / T²`, and `T` runs from minus infinity to 0.

/// The scale factor at a time.
pub fn scale_at(time: f64) -> f64 {
    4.0 / (time * time)
}

/// The time of a scale factor.
pub fn time_of(scale: f64) -> f64 {
    -2.0 / scale.sqrt()
}

/// The factor of the density contrast in Poisson's equation.
pub fn gravity_at(scale: f64) -> f64 {
    1.5 * scale
}

/// The growth rate of the logarithm of the scale factor, per unit of `T`.
pub fn growth_at(scale: f64) -> f64 {
    scale.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_factor_grows_as_in_the_einstein_de_sitter_universe() {
        // Its cosmic time is t = 2/3 a^1.5, so dT = dt / a² = a^-1.5 da.
        let (steps, mut time) = (200_000, time_of(0.1));
        for step in 0..steps {
            let middle = 0.1 + 0.9 * (f64::from(step) + 0.5) / f64::from(steps);
            time += 0.9 / f64::from(steps) * middle.powf(-1.5);
        }
        assert!((time - time_of(1.0)).abs() < 1e-8, "{time}");
        assert!((scale_at(time_of(0.37)) - 0.37).abs() < 1e-14);
        let change = (scale_at(-3.0 + 1e-6) / scale_at(-3.0 - 1e-6)).ln() / 2e-6;
        assert!((change - growth_at(scale_at(-3.0))).abs() < 1e-8);
    }
}
