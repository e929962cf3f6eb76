//! The legend, which explains colours and lines.

use super::drawing::{NEAR_COLOUR, WIDE_COLOUR, stroke};
use super::map::Map;
use super::shades::Shades;
use crate::bcast::prediction::{Prediction, Predictions};
use crate::bcast::text::seconds;
use crate::svg::{Anchor, STEPS, Text, line, width_of};
use crate::text::put;

/// Width of the legend in pixels; the next constant is its height.
pub(super) const WIDTH: f64 = 600.0;
pub(super) const HEIGHT: f64 = 104.0;

const BAR: [f64; 2] = [300.0, 12.0];
const SIZE: f64 = 10.5;

/// The legend of a picture.
pub(super) struct Legend<'a> {
    pub(super) size: &'a Predictions,
    pub(super) prediction: &'a Prediction,
    pub(super) map: &'a Map,
}

impl Legend<'_> {
    pub(super) fn draw(&self, [x, y]: [f64; 2], shades: Shades, svg: &mut String) {
        self.bar([x, y], shades, svg);
        self.lines([x + BAR[0] + 60.0, y - 4.0], svg);
    }

    /// Draws the scale of times, with the bound.
    fn bar(&self, [x, y]: [f64; 2], shades: Shades, svg: &mut String) {
        let [length, height] = BAR;
        let step = length / STEPS as f64;
        for number in 0..STEPS {
            let fill = shades.of(shades.end_s * (number as f64 + 0.5) / STEPS as f64);
            let left = x + number as f64 * step;
            // Each rectangle is slightly wider than a step, so that no gap shows between two steps.
            put(
                svg,
                format_args!(
                    "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height}\" \
                     fill=\"{fill}\"/>\n",
                    step + 0.4
                ),
            );
        }
        let below = y + height + 14.0;
        Text::at(x, below).size(SIZE).write("0", svg);
        let end = format!("predicted {}", seconds(shades.end_s));
        Text::at(x + length, below).size(SIZE).anchor(Anchor::End).write(&end, svg);
        let bound_s = self.size.bound_s;
        let at = x + length * (bound_s / shades.end_s).clamp(0.0, 1.0);
        line([at, y - 5.0, at, y + height + 5.0], "stroke=\"#111\" stroke-width=\"1.6\"", svg);
        let bound = format!("lower bound {}", seconds(bound_s));
        let half = width_of(&bound, SIZE) / 2.0;
        Text::at(at.clamp(x + half, x + length - half), y - 9.0)
            .size(SIZE)
            .anchor(Anchor::Middle)
            .write(&bound, svg);
        let title = "time when a node has all data of the tree";
        Text::at(x, below + 17.0).size(SIZE).colour("#555").write(title, svg);
    }

    fn lines(&self, [x, y]: [f64; 2], svg: &mut String) {
        let share = self.prediction.trees.iter().map(|tree| tree.share).fold(0.0, f64::max);
        let is_several = self.prediction.trees.len() > 1;
        let wide = match is_several {
            true => "to another site, width grows with the share of the message",
            false => "to another site",
        };
        let rows = [(WIDE_COLOUR, true, wide), (NEAR_COLOUR, false, "inside a site")];
        for (row, (colour, is_wide, text)) in rows.into_iter().enumerate() {
            let y = y + 17.0 * row as f64;
            let width = stroke(share, is_wide);
            let style = format!("stroke=\"{colour}\" stroke-width=\"{width:.1}\"");
            line([x, y, x + 30.0, y], &style, svg);
            Text::at(x + 40.0, y + 4.0).size(SIZE).write(text, svg);
        }
        let y = y + 34.0;
        Text::at(x + 15.0, y + 4.0).size(8.5).bold().anchor(Anchor::Middle).write("1 2 3", svg);
        Text::at(x + 40.0, y + 4.0).size(SIZE).write("in this order", svg);
        let mut notes = vec!["white with a dark rim: the root"];
        if self.map.is_numbered && self.map.names.is_some() {
            notes.push("nodes have their numbers");
        }
        Text::at(x + 40.0, y + 21.0).size(SIZE).write(&notes.join("; "), svg);
    }
}
