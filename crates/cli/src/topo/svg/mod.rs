//! A picture of a topology: a dendrogram and, in its order, a heat map of round trips.
//!
//! From left to right: the dendrogram over a logarithmic axis, the heat map, the names of its rows,
//! the scale of its colours. Where the rows are too low for names, the coarsest groups are named
//! instead. Modules:
//!
//! - `items`: the rows and their order.
//! - `dendrogram`, `heat`: the two halves.
//!
//! The modules write SVG themselves, because plotting libraries support neither a dendrogram beside
//! a heat map nor names of groups where there is no room for names of nodes.

mod dendrogram;
mod heat;
mod items;

use super::topology::Topology;
use crate::quantity::count;
use crate::svg::{Heading, end, width_of};
use items::Items;
use std::fmt::Write;

/// Side of the heat map, unless its cells would be too small or too large.
const HEAT_SIDE: f64 = 640.0;
/// Smallest and largest side of a cell: smaller cells cannot be seen, larger ones show no more.
const CELL_SIDES: (f64, f64) = (2.5, 46.0);
/// Smallest height of rows that have a name each.
const NAMED_ROW: f64 = 8.0;
/// Largest and smallest size of names.
const NAME_SIZES: (f64, f64) = (11.0, 7.0);
const DENDROGRAM_WIDTH: f64 = 300.0;
const LEFT: f64 = 32.0;
const TOP: f64 = 78.0;
/// Smallest height of the drawing, so that the scale of colours is legible.
const HEIGHT_MIN: f64 = 180.0;
/// Height below the drawing, for ticks and the title of the axis.
const AXIS_HEIGHT: f64 = 46.0;

/// Positions of the parts.
struct Layout {
    cell: f64,
    /// Left edge of the heat map.
    heat_x: f64,
    /// Side of the heat map.
    side: f64,
    /// Size of names; `None` where rows are too low.
    name_size: Option<f64>,
    /// Width of the names of rows, or of groups.
    names_width: f64,
}

impl Layout {
    fn new(items: &Items) -> Self {
        let rows = items.len().max(1) as f64;
        let cell = (HEAT_SIDE / rows).clamp(CELL_SIDES.0, CELL_SIDES.1);
        let name_size = (cell >= NAMED_ROW).then(|| (cell * 0.9).clamp(NAME_SIZES.1, NAME_SIZES.0));
        let names_width = match name_size {
            Some(size) => items.names().map(|name| width_of(name, size)).fold(0.0, f64::max),
            None => {
                items.blocks().iter().map(|block| width_of(&block.name, 11.0)).fold(0.0, f64::max)
                    + 8.0
            }
        };
        Self { cell, heat_x: LEFT + DENDROGRAM_WIDTH, side: rows * cell, name_size, names_width }
    }

    /// Returns the middle of a row.
    fn row(&self, row: usize) -> f64 {
        TOP + (row as f64 + 0.5) * self.cell
    }

    fn bottom(&self) -> f64 {
        TOP + self.side
    }

    fn names_x(&self) -> f64 {
        self.heat_x + self.side + 8.0
    }

    fn scale_x(&self) -> f64 {
        self.names_x() + self.names_width + 44.0
    }
}

/// Renders the picture.
pub(crate) fn render(topology: &Topology) -> String {
    let items = Items::new(topology);
    let layout = Layout::new(&items);
    let heading = heading(topology, &items);
    let width = (layout.scale_x() + 92.0).max(LEFT + heading.width() + LEFT);
    let below = AXIS_HEIGHT.max(heat::below(&items, &layout));
    let height = layout.bottom().max(TOP + HEIGHT_MIN) + below + 16.0;
    let mut svg = heading.begin([width, height], LEFT);
    dendrogram::draw(topology, &items, &layout, &mut svg);
    heat::draw(topology, &items, &layout, &mut svg);
    end(&mut svg);
    svg
}

fn heading(topology: &Topology, items: &Items) -> Heading {
    let (hierarchy, source) = (&topology.hierarchy, topology.source.title());
    let (nodes, levels) =
        (count(hierarchy.nodes().len(), "node"), count(hierarchy.depth(), "level"));
    let mut subtitle = source;
    if items.are_groups() {
        // Writing to a string cannot fail.
        let _ = write!(subtitle, "; a row is a group of nodes");
        if items.left_out() > 0 {
            let _ = write!(subtitle, ", {} smaller ones are left out", items.left_out());
        }
    }
    Heading { title: format!("{nodes} in {levels}"), subtitles: vec![subtitle] }
}
