//! Curves over logarithmic axes, as a picture.

use std::fmt::Write;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Colours that people who see no red or green can tell apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// One curve: its name and its points, all positive.
pub(crate) type Curve<'a> = (&'a str, Vec<(f64, f64)>);

/// The picture as SVG. Axes cover whole decades of values and the places of the points.
pub(crate) fn svg(title: &str, (across, up): (&str, &str), curves: &[Curve<'_>]) -> String {
    let points = || curves.iter().flat_map(|(_, points)| points.iter().copied());
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, 1.0_f64), |(least, most), v| (least.min(v), most.max(v)))
    };
    let (first, last) = range(&mut points().map(|point| point.0));
    let (least, most) = range(&mut points().map(|point| point.1));
    let (bottom, top) = (least.max(1.0).log10().floor(), most.max(10.0).log10().ceil());
    let x = |value: f64| {
        let part = (value / first).ln() / (last / first).ln().max(f64::MIN_POSITIVE);
        LEFT + part * (WIDTH - LEFT - RIGHT)
    };
    let y = |value: f64| {
        let part = (value.max(1.0).log10() - bottom) / (top - bottom).max(1.0);
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    };
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut text = |x: f64, y: f64, more: &str, what: &str| {
        let _ = writeln!(picture, "<text x=\"{x:.1}\" y=\"{y:.1}\" {more}>{what}</text>");
    };
    text(WIDTH / 2.0, 22.0, "text-anchor=\"middle\" font-weight=\"bold\"", title);
    text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "text-anchor=\"middle\"", across);
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1})\"", HEIGHT / 2.0);
    text(16.0, HEIGHT / 2.0, &turned, up);
    let mut places: Vec<f64> = points().map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for &place in &places {
        text(x(place), HEIGHT - BOTTOM + 18.0, "text-anchor=\"middle\"", &format!("{place}"));
    }
    for decade in bottom as i32..=top as i32 {
        let value = 10_f64.powi(decade);
        text(LEFT - 8.0, y(value) + 4.0, "text-anchor=\"end\"", &short(value));
    }
    let ends = curves.iter().map(|(_, points)| points.last().map_or(0.0, |&(_, value)| y(value)));
    for (number, at) in apart(ends.collect()) {
        let fill = format!("fill=\"{}\"", COLOURS[number % COLOURS.len()]);
        text(WIDTH - RIGHT + 8.0, at + 4.0, &fill, curves[number].0);
    }
    for decade in bottom as i32..=top as i32 {
        let (y, right) = (y(10_f64.powi(decade)), WIDTH - RIGHT);
        let _ = writeln!(
            picture,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
        );
    }
    for (number, (_, points)) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> =
            points.iter().map(|&(a, b)| format!("{:.1},{:.1}", x(a), y(b))).collect();
        let _ = writeln!(
            picture,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
    }
    picture + "</svg>\n"
}

/// A power of ten in few letters.
fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e4.. => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}

/// The heights at which the curves that end at these are named, from top to bottom, with enough
/// room for each name.
fn apart(ends: Vec<f64>) -> Vec<(usize, f64)> {
    const LINE: f64 = 14.0;
    let mut names: Vec<(usize, f64)> = ends.into_iter().enumerate().collect();
    names.sort_by(|one, other| one.1.total_cmp(&other.1));
    let lowest = HEIGHT - BOTTOM;
    for at in 1..names.len() {
        names[at].1 = names[at].1.max(names[at - 1].1 + LINE);
    }
    let mut room = lowest;
    for (_, height) in names.iter_mut().rev() {
        *height = height.min(room);
        room = *height - LINE;
    }
    names
}

/// Pictures in rows, as one.
#[allow(dead_code, reason = "each bench uses a part")]
pub(crate) fn sheet(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let (width, height) = (WIDTH * columns as f64, HEIGHT * rows.len() as f64);
    let mut sheet = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n"
    );
    for (row, pictures) in rows.iter().enumerate() {
        for (column, picture) in pictures.iter().enumerate() {
            let (x, y) = (WIDTH * column as f64, HEIGHT * row as f64);
            let _ = write!(sheet, "<g transform=\"translate({x} {y})\">\n{picture}</g>\n");
        }
    }
    sheet + "</svg>\n"
}
