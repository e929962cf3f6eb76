//! The heat map of round trips, and the scale of its colours.

use super::items::{Item, Items};
use super::{HEIGHT_MIN, Layout, TOP};
use crate::quantity::digits;
use crate::svg::{Anchor, LogScale, STEPS, Text, colour, is_dark, line, width_of};
use crate::text::put;
use crate::topo::topology::Topology;

const UNKNOWN: &str = "#dcdcdc";
/// Smallest width of a cell that shows its number.
const NUMBERED_CELL: f64 = 30.0;
const BLOCK_NAME_SIZE: f64 = 11.0;
const SCALE_WIDTH: f64 = 16.0;
/// Largest height of the colour scale; colours of a longer scale would be hard to compare.
const SCALE_HEIGHT_MAX: f64 = 420.0;

/// Returns the height of the names of columns and of the title, below the map.
pub(super) fn below(items: &Items, layout: &Layout) -> f64 {
    let names = match layout.name_size {
        Some(size) => items.names().map(|name| width_of(name, size)).fold(0.0, f64::max),
        None => 22.0,
    };
    names + 34.0
}

/// Draws the map, the names of its rows and columns, and the scale.
pub(super) fn draw(topology: &Topology, items: &Items, layout: &Layout, svg: &mut String) {
    let rows = 0..items.len();
    let rtts: Vec<Vec<Option<f64>>> = rows
        .clone()
        .map(|from| rows.clone().map(|to| items.rtt(topology, from, to)).collect())
        .collect();
    let scale = LogScale::over(rtts.iter().flatten().flatten().copied());
    cells(items, layout, &rtts, &scale, svg);
    if layout.cell >= NUMBERED_CELL {
        numbers(layout, &rtts, &scale, svg);
    }
    borders(items, layout, svg);
    match layout.name_size {
        Some(size) => names(items, layout, size, svg),
        None => block_names(items, layout, svg),
    }
    let what = if items.are_groups() { "group" } else { "node" };
    let middle = layout.heat_x + layout.side / 2.0;
    let title_y = layout.bottom() + below(items, layout) - 12.0;
    Text::at(middle, title_y).anchor(Anchor::Middle).write(&format!("to {what}"), svg);
    let (x, y) = (layout.names_x() + layout.names_width + 16.0, TOP + layout.side / 2.0);
    Text::at(x, y).anchor(Anchor::Middle).turned(90.0).write(&format!("from {what}"), svg);
    let has_unknown = rtts
        .iter()
        .enumerate()
        .any(|(from, row)| row.iter().enumerate().any(|(to, rtt)| rtt.is_none() && from != to));
    legend(layout, &scale, has_unknown, svg);
}

/// Draws one path for each colour, of runs of equal cells.
fn cells(
    items: &Items,
    layout: &Layout,
    rtts: &[Vec<Option<f64>>],
    scale: &LogScale,
    svg: &mut String,
) {
    let mut paths = vec![String::new(); STEPS + 1];
    for (from, row) in rtts.iter().enumerate() {
        let is_itself = |to: usize| to == from && matches!(items.item(from), Item::Node(_));
        let step = |to: usize| match row[to] {
            _ if is_itself(to) => None,
            Some(rtt) => Some(scale.step(rtt)),
            None => Some(STEPS),
        };
        let mut to = 0;
        while to < row.len() {
            let (first, kind) = (to, step(to));
            while to < row.len() && step(to) == kind {
                to += 1;
            }
            if let Some(kind) = kind {
                let run = to - first;
                put(&mut paths[kind], format_args!("M{first} {from}h{run}v1h-{run}z"));
            }
        }
    }
    put(
        svg,
        format_args!(
            "<g transform=\"translate({:.1} {TOP:.1}) scale({:.4})\" shape-rendering=\"crispEdges\">\n",
            layout.heat_x, layout.cell
        ),
    );
    for (kind, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let fill = if kind == STEPS { UNKNOWN.to_owned() } else { colour(kind) };
        put(svg, format_args!("<path fill=\"{fill}\" d=\"{path}\"/>\n"));
    }
    *svg += "</g>\n";
}

fn numbers(layout: &Layout, rtts: &[Vec<Option<f64>>], scale: &LogScale, svg: &mut String) {
    for (from, row) in rtts.iter().enumerate() {
        for (to, rtt) in row.iter().enumerate() {
            let Some(rtt) = *rtt else { continue };
            let x = layout.heat_x + (to as f64 + 0.5) * layout.cell;
            let colour = if is_dark(scale.step(rtt)) { "#fff" } else { "#222" };
            Text::at(x, layout.row(from) + 3.5)
                .size(10.0)
                .anchor(Anchor::Middle)
                .colour(colour)
                .write(&digits(rtt), svg);
        }
    }
}

