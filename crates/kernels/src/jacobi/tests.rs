//! Tests of the values against exact solutions, and of the division of points.

use super::problem::{Equation, Problem};
use super::subdomain::{Face, Subdomain};

/// The whole grid in one subdomain after a number of steps.
fn alone(problem: Problem, steps: u64) -> Subdomain {
    let inner = 1..problem.size + 1;
    let unused = if problem.axes == 2 { 1..2 } else { inner.clone() };
    let mut whole = Subdomain::new(problem, &[unused, inner.clone(), inner]);
    for _ in 0..steps {
        whole.sweep(whole.whole());
        whole.advance();
    }
    whole
}

#[test]
fn each_step_has_the_exact_values() {
    for equation in [Equation::Laplace, Equation::Poisson] {
        for (axes, size) in [(2, 1), (2, 20), (3, 9)] {
            let problem = Problem { equation, axes, size };
            for steps in [0, 1, 7, 60] {
                let error = alone(problem, steps).error(steps);
                assert!(error <= problem.rounding_max(steps), "{problem:?} {steps}: {error:e}");
            }
            let one_less = alone(problem, 6).error(7);
            assert!(one_less > 1e-3 || size == 1, "{problem:?}: {one_less:e}");
        }
    }
}

#[test]
fn a_harmonic_function_stays() {
    // After many steps the added eigenvector has decayed, and only the solution is left.
    for axes in [2, 3] {
        let problem = Problem { equation: Equation::Laplace, axes, size: 9 };
        let whole = alone(problem, 2000);
        for (place, value) in whole.points() {
            assert!((value - problem.solution(place)).abs() < 1e-14);
        }
        assert!(whole.change() < 1e-15);
    }
}

#[test]
fn the_error_falls_to_a_quarter_when_the_spacing_halves() {
    for axes in [2, 3] {
        let [coarse, fine] = [7, 15].map(|size| {
            let problem = Problem { equation: Equation::Poisson, axes, size };
            let whole = alone(problem, 2500);
            let errors = whole.points().map(|(at, value)| (value - problem.solution(at)).abs());
            errors.fold(0.0, f64::max)
        });
        let ratio = coarse / fine;
        assert!((3.9..4.1).contains(&ratio), "{coarse:e} and {fine:e}");
    }
}

#[test]
fn interior_and_border_hold_each_point_once() {
    let problem = Problem { equation: Equation::Laplace, axes: 3, size: 9 };
    for extents in [[1, 1, 1], [2, 1, 4], [3, 3, 3], [5, 2, 6]] {
        let whole = Subdomain::new(problem, &extents.map(|extent| 2..2 + extent));
        let faces = (0..3).flat_map(|axis| [false, true].map(|is_upper| Face { axis, is_upper }));
        let (interior, border) = whole.divided(faces);
        let boxes = border.into_iter().chain([interior]);
        let mut points: Vec<[usize; 3]> = boxes
            .flat_map(|[planes, lines, row]| {
                planes.flat_map(move |z| {
                    let row = row.clone();
                    lines.clone().flat_map(move |y| row.clone().map(move |x| [z, y, x]))
                })
            })
            .collect();
        let count = points.len();
        points.sort_unstable();
        points.dedup();
        assert_eq!((points.len(), count), (count, extents.iter().product::<u32>() as usize));
    }
}

#[test]
fn ghosts_of_the_wrong_size_are_refused() {
    let mut whole = alone(Problem { equation: Equation::Laplace, axes: 2, size: 4 }, 0);
    let face = Face { axis: 1, is_upper: false };
    assert!(whole.set_ghosts(face, &[0.0; 4]).is_ok());
    let error = whole.set_ghosts(face, &[0.0; 5]).unwrap_err();
    assert_eq!(error, "a face has 4 points, and 5 came");
}
