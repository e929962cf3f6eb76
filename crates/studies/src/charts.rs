//! Charts of curves in panels, as SVG.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<(f64, f64)>,
    /// Whether the curve is a bound for the others. Bounds are dashed.
    pub is_bound: bool,
}

/// Curves over the same axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title above the panel.
    pub title: String,
    /// Labels of the axes, the horizontal one first.
    pub axes: [&'static str; 2],
    /// The curves, at least one.
    pub curves: Vec<Curve>,
}

/// The scale of the axes of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from zero.
    Linear,
    /// Logarithmic, from the least value, but at least from one.
    Logarithmic,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

const PANEL: (u32, u32) = (520, 360);
const TITLE: u32 = 36;
const FONT: &str = "sans-serif";
/// Colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(153, 153, 153),
];

/// Draws panels in rows under one title.
pub fn picture(title: &str, scale: Scale, rows: &[Vec<Panel>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let size = (PANEL.0 * columns as u32, TITLE + PANEL.1 * rows.len().max(1) as u32);
    let mut svg = String::new();
    let draw = |area: Area<'_>| -> Drawn {
        area.fill(&WHITE)?;
        let area = area.titled(title, (FONT, 18))?;
        let cells = area.split_evenly((rows.len().max(1), columns));
        for (row, cells) in rows.iter().zip(cells.chunks(columns)) {
            for (panel, cell) in row.iter().zip(cells) {
                panel.draw(cell, scale)?;
            }
        }
        area.present()
    };
    draw(SVGBackend::with_string(&mut svg, size).into_drawing_area())
        .expect("a string takes all that is drawn");
    svg
}

impl Panel {
    fn draw(&self, area: &Area<'_>, scale: Scale) -> Drawn {
        let mut chart = ChartBuilder::on(area);
        chart.caption(&self.title, (FONT, 15)).margin(12);
        chart.x_label_area_size(40).y_label_area_size(60);
        let (x, y) = (self.span(|point| point.0), self.span(|point| point.1));
        match scale {
            Scale::Linear => self.fill(chart.build_cartesian_2d(0.0..x.1, 0.0..1.04 * y.1)?),
            Scale::Logarithmic => {
                let (x, y) = ((x.0..x.1).log_scale(), (y.0..1.04 * y.1).log_scale());
                self.fill(chart.build_cartesian_2d(x, y)?)
            }
        }
    }

    /// Returns the least value and the greatest, each at least 1. If both are equal, the first is
    /// half of the greatest, so that the axis has a length.
    fn span(&self, value: impl Fn(&(f64, f64)) -> f64) -> (f64, f64) {
        let values = || self.curves.iter().flat_map(|curve| &curve.points).map(&value);
        let most = values().fold(1.0, f64::max);
        let least = values().fold(most, f64::min).max(1.0);
        (if least < most { least } else { most / 2.0 }, most)
    }

    fn fill<'a, 'b: 'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>,
    ) -> Drawn
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let [across, up] = self.axes;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .label_style((FONT, 12))
            .axis_desc_style((FONT, 13))
            .x_desc(across)
            .y_desc(up)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .draw()?;
        for (at, curve) in self.curves.iter().enumerate() {
            let points = curve.points.iter().copied();
            let (style, line) = match curve.is_bound {
                true => {
                    let style = BLACK.stroke_width(1);
                    (style, chart.draw_series(DashedLineSeries::new(points, 5, 3, style))?)
                }
                false => {
                    let style = COLOURS[at % COLOURS.len()].stroke_width(2);
                    (style, chart.draw_series(LineSeries::new(points, style))?)
                }
            };
            line.label(&curve.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font((FONT, 12))
            .draw()
    }
}

/// Formats a value in few characters, without rounding noise.
fn label(value: &f64) -> String {
    let (value, unit) = match *value {
        value @ 1e6.. => (value / 1e6, " M"),
        value @ 1e4.. => (value / 1e3, " k"),
        value => (value, ""),
    };
    format!("{}{unit}", (value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(title: &str, factor: f64) -> Panel {
        let curve = |name: &str, is_bound| Curve {
            name: name.to_owned(),
            points: (1..5).map(|at| (f64::from(at), factor * f64::from(at * at))).collect(),
            is_bound,
        };
        Panel {
            title: title.to_owned(),
            axes: ["nodes", "attempts"],
            curves: vec![curve("ours & theirs", false), curve("bound", true)],
        }
    }

    #[test]
    fn a_picture_names_its_panels_axes_and_curves() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let rows = [vec![panel("first", 1.0), panel("second", 1e6)], vec![panel("third", 0.0)]];

            let svg = picture("All of it", scale, &rows);

            for text in ["All of it", "first", "second", "third", "nodes", "attempts", "bound"] {
                assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
            }
            assert!(svg.contains("ours &amp; theirs") && svg.ends_with("</svg>\n"));
            assert!(svg.contains("width=\"1040\" height=\"756\""), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(
            [0.1 + 0.2, 9999.0, 20_000.0, 3e6].map(|value| label(&value)),
            ["0.3", "9999", "20 k", "3 M"]
        );
    }
}
