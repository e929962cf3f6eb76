//! Charts: bars, heat maps and areas, as inline SVG whose colours are classes of the style sheet.

use super::html::escaped;
use crate::quantity::digits;
use crate::report::analysis::timeline::KINDS_MAX;
use crate::text::{cut, put};

/// Width of a chart.
pub(crate) const WIDTH: f64 = 900.0;
/// Width of the labels of bars.
const LABELS: f64 = 250.0;
/// Space for values right of bars.
const VALUES: f64 = 70.0;
/// Width of the part of a chart that shows values.
const LENGTH: f64 = WIDTH - LABELS - VALUES;
/// Space above the values of a chart over time.
const TOP: f64 = 8.0;
/// Height of the values of a chart over time.
const HEIGHT: f64 = 56.0;
/// The lower end of the values of a chart over time.
const BOTTOM: f64 = TOP + HEIGHT;
/// Height of a bar with its distance to the next one.
const BAR: f64 = 20.0;
/// Height of an axis with its labels.
pub(crate) const AXIS: f64 = 34.0;
/// Maximum number of letters of a label.
const LETTERS_MAX: usize = 38;

/// Number of colours of the style sheet for types and sites.
pub(crate) const COLOURS: usize = KINDS_MAX;

/// A part of a bar.
pub(crate) struct BarPart {
    /// Class of its colour.
    pub(crate) class: String,
    /// Its length.
    pub(crate) value: f64,
    /// Text of its tooltip.
    pub(crate) title: String,
}

/// A bar.
pub(crate) struct Bar {
    pub(crate) label: String,
    /// Its parts, from the left.
    pub(crate) parts: Vec<BarPart>,
    /// The text at its right end.
    pub(crate) value: String,
}

/// An axis with numbers.
pub(crate) struct Axis {
    /// The quantity, with its unit.
    pub(crate) title: &'static str,
    /// The numbers on the axis are the values of bars divided by this one.
    pub(crate) unit: f64,
}

/// An axis of times up to `most_ns`.
pub(crate) fn time_axis(most_ns: u64) -> Axis {
    match most_ns {
        0..2_000_000 => Axis { title: "time, µs", unit: 1e3 },
        2_000_000..2_000_000_000 => Axis { title: "time, ms", unit: 1e6 },
        _ => Axis { title: "time, s", unit: 1e9 },
    }
}

/// Returns the class of the colour of a type, by its position among the types with the most work.
pub(crate) fn class_of(number: usize) -> String {
    if number < COLOURS { format!("k{number}") } else { "other".to_owned() }
}

/// Returns up to six round numbers from 0 to `most`.
pub(crate) fn ticks(most: f64) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0];
    }
    let raw = most / 5.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|it| *it >= raw);
    let step = step.unwrap_or(raw);
    (0..=5).map(|at| f64::from(at) * step).filter(|tick| *tick <= most * 1.000_001).collect()
}

