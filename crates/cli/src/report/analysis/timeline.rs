//! What each PE did over time, in a bounded number of rows and columns.

use super::kinds::Kinds;
use super::places::Places;
use super::profile::Profile;
use gridspan_record::{OTHER, PeRecord, Recording};
use serde::Serialize;

/// Maximum number of rows. With more PEs a row is a node, with more nodes a site.
pub(crate) const ROWS_MAX: usize = 160;
/// Maximum number of columns of all rows together.
pub(crate) const CELLS_MAX: usize = 16_000;
/// Maximum number of handler types with a series; the others share one.
pub(crate) const KINDS_MAX: usize = 6;

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowKind {
    /// A PE.
    Pe,
    /// A node, with the mean of its PEs.
    Node,
    /// A site, with the mean of its PEs.
    Site,
}

/// What a series stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "series", rename_all = "snake_case")]
pub(crate) enum Series {
    /// Handlers of a type.
    Kind {
        /// Its name.
        name: String,
    },
    /// Handlers of all other types.
    OtherKinds,
    /// The network, and the runtime itself.
    Overhead,
    /// A PE was ready, but other threads had its processor.
    Waited,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TimelineRow {
    pub(crate) name: String,
    /// The number of its site.
    pub(crate) site: usize,
    /// Percent of the time, by series and column. The rest is idle time.
    pub(crate) percent: Vec<Vec<u8>>,
}

/// The timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Timeline {
    /// What rows stand for.
    pub(crate) of: RowKind,
    /// Rows that are left out, if there are too many sites.
    pub(crate) left_out: usize,
    /// Width of a column.
    pub(crate) column_ns: u64,
    /// Number of columns.
    pub(crate) columns: usize,
    pub(crate) series: Vec<Series>,
    /// The rows, by site.
    pub(crate) rows: Vec<TimelineRow>,
}

impl Timeline {
    /// The timeline of a recording.
    pub(crate) fn of(
        recording: &Recording,
        places: &Places,
        kinds: &Kinds,
        profile: &Profile,
    ) -> Self {
        let (of, groups) = groups(places);
        let left_out = groups.len().saturating_sub(ROWS_MAX);
        let groups: Vec<Group> = groups.into_iter().take(ROWS_MAX).collect();
        let most = (CELLS_MAX / groups.len().max(1)).max(1) as u64;
        let mut column_ns = profile.column_ns;
        while profile.end_ns.div_ceil(column_ns) > most {
            column_ns = column_ns.saturating_mul(2);
        }
        let columns = profile.end_ns.div_ceil(column_ns) as usize;
        let series = series(kinds);
        let draw = |group: Group| {
            let records = recording.pes.iter().filter(|it| group.pes.contains(&(it.pe as usize)));
            let mut sums = vec![vec![0_u64; columns]; series.len()];
            let mut count = 0;
            for record in records {
                add(record, kinds, column_ns, &mut sums);
                count += 1;
            }
            let percent = percent(&sums, count, column_ns, profile.end_ns);
            TimelineRow { name: group.name, site: group.site, percent }
        };
        let rows = groups.into_iter().map(draw).collect();
        Self { of, left_out, column_ns, columns, series, rows }
    }
}

struct Group {
    name: String,
    site: usize,
    pes: std::collections::BTreeSet<usize>,
}

/// Returns the rows in the order of sites.
fn groups(places: &Places) -> (RowKind, Vec<Group>) {
    let mut groups = Vec::new();
    let (pes, nodes, sites) = (places.pe_count(), places.node_count(), places.site_count());
    if pes <= ROWS_MAX {
        groups.extend((0..pes).map(|pe| Group {
            name: format!("PE {pe}"),
            site: places.site_of(pe),
            pes: [pe].into(),
        }));
        groups.sort_by_key(|group| group.site);
        return (RowKind::Pe, groups);
    }
    if nodes <= ROWS_MAX {
        groups.extend((0..nodes).map(|node| Group {
            name: places.node_label(node).to_owned(),
            site: places.site_of_node(node),
            pes: places.pes_on(node).into_iter().collect(),
        }));
        groups.sort_by_key(|group| group.site);
        return (RowKind::Node, groups);
    }
    groups.extend((0..sites).map(|site| Group {
        name: places.site_name(site).to_owned(),
        site,
        pes: places.pes_at(site).into_iter().collect(),
    }));
    (RowKind::Site, groups)
}

