//! One form for all descriptions of the same structure.
//!
//! Two programs may describe one structure by different lists: one has two types that look alike
//! where the other has one, or unrolls a recursive type. Shapes that cannot be told apart by
//! following references become one, as states of an automaton do (E. F. Moore, Gedanken-Experiments
//! on Sequential Machines, 1956), and what is left is numbered in the order in which it is met.

use super::shape::{Shape, ShapeId};
use std::collections::BTreeMap;

/// The smallest list that describes the same structure as `shapes` from `root` on; its first is the
/// root.
pub(super) fn canonical(shapes: &[Shape], root: ShapeId) -> Vec<Shape> {
    let mut shapes = shapes.to_vec();
    loop {
        let class = classes(&shapes);
        let merged: Vec<Shape> =
            shapes.iter().map(|shape| shape.renumbered(|part| class[part as usize])).collect();
        // Runs of a tuple join when their shapes do, which may make it equal to another.
        let is_stable = merged == shapes;
        shapes = merged;
        if is_stable {
            return numbered(&shapes, class[root as usize]);
        }
    }
}

/// For each shape the first that cannot be told apart from it.
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

/// For each key the place of the first that is equal.
fn firsts<K: Ord>(keys: &[K]) -> Vec<ShapeId> {
    let mut first = BTreeMap::new();
    (0..).zip(keys).map(|(place, key)| *first.entry(key).or_insert(place)).collect()
}

/// The shapes that can be reached, in the order in which they are met.
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
