//! Canonical form of all descriptions of one structure.
//!
//! Two programs may describe one structure by different lists: one has two equal types where the
//! other has one, or unrolls a recursive type. Shapes that cannot be distinguished by following
//! references are merged, like states of an automaton (E. F. Moore, Gedanken-Experiments on
//! Sequential Machines, 1956), and the remaining ones are numbered in the order of traversal.

use super::shape::{Shape, ShapeId};
use std::collections::BTreeMap;

/// Returns the smallest list that describes the same structure as `shapes` from `root` on. Its
/// first element is the root.
pub(super) fn canonical(shapes: &[Shape], root: ShapeId) -> Vec<Shape> {
    let mut shapes = shapes.to_vec();
    loop {
        let class = classes(&shapes);
        let merged: Vec<Shape> =
            shapes.iter().map(|shape| shape.renumbered(|part| class[part as usize])).collect();
        // Runs of a tuple join when their shapes do, which may make the tuple equal to another.
        let is_stable = merged == shapes;
        shapes = merged;
        if is_stable {
            return numbered(&shapes, class[root as usize]);
        }
    }
}

/// Returns, for each shape, the first shape that cannot be distinguished from it.
fn classes(shapes: &[Shape]) -> Vec<ShapeId> {
    let labels: Vec<String> = shapes.iter().map(Shape::label).collect();
    let mut class = firsts(&labels);
    loop {
        let signatures: Vec<(ShapeId, Vec<ShapeId>)> = shapes
            .iter()
            .zip(&class)
            .map(|(shape, own)| {
                (*own, shape.parts().iter().map(|part| class[*part as usize]).collect())
            })
            .collect();
        let finer = firsts(&signatures);
        if finer == class {
            return class;
        }
        class = finer;
    }
}

/// Returns, for each key, the index of the first equal key.
fn firsts<K: Ord>(keys: &[K]) -> Vec<ShapeId> {
    let mut first = BTreeMap::new();
    (0..).zip(keys).map(|(place, key)| *first.entry(key).or_insert(place)).collect()
}

/// Returns the reachable shapes in the order of traversal.
fn numbered(shapes: &[Shape], root: ShapeId) -> Vec<Shape> {
    let (mut numbers, mut order, mut ahead) = (BTreeMap::new(), Vec::new(), vec![root]);
    while let Some(shape) = ahead.pop() {
        if numbers.contains_key(&shape) {
            continue;
        }
        numbers.insert(shape, order.len() as ShapeId);
        order.push(shape);
        ahead.extend(shapes[shape as usize].parts().into_iter().rev());
    }
    order.iter().map(|shape| shapes[*shape as usize].renumbered(|part| numbers[&part])).collect()
}
