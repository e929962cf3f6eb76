//! A moment of a job as plain text: a summary, and a table for each kind of part.

use super::moment::Moment;
use super::parts::Parts;
use super::sheet::Sheet;
use super::sheets;
use super::view::{event_text, summary};
use crate::table::{Align, Table};

/// Largest number of rows of a table; `--json` has all of them.
const ROWS_MAX: usize = 40;

/// Returns the text for a moment, with rates since the one before.
pub(super) fn text(now: &Moment, before: Option<&Moment>, is_coloured: bool) -> String {
    let parts = Parts::new(now, before);
    let mut text: String = summary(parts).iter().map(|line| format!("{line}\n")).collect();
    let mut all =
        vec![sheets::sites(parts), sheets::nodes(parts, None), sheets::types(parts, None)];
    // A job at one site has no other links than those inside it.
    if now.grid.layout().site_count() > 1 {
        all.push(sheets::links(parts));
    }
    for sheet in all.into_iter().filter(|sheet| !sheet.rows.is_empty()) {
        text += "\n";
        text += &table(&sheet, is_coloured);
    }
    if !now.events.is_empty() {
        text += "\n";
        text.extend(now.events.iter().map(|event| event_text(event) + "\n"));
    }
    text
}

fn table(sheet: &Sheet, is_coloured: bool) -> String {
    let columns = (0..sheet.columns.len()).filter(|&column| !sheet.columns[column].is_extra);
    let columns: Vec<usize> = columns.collect();
    let titles = columns.iter().map(|&column| sheet.columns[column].title.to_owned());
    let align = |column| if column == 0 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.collect(), align);
    for row in sheet.rows.iter().take(ROWS_MAX) {
        table.row(columns.iter().map(|&column| row.cells[column].text.clone()).collect());
    }
    let text = table.render(is_coloured);
    match sheet.rows.len().saturating_sub(ROWS_MAX) {
        0 => text,
        more => format!("{text}and {more} more\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::moment;
    use super::*;

    #[test]
    fn the_text_has_a_summary_tables_and_events() {
        let (before, now) = (moment(10), moment(12));
        let text = text(&now, Some(&before), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "leanmd-4711  2 sites, 4 nodes, 4 PEs, up 12s");
        let titles = lines.iter().filter(|line| line.contains("msgs/s"));
        let first: Vec<&str> = titles.filter_map(|line| line.split("  ").next()).collect();
        assert_eq!(first, ["site", "node", "actor type", "link"]);
        assert!(
            lines.contains(&"a > b       1000  5.00 MB  40.0 Mbit/s  100 Mbit/s     40"),
            "{text}"
        );
        assert_eq!(lines.last(), Some(&" 2m 05s  warning: one handler takes long"));
    }

    #[test]
    fn long_tables_are_cut() {
        let mut now = moment(12);
        let node = now.sample.nodes[0];
        now.sample.nodes = vec![node; ROWS_MAX + 3];
        assert!(text(&now, None, false).contains("\nand 3 more\n"));
    }
}