/// Draws white lines between the coarsest groups, and a frame.
fn borders(items: &Items, layout: &Layout, svg: &mut String) {
    let (left, right) = (layout.heat_x, layout.heat_x + layout.side);
    let white = "stroke=\"#fff\" stroke-width=\"1.6\"";
    // If each row is a separate group, there is nothing to separate.
    if items.blocks().len() < items.len() {
        for block in items.blocks().iter().skip(1) {
            let at = block.first as f64 * layout.cell;
            line([left, TOP + at, right, TOP + at], white, svg);
            line([left + at, TOP, left + at, layout.bottom()], white, svg);
        }
    }
    let side = layout.side;
    put(
        svg,
        format_args!(
            "<rect x=\"{left:.1}\" y=\"{TOP:.1}\" width=\"{side:.1}\" height=\"{side:.1}\" \
             fill=\"none\" stroke=\"#999\"/>\n"
        ),
    );
}

fn names(items: &Items, layout: &Layout, size: f64, svg: &mut String) {
    for (row, name) in items.names().enumerate() {
        Text::at(layout.names_x(), layout.row(row) + size * 0.35).size(size).write(name, svg);
        let x = layout.heat_x + (row as f64 + 0.5) * layout.cell + size * 0.35;
        Text::at(x, layout.bottom() + 6.0)
            .size(size)
            .anchor(Anchor::End)
            .turned(-90.0)
            .write(name, svg);
    }
}

/// Draws a line beside the rows and columns of each coarsest group, with its name where there is
/// room.
fn block_names(items: &Items, layout: &Layout, svg: &mut String) {
    let grey = "stroke=\"#777\" stroke-width=\"2\"";
    let (mut free_y, mut free_x) = (TOP, layout.heat_x);
    for block in items.blocks() {
        let from = block.first as f64 * layout.cell + 1.0;
        let to = block.end as f64 * layout.cell - 1.0;
        let middle = (from + to) / 2.0;
        let x = layout.names_x() - 3.0;
        line([x, TOP + from, x, TOP + to], grey, svg);
        let y = layout.bottom() + 5.0;
        line([layout.heat_x + from, y, layout.heat_x + to, y], grey, svg);
        if TOP + middle - BLOCK_NAME_SIZE / 2.0 >= free_y {
            Text::at(x + 7.0, TOP + middle + 4.0).write(&block.name, svg);
            free_y = TOP + middle + BLOCK_NAME_SIZE / 2.0;
        }
        let half = width_of(&block.name, BLOCK_NAME_SIZE) / 2.0;
        if layout.heat_x + middle - half >= free_x {
            let at = layout.heat_x + middle;
            Text::at(at, y + 15.0).anchor(Anchor::Middle).write(&block.name, svg);
            free_x = at + half + 6.0;
        }
    }
}

fn legend(layout: &Layout, scale: &LogScale, has_unknown: bool, svg: &mut String) {
    let x = layout.scale_x();
    let height = layout.side.clamp(HEIGHT_MIN - 30.0, SCALE_HEIGHT_MAX);
    let step_height = height / STEPS as f64;
    // Without crisp edges, light lines would show between the steps.
    *svg += "<g shape-rendering=\"crispEdges\">\n";
    for step in 0..STEPS {
        let y = TOP + height - (step + 1) as f64 * step_height;
        put(
            svg,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.2}\" width=\"{SCALE_WIDTH}\" height=\"{:.2}\" \
                 fill=\"{}\"/>\n",
                step_height + 0.3,
                colour(step)
            ),
        );
    }
    *svg += "</g>\n";
    let right = x + SCALE_WIDTH;
    for tick in scale.ticks() {
        let y = TOP + (1.0 - tick.at) * height;
        match tick.label {
            Some(label) => {
                line([right, y, right + 5.0, y], "stroke=\"#222\"", svg);
                Text::at(right + 8.0, y + 3.5).size(10.0).write(&label, svg);
            }
            None => line([right, y, right + 3.0, y], "stroke=\"#888\"", svg),
        }
    }
    let (title_x, middle) = (right + 44.0, TOP + height / 2.0);
    Text::at(title_x, middle).anchor(Anchor::Middle).turned(90.0).write("round trip, ms", svg);
    if has_unknown {
        let y = TOP + height + 12.0;
        put(
            svg,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{SCALE_WIDTH}\" height=\"12\" \
                 fill=\"{UNKNOWN}\"/>\n"
            ),
        );
        Text::at(right + 8.0, y + 10.0).size(10.0).write("unknown", svg);
    }
}
