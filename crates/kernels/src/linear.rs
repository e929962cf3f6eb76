//! Operations on vectors. A solver on ranks divides each vector among its ranks.

/// The scalar product. Surplus elements of the longer vector are ignored.
pub fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Adds `factor * vector` to `to`.
pub fn add_scaled(to: &mut [f64], factor: f64, vector: &[f64]) {
    to.iter_mut().zip(vector).for_each(|(to, more)| *to += factor * more);
}

/// Subtracts `factor * vector` from `from`.
pub fn subtract_scaled(from: &mut [f64], factor: f64, vector: &[f64]) {
    from.iter_mut().zip(vector).for_each(|(from, less)| *from -= factor * less);
}

/// Replaces a direction of conjugate gradients by `next + beta * direction`.
pub fn turn(direction: &mut [f64], beta: f64, next: &[f64]) {
    for (direction, next) in direction.iter_mut().zip(next) {
        *direction = next + beta * *direction;
    }
}

/// Returns `one - other`, element by element.
pub fn difference(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one - other).collect()
}

/// Returns the products of the elements.
pub fn products(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one * other).collect()
}

/// Returns `vector / divisor`.
pub fn divided(vector: &[f64], divisor: f64) -> Vec<f64> {
    vector.iter().map(|element| element / divisor).collect()
}

/// Returns the reciprocals of the elements.
pub fn reciprocals(vector: &[f64]) -> Vec<f64> {
    vector.iter().map(|element| 1.0 / element).collect()
}

/// Returns the elements of some nodes, each of which has `unknowns` consecutive elements.
///
/// # Panics
/// If the vector does not have them all.
pub fn gather(vector: &[f64], nodes: &[u32], unknowns: usize) -> Vec<f64> {
    let first = nodes.iter().map(|&node| node as usize * unknowns);
    first.flat_map(|first| vector[first..first + unknowns].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_vector_counts_as_far_as_the_shorter_one() {
        assert_eq!(dot(&[1.0, 2.0, 9.0], &[3.0, 4.0]), 11.0);
        let mut sum = [1.0, 1.0];
        add_scaled(&mut sum, 2.0, &[3.0, -1.0, 5.0]);
        subtract_scaled(&mut sum, 4.0, &[1.0]);
        assert_eq!(sum, [3.0, -1.0]);
    }

    #[test]
    fn a_direction_turns_towards_the_next_one() {
        let mut direction = [1.0, 2.0];
        turn(&mut direction, 0.5, &[4.0, 8.0]);
        assert_eq!(direction, [4.5, 9.0]);
    }

    #[test]
    fn nodes_have_consecutive_elements() {
        assert_eq!(gather(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 0], 2), [4.0, 5.0, 0.0, 1.0]);
    }

    #[test]
    fn elements_are_combined_one_by_one() {
        let (one, other) = ([6.0, 8.0], [2.0, 4.0]);
        assert_eq!(difference(&one, &other), [4.0, 4.0]);
        assert_eq!(products(&one, &other), [12.0, 32.0]);
        assert_eq!((divided(&one, 2.0), reciprocals(&other)), (vec![3.0, 4.0], vec![0.5, 0.25]));
    }
}
