//! The tables of sites, nodes, PEs, actor types and links.

use super::figures::Figures;
use super::parts::{LinkPart, NodePart, Parts, PePart, SitePart, TypePart};
use super::sheet::{Cell, Column, Row, RowKey, Sheet};
use super::text::{count, percent, rate};
use crate::quantity::{UNKNOWN, bandwidth, bytes};
use gridspan_topology::{Bandwidth, NodeId, SiteId};

/// Marks a PE that is inside a long handler, or a node that has one.
const LATE: &str = "*";

/// Columns of the figures that all places have.
const FIGURES: [Column; 12] = [
    Column::new("busy%", 5),
    Column::new("net%", 4),
    Column::new("idle%", 5),
    Column::new("other%", 6),
    Column::new("actors", 6),
    Column::new("queue", 6),
    Column::extra("bytes", 7),
    Column::new("msgs/s", 6),
    Column::extra("moved", 6),
    Column::extra("tasks", 6),
    Column::extra("tasks/s", 7),
    Column::extra("msgs", 6),
];

fn figures(of: &Figures) -> Vec<Cell> {
    let number = |number: u64| Cell::number(number as f64, count(number));
    let share = |share: Option<f64>| Cell::number(share, percent(share));
    let per_s = |per_s: Option<f64>| Cell::number(per_s, rate(per_s));
    vec![
        share(of.busy),
        share(of.network),
        share(of.idle),
        share(of.foreign),
        number(of.actors),
        number(of.waiting),
        Cell::number(of.waiting_bytes as f64, bytes(of.waiting_bytes)),
        per_s(of.messages_per_s),
        number(of.moved),
        number(of.tasks_waiting),
        per_s(of.tasks_per_s),
        number(of.messages),
    ]
}

fn memory(memory: Option<u64>) -> Cell {
    Cell::number(memory.map(|it| it as f64), memory.map_or_else(|| UNKNOWN.to_owned(), bytes))
}

fn whole(number: u32) -> Cell {
    Cell::number(f64::from(number), number.to_string())
}

fn columns(first: &[Column]) -> Vec<Column> {
    first.iter().chain(&FIGURES).copied().collect()
}

/// The sites of the job.
pub(super) fn sites(parts: Parts<'_>) -> Sheet {
    let first = [
        Column::new("site", 10),
        Column::extra("nodes", 5),
        Column::new("PEs", 5),
        Column::new("memory", 7),
    ];
    let row = |site: SitePart| {
        let name = Cell::name(parts.now.site_name(site.site));
        let mut cells = vec![name, whole(site.nodes), whole(site.pes), memory(site.memory)];
        cells.extend(figures(&site.figures));
        Row { key: RowKey::Site(site.site), cells }
    };
    Sheet { columns: columns(&first), rows: parts.sites().into_iter().map(row).collect() }
}

/// The nodes of a site, or of all sites.
pub(super) fn nodes(parts: Parts<'_>, of: Option<SiteId>) -> Sheet {
    let first = [Column::new("node", 10), Column::new("PEs", 5), Column::new("memory", 7)];
    let row = |node: NodePart| {
        let late = if node.late_pes > 0 { LATE } else { "" };
        let name = Cell::name(parts.now.node_name(node.node) + late);
        let mut cells = vec![name, whole(node.pes), memory(node.memory)];
        cells.extend(figures(&node.figures));
        Row { key: RowKey::Node(node.node), cells }
    };
    Sheet { columns: columns(&first), rows: parts.nodes(of).into_iter().map(row).collect() }
}

/// The PEs of a node, or of all nodes.
pub(super) fn pes(parts: Parts<'_>, of: Option<NodeId>) -> Sheet {
    let row = |pe: PePart| {
        let late = if pe.is_late { LATE } else { "" };
        let mut cells = vec![Cell::name(format!("{}{late}", pe.pe))];
        cells.extend(figures(&pe.figures));
        Row { key: RowKey::Pe(pe.pe), cells }
    };
    let columns = columns(&[Column::new("PE", 10)]);
    Sheet { columns, rows: parts.pes(of).into_iter().map(row).collect() }
}

