//! Text, tables and files of a page.

use crate::quantity;
use crate::text::put;
use std::borrow::Cow;
use std::time::Duration;

/// Maximum number of rows of a table on the page; the file of the table has all.
const ROWS_SHOWN_MAX: usize = 100;

/// Escapes a text for the content of an element or an attribute in double quotes.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' => escaped.push(' '),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A text in which parts between backticks are code.
pub(crate) fn with_code(text: &str) -> String {
    let parts = (0..).zip(text.split('`'));
    let marked = parts.map(|(number, part)| match number % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    marked.collect()
}

/// Formats a time.
pub(crate) fn time(ns: u64) -> String {
    quantity::time(Duration::from_nanos(ns))
}

/// Formats a share, such as `47.3 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Text for people.
    shown: String,
    /// Text for programs.
    raw: String,
    is_number: bool,
}

impl Cell {
    pub(crate) fn text(text: &str) -> Self {
        Self { shown: text.to_owned(), raw: text.to_owned(), is_number: false }
    }

    pub(crate) fn count(number: u64) -> Self {
        Self { shown: number.to_string(), raw: number.to_string(), is_number: true }
    }

    /// A number that may be an estimate.
    pub(crate) fn number(number: f64) -> Self {
        Self { shown: quantity::digits(number), raw: number.to_string(), is_number: true }
    }

    /// A time, in nanoseconds.
    pub(crate) fn time(ns: u64) -> Self {
        Self { shown: time(ns), raw: ns.to_string(), is_number: true }
    }

    /// A share from 0 to 1, or a gain, which may be negative.
    pub(crate) fn share(part: f64) -> Self {
        Self { shown: share(part), raw: part.to_string(), is_number: true }
    }

    /// A number of bytes.
    pub(crate) fn bytes(bytes: u64) -> Self {
        Self { shown: quantity::bytes(bytes), raw: bytes.to_string(), is_number: true }
    }

    /// The value in a file. Spreadsheets read a text that begins with one of these characters as a
    /// formula, unless an apostrophe precedes it.
    fn in_file(&self) -> Cow<'_, str> {
        match !self.is_number && self.raw.starts_with(['=', '+', '-', '@', '\t', '\r']) {
            true => Cow::Owned(format!("'{}", self.raw)),
            false => Cow::Borrowed(&self.raw),
        }
    }

    /// A cell that may be empty.
    pub(crate) fn optional<T>(value: Option<T>, cell: impl Fn(T) -> Self) -> Self {
        let unknown =
            || Self { shown: quantity::UNKNOWN.to_owned(), raw: String::new(), is_number: true };
        value.map_or_else(unknown, cell)
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    cells: Vec<Cell>,
    /// The site that it is about, for the filter.
    site: Option<usize>,
}

/// A table on the page, with a file of comma-separated values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    /// Name of the file.
    file: String,
    /// Titles of the columns: on the page, and in the file with units.
    titles: Vec<(&'static str, &'static str)>,
    rows: Vec<Row>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(file: &str, titles: &[(&'static str, &'static str)]) -> Self {
        Self { file: format!("{file}.csv"), titles: titles.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row { cells, site: None });
    }

    /// Adds a row about a site.
    pub(crate) fn row_of(&mut self, site: usize, cells: Vec<Cell>) {
        self.rows.push(Row { cells, site: Some(site) });
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table with a link to its file.
    pub(crate) fn render(&self) -> String {
        let name = self.file.trim_end_matches(".csv").replace('-', " ");
        let mut html =
            format!("<details><summary>Table: {}</summary><table><thead><tr>", escaped(&name));
        for (title, _) in &self.titles {
            put(&mut html, format_args!("<th>{}</th>", escaped(title)));
        }
        html += "</tr></thead><tbody>\n";
        for row in self.rows.iter().take(ROWS_SHOWN_MAX) {
            match row.site {
                Some(site) => put(&mut html, format_args!("<tr data-site=\"{site}\">")),
                None => html += "<tr>",
            }
            for cell in &row.cells {
                let class = if cell.is_number { " class=\"n\"" } else { "" };
                put(&mut html, format_args!("<td{class}>{}</td>", escaped(&cell.shown)));
            }
            html += "</tr>\n";
        }
        html += "</tbody></table>";
        if self.rows.len() > ROWS_SHOWN_MAX {
            let more = self.rows.len() - ROWS_SHOWN_MAX;
            put(&mut html, format_args!("<p>{more} more rows are in the file.</p>"));
        }
        html += "</details>";
        put(&mut html, format_args!("<a class=\"csv\" download=\"{}\" ", escaped(&self.file)));
        put(
            &mut html,
            format_args!("href=\"data:text/csv;charset=utf-8,{}\">CSV</a>\n", encoded(&self.csv())),
        );
        html
    }

    /// Renders the file of the table.
    fn csv(&self) -> String {
        let titles = self.titles.iter().map(|(_, title)| quoted(title));
        let mut csv = titles.collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            let cells = row.cells.iter().map(|cell| quoted(&cell.in_file()));
            csv += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        csv
    }
}

