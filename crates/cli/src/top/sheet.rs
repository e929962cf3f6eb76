//! Tables of a job's parts, for the screen and for plain text: cells with a text and a value by
//! which rows are sorted.

use gridspan_topology::{NodeId, PeId, SiteId};
use std::cmp::Ordering;

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKey {
    Site(SiteId),
    Node(NodeId),
    Pe(PeId),
    /// An actor type.
    Type(u16),
    /// An actor type at a site.
    TypeAt(u16, SiteId),
    /// The link from one site to another.
    Link(SiteId, SiteId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Width in characters; the first column may be wider.
    pub(super) width: usize,
    /// Whether a narrow screen does not show it.
    pub(super) is_extra: bool,
}

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A number, if it is known.
    Number(Option<f64>),
    /// A name; a sort by this column uses the keys of the rows.
    Name,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) key: RowKey,
    /// Its cells, one for each column.
    pub(super) cells: Vec<Cell>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sheet {
    /// Its columns. The first one has names, the others have numbers.
    pub(super) columns: Vec<Column>,
    /// Its rows, in the order of their keys.
    pub(super) rows: Vec<Row>,
}

impl Column {
    /// A column that every screen shows.
    pub(super) const fn new(title: &'static str, width: usize) -> Self {
        Self { title, width, is_extra: false }
    }

    /// A column that wide screens show.
    pub(super) const fn extra(title: &'static str, width: usize) -> Self {
        Self { title, width, is_extra: true }
    }
}

impl Cell {
    /// A name.
    pub(super) fn name(text: String) -> Self {
        Self { text, value: Value::Name }
    }

    /// A number and its text.
    pub(super) fn number(number: impl Into<Option<f64>>, text: String) -> Self {
        Self { text, value: Value::Number(number.into()) }
    }
}

impl Sheet {
    /// Sorts the rows by a column: names in the order of their keys, and numbers with the largest
    /// first, or both reversed. Unknown numbers are always last. Rows of equal values keep the
    /// order of their keys.
    pub(super) fn sort(&mut self, column: usize, is_reversed: bool) {
        let number = |row: &Row| match row.cells.get(column).map(|cell| &cell.value) {
            Some(Value::Number(number)) => *number,
            Some(Value::Name) | None => None,
        };
        self.rows.sort_by_key(|row| row.key);
        let is_name = column == 0;
        self.rows.sort_by(|one, other| {
            let order = match (is_name, number(one), number(other)) {
                (true, ..) => one.key.cmp(&other.key),
                (false, Some(one), Some(other)) => other.total_cmp(&one),
                // Known numbers come first in both directions.
                (false, Some(_), None) => return Ordering::Less,
                (false, None, Some(_)) => return Ordering::Greater,
                (false, None, None) => return Ordering::Equal,
            };
            if is_reversed { order.reverse() } else { order }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let row = |(site, busy): (u32, Option<f64>)| Row {
            key: RowKey::Site(SiteId(site)),
            cells: vec![Cell::name(format!("s{site}")), Cell::number(busy, String::new())],
        };
        let rows = [(0, Some(0.5)), (1, None), (2, Some(0.9)), (3, Some(0.5))].map(row).to_vec();
        Sheet { columns: vec![Column::new("site", 4), Column::new("busy%", 5)], rows }
    }

    fn sorted(column: usize, is_reversed: bool) -> Vec<RowKey> {
        let mut sheet = sheet();
        sheet.rows.swap(0, 2);
        sheet.sort(column, is_reversed);
        sheet.rows.iter().map(|row| row.key).collect()
    }

    #[test]
    fn rows_are_sorted_by_the_values_of_a_column() {
        let sites = |sites: [u32; 4]| sites.map(|site| RowKey::Site(SiteId(site)));
        assert_eq!(sorted(0, false), sites([0, 1, 2, 3]));
        assert_eq!(sorted(0, true), sites([3, 2, 1, 0]));
        assert_eq!(sorted(1, false), sites([2, 0, 3, 1]));
        assert_eq!(sorted(1, true), sites([0, 3, 2, 1]), "unknown numbers are last");
        assert_eq!(sorted(9, false), sites([0, 1, 2, 3]), "there is no such column");
    }
}
