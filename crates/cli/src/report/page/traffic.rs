//! Messages between actor types, actors, nodes and sites, and links over time.

use super::chart::{area, heat_map};
use super::html::{Cell, Panel, Table, share, time};
use crate::quantity::{bytes, count, digits};
use crate::report::analysis::Analysis;
use crate::report::analysis::communication::Matrix;

/// Units of charts: bytes per second, and the name.
const RATES: [(f64, &str); 4] = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")];

/// Renders the matrices.
pub(crate) fn communication(analysis: &Analysis) -> Panel {
    let matrices = [
        ("types", "messages between actor types", &analysis.communication.types),
        ("actors", "messages between the actors with most of them", &analysis.communication.actors),
        ("nodes", "messages between nodes", &analysis.communication.nodes),
        ("sites", "messages between sites", &analysis.communication.sites),
    ];
    let (mut body, mut tables) = (String::new(), Vec::new());
    for (file, what, matrix) in matrices {
        if matrix.names.is_empty() {
            continue;
        }
        let title = |from: usize, to: usize| {
            let cell = matrix.cells[from][to];
            format!(
                "{} → {}: {} messages, {}",
                matrix.names[from],
                matrix.names[to],
                digits(cell.messages),
                bytes(cell.bytes as u64)
            )
        };
        body += &heat_map(&matrix.names, |from, to| matrix.cells[from][to].messages, title, what);
        tables.push(table(file, matrix));
    }
    let note = match analysis.communication.weight > 1.0 {
        true => {
            " Only those between sites are exact; the others are estimated from the spans that are \
             kept."
        }
        false => "",
    };
    let conclusion = format!("{}{note}", greatest(&analysis.communication.types));
    let title = "Communication";
    Panel { id: "communication", title, conclusion, body, tables }
}

fn greatest(matrix: &Matrix) -> String {
    let cells = matrix
        .cells
        .iter()
        .enumerate()
        .flat_map(|(from, row)| row.iter().enumerate().map(move |(to, cell)| (from, to, cell)));
    let most = cells.max_by(|a, b| a.2.messages.total_cmp(&b.2.messages));
    match most.filter(|(_, _, cell)| cell.messages > 0.0) {
        Some((from, to, cell)) => format!(
            "The most messages ({}) go from {} to {}.",
            digits(cell.messages),
            matrix.names[from],
            matrix.names[to]
        ),
        None => "No messages were recorded.".to_owned(),
    }
}

fn table(file: &str, matrix: &Matrix) -> Table {
    let titles = [("FROM", "from"), ("TO", "to"), ("MESSAGES", "messages"), ("BYTES", "bytes")];
    let mut table = Table::new(&format!("messages-{file}"), &titles);
    for (from, row) in matrix.cells.iter().enumerate() {
        for (to, cell) in row.iter().enumerate().filter(|(_, cell)| cell.messages > 0.0) {
            table.row(vec![
                Cell::text(&matrix.names[from]),
                Cell::text(&matrix.names[to]),
                Cell::number(cell.messages),
                Cell::bytes(cell.bytes as u64),
            ]);
        }
    }
    table
}

/// Renders the links over time.
pub(crate) fn links(analysis: &Analysis) -> Panel {
    let titles = [
        ("LINK", "link"),
        ("MESSAGES", "messages"),
        ("BYTES", "bytes"),
        ("MEAN RATE", "bytes_per_second"),
        ("BANDWIDTH", "bandwidth_bytes_per_second"),
        ("USED", "used"),
        ("LATENCY", "latency_ns"),
        ("LOSS", "loss"),
    ];
    let mut table = Table::new("links", &titles);
    let mut body = String::new();
    let end_ns = analysis.outcome.end_ns;
    let seconds = (end_ns.max(1) as f64) / 1e9;
    for link in &analysis.links {
        let rate = link.bytes as f64 / seconds;
        table.row(vec![
            Cell::text(&link.name),
            Cell::count(link.messages),
            Cell::bytes(link.bytes),
            Cell::bytes(rate as u64),
            Cell::optional(link.bytes_per_second, |rate| Cell::bytes(rate as u64)),
            Cell::optional(link.bytes_per_second, |bandwidth| Cell::share(rate / bandwidth)),
            Cell::optional(link.latency_ns, |ns| Cell::time(ns as u64)),
            Cell::share(link.loss),
        ]);
        if !link.columns.is_empty() {
            let of_column = |at: usize, bytes: u64| {
                let begin = (at as u64).saturating_mul(link.column_ns);
                let width = link.column_ns.min(end_ns.saturating_sub(begin)).max(1);
                bytes as f64 * 1e9 / width as f64
            };
            let rates = link.columns.iter().enumerate().map(|(at, bytes)| of_column(at, *bytes));
            let mut rates: Vec<f64> = rates.collect();
            let highest = rates.iter().copied().fold(0.0, f64::max);
            let (size, unit) = rate_unit(highest);
            rates.iter_mut().for_each(|rate| *rate /= size);
            let bandwidth = link.bytes_per_second.map(|rate| rate / size);
            body += &format!("<div data-sites=\"{} {}\">", link.from, link.to);
            body += &area(&link.name, &rates, bandwidth, unit, &time(end_ns));
            body += "</div>\n";
        }
    }
    let tables = vec![table];
    Panel { id: "links", title: "Links over time", conclusion: of_links(analysis), body, tables }
}

/// The largest unit in which a rate is at least 1.
fn rate_unit(rate: f64) -> (f64, &'static str) {
    let [.., smallest] = RATES;
    RATES.into_iter().find(|(size, _)| rate >= *size).unwrap_or(smallest)
}

fn of_links(analysis: &Analysis) -> String {
    let wide = analysis.links.iter().filter(|link| link.from != link.to);
    let (messages, sum) = wide.clone().fold((0_u64, 0_u64), |(messages, sum), link| {
        (messages.saturating_add(link.messages), sum.saturating_add(link.bytes))
    });
    let all: u64 = analysis.links.iter().map(|link| link.bytes).fold(0, u64::saturating_add);
    let seconds = (analysis.outcome.end_ns.max(1) as f64) / 1e9;
    let used =
        wide.filter_map(|link| Some((link, link.bytes as f64 / seconds / link.bytes_per_second?)));
    let fullest = used.max_by(|a, b| a.1.total_cmp(&b.1));
    if messages == 0 {
        return "No messages went from one site to another.".to_owned();
    }
    let part = share(sum as f64 / all.max(1) as f64);
    let fullest = fullest.map_or_else(String::new, |(link, used)| {
        format!(
            " The fullest link is {}: {} of its bandwidth was used on average.",
            link.name,
            share(used)
        )
    });
    let messages = count(usize::try_from(messages).unwrap_or(usize::MAX), "message");
    format!("{messages} of {} went between sites, {part} of all bytes.{fullest}", bytes(sum))
}

#[cfg(test)]
mod tests {
    use super::rate_unit;

    #[test]
    fn rates_are_in_a_unit_in_which_they_are_no_zero() {
        let units = [3e9, 3e6, 999_999.0, 400.0, 0.0].map(|rate| rate_unit(rate).1);
        assert_eq!(units, ["GB/s", "MB/s", "kB/s", "B/s", "B/s"]);
    }
}
