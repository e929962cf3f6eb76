//! Draws one tree over the map.

use super::map::{Frame, Map, NAME_SIZE, TITLE_SIZE};
use super::shades::Shades;
use crate::bcast::inputs::Inputs;
use crate::bcast::prediction::TreeView;
use crate::svg::{Anchor, Text};
use crate::text::put;

pub(super) const WIDE_COLOUR: &str = "#c2412d";
pub(super) const NEAR_COLOUR: &str = "#5b7083";
/// Largest number of edges of one node that are numbered; more numbers would be illegible.
const NUMBERED_MAX: usize = 12;
/// Length above which edges are bent around the nodes between their ends, in steps of the map.
const STRAIGHT_STEPS: f64 = 1.2;
/// Bend as a share of the edge's length.
const BEND: f64 = 0.16;
/// Smallest bend, in steps of the map, so that an edge does not touch a node beside it.
const BEND_STEPS_MIN: f64 = 0.75;
/// Largest bend, in pixels.
const BEND_MAX: f64 = 60.0;

/// A tree and where to draw it.
pub(super) struct Drawing<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) map: &'a Map,
    pub(super) tree: &'a TreeView,
    pub(super) shades: Shades,
}

/// A quadratic curve from one node to another.
struct Curve {
    start: [f64; 2],
    control: [f64; 2],
    end: [f64; 2],
}

/// Returns the width in pixels of an edge that carries this share of the message.
pub(super) fn stroke(share: f64, is_wide: bool) -> f64 {
    if is_wide { 0.9 + 1.9 * share.sqrt() } else { 0.7 + 0.9 * share.sqrt() }
}

impl Drawing<'_> {
    pub(super) fn draw(&self, svg: &mut String) {
        for site in &self.map.sites {
            frame(site, "#f3f5f7", "#9aa7b2", TITLE_SIZE + 1.0, svg);
        }
        for cluster in &self.map.clusters {
            frame(cluster, "#fff", "#c9d1d8", TITLE_SIZE - 1.0, svg);
        }
        let is_wide = |from, to| self.inputs.is_wide_area(from, to);
        // Edges between sites lie above the rest.
        for wide in [false, true] {
            for edge in self.tree.edges.iter().filter(|edge| is_wide(edge.from, edge.to) == wide) {
                self.edge(edge.from, edge.to, wide, svg);
            }
        }
        self.nodes(svg);
        for edge in &self.tree.edges {
            let mut siblings = self.tree.from(edge.from);
            let has_room = self.map.names.is_some() || is_wide(edge.from, edge.to);
            if has_room
                && (2..=NUMBERED_MAX).contains(&siblings.len())
                && let Some(place) = siblings.position(|other| other.to == edge.to)
            {
                self.number(edge.from, edge.to, place + 1, svg);
            }
        }
    }

    fn curve(&self, from: u32, to: u32) -> Curve {
        let [start, end] = [from, to].map(|node| self.map.nodes[node as usize]);
        let [dx, dy] = [end[0] - start[0], end[1] - start[1]];
        let length = dx.hypot(dy).max(1.0);
        let is_straight = length <= STRAIGHT_STEPS * self.map.step;
        let least = BEND_STEPS_MIN * self.map.step;
        let bend = if is_straight { 0.0 } else { (BEND * length).clamp(least, BEND_MAX) };
        let control = [
            (start[0] + end[0]) / 2.0 - dy / length * bend,
            (start[1] + end[1]) / 2.0 + dx / length * bend,
        ];
        Curve { start, control, end }
    }

    fn edge(&self, from: u32, to: u32, is_wide: bool, svg: &mut String) {
        let curve = self.curve(from, to);
        let width = stroke(self.tree.share, is_wide);
        let colour = if is_wide { WIDE_COLOUR } else { NEAR_COLOUR };
        let head = 4.0 + 1.2 * width;
        let tip = curve.before_end(self.map.radius() + 1.0);
        let foot = curve.before_end(self.map.radius() + 1.0 + head);
        let side = [(tip[1] - foot[1]) * 0.4, (foot[0] - tip[0]) * 0.4];
        let Curve { start: [x, y], control: [cx, cy], .. } = curve;
        put(
            svg,
            format_args!(
                "<path d=\"M{x:.1} {y:.1}Q{cx:.1} {cy:.1} {:.1} {:.1}\" fill=\"none\" \
                 stroke=\"{colour}\" stroke-width=\"{width:.1}\" stroke-opacity=\"0.85\"/>\
                 <path d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}z\" fill=\"{colour}\"/>\n",
                foot[0],
                foot[1],
                tip[0],
                tip[1],
                foot[0] + side[0],
                foot[1] + side[1],
                foot[0] - side[0],
                foot[1] - side[1]
            ),
        );
    }

    fn nodes(&self, svg: &mut String) {
        let mut complete_s = vec![0.0; self.map.nodes.len()];
        for edge in &self.tree.edges {
            complete_s[edge.to as usize] = edge.span_s.1;
        }
        let radius = self.map.radius();
        for (node, &[x, y]) in self.map.nodes.iter().enumerate() {
            let is_root = node == self.inputs.root.index();
            let fill = if is_root { "#fff".to_owned() } else { self.shades.of(complete_s[node]) };
            let (line, width) = if is_root { ("#111", 2.6) } else { ("#fff", 1.0) };
            put(
                svg,
                format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{fill}\" \
                     stroke=\"{line}\" stroke-width=\"{width}\"/>\n"
                ),
            );
            if let Some(names) = &self.map.names {
                Text::at(x, y + radius + NAME_SIZE)
                    .size(NAME_SIZE)
                    .anchor(Anchor::Middle)
                    .colour("#444")
                    .write(&names[node], svg);
            }
        }
    }

    /// Draws an edge's position among the edges of its sender, counted from 1.
    fn number(&self, from: u32, to: u32, number: usize, svg: &mut String) {
        let is_wide = self.inputs.is_wide_area(from, to);
        let [x, y] = self.curve(from, to).at(if is_wide { 0.4 } else { 0.45 });
        let colour = if is_wide { WIDE_COLOUR } else { NEAR_COLOUR };
        put(svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5.5\" fill=\"#fff\"/>\n"));
        Text::at(x, y + 3.0)
            .size(8.5)
            .bold()
            .anchor(Anchor::Middle)
            .colour(colour)
            .write(&number.to_string(), svg);
    }
}

impl Curve {
    /// Returns the point at parameter `part` of the curve, `0.0..=1.0`.
    fn at(&self, part: f64) -> [f64; 2] {
        let rest = 1.0 - part;
        let mix = |axis: usize| {
            rest * rest * self.start[axis]
                + 2.0 * rest * part * self.control[axis]
                + part * part * self.end[axis]
        };
        [mix(0), mix(1)]
    }

    /// Returns the point at `distance` from the end on the straight line to the control point, or
    /// the control point if that is nearer.
    fn before_end(&self, distance: f64) -> [f64; 2] {
        let [dx, dy] = [self.end[0] - self.control[0], self.end[1] - self.control[1]];
        let part = distance / dx.hypot(dy).max(distance);
        [self.end[0] - dx * part, self.end[1] - dy * part]
    }
}

fn frame(frame: &Frame, fill: &str, line: &str, title: f64, svg: &mut String) {
    let Frame { name, at: [x, y], size: [width, height] } = frame;
    put(
        svg,
        format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\" \
             fill=\"{fill}\" stroke=\"{line}\"/>\n"
        ),
    );
    Text::at(x + 8.0, y + title + 1.0).size(title).colour("#3b4a57").write(name, svg);
}
