//! Draws actors at their places before and after a rebalance, side by side: a disc for each place,
//! dots for actors, lines for bytes.

use super::chart::{COLOURS, WIDTH, begin};
use super::html::{escaped, time};
use crate::quantity::{bytes, count, percent};
use crate::report::analysis::graph::{Dot, RebalanceGraph};
use crate::text::{cut, put};
use std::f64::consts::{FRAC_PI_2, PI};

/// Height of the picture.
const HEIGHT: f64 = 396.0;
/// Distance from the top to the middle of the ring of discs.
const MIDDLE: f64 = 212.0;
/// Maximum distance of a disc's edge from the middle.
const REACH: f64 = 170.0;
/// Distance between discs, if there is room for it.
const GAP: f64 = 60.0;
/// Maximum width of a line.
const LINE_MAX: f64 = 9.0;
/// Minimum radius of a dot.
const DOT_MIN: f64 = 1.2;
/// Maximum radius of a dot.
const DOT_MAX: f64 = 12.0;
/// Maximum number of letters of the name of a place.
const LETTERS_MAX: usize = 18;
/// Maximum number of places for which lines have a label.
const LABELLED_MAX: usize = 3;
/// The golden angle: points in a spiral with this angle between them cover a disc evenly (Vogel
/// 1979).
const GOLDEN_ANGLE: f64 = 2.399_963_229_728_653;

/// Draws the actors of a graph.
pub(crate) fn placement(graph: &RebalanceGraph) -> String {
    let mut svg = begin(HEIGHT, "actors and bytes before and after a rebalance");
    for side in [0, 1] {
        let middle = [WIDTH / 4.0 + side as f64 * WIDTH / 2.0, MIDDLE];
        let discs = discs(graph.regions.len(), middle);
        put(
            &mut svg,
            format_args!(
                "<text class=\"t unit\" x=\"{:.1}\" y=\"14\" text-anchor=\"middle\">{}</text>\n",
                middle[0],
                ["before", "after"][side]
            ),
        );
        lines(&mut svg, graph, &discs, side);
        for (number, disc) in discs.iter().enumerate() {
            region(&mut svg, graph, number, disc, side);
        }
    }
    svg += "</svg>\n";
    svg
}

/// The disc of a place.
struct Disc {
    at: [f64; 2],
    radius: f64,
}

/// Returns equal discs on a ring: two are side by side, more begin at the top.
fn discs(count: usize, middle: [f64; 2]) -> Vec<Disc> {
    if count == 1 {
        return vec![Disc { at: middle, radius: REACH - 20.0 }];
    }
    // Neighbours on a ring of radius R have the distance 2 R sin(π / count), and R + radius is the
    // reach.
    let sine = (PI / count.max(1) as f64).sin();
    let gap = (GAP / 2.0).min(REACH * sine / 3.0);
    let radius = (REACH * sine - gap) / (1.0 + sine);
    let ring = REACH - radius;
    let begin = if count == 2 { PI } else { -FRAC_PI_2 };
    let disc = |number: usize| {
        let angle = begin + 2.0 * PI * number as f64 / count as f64;
        Disc { at: [middle[0] + ring * angle.cos(), middle[1] + ring * angle.sin()], radius }
    };
    (0..count).map(disc).collect()
}

/// Draws a line for each pair of places between which bytes went.
fn lines(svg: &mut String, graph: &RebalanceGraph, discs: &[Disc], side: usize) {
    // The width of a line shows the sum of both directions; its title has each.
    let bytes_of = |from: usize, to: usize, side: usize| {
        let found = graph.links.iter().find(|link| link.from == from && link.to == to);
        found.map_or(0.0, |link| link.bytes[side])
    };
    let count = discs.len();
    let pairs = || (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b)));
    let both = |(a, b): (usize, usize), side| bytes_of(a, b, side) + bytes_of(b, a, side);
    let most = pairs().flat_map(|pair| [both(pair, 0), both(pair, 1)]).fold(0.0, f64::max);
    for (a, b) in pairs() {
        let sum = both((a, b), side);
        if sum <= 0.0 {
            continue;
        }
        let ([from_x, from_y], [to_x, to_y]) = (discs[a].at, discs[b].at);
        let names = [a, b].map(|number| graph.regions[number].name.as_str());
        let title = format!(
            "{0} → {1}: {2}; {1} → {0}: {3}",
            names[0],
            names[1],
            bytes(bytes_of(a, b, side) as u64),
            bytes(bytes_of(b, a, side) as u64)
        );
        put(
            svg,
            format_args!(
                "<path class=\"edge\" style=\"stroke-width:{:.1}\" \
                 d=\"M{from_x:.1} {from_y:.1}L{to_x:.1} {to_y:.1}\"><title>{}</title></path>\n",
                1.0 + (LINE_MAX - 1.0) * sum / most,
                escaped(&title)
            ),
        );
        if discs.len() <= LABELLED_MAX {
            put(
                svg,
                format_args!(
                    "<text class=\"t\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                    f64::midpoint(from_x, to_x),
                    f64::midpoint(from_y, to_y) - LINE_MAX,
                    bytes(sum as u64)
                ),
            );
        }
    }
}

