//! What each PE did over time, in a bounded number of rows and columns.

use super::kinds::Kinds;
use super::places::Places;
use super::profile::{PeProfile, Profile};
use gridspan_record::{OTHER, PeRecord, Recording};
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// There is no record: the process of the PE had not begun, or its node had left, or was lost.
    NoRecord,
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
    /// Number of rows that are left out, if there are too many sites.
    pub(crate) left_out: usize,
    /// Width of a column.
    pub(crate) column_ns: u64,
    /// Number of columns.
    pub(crate) columns: usize,
    /// The series; [`Series::NoRecord`] only if there is such time.
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
        let Groups { of, left_out, shown } = Groups::of(places);
        let most = (CELLS_MAX / shown.len().max(1)).max(1) as u64;
        let mut column_ns = profile.column_ns;
        while profile.end_ns.div_ceil(column_ns) > most {
            column_ns = column_ns.saturating_mul(2);
        }
        let columns = profile.end_ns.div_ceil(column_ns) as usize;
        let mut series = series(kinds);
        let rows_of: BTreeMap<usize, usize> =
            shown.iter().enumerate().map(|(row, group)| (group.number, row)).collect();
        let mut sums = vec![vec![vec![0_u64; columns]; series.len()]; shown.len()];
        let mut counts = vec![0_u64; shown.len()];
        let ns = [column_ns, profile.end_ns];
        for record in &recording.pes {
            let Some(row) = rows_of.get(&of.number(places, record.pe as usize)) else { continue };
            add(record, kinds, column_ns, &mut sums[*row]);
            add_no_record(profile.pes.get(record.pe as usize), ns, &mut sums[*row]);
            counts[*row] += 1;
        }
        for (sums, _) in sums.iter_mut().zip(&counts).filter(|(_, count)| **count == 0) {
            add_no_record(None, ns, sums);
        }
        let draw = |((group, sums), count): ((Group, Vec<Vec<u64>>), u64)| {
            let percent = percent(&sums, count, ns);
            TimelineRow { name: group.name, site: group.site, percent }
        };
        let mut rows: Vec<TimelineRow> =
            shown.into_iter().zip(sums).zip(counts).map(draw).collect();
        let no_record = rows.iter().filter_map(|row| row.percent.last()).flatten();
        if no_record.copied().all(|percent| percent == 0) {
            series.pop();
            rows.iter_mut().for_each(|row| row.percent.truncate(series.len()));
        }
        Self { of, left_out, column_ns, columns, series, rows }
    }
}

impl RowKind {
    /// The number of the row of a PE: that of the PE itself, of its node or of its site.
    fn number(self, places: &Places, pe: usize) -> usize {
        match self {
            Self::Pe => pe,
            Self::Node => places.node_of(pe),
            Self::Site => places.site_of(pe),
        }
    }
}

/// A row that is to be drawn.
struct Group {
    /// The number of its PE, node or site.
    number: usize,
    name: String,
    site: usize,
}

/// The rows.
struct Groups {
    of: RowKind,
    /// The rows that are drawn, in the order of sites.
    shown: Vec<Group>,
    left_out: usize,
}

impl Groups {
    fn of(places: &Places) -> Self {
        let (pes, nodes, sites) = (places.pe_count(), places.node_count(), places.site_count());
        let (of, count) = match () {
            () if pes <= ROWS_MAX => (RowKind::Pe, pes),
            () if nodes <= ROWS_MAX => (RowKind::Node, nodes),
            () => (RowKind::Site, sites),
        };
        let group = |number: usize| {
            let (name, site) = match of {
                RowKind::Pe => (format!("PE {number}"), places.site_of(number)),
                RowKind::Node => {
                    (places.node_label(number).to_owned(), places.site_of_node(number))
                }
                RowKind::Site => (places.site_name(number).to_owned(), number),
            };
            Group { number, name, site }
        };
        let mut shown: Vec<Group> = (0..count.min(ROWS_MAX)).map(group).collect();
        shown.sort_by_key(|group| group.site);
        Self { of, left_out: count - shown.len(), shown }
    }
}

