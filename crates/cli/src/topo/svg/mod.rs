//! A picture of a topology: a dendrogram and, in its order, a heat map of round trips.
//!
//! It is plain SVG without scripts, styles or fonts of its own. From left to right: the dendrogram
//! over a logarithmic axis, the heat map, the names of its rows, the scale of its colours. Where the rows
//! are too low for names, the coarsest groups are named instead. Parts:
//!
//! - `items`: what the rows are, and their order.
//! - `scale`: logarithmic axes, their ticks, and colours.
//! - `dendrogram`, `heat`: the two halves.
//! - `element`: texts and lines.

mod dendrogram;
mod element;
mod heat;
mod items;
mod scale;

use super::text::count;
use super::topology::Topology;
use element::{Text, width_of};
use items::Items;
use std::fmt::Write;

/// The side of the heat map, unless its cells would be too small or too large.
const HEAT_SIDE: f64 = 640.0;
/// The sides of a cell: smaller ones cannot be seen, larger ones show no more.
const CELL_SIDES: (f64, f64) = (2.5, 46.0);
/// Rows at least so high have a name each.
const NAMED_ROW: f64 = 8.0;
/// The largest and the least size of names.
const NAME_SIZES: (f64, f64) = (11.0, 7.0);
const DENDROGRAM_WIDTH: f64 = 300.0;
const LEFT: f64 = 32.0;
const TOP: f64 = 78.0;
/// The least height of what is drawn, so that the scale of colours can be read.
const HEIGHT_MIN: f64 = 180.0;
/// Below the drawing: ticks and the title of the axis.
const AXIS_HEIGHT: f64 = 46.0;

/// Where the parts are.
struct Layout {
    cell: f64,
    /// The heat map's left edge and its side.
    heat_x: f64,
    side: f64,
    /// The size of names; none where rows are too low.
    name_size: Option<f64>,
    /// What the names of rows, or of groups, take.
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

    /// The middle of a row.
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

/// The picture.
pub(crate) fn render(topology: &Topology) -> String {
    let items = Items::new(topology);
    let layout = Layout::new(&items);
    let (heading, subtitle) = titles(topology, &items);
    let widest = LEFT + width_of(&heading, 17.0).max(width_of(&subtitle, 12.0)) + LEFT;
    let width = (layout.scale_x() + 92.0).max(widest);
    let below = AXIS_HEIGHT.max(heat::below(&items, &layout));
    let height = layout.bottom().max(TOP + HEIGHT_MIN) + below + 16.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    Text::at(LEFT, 32.0).size(17.0).bold().write(&heading, &mut svg);
    Text::at(LEFT, 52.0).size(12.0).colour("#555").write(&subtitle, &mut svg);
    dendrogram::draw(topology, &items, &layout, &mut svg);
    heat::draw(topology, &items, &layout, &mut svg);
    svg += "</svg>\n";
    svg
}

fn titles(topology: &Topology, items: &Items) -> (String, String) {
    let (hierarchy, source) = (&topology.hierarchy, topology.source.title());
    let (nodes, levels) =
        (count(hierarchy.nodes().len(), "node"), count(hierarchy.depth(), "level"));
    let mut subtitle = source;
    if items.are_groups() {
        // To a formatted string nothing can fail.
        let _ = write!(subtitle, "; a row is a group of nodes");
        if items.left_out() > 0 {
            let _ = write!(subtitle, ", {} smaller ones are left out", items.left_out());
        }
    }
    (format!("{nodes} in {levels}"), subtitle)
}