/// Formats the number at a tick.
pub(crate) fn label(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        number if number.abs() >= 10.0 => format!("{number:.0}"),
        number => {
            let text = format!("{number:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// Begins a chart of this height.
pub(crate) fn begin(height: f64, title: &str) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" \
         aria-label=\"{}\">\n",
        escaped(title)
    )
}

/// Draws bars, one below the other, with an axis below.
pub(crate) fn bars(bars: &[Bar], axis: &Axis) -> String {
    let total = |bar: &Bar| bar.parts.iter().map(|part| part.value.max(0.0)).sum::<f64>();
    let most = bars.iter().map(total).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let bottom = bars.len() as f64 * BAR + 4.0;
    let mut svg = begin(bottom + AXIS, axis.title);
    for tick in ticks(most / axis.unit) {
        let x = LABELS + tick * axis.unit / most * LENGTH;
        put(&mut svg, format_args!("<path class=\"grid\" d=\"M{x:.1} 0V{bottom:.1}\"/>"));
        put(
            &mut svg,
            format_args!(
                "<text class=\"t\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 13.0,
                label(tick)
            ),
        );
    }
    put(
        &mut svg,
        format_args!(
            "<text class=\"t unit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            LABELS + LENGTH / 2.0,
            bottom + 28.0,
            escaped(axis.title)
        ),
    );
    for (number, bar) in bars.iter().enumerate() {
        let y = number as f64 * BAR + 3.0;
        put(
            &mut svg,
            format_args!(
                "<text class=\"t\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LABELS - 6.0,
                y + 11.0,
                escaped(&cut(&bar.label, LETTERS_MAX, '…'))
            ),
        );
        let mut x = LABELS;
        for part in &bar.parts {
            let width = part.value.max(0.0) / most * LENGTH;
            put(
                &mut svg,
                format_args!(
                    "<rect class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                     height=\"14\"><title>{}</title></rect>",
                    escaped(&part.class),
                    escaped(&part.title)
                ),
            );
            x += width;
        }
        put(
            &mut svg,
            format_args!(
                "<text class=\"t\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                x + 5.0,
                y + 11.0,
                escaped(&bar.value)
            ),
        );
    }
    svg += "</svg>\n";
    svg
}

/// Draws a square of numbers: rows send, columns receive. Darker cells have larger numbers, on a
/// logarithmic scale.
pub(crate) fn heat_map(
    names: &[String],
    value: impl Fn(usize, usize) -> f64,
    title: impl Fn(usize, usize) -> String,
    what: &str,
) -> String {
    let count = names.len();
    let cell = (560.0 / count.max(1) as f64).clamp(14.0, 44.0);
    let (left, top) = (LABELS, 120.0);
    let mut svg = begin(top + cell * count as f64 + 10.0, what);
    let all = || (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
    let positive = || all().map(|(from, to)| value(from, to)).filter(|value| *value > 0.0);
    let most = positive().fold(f64::MIN_POSITIVE, f64::max);
    let least = positive().fold(most, f64::min);
    let span = (most / least).ln().max(1e-9);
    for (at, name) in names.iter().enumerate() {
        let (x, y) = (left + cell * (at as f64 + 0.5), top + cell * (at as f64 + 0.5));
        let name = escaped(&cut(name, 24, '…'));
        put(
            &mut svg,
            format_args!(
                "<text class=\"t\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
                 <text class=\"t\" x=\"{x:.1}\" y=\"{:.1}\" \
                 transform=\"rotate(-60 {x:.1} {:.1})\">{name}</text>\n",
                left - 6.0,
                y + 4.0,
                top - 6.0,
                top - 6.0
            ),
        );
    }
    for (from, to) in all() {
        let value = value(from, to);
        let opacity = match value > 0.0 {
            // If all values are equal, all cells are dark.
            true if most == least => 1.0,
            true => 0.12 + 0.88 * ((value / least).ln() / span).clamp(0.0, 1.0),
            false => 0.0,
        };
        put(
            &mut svg,
            format_args!(
                "<rect class=\"heat\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill-opacity=\"{opacity:.2}\"><title>{}</title></rect>\n",
                left + cell * to as f64,
                top + cell * from as f64,
                cell - 1.0,
                cell - 1.0,
                escaped(&title(from, to))
            ),
        );
    }
    let scale = match positive().next() {
        Some(_) if least < most => format!(
            "; from {} (light) to {} (dark), on a logarithmic scale",
            digits(least),
            digits(most)
        ),
        Some(_) => format!("; {} in each coloured cell", digits(most)),
        None => String::new(),
    };
    put(
        &mut svg,
        format_args!(
            "<text class=\"t unit\" x=\"8\" y=\"16\">{} (row sends to column){scale}</text>\n",
            escaped(what)
        ),
    );
    svg += "</svg>\n";
    svg
}

/// Draws a value over time as an area, with a line at `limit`, if it is given. Values and the limit
/// are in the unit of the label.
pub(crate) fn area(
    name: &str,
    values: &[f64],
    limit: Option<f64>,
    unit: &str,
    end: &str,
) -> String {
    let highest = values.iter().copied().fold(0.0, f64::max);
    // A bandwidth far above the used rate would flatten the area; then only its number is shown.
    let shown = limit.filter(|limit| *limit <= highest * 4.0);
    let most = shown.unwrap_or(0.0).max(highest).max(f64::MIN_POSITIVE);
    let y = |value: f64| BOTTOM - value / most * HEIGHT;
    let mut svg = begin_over_time(name);
    let mut path = format!("M{LABELS:.1} {BOTTOM:.1}");
    let step = LENGTH / values.len().max(1) as f64;
    for (at, value) in values.iter().enumerate() {
        put(&mut path, format_args!("V{:.1}H{:.1}", y(*value), LABELS + step * (at + 1) as f64));
    }
    put(&mut svg, format_args!("<path class=\"heat\" d=\"{path}V{BOTTOM:.1}z\"/>"));
    put_axes(&mut svg);
    if let Some(limit) = shown {
        let y = y(limit);
        put(
            &mut svg,
            format_args!("<path class=\"limit\" d=\"M{LABELS:.1} {y:.1}h{LENGTH:.1}\"/>"),
        );
    }
    let bandwidth =
        limit.map_or_else(String::new, |limit| format!(", bandwidth {} {unit}", label(limit)));
    let highest = format!("at most {} {unit}{bandwidth}", label(highest));
    let texts = [
        (LABELS - 6.0, TOP + 22.0, "end", cut(name, LETTERS_MAX, '…')),
        (LABELS - 6.0, TOP + 38.0, "end", highest),
    ];
    end_over_time(svg, texts, end)
}

/// Draws percentages over time on top of each other, the first part at the bottom. Parts have the
/// class of their colour.
pub(crate) fn stack(name: &str, parts: &[(&str, &[u8])], end: &str) -> String {
    let columns = parts.iter().map(|(_, percent)| percent.len()).max().unwrap_or(0);
    let step = LENGTH / columns.max(1) as f64;
    let mut svg = begin_over_time(name);
    put(
        &mut svg,
        format_args!(
            "<rect class=\"idle\" x=\"{LABELS:.1}\" y=\"{TOP:.1}\" width=\"{LENGTH:.1}\" \
             height=\"{HEIGHT:.1}\"/>"
        ),
    );
    // The outline of each part begins at the axis. Lower parts are drawn later, and cover the lower
    // ends of those above them.
    for shown in (1..=parts.len()).rev() {
        let sum = |column: usize| {
            let below = parts[..shown].iter().filter_map(|(_, percent)| percent.get(column));
            below.map(|percent| f64::from(*percent)).sum::<f64>().min(100.0)
        };
        let sums: Vec<f64> = (0..columns).map(sum).collect();
        let mut path = format!("M{LABELS:.1} {BOTTOM:.1}");
        let mut at = 0;
        for run in sums.chunk_by(|a, b| a == b) {
            at += run.len();
            let y = BOTTOM - run[0] / 100.0 * HEIGHT;
            put(&mut path, format_args!("V{y:.1}H{:.1}", LABELS + step * at as f64));
        }
        let class = escaped(parts[shown - 1].0);
        put(&mut svg, format_args!("<path class=\"{class}\" d=\"{path}V{BOTTOM:.1}z\"/>"));
    }
    put_axes(&mut svg);
    let right = LABELS + LENGTH;
    let texts = [
        (LABELS - 6.0, TOP + 32.0, "end", cut(name, LETTERS_MAX, '…')),
        (right + 5.0, TOP + 8.0, "start", "100 %".to_owned()),
        (right + 5.0, TOP + 32.0, "start", "50 %".to_owned()),
        (right + 5.0, BOTTOM, "start", "0 %".to_owned()),
    ];
    end_over_time(svg, texts, end)
}

/// Begins a chart of values over time.
fn begin_over_time(name: &str) -> String {
    begin(BOTTOM + 18.0, name)
}

/// Draws the axes of a chart over time.
fn put_axes(svg: &mut String) {
    put(
        svg,
        format_args!("<path class=\"axis\" d=\"M{LABELS:.1} {TOP:.1}V{BOTTOM:.1}h{LENGTH:.1}\"/>"),
    );
}

/// Ends a chart over time: writes `texts`, each given as x, y, anchor and content, and below the
/// chart the beginning and the end of the time.
fn end_over_time<const TEXTS: usize>(
    mut svg: String,
    texts: [(f64, f64, &str, String); TEXTS],
    end: &str,
) -> String {
    let ends = [
        (LABELS, BOTTOM + 14.0, "start", "0".to_owned()),
        (LABELS + LENGTH, BOTTOM + 14.0, "end", end.to_owned()),
    ];
    for (x, y, anchor, text) in texts.into_iter().chain(ends) {
        put(
            &mut svg,
            format_args!(
                "<text class=\"t\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                escaped(&text)
            ),
        );
    }
    svg += "</svg>\n";
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_up_to_the_greatest() {
        assert_eq!(ticks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(7.3), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(ticks(0.0), [0.0]);
        assert_eq!(ticks(f64::NAN), [0.0]);
        let labels: Vec<_> = ticks(0.05).into_iter().map(label).collect();
        assert_eq!(labels, ["0", "0.01", "0.02", "0.03", "0.04", "0.05"]);
    }

    #[test]
    fn bars_have_labels_values_and_an_axis_with_its_unit() {
        let part = BarPart { class: "k0".to_owned(), value: 2e6, title: "a & b".to_owned() };
        let bar = Bar { label: "<Cell>".to_owned(), parts: vec![part], value: "2 ms".to_owned() };
        let svg = bars(&[bar], &Axis { title: "time, ms", unit: 1e6 });
        assert!(svg.contains("&lt;Cell&gt;") && svg.contains("<title>a &amp; b</title>"), "{svg}");
        assert!(svg.contains(">time, ms</text>") && svg.contains(">1.5</text>"), "{svg}");
        assert!(bars(&[], &Axis { title: "nothing", unit: 1.0 }).ends_with("</svg>\n"));
    }

    #[test]
    fn a_heat_map_has_a_cell_for_each_pair() {
        let names = ["a".to_owned(), "b".to_owned()];
        let svg = heat_map(
            &names,
            |from, to| [[0.0, 10.0], [1000.0, 0.0]][from][to],
            |from, to| format!("{from} to {to}"),
            "messages",
        );
        assert_eq!(svg.matches("class=\"heat\"").count(), 4);
        assert!(svg.contains("fill-opacity=\"1.00\"><title>1 to 0</title>"), "{svg}");
        assert!(svg.contains("fill-opacity=\"0.12\"><title>0 to 1</title>"), "{svg}");
        assert!(svg.contains("; from 10.0 (light) to 1000 (dark), on a log"), "{svg}");
    }

    #[test]
    fn the_only_number_of_a_heat_map_is_dark() {
        let names = ["a".to_owned()];
        let svg = heat_map(&names, |_, _| 7.0, |_, _| "a to a".to_owned(), "messages");
        assert!(svg.contains("fill-opacity=\"1.00\"><title>a to a</title>"), "{svg}");
        assert!(svg.contains("; 7.00 in each coloured cell"), "{svg}");
        let none = heat_map(&names, |_, _| 0.0, |_, _| String::new(), "messages");
        assert!(none.contains("(row sends to column)</text>"), "{none}");
    }

    #[test]
    fn parts_are_stacked_and_the_axes_have_numbers() {
        let svg = stack("site a", &[("k0", &[50, 100]), ("overhead", &[25, 0])], "2 s");
        // From the top: the sum of both, then the first one.
        assert!(
            svg.contains("class=\"overhead\" d=\"M250.0 64.0V22.0H540.0V8.0H830.0V64.0z\""),
            "{svg}"
        );
        assert!(svg.contains("class=\"k0\" d=\"M250.0 64.0V36.0H540.0V8.0H830.0V64.0z\""), "{svg}");
        for text in [">100 %<", ">50 %<", ">0 %<", ">2 s<", ">site a<"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(svg.ends_with(ENDS), "{svg}");
        assert!(stack("none", &[], "0 us").ends_with("</svg>\n"));
    }

    #[test]
    fn an_area_shows_a_limit_that_is_near() {
        let near = area("a → b", &[1.0, 4.0], Some(5.0), "MB/s", "2 s");
        assert!(near.contains("class=\"limit\"") && near.contains("bandwidth 5 MB/s"), "{near}");
        let far = area("a → b", &[1.0, 4.0], Some(500.0), "MB/s", "2 s");
        assert!(!far.contains("class=\"limit\"") && far.contains("bandwidth 500 MB/s"), "{far}");
        assert!(near.ends_with(ENDS) && far.ends_with(ENDS), "{near}");
    }

    /// The end of a chart over two seconds.
    const ENDS: &str = "<text class=\"t\" x=\"250.0\" y=\"78.0\" text-anchor=\"start\">0</text>\
                        <text class=\"t\" x=\"830.0\" y=\"78.0\" text-anchor=\"end\">2 s</text>\
                        </svg>\n";
}
