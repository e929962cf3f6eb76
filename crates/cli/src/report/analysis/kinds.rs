//! Handler types over all PEs. Their numbers may differ between PEs; their names do not.

use gridspan_record::{OTHER, PeRecord, Recording, TASK};
use serde::Serialize;
use std::collections::BTreeMap;

/// The runs of all handlers of one type, on all PEs and over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct KindRow {
    /// Name of the actor type; `task` for tasks, `runtime` for work of the runtime itself.
    pub(crate) name: String,
    /// Number of runs.
    pub(crate) count: u64,
    /// Total time of the runs.
    pub(crate) total_ns: u64,
    /// Mean time of a run.
    pub(crate) mean_ns: u64,
    /// Time of the longest run.
    pub(crate) max_ns: u64,
    /// Share of the time of all handlers.
    pub(crate) share: f64,
}

/// The handlers of a PE, compared with those of the same types on other PEs. Types that no other PE
/// ran are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    /// Time of these handlers.
    pub(crate) own_ns: f64,
    /// Expected time of these handlers, by the mean times of the types on other PEs.
    pub(crate) usual_ns: f64,
}

impl Pace {
    /// Own time over expected time. 1 without such handlers.
    pub(crate) fn factor(self) -> f64 {
        if self.usual_ns > 0.0 { self.own_ns / self.usual_ns } else { 1.0 }
    }
}

/// All types, those with the most time first.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    pub(crate) rows: Vec<KindRow>,
    /// For each PE the positions of its types in `rows`, then those of tasks and of the runtime.
    tables: BTreeMap<u32, Vec<usize>>,
    paces: BTreeMap<u32, Pace>,
    task: usize,
    runtime: usize,
}

/// Returns the types of a PE with their names, also those of tasks and of the runtime.
fn numbers(record: &PeRecord) -> impl Iterator<Item = (u16, &str)> {
    let own = (0..TASK).take(record.types.len());
    own.chain([TASK, OTHER]).map(move |kind| (kind, record.type_name(kind)))
}

