//! Text of structures in Rust syntax, for messages.

use super::shape::{Scalar, Shape, ShapeId};
use std::collections::BTreeSet;
use std::fmt::{self, Write};

/// Maximum nesting of shown parts: a message has no use for deeper ones.
const DEPTH_MAX: usize = 32;
/// Marks omitted parts.
const MORE: char = '…';

/// Returns the text of a shape in about `bytes_max` bytes at most. Named types are written out
/// once.
pub(super) fn text(shapes: &[Shape], id: ShapeId, bytes_max: usize) -> String {
    let mut writer = Writer { shapes, told: BTreeSet::new(), text: String::new(), bytes_max };
    // Writing to a string does not fail.
    let _ = writer.shape(id, 0);
    writer.text
}

struct Writer<'a> {
    shapes: &'a [Shape],
    told: BTreeSet<ShapeId>,
    text: String,
    bytes_max: usize,
}

impl Writer<'_> {
    fn shape(&mut self, id: ShapeId, depth: usize) -> fmt::Result {
        if self.text.len() >= self.bytes_max || depth > DEPTH_MAX {
            if !self.text.ends_with(MORE) {
                self.text.push(MORE);
            }
            return Ok(());
        }
        let shapes = self.shapes;
        let depth = depth + 1;
        match &shapes[id as usize] {
            Shape::Scalar(scalar) => self.text.push_str(scalar.name()),
            Shape::Block(name) | Shape::Opaque(name) => self.text.push_str(name),
            Shape::Option(part) => self.around("Option<", &[*part], ">", depth)?,
            Shape::Seq(part) => self.around("[", &[*part], "]", depth)?,
            Shape::Map(key, value) => self.around("Map<", &[*key, *value], ">", depth)?,
            Shape::Tuple(runs) => self.tuple(runs, depth)?,
            Shape::Struct { name, fields: parts } | Shape::Enum { name, variants: parts } => {
                self.text.push_str(name);
                if name.is_empty() || self.told.insert(id) {
                    self.named(parts, depth)?;
                }
            }
        }
        Ok(())
    }

    fn around(&mut self, open: &str, parts: &[ShapeId], close: &str, depth: usize) -> fmt::Result {
        self.text.push_str(open);
        for (place, part) in parts.iter().enumerate() {
            self.text.push_str(if place == 0 { "" } else { ", " });
            self.shape(*part, depth)?;
        }
        self.text.push_str(close);
        Ok(())
    }

    fn tuple(&mut self, runs: &[(ShapeId, u32)], depth: usize) -> fmt::Result {
        self.text.push('(');
        for (place, (part, count)) in runs.iter().enumerate() {
            if self.text.len() >= self.bytes_max {
                break;
            }
            self.text.push_str(if place == 0 { "" } else { ", " });
            self.shape(*part, depth)?;
            if *count > 1 {
                write!(self.text, "; {count}")?;
            }
        }
        self.text.push(')');
        Ok(())
    }

    fn named(&mut self, parts: &[(String, ShapeId)], depth: usize) -> fmt::Result {
        self.text.push_str(" {");
        for (place, (name, part)) in parts.iter().enumerate() {
            if self.text.len() >= self.bytes_max {
                break;
            }
            self.text.push_str(if place == 0 { " " } else { ", " });
            self.text.push_str(name);
            // A variant without content is shown by its name alone.
            if !matches!(&self.shapes[*part as usize], Shape::Scalar(Scalar::Unit)) {
                self.text.push_str(": ");
                self.shape(*part, depth)?;
            }
        }
        self.text.push_str(" }");
        Ok(())
    }
}