/// Quotes a value where that is needed (RFC 4180).
fn quoted(value: &str) -> String {
    match value.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.to_owned(),
    }
}

/// Percent-encodes a text for a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => encoded.push(char::from(byte)),
            b'-' | b'_' | b'.' | b',' | b':' | b'/' | b'(' | b')' => encoded.push(char::from(byte)),
            _ => put(&mut encoded, format_args!("%{byte:02X}")),
        }
    }
    encoded
}

/// A panel: a title, one sentence about what it shows, a picture, and the numbers of the picture.
pub(crate) struct Panel {
    /// The anchor.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What it shows.
    pub(crate) conclusion: String,
    /// The picture, and other content.
    pub(crate) body: String,
    /// The numbers.
    pub(crate) tables: Vec<Table>,
}

impl Panel {
    pub(crate) fn render(&self) -> String {
        let Self { id, title, conclusion, body, tables } = self;
        let mut html = format!(
            "<section id=\"{id}\">\n<h2>{}</h2>\n<p class=\"conclusion\">{}</p>\n{body}\n",
            escaped(title),
            escaped(conclusion)
        );
        for table in tables.iter().filter(|table| !table.is_empty()) {
            html += &table.render();
        }
        html += "</section>\n";
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_backticks_is_code() {
        assert_eq!(
            with_code("use `--balance <a>`; more"),
            "use <code>--balance &lt;a&gt;</code>; more"
        );
    }

    #[test]
    fn names_cannot_become_markup() {
        let name = "</td><script>alert(\"1\")</script>&\n\u{7}";
        let mut table = Table::new("names", &[("NAME", "name")]);
        table.row_of(1, vec![Cell::text(name)]);
        let html = table.render();
        assert!(!html.contains("<script>") && !html.contains("</td><s"), "{html}");
        assert!(html.contains("&lt;/td&gt;&lt;script&gt;alert(&quot;1&quot;)"), "{html}");
        assert!(html.contains("<tr data-site=\"1\">"), "{html}");
    }

    #[test]
    fn a_file_has_raw_values_that_are_quoted_where_needed() {
        let mut table =
            Table::new("times", &[("WHO", "who"), ("TIME", "time_ns"), ("PART", "part")]);
        table.row(vec![Cell::text("a, \"b\""), Cell::time(1_500_000), Cell::share(0.25)]);
        table.row(vec![Cell::optional(None, Cell::text), Cell::bytes(7), Cell::count(3)]);
        assert_eq!(table.csv(), "who,time_ns,part\n\"a, \"\"b\"\"\",1500000,0.25\n,7,3\n");
        assert!(
            table.render().contains("who,time_ns,part%0A%22a,%20%22%22b%22%22%22,1500000,0.25")
        );
        assert!(table.render().contains("<td class=\"n\">1.50 ms</td>"));
    }

    #[test]
    fn a_text_in_a_file_is_no_formula() {
        let mut table = Table::new("names", &[("NAME", "name"), ("GAIN", "gain")]);
        for name in ["=1+1", "+1", "-1", "@a", "\tb", "a-b"] {
            table.row(vec![Cell::text(name), Cell::share(-0.5)]);
        }
        let wanted = "name,gain\n'=1+1,-0.5\n'+1,-0.5\n'-1,-0.5\n'@a,-0.5\n'\tb,-0.5\na-b,-0.5\n";
        assert_eq!(table.csv(), wanted);
    }

    #[test]
    fn a_long_table_is_cut_on_the_page() {
        let mut table = Table::new("long", &[("N", "n")]);
        (0..250).for_each(|number| table.row(vec![Cell::count(number)]));
        let html = table.render();
        assert_eq!(html.matches("<tr>").count(), 101);
        assert!(html.contains("150 more rows are in the file") && html.contains("%0A249%0A"));
    }
}