/// Returns the row of the type with this name; adds it if it is new.
fn row<'a, 'b>(found: &'a mut BTreeMap<&'b str, KindRow>, name: &'b str) -> &'a mut KindRow {
    found.entry(name).or_insert_with(|| KindRow { name: name.to_owned(), ..KindRow::default() })
}

/// Compares the times of the handlers and tasks of a PE with those of other PEs.
fn pace(record: &PeRecord, all: &BTreeMap<&str, KindRow>) -> Pace {
    let mut pace = Pace::default();
    for own in record.totals.iter().filter(|total| total.number != OTHER) {
        let Some(row) = all.get(record.type_name(own.number)) else { continue };
        let others = row.count.saturating_sub(own.count);
        if others > 0 {
            let mean_ns = row.total_ns.saturating_sub(own.total_ns) as f64 / others as f64;
            pace.own_ns += own.total_ns as f64;
            pace.usual_ns += own.count as f64 * mean_ns;
        }
    }
    pace
}

impl Kinds {
    /// The types of this recording.
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut found: BTreeMap<&str, KindRow> = BTreeMap::new();
        let (task, runtime) = ("task", "runtime");
        for name in [task, runtime] {
            row(&mut found, name);
        }
        for record in &recording.pes {
            for (_, name) in numbers(record) {
                row(&mut found, name);
            }
            for total in &record.totals {
                let row = row(&mut found, record.type_name(total.number));
                row.count = row.count.saturating_add(total.count);
                row.total_ns = row.total_ns.saturating_add(total.total_ns);
                row.max_ns = row.max_ns.max(total.max_ns);
            }
        }
        let paces = recording.pes.iter().map(|record| (record.pe, pace(record, &found))).collect();
        let all: f64 = found.values().map(|row| row.total_ns as f64).sum();
        let mut rows: Vec<KindRow> = found.into_values().collect();
        for row in &mut rows {
            row.mean_ns = row.total_ns.checked_div(row.count).unwrap_or(0);
            row.share = if all > 0.0 { row.total_ns as f64 / all } else { 0.0 };
        }
        rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
        let place = |name: &str| rows.iter().position(|row| row.name == name).unwrap_or(0);
        let table =
            |record: &PeRecord| numbers(record).map(|(_, name)| place(name)).collect::<Vec<_>>();
        let tables = recording.pes.iter().map(|record| (record.pe, table(record))).collect();
        let (task, runtime) = (place(task), place(runtime));
        Self { rows, tables, paces, task, runtime }
    }

    /// Returns the position in [`rows`](Self::rows) of a type number of a PE.
    pub(crate) fn place(&self, pe: usize, kind: u16) -> usize {
        match kind {
            TASK => self.task,
            OTHER => self.runtime,
            kind => {
                let table = u32::try_from(pe).ok().and_then(|pe| self.tables.get(&pe));
                let own = table.and_then(|table| table.get(usize::from(kind)));
                own.copied().unwrap_or(self.runtime)
            }
        }
    }

    /// Returns the comparison of the times of a PE's handlers and tasks with those of others.
    /// `None` if the PE has no record.
    pub(crate) fn pace(&self, pe: usize) -> Option<Pace> {
        u32::try_from(pe).ok().and_then(|pe| self.paces.get(&pe)).copied()
    }

    /// Returns the rank of a type by time, without the runtime's own work.
    pub(crate) fn rank(&self, place: usize) -> usize {
        match place {
            place if place == self.runtime => usize::MAX,
            place => place - usize::from(self.runtime < place),
        }
    }

    /// The types that took time, without the runtime's own work.
    pub(crate) fn used(&self) -> impl Iterator<Item = &KindRow> {
        let all = self.rows.iter().enumerate().filter(|(place, _)| *place != self.runtime);
        all.map(|(_, row)| row).filter(|row| row.total_ns > 0)
    }

    pub(crate) fn name(&self, place: usize) -> &str {
        self.rows.get(place).map_or("?", |row| row.name.as_str())
    }

    /// Share of the time of all handlers that tasks took.
    pub(crate) fn task_share(&self) -> f64 {
        self.rows.get(self.task).map_or(0.0, |row| row.share)
    }

    /// The mean time of a handler or task, in nanoseconds. 0 if there were none.
    pub(crate) fn mean_ns(&self) -> f64 {
        let sums = self.used().fold((0.0, 0.0), |(count, ns), row| {
            (count + row.count as f64, ns + row.total_ns as f64)
        });
        if sums.0 > 0.0 { sums.1 / sums.0 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_record::TypeTotal;

    fn record(pe: u32, types: &[&str], totals: &[(u16, u64, u64, u64)]) -> PeRecord {
        let total = |&(number, count, total_ns, max_ns): &(u16, u64, u64, u64)| TypeTotal {
            number,
            count,
            total_ns,
            max_ns,
        };
        PeRecord {
            pe,
            types: types.iter().map(|name| (*name).to_owned()).collect(),
            totals: totals.iter().map(total).collect(),
            ..PeRecord::default()
        }
    }

    #[test]
    fn types_of_one_name_are_one_type_whatever_their_numbers() {
        let pes = vec![
            record(0, &["Cell", "Pair"], &[(0, 2, 20, 15), (1, 10, 500, 80)]),
            record(1, &["Pair", "Cell"], &[(0, 10, 300, 90), (TASK, 1, 7, 7)]),
        ];
        let kinds = Kinds::of(&Recording { pes, ..Recording::default() });
        let names: Vec<_> = kinds.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["Pair", "Cell", "task", "runtime"]);
        let pair = &kinds.rows[0];
        assert_eq!((pair.count, pair.total_ns, pair.mean_ns, pair.max_ns), (20, 800, 40, 90));
        assert_eq!((kinds.place(0, 1), kinds.place(1, 0)), (0, 0));
        assert_eq!((kinds.rank(1), kinds.rank(3), kinds.used().count()), (1, usize::MAX, 3));
        assert_eq!(
            (kinds.name(kinds.place(1, TASK)), kinds.name(kinds.place(0, OTHER))),
            ("task", "runtime")
        );
        assert!((kinds.mean_ns() - 827.0 / 23.0).abs() < 1e-9);
        // A `Pair` takes 30 ns on PE 1, which ran no `Cell`. PE 0 ran no tasks.
        let pace = kinds.pace(0).unwrap();
        assert_eq!((pace.own_ns, pace.usual_ns, kinds.pace(7)), (500.0, 300.0, None));
        let other = kinds.pace(1).unwrap();
        assert!((other.factor() - 300.0 / 500.0).abs() < 1e-9);
    }
}
