//! Text in columns.

/// The gap between columns.
const GAP: &str = "  ";
const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table: rows below titles.
pub(crate) struct Table {
    titles: Vec<String>,
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
    pub(crate) fn new(titles: Vec<String>, align: impl Fn(usize) -> Align) -> Self {
        let aligns = (0..titles.len()).map(align).collect();
        Self { titles, aligns, rows: vec![] }
    }

    /// Adds a row; cells that it lacks are empty.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Renders the lines, without trailing blanks.
    pub(crate) fn render(&self, is_coloured: bool) -> String {
        let width = |column: usize| {
            let rows = self.rows.iter().chain([&self.titles]);
            rows.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> =
            (0..self.titles.len()).map(|column| width(column).unwrap_or(0)).collect();
        let titles = self.line(&self.titles, &widths);
        let mut text = match is_coloured {
            true => format!("{BOLD}{titles}{RESET}\n"),
            false => format!("{titles}\n"),
        };
        for row in &self.rows {
            text += &self.line(row, &widths);
            text.push('\n');
        }
        text
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let padded =
            cells.iter().zip(widths).zip(&self.aligns).map(|((cell, &width), align)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
        padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let align = |column| if column == 0 { Align::Left } else { Align::Right };
        let mut table = Table::new(vec!["A".into(), "LONG".into()], align);
        table.row(vec!["└─ ü".into(), "1".into()]);
        table.row(vec!["b".into()]);
        assert_eq!(table.render(false), "A     LONG\n└─ ü     1\nb\n");
    }
}