/// The actor types of the job, or one of them by site.
pub(super) fn types(parts: Parts<'_>, of: Option<u16>) -> Sheet {
    let title = if of.is_some() { "site" } else { "actor type" };
    let columns = vec![
        Column::new(title, 30),
        Column::new("actors", 8),
        Column::new("queue", 8),
        Column::new("msgs/s", 8),
        Column::new("msgs", 8),
    ];
    let row = |it: TypePart| {
        let (key, name) = match it.site {
            Some(site) => (RowKey::TypeAt(it.number, site), parts.now.site_name(site)),
            None => (RowKey::Type(it.number), parts.now.type_name(it.number)),
        };
        let number = |number: u64| Cell::number(number as f64, count(number));
        let per_s = Cell::number(it.messages_per_s, rate(it.messages_per_s));
        let numbers = [number(it.actors), number(it.waiting), per_s, number(it.messages)];
        Row { key, cells: [Cell::name(name)].into_iter().chain(numbers).collect() }
    };
    Sheet { columns, rows: parts.types(of).into_iter().map(row).collect() }
}

/// The links between sites.
pub(super) fn links(parts: Parts<'_>) -> Sheet {
    let columns = vec![
        Column::new("link", 20),
        Column::new("msgs/s", 8),
        Column::new("bytes/s", 9),
        Column::new("rate", 12),
        Column::new("bandwidth", 12),
        Column::new("used%", 5),
        Column::extra("msgs", 8),
        Column::extra("bytes", 8),
    ];
    let row = |link: LinkPart| {
        let (from, to) = (parts.now.site_name(link.from), parts.now.site_name(link.to));
        let name = if from == to { format!("inside {from}") } else { format!("{from} > {to}") };
        let unknown = || UNKNOWN.to_owned();
        let of_bits = |bps: u64| bandwidth(Bandwidth::from_bits_per_second(bps));
        let per_s = link.bytes_per_s;
        let bps = per_s.map(|per_s| (per_s * 8.0) as u64);
        let cells = vec![
            Cell::name(name),
            Cell::number(link.messages_per_s, rate(link.messages_per_s)),
            Cell::number(per_s, per_s.map_or_else(unknown, |per_s| bytes(per_s as u64))),
            Cell::number(per_s, bps.map_or_else(unknown, of_bits)),
            Cell::number(
                link.bandwidth_bps.map(|bps| bps as f64),
                link.bandwidth_bps.map_or_else(unknown, of_bits),
            ),
            Cell::number(link.used, percent(link.used)),
            Cell::number(link.messages as f64, count(link.messages)),
            Cell::number(link.bytes as f64, bytes(link.bytes)),
        ];
        Row { key: RowKey::Link(link.from, link.to), cells }
    };
    Sheet { columns, rows: parts.links().into_iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::moment;
    use super::*;

    /// The cells of each row, with bars between them.
    fn texts(sheet: &Sheet) -> Vec<String> {
        assert!(sheet.rows.iter().all(|row| row.cells.len() == sheet.columns.len()));
        let line = |row: &Row| {
            row.cells.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>().join("|")
        };
        sheet.rows.iter().map(line).collect()
    }

    #[test]
    fn each_table_shows_its_parts() {
        let (before, now) = (moment(10), moment(12));
        let parts = Parts::new(&now, Some(&before));
        assert_eq!(
            texts(&sites(parts)),
            [
                "a|2|2|105 MB|20|5|75|11|32|10|12.0 kB|3000|6|0|0|36.0k",
                "b|2|2|105 MB|60|5|35|38|32|50|60.0 kB|7000|6|0|0|84.0k",
            ]
        );
        let of_b = texts(&nodes(parts, Some(SiteId(1))));
        assert_eq!(of_b[1], "b/3*|1|52.4 MB|70|5|25|43|16|30|36.0 kB|4000|3|0|0|48.0k");
        assert_eq!(
            texts(&pes(parts, Some(NodeId(3)))),
            ["pe3*|70|5|25|43|16|30|36.0 kB|4000|3|0|0|48.0k"]
        );
        assert_eq!(texts(&types(parts, None)), ["Cell|60|10|8970|108k", "Clock|4|10|30.0|360"]);
        assert_eq!(texts(&types(parts, Some(1)))[1], "b|2|10|20.0|240");
    }

    #[test]
    fn links_show_what_is_used_of_their_bandwidth() {
        let (before, now) = (moment(10), moment(12));
        assert_eq!(
            texts(&links(Parts::new(&now, Some(&before)))),
            [
                "inside a|900|4.50 MB|36.0 Mbit/s|-|-|10.8k|54.0 MB",
                "a > b|1000|5.00 MB|40.0 Mbit/s|100 Mbit/s|40|12.0k|60.0 MB",
                "b > a|800|4.00 MB|32.0 Mbit/s|-|-|9600|48.0 MB",
                "inside b|700|3.50 MB|28.0 Mbit/s|-|-|8400|42.0 MB",
            ]
        );
        let alone = texts(&links(Parts::new(&now, None)));
        assert_eq!(alone[1], "a > b|-|-|-|100 Mbit/s|-|12.0k|60.0 MB");
    }
}