/// Draws a place with its actors.
fn region(svg: &mut String, graph: &RebalanceGraph, number: usize, disc: &Disc, side: usize) {
    let region = &graph.regions[number];
    let Disc { at: [x, y], radius } = disc;
    let busy = region.busy_share[side]
        .map_or_else(String::new, |busy| format!(", {} in handlers", percent(busy)));
    let title = format!("{}: {}{busy}", region.name, count(region.actors[side], "actor"));
    put(
        svg,
        format_args!(
            "<circle class=\"place\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\">\
             <title>{}</title></circle>\
             <text class=\"t\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            escaped(&title),
            y - radius - 4.0,
            escaped(&cut(&region.name, LETTERS_MAX, '…'))
        ),
    );
    let place = |dot: &&Dot| if side == 0 { dot.from } else { dot.to };
    let here: Vec<&Dot> = graph.dots.iter().filter(|dot| place(dot) == number).collect();
    let most = graph.dots.iter().map(|dot| dot.load_ns[side]).max().unwrap_or(0).max(1) as f64;
    // Dots of equal area would fill two thirds of the disc.
    let largest = (radius * (0.66 / here.len().max(1) as f64).sqrt()).min(DOT_MAX);
    for (place, dot) in here.iter().enumerate() {
        let from_middle = (radius - largest) * ((place as f64 + 0.5) / here.len() as f64).sqrt();
        let angle = place as f64 * GOLDEN_ANGLE;
        let size = (largest * (dot.load_ns[side] as f64 / most).sqrt()).max(DOT_MIN);
        put(
            svg,
            format_args!(
                "<circle class=\"k{}{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{size:.1}\">\
                 <title>{}</title></circle>\n",
                dot.from % COLOURS,
                if dot.has_moved { " moved" } else { "" },
                x + from_middle * angle.cos(),
                y + from_middle * angle.sin(),
                escaped(&described(graph, dot, side))
            ),
        );
    }
}

fn described(graph: &RebalanceGraph, dot: &Dot, side: usize) -> String {
    let [from, to] = [dot.from, dot.to].map(|number| graph.regions[number].name.as_str());
    let way = match (dot.has_moved, from == to) {
        (false, _) => format!("stays at {from}"),
        (true, true) => format!("moves from PE to PE inside {from}"),
        (true, false) => format!("moves from {from} to {to}"),
    };
    let load = time(dot.load_ns[side]);
    format!("{}, {way}: {load} in handlers", count(dot.actors, "actor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discs_do_not_overlap_and_are_inside_of_their_half() {
        for count in 1..=12 {
            let middle = [WIDTH / 4.0, MIDDLE];
            let discs = discs(count, middle);
            assert_eq!(discs.len(), count);
            for (number, Disc { at: [x, y], radius }) in discs.iter().enumerate() {
                assert!(*radius > 15.0, "{count}: {radius}");
                assert!(x - radius >= 0.0 && x + radius <= WIDTH / 2.0, "{count}: {x}");
                // The name is above.
                assert!(y - radius >= 30.0 && y + radius <= HEIGHT, "{count}: {y}");
                for other in &discs[number + 1..] {
                    let distance = (x - other.at[0]).hypot(y - other.at[1]);
                    assert!(distance > 2.0 * radius + 10.0, "{count}: {distance}");
                }
            }
        }
        assert!(discs(0, [0.0, 0.0]).is_empty());
    }
}