fn series(kinds: &Kinds) -> Vec<Series> {
    let own = kinds.used().take(KINDS_MAX).map(|row| Series::Kind { name: row.name.clone() });
    own.chain([Series::OtherKinds, Series::Overhead, Series::Waited, Series::NoRecord]).collect()
}

/// Adds the bins of a PE to sums by series and column.
fn add(record: &PeRecord, kinds: &Kinds, column_ns: u64, sums: &mut [Vec<u64>]) {
    let of_kinds = sums.len() - 4;
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

/// The begin and the end of a column; the last one ends with the run.
fn times_of(column: usize, [column_ns, end_ns]: [u64; 2]) -> [u64; 2] {
    let begin_ns = (column as u64).saturating_mul(column_ns);
    let width_ns = column_ns.min(end_ns.saturating_sub(begin_ns)).max(1);
    [begin_ns, begin_ns.saturating_add(width_ns)]
}

/// Adds to the last series the time of which a PE has no record: all time if it has no profile.
fn add_no_record(pe: Option<&PeProfile>, ns: [u64; 2], sums: &mut [Vec<u64>]) {
    for (column, sum) in sums.last_mut().into_iter().flatten().enumerate() {
        let [begin_ns, end_ns] = times_of(column, ns);
        let known = pe.map_or(0.0, |pe| pe.time_within([begin_ns, end_ns]));
        *sum = sum.saturating_add((end_ns - begin_ns).saturating_sub(known as u64));
    }
}

/// Returns the percentages of the time of `count` PEs. No column has more than 100 in all.
fn percent(sums: &[Vec<u64>], count: u64, ns: [u64; 2]) -> Vec<Vec<u8>> {
    let mut percent = vec![vec![0_u8; sums.first().map_or(0, Vec::len)]; sums.len()];
    for column in 0..percent.first().map_or(0, Vec::len) {
        let [begin_ns, end_ns] = times_of(column, ns);
        let width = end_ns - begin_ns;
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
    use gridspan_record::{Bin, RecordedEvent, Span, What};

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

    #[test]
    fn times_without_a_record_are_no_idle_time() {
        // The process of PE 1 began after 2 ms, the node of PE 2 left after 3, and that of PE 3 was
        // lost.
        let mut recording = recording(1, 4);
        recording.pes[0].spans = vec![span(0, 0, [0, 4])];
        complete(&mut recording, 4);
        recording.pes[1].began_ns = 2 * MS;
        recording.events = vec![RecordedEvent { at_ns: 3 * MS, what: What::Left { node: 2 } }];
        recording.pes.pop();
        recording.missing = vec![3];

        let timeline = timeline(&recording);

        assert_eq!(timeline.series.last(), Some(&Series::NoRecord));
        let last = timeline.rows.iter().map(|row| row.percent.last().unwrap().clone());
        let expected = [[0, 0, 0, 0], [100, 100, 0, 0], [0, 0, 0, 100], [100, 100, 100, 100]];
        assert_eq!(last.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_first_of_many_sites_are_drawn_with_the_mean_of_their_own_pes() {
        let mut recording = recording(1, 340);
        recording.header.sites = (0..170).map(|site| format!("s{site}")).collect();
        for (number, node) in (0..).zip(&mut recording.header.nodes) {
            node.site = number / 2;
        }
        recording.pes[3].spans = vec![span(3, 0, [0, 4])];
        complete(&mut recording, 4);

        let timeline = timeline(&recording);

        assert_eq!((timeline.of, timeline.rows.len(), timeline.left_out), (RowKind::Site, 160, 10));
        let busy: Vec<u8> = timeline.rows.iter().map(|row| row.percent[0][0]).collect();
        assert_eq!((busy[1], busy.iter().map(|it| u32::from(*it)).sum::<u32>()), (50, 50));
    }
}
