//! A picture of curves in panels, as SVG.

use std::fmt::{self, Write};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 330.0;
/// Around the area of the curves of a panel: left, top, right, bottom.
const MARGINS: [f64; 4] = [58.0, 34.0, 14.0, 46.0];
const LEGEND: f64 = 64.0;
const COLUMNS_MAX: usize = 2;
/// Colours that differ also for people who see few (Okabe and Ito, 2008).
const COLOURS: [&str; 8] =
    ["#999999", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#CC79A7", "#D55E00", "#F0E442"];
const BOUND_STYLE: &str =
    "stroke=\"#000\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\" fill=\"none\"";

/// A curve: its name and its points.
pub(crate) type Curve = (String, Vec<(f64, f64)>);

/// Curves over the same axes. The last curve is the bound, drawn dashed.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) curves: Vec<Curve>,
}

/// Panels side by side, with one legend for all: the names of the first one's curves.
pub(crate) fn draw(title: &str, axes: [&str; 2], panels: &[Panel]) -> String {
    let columns = panels.len().clamp(1, COLUMNS_MAX);
    let rows = panels.len().div_ceil(columns);
    let (width, height) = (WIDTH * columns as f64, LEGEND + HEIGHT * rows as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, (width / 2.0, 22.0), 13.0, "middle", title);
    if let Some(first) = panels.first() {
        legend(&mut svg, width, &first.curves);
    }
    for (at, panel) in panels.iter().enumerate() {
        let corner = ((at % columns) as f64 * WIDTH, LEGEND + (at / columns) as f64 * HEIGHT);
        Frame::new(corner, panel).draw(&mut svg, axes, panel);
    }
    svg + "</svg>\n"
}

fn legend(svg: &mut String, width: f64, curves: &[Curve]) {
    let part = (width - 40.0) / curves.len().max(1) as f64;
    for (at, (name, _)) in curves.iter().enumerate() {
        let x = 20.0 + part * at as f64;
        let style = style(at, curves.len());
        put(svg, format_args!("<path d=\"M{x:.1} 46 h24\" {style}/>\n"));
        text(svg, (x + 29.0, 50.0), 11.5, "start", name);
    }
}

fn style(at: usize, count: usize) -> String {
    if at + 1 == count {
        return BOUND_STYLE.to_owned();
    }
    let colour = COLOURS[at % COLOURS.len()];
    format!("stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"")
}

/// Where a panel is and what its axes span.
struct Frame {
    left: f64,
    top: f64,
    size: (f64, f64),
    most: (f64, f64),
}

impl Frame {
    fn new((x, y): (f64, f64), panel: &Panel) -> Self {
        let [left, top, right, bottom] = MARGINS;
        let points = || panel.curves.iter().flat_map(|(_, points)| points);
        let most = |axis: fn(&(f64, f64)) -> f64| points().map(axis).fold(0.0, f64::max);
        let size = (WIDTH - left - right, HEIGHT - top - bottom);
        let most_y = most(|point| point.1);
        let step = tick(most_y);
        let most =
            (most(|point| point.0).max(1.0), ((most_y * 1.04 / step).ceil() * step).max(1.0));
        Self { left: x + left, top: y + top, size, most }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (width, height) = self.size;
        (self.left + x / self.most.0 * width, self.top + height - y / self.most.1 * height)
    }

    fn draw(&self, svg: &mut String, [along, up]: [&str; 2], panel: &Panel) {
        let (width, height) = self.size;
        let middle = (self.left + width / 2.0, self.top + height / 2.0);
        text(svg, (middle.0, self.top - 10.0), 12.5, "middle", &panel.title);
        self.grid(svg);
        text(svg, (middle.0, self.top + height + 34.0), 11.5, "middle", along);
        let (x, y) = (self.left - 44.0, middle.1);
        put(svg, format_args!("<g transform=\"rotate(-90 {x:.1} {y:.1})\">"));
        text(svg, (x, y), 11.5, "middle", up);
        put(svg, format_args!("</g>\n"));
        for (at, (_, points)) in panel.curves.iter().enumerate() {
            let mut path = String::new();
            for (number, &point) in points.iter().enumerate() {
                let ((x, y), letter) = (self.place(point), if number == 0 { 'M' } else { 'L' });
                put(&mut path, format_args!("{letter}{x:.1} {y:.1}"));
            }
            let style = style(at, panel.curves.len());
            put(svg, format_args!("<path d=\"{path}\" {style}/>\n"));
        }
    }

    fn grid(&self, svg: &mut String) {
        let (width, height) = self.size;
        let (left, top) = (self.left, self.top);
        let (step_x, step_y) = (tick(self.most.0), tick(self.most.1));
        for number in 0..=(self.most.1 / step_y).round() as u32 {
            let value = f64::from(number) * step_y;
            let (_, y) = self.place((0.0, value));
            put(
                svg,
                format_args!("<path d=\"M{left:.1} {y:.1} h{width:.1}\" stroke=\"#e4e4e4\"/>\n"),
            );
            text(svg, (left - 6.0, y + 4.0), 10.5, "end", &label(value));
        }
        for number in 0..=(self.most.0 / step_x).floor() as u32 {
            let value = f64::from(number) * step_x;
            let (x, _) = self.place((value, 0.0));
            put(
                svg,
                format_args!("<path d=\"M{x:.1} {:.1} v5\" stroke=\"#444\"/>\n", top + height),
            );
            text(svg, (x, top + height + 17.0), 10.5, "middle", &label(value));
        }
        put(
            svg,
            format_args!(
                "<path d=\"M{left:.1} {top:.1} v{height:.1} h{width:.1}\" stroke=\"#444\" fill=\"none\"/>\n"
            ),
        );
    }
}

/// A round number of which some four to eight make `most`.
fn tick(most: f64) -> f64 {
    let magnitude = 10_f64.powf((most.max(1e-9) / 5.0).log10().floor());
    let of = |factor: &&f64| most / (magnitude * **factor) <= 8.0;
    magnitude * [1.0, 2.0, 4.0, 5.0, 10.0].iter().find(of).unwrap_or(&10.0)
}

/// A multiple of a round number, without what rounding adds to it.
fn label(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

fn text(svg: &mut String, (x, y): (f64, f64), size: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    put(
        svg,
        format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{words}</text>\n"
        ),
    );
}

/// Writing to a string cannot fail.
fn put(to: &mut String, what: fmt::Arguments<'_>) {
    let _ = to.write_fmt(what);
}
