//! Texts and lines of a picture.

use crate::text::put;

/// Which point of a text lies at its position.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The position and the style of a text.
pub(crate) struct Text {
    x: f64,
    y: f64,
    size: f64,
    anchor: Anchor,
    colour: &'static str,
    turn: f64,
    is_bold: bool,
}

impl Text {
    pub(crate) fn at(x: f64, y: f64) -> Self {
        let (anchor, colour) = (Anchor::Start, "#222");
        Self { x, y, size: 11.0, anchor, colour, turn: 0.0, is_bold: false }
    }

    pub(crate) fn size(self, size: f64) -> Self {
        Self { size, ..self }
    }

    pub(crate) fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub(crate) fn colour(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }

    /// Turns the text by `turn` degrees, clockwise, around its position.
    pub(crate) fn turned(self, turn: f64) -> Self {
        Self { turn, ..self }
    }

    pub(crate) fn bold(self) -> Self {
        Self { is_bold: true, ..self }
    }

    /// Adds the text to a picture.
    pub(crate) fn write(&self, text: &str, to: &mut String) {
        let Self { x, y, size, colour, turn, .. } = self;
        let anchor = match self.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if self.is_bold { " font-weight=\"bold\"" } else { "" };
        let turned = match *turn {
            0.0 => String::new(),
            turn => format!(" transform=\"rotate({turn:.0} {x:.1} {y:.1})\""),
        };
        put(
            to,
            format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size:.1}\" fill=\"{colour}\"\
                 {anchor}{weight}{turned}>{}</text>\n",
                escaped(text)
            ),
        );
    }
}

/// Adds a line to a picture.
pub(crate) fn line([x1, y1, x2, y2]: [f64; 4], style: &str, to: &mut String) {
    put(
        to,
        format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>\n"
        ),
    );
}

/// Returns the approximate width of a text in any plain font.
pub(crate) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.58
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_is_escaped() {
        let mut svg = String::new();
        Text::at(1.0, 2.0).write("</text><script>&\u{0}", &mut svg);
        assert!(svg.contains(">&lt;/text&gt;&lt;script&gt;&amp;?</text>"), "{svg}");
    }
}