fn series(kinds: &Kinds) -> Vec<Series> {
    let own = kinds.used().take(KINDS_MAX).map(|row| Series::Kind { name: row.name.clone() });
    own.chain([Series::OtherKinds, Series::Overhead, Series::Waited]).collect()
}

/// Adds the bins of a PE to sums by series and column.
fn add(record: &PeRecord, kinds: &Kinds, column_ns: u64, sums: &mut [Vec<u64>]) {
    let of_kinds = sums.len() - 3;
    for (number, bin) in (0_u64..).zip(&record.bins) {
        let column = (number.saturating_mul(record.bin_ns) / column_ns) as usize;
        let mut note = |series: usize, ns: u64| {
            if let Some(sum) = sums[series].get_mut(column) {
                *sum = sum.saturating_add(ns);
            }
        };
        for (kind, ns) in &bin.busy_ns {
            match kinds.place(record.pe as usize, *kind) {
                _ if *kind == OTHER => note(of_kinds + 1, *ns),
                place if kinds.rank(place) < of_kinds => note(kinds.rank(place), *ns),
                _ => note(of_kinds, *ns),
            }
        }
        note(of_kinds + 1, bin.network_ns);
        note(of_kinds + 2, bin.waited_ns);
    }
}

/// Returns the percentages of the time of `count` PEs. No column has more than 100 in all.
fn percent(sums: &[Vec<u64>], count: u64, column_ns: u64, end_ns: u64) -> Vec<Vec<u8>> {
    let mut percent = vec![vec![0_u8; sums.first().map_or(0, Vec::len)]; sums.len()];
    for column in 0..percent.first().map_or(0, Vec::len) {
        let begin = (column as u64).saturating_mul(column_ns);
        let width = column_ns.min(end_ns.saturating_sub(begin)).max(1);
        let sum: f64 = sums.iter().map(|series| series[column] as f64).sum();
        // The clocks of nodes differ a little, so that the sum may exceed the width.
        let whole = (width as f64 * count.max(1) as f64).max(sum);
        let mut left = 100.0;
        for (series, percent) in sums.iter().zip(&mut percent) {
            let part = (series[column] as f64 * 100.0 / whole).round().min(left);
            left -= part;
            percent[column] = part as u8;
        }
    }
    percent
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, complete, recording, span};
    use super::*;
    use gridspan_record::{Bin, Span};

    fn timeline(recording: &Recording) -> Timeline {
        let places = Places::of(recording);
        let profile = Profile::of(recording, &places);
        Timeline::of(recording, &places, &Kinds::of(recording), &profile)
    }

    #[test]
    fn rows_show_what_each_pe_did() {
        let mut recording = recording(1, 2);
        recording.pes[0].spans = vec![span(0, 0, [0, 2]), Span { kind: 1, ..span(0, 1, [2, 3]) }];
        complete(&mut recording, 4);
        recording.pes[1].bins[0] = Bin {
            busy_ns: vec![(0, MS / 4), (OTHER, MS / 4)],
            network_ns: MS / 4,
            waited_ns: MS / 4,
            ..Bin::default()
        };

        let timeline = timeline(&recording);

        let kind = |name: &str| Series::Kind { name: name.to_owned() };
        let rest = [Series::OtherKinds, Series::Overhead, Series::Waited];
        let all = [kind("Worker"), kind("Sink")].into_iter().chain(rest).collect::<Vec<_>>();
        assert_eq!(timeline.series, all);
        assert_eq!((timeline.of, timeline.columns, timeline.rows.len()), (RowKind::Pe, 4, 2));
        assert_eq!(timeline.rows[0].percent[0], [100, 100, 0, 0]);
        assert_eq!(timeline.rows[0].percent[1], [0, 0, 100, 0]);
        let first: Vec<u8> = timeline.rows[1].percent.iter().map(|series| series[0]).collect();
        assert_eq!(first, [25, 0, 0, 50, 25]);
    }

    #[test]
    fn many_pes_are_drawn_by_node_or_site_and_the_size_is_bounded() {
        for (sites, nodes, of) in [(2, 80, RowKind::Pe), (2, 81, RowKind::Site)] {
            let mut recording = recording(sites, nodes);
            complete(&mut recording, 200);
            let timeline = timeline(&recording);
            assert_eq!(timeline.of, of);
            assert!(timeline.rows.len() * timeline.columns <= CELLS_MAX, "{}", timeline.columns);
        }
        let mut recording = recording(1, 100);
        let pes = recording.header.pes.clone();
        recording.header.pes.extend(pes);
        complete(&mut recording, 20);
        assert_eq!(timeline(&recording).of, RowKind::Node);
    }
}
