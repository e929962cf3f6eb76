//! Pictures: plain SVG without scripts, styles or embedded fonts.
//!
//! - `element`: texts and lines.
//! - `scale`: logarithmic axes, their ticks, and colours.

mod element;
mod scale;

pub(crate) use element::{Anchor, Text, line, width_of};
pub(crate) use scale::{LogScale, STEPS, colour, is_dark};

/// Font size of a picture's title.
const TITLE_SIZE: f64 = 17.0;
/// Font size of the lines below the title.
const SUBTITLE_SIZE: f64 = 12.0;

/// The title of a picture and the lines below it.
pub(crate) struct Heading {
    pub(crate) title: String,
    pub(crate) subtitles: Vec<String>,
}

impl Heading {
    /// Returns the approximate width of the heading, without margins.
    pub(crate) fn width(&self) -> f64 {
        let subtitles = self.subtitles.iter().map(|text| width_of(text, SUBTITLE_SIZE));
        subtitles.fold(width_of(&self.title, TITLE_SIZE), f64::max)
    }

    /// Begins a picture of this size with the heading, at distance `left` from its edge.
    pub(crate) fn begin(&self, [width, height]: [f64; 2], left: f64) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" fill=\"#222\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        Text::at(left, 32.0).size(TITLE_SIZE).bold().write(&self.title, &mut svg);
        for (number, subtitle) in self.subtitles.iter().enumerate() {
            let y = 52.0 + 17.0 * number as f64;
            Text::at(left, y).size(SUBTITLE_SIZE).colour("#555").write(subtitle, &mut svg);
        }
        svg
    }
}

/// Ends a picture.
pub(crate) fn end(svg: &mut String) {
    *svg += "</svg>\n";
}
