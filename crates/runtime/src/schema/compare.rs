//! Comparison of two structures.

use super::shape::Shape;
use super::text::text;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// Approximate maximum length in bytes of the text for each side of a difference.
const SIDE_BYTES_MAX: usize = 400;

/// The first place where two structures differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The place, as fields, variants and elements from the root; empty at the root itself.
    pub path: String,
    /// The structure at that place in the first.
    pub here: String,
    /// The structure at that place in the second.
    pub there: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, here, there } = self;
        match path.is_empty() {
            true => write!(f, "`{here}` here, `{there}` there"),
            false => write!(f, "`{path}` is `{here}` here, `{there}` there"),
        }
    }
}

/// Returns the difference that is closest to the root.
pub(super) fn difference(here: &[Shape], there: &[Shape]) -> Option<Difference> {
    let (mut met, mut ahead) = (BTreeSet::new(), VecDeque::from([(0, 0, String::new())]));
    while let Some((one, other, path)) = ahead.pop_front() {
        if !met.insert((one, other)) {
            continue;
        }
        let (a, b) = (&here[one as usize], &there[other as usize]);
        if a.label() != b.label() {
            let (here, there) =
                (text(here, one, SIDE_BYTES_MAX), text(there, other, SIDE_BYTES_MAX));
            return Some(Difference { path, here, there });
        }
        for (place, pair) in a.parts().into_iter().zip(b.parts()).enumerate() {
            ahead.push_back((pair.0, pair.1, format!("{path}{}", step(a, place))));
        }
    }
    None
}

/// Returns the path step from a shape to one of its parts.
fn step(shape: &Shape, place: usize) -> String {
    match shape {
        Shape::Seq(_) => "[]".to_owned(),
        Shape::Map(..) if place == 0 => ".keys".to_owned(),
        Shape::Map(..) => ".values".to_owned(),
        Shape::Tuple(runs) => {
            let before = runs[..place].iter().map(|(_, count)| u64::from(*count)).sum::<u64>();
            format!(".{before}")
        }
        Shape::Struct { fields, .. } => format!(".{}", fields[place].0),
        Shape::Enum { variants, .. } => format!("::{}", variants[place].0),
        Shape::Option(_) | Shape::Scalar(_) | Shape::Block(_) | Shape::Opaque(_) => String::new(),
    }
}
