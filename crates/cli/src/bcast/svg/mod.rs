//! A picture of one strategy's trees: for each tree, the same map of the grid.
//!
//! Sites are boxes around an empty middle, which the links between sites cross. Each box contains
//! the site's clusters and nodes. A node's colour shows when its part of the message is complete.
//! These modules write SVG themselves, because plotting libraries have charts but no maps:
//!
//! - `map`: positions of sites, clusters and nodes.
//! - `drawing`: one tree over the map.
//! - `shades`: times as colours.
//! - `legend`: explains colours and lines.

mod drawing;
mod legend;
mod map;
mod shades;

use super::inputs::Inputs;
use super::prediction::{Prediction, Predictions, TreeView};
use super::text::{over_bound, seconds, segments, sharing};
use crate::quantity::{bytes, count, digits};
use crate::svg::{Heading, Text, end};
use drawing::Drawing;
use legend::Legend;
use map::Map;
use shades::Shades;

const MARGIN: f64 = 32.0;
/// Top of the maps, below the heading.
const TOP: f64 = 104.0;
/// Space between maps.
const GAP: f64 = 28.0;
/// Space above a map, for its title.
const CAPTION: f64 = 24.0;

/// Renders the picture.
pub(super) fn render(inputs: &Inputs, size: &Predictions, prediction: &Prediction) -> String {
    let heading = heading(inputs, size, prediction);
    let map = Map::new(inputs);
    let trees = prediction.trees.len();
    let columns = match trees {
        0 | 1 => 1,
        2..=4 => 2,
        _ => 3,
    };
    let rows = trees.div_ceil(columns) as f64;
    let legend = Legend { size, prediction, map: &map };
    let shown = columns.min(trees.max(1)) as f64;
    let width = shown * map.width + (shown - 1.0) * GAP;
    let width = 2.0 * MARGIN + width.max(heading.width()).max(legend::WIDTH);
    let maps_end = TOP + rows * (CAPTION + map.height) + (rows - 1.0).max(0.0) * GAP;
    let mut svg = heading.begin([width, maps_end + legend::HEIGHT], MARGIN);
    let shades = Shades { end_s: prediction.time_s };
    for (number, tree) in prediction.trees.iter().enumerate() {
        let (column, row) = ((number % columns) as f64, (number / columns) as f64);
        let x = MARGIN + column * (map.width + GAP);
        let y = TOP + row * (CAPTION + map.height + GAP);
        let caption = caption(prediction, number, tree);
        Text::at(x, y + 12.0).size(12.0).bold().write(&caption, &mut svg);
        svg += &format!("<g transform=\"translate({x:.1} {:.1})\">\n", y + CAPTION);
        Drawing { inputs, map: &map, tree, shades }.draw(&mut svg);
        svg += "</g>\n";
    }
    legend.draw([MARGIN, maps_end + 30.0], shades, &mut svg);
    end(&mut svg);
    svg
}

fn heading(inputs: &Inputs, size: &Predictions, prediction: &Prediction) -> Heading {
    let ratio = over_bound(prediction, size.bound_s).map_or_else(
        || "there is no lower bound".to_owned(),
        |ratio| format!("{} times the lower bound of {}", digits(ratio), seconds(size.bound_s)),
    );
    let cut = match prediction.segments {
        1 => "the message travels whole".to_owned(),
        _ => format!("segments: {}", segments(prediction)),
    };
    let crossings = digits(prediction.crossings());
    Heading {
        title: format!(
            "{}: {} from {} to {}",
            prediction.strategy,
            bytes(size.bytes),
            inputs.name(inputs.root.0),
            count(inputs.nodes() - 1, "node")
        ),
        subtitles: vec![
            format!("predicted {}, {ratio}", seconds(prediction.time_s)),
            format!(
                "{}; {cut}; the whole message crosses between sites {crossings} times",
                count(prediction.trees.len(), "tree")
            ),
            format!("as {} describes the grid; {}", inputs.source, sharing(inputs.sharing)),
        ],
    }
}

fn caption(prediction: &Prediction, number: usize, tree: &TreeView) -> String {
    let complete_s = tree.edges.iter().map(|edge| edge.span_s.1).fold(0.0, f64::max);
    let complete = seconds(complete_s);
    match prediction.trees.len() {
        1 => format!("all of the message, complete after {complete}"),
        _ => {
            let percent = tree.share * 100.0;
            let number = number + 1;
            format!("tree {number}: {percent:.1} % of the message, complete after {complete}")
        }
    }
}
