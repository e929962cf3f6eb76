//! A list of 3-vectors with one array per axis, the form in which positions, velocities and forces
//! are computed and sent.

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::numbers::Numbers;

/// 3-vectors as a structure of arrays. The three arrays always have the same length, also after
/// deserialisation. They are serialised as one block of numbers: all x, all y, all z.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Numbers<f64>")]
pub struct Vectors {
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
}

/// A received block cannot be divided into three equal parts; the sender is defective or of another
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a list of 3-vectors has {numbers} numbers; the number must be a multiple of three")]
pub struct Ragged {
    numbers: usize,
}

impl Serialize for Vectors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Numbers([&*self.x, &*self.y, &*self.z].concat()).serialize(serializer)
    }
}

impl TryFrom<Numbers<f64>> for Vectors {
    type Error = Ragged;

    fn try_from(Numbers(numbers): Numbers<f64>) -> Result<Self, Ragged> {
        if !numbers.len().is_multiple_of(3) {
            return Err(Ragged { numbers: numbers.len() });
        }
        let (x, rest) = numbers.split_at(numbers.len() / 3);
        let (y, z) = rest.split_at(x.len());
        Ok(Self { x: x.to_vec(), y: y.to_vec(), z: z.to_vec() })
    }
}

impl Vectors {
    /// Creates `len` null vectors.
    pub fn zeros(len: usize) -> Self {
        Self { x: vec![0.0; len], y: vec![0.0; len], z: vec![0.0; len] }
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.x.len()
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.x.is_empty()
    }

    /// The x components.
    pub fn x(&self) -> &[f64] {
        &self.x
    }

    /// The y components.
    pub fn y(&self) -> &[f64] {
        &self.y
    }

    /// The z components.
    pub fn z(&self) -> &[f64] {
        &self.z
    }

    /// Returns vector `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn at(&self, index: usize) -> [f64; 3] {
        [self.x[index], self.y[index], self.z[index]]
    }

    /// Replaces vector `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn set(&mut self, index: usize, vector: [f64; 3]) {
        [self.x[index], self.y[index], self.z[index]] = vector;
    }

    /// Adds `vector` to vector `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn add_at(&mut self, index: usize, vector: [f64; 3]) {
        self.x[index] += vector[0];
        self.y[index] += vector[1];
        self.z[index] += vector[2];
    }

    /// Appends a vector.
    pub fn push(&mut self, vector: [f64; 3]) {
        self.x.push(vector[0]);
        self.y.push(vector[1]);
        self.z.push(vector[2]);
    }

    /// Removes all vectors, but keeps the memory.
    pub fn clear(&mut self) {
        self.x.clear();
        self.y.clear();
        self.z.clear();
    }

    /// Replaces the content by `len` null vectors, but keeps the memory.
    pub fn reset(&mut self, len: usize) {
        for axis in [&mut self.x, &mut self.y, &mut self.z] {
            axis.clear();
            axis.resize(len, 0.0);
        }
    }

    /// Adds `factor * other`, vector by vector. Surplus vectors of the longer list are ignored.
    pub fn add_scaled(&mut self, factor: f64, other: &Vectors) {
        let axes = [(&mut self.x, &other.x), (&mut self.y, &other.y), (&mut self.z, &other.z)];
        for (to, from) in axes {
            for (to, from) in to.iter_mut().zip(from) {
                *to += factor * from;
            }
        }
    }

    /// Adds `other`, vector by vector. Surplus vectors of the longer list are ignored.
    pub fn add(&mut self, other: &Vectors) {
        let axes = [(&mut self.x, &other.x), (&mut self.y, &other.y), (&mut self.z, &other.z)];
        for (to, from) in axes {
            for (to, from) in to.iter_mut().zip(from) {
                *to += from;
            }
        }
    }

    /// Returns the sum of all vectors, added in order.
    pub fn total(&self) -> [f64; 3] {
        [self.x.iter().sum(), self.y.iter().sum(), self.z.iter().sum()]
    }

    /// Returns the sum of the squared lengths, added vector by vector in order.
    pub fn squared(&self) -> f64 {
        self.iter().map(|[x, y, z]| x * x + y * y + z * z).sum()
    }

    /// Iterates over the vectors in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = [f64; 3]> + '_ {
        (0..self.len()).map(|index| self.at(index))
    }
}

impl FromIterator<[f64; 3]> for Vectors {
    fn from_iter<I: IntoIterator<Item = [f64; 3]>>(vectors: I) -> Self {
        let mut list = Self::default();
        for vector in vectors {
            list.push(vector);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_keep_their_order_and_components() {
        let list: Vectors = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].into_iter().collect();
        assert_eq!(list.iter().collect::<Vec<_>>(), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        assert_eq!(list.y(), [2.0, 5.0]);
    }

    #[test]
    fn totals_and_squares_add_all_vectors() {
        let list: Vectors = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].into_iter().collect();
        assert_eq!(list.total(), [5.0, 7.0, 9.0]);
        assert_eq!(list.squared(), 91.0);
    }

    #[test]
    fn adding_works_vector_by_vector() {
        let mut list = Vectors::zeros(1);
        list.add_scaled(2.0, &[[1.0, 2.0, 3.0]].into_iter().collect());
        list.add(&[[0.5, 0.5, 0.5]].into_iter().collect());
        assert_eq!(list.at(0), [2.5, 4.5, 6.5]);
    }

    #[test]
    fn a_list_is_serialised_as_one_block_without_loss() {
        let list: Vectors = [[1.0, -0.0, 3.0], [4.0, f64::MIN_POSITIVE, 6.0]].into_iter().collect();
        let bytes = postcard::to_stdvec(&list).unwrap();
        let back: Vectors = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(bytes.len(), 1 + 6 * 8);
        assert_eq!(back, list);
        assert!(back.y()[0].is_sign_negative());
    }

    #[test]
    fn a_block_whose_length_is_not_divisible_by_three_is_refused() {
        let ragged = Vectors::try_from(Numbers(vec![0.0; 5]));
        assert_eq!(
            ragged.unwrap_err().to_string(),
            "a list of 3-vectors has 5 numbers; the number must be a multiple of three"
        );
    }
}
