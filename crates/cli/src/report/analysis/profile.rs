//! How each PE used its time over the run: the bins of all PEs, in columns of one width.

use super::places::Places;
use gridspan_record::{Bin, DriverKind, OTHER, PeRecord, Recording, Span};
use serde::Serialize;

/// Maximum number of columns of all PEs together: 40 MiB.
const CELLS_MAX: usize = 1 << 20;
/// Minimum number of columns.
const COLUMNS_MIN: u64 = 64;

/// The time of a PE, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Times {
    /// In handlers and tasks.
    pub(crate) busy_ns: u64,
    /// In work of the runtime itself.
    pub(crate) runtime_ns: u64,
    /// In the network.
    pub(crate) network_ns: u64,
    /// Idle.
    pub(crate) idle_ns: u64,
    /// Ready while other threads had the processor.
    pub(crate) waited_ns: u64,
}

impl Times {
    fn of(bin: &Bin) -> Self {
        let sum = |is_runtime: bool| {
            let entries = bin.busy_ns.iter().filter(|(kind, _)| (*kind == OTHER) == is_runtime);
            entries.fold(0, |sum: u64, (_, ns)| sum.saturating_add(*ns))
        };
        Self {
            busy_ns: sum(false),
            runtime_ns: sum(true),
            network_ns: bin.network_ns,
            idle_ns: bin.idle_ns,
            waited_ns: bin.waited_ns,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        self.runtime_ns = self.runtime_ns.saturating_add(other.runtime_ns);
        self.network_ns = self.network_ns.saturating_add(other.network_ns);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
    }

    /// The time in which the PE had something to do.
    pub(crate) fn occupied_ns(&self) -> f64 {
        self.busy_ns as f64 + self.overhead_ns() + self.waited_ns as f64
    }

    /// The time that messages and tasks cost besides their handlers.
    pub(crate) fn overhead_ns(&self) -> f64 {
        self.runtime_ns as f64 + self.network_ns as f64
    }
}

/// The time of one PE.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeProfile {
    /// Whether the recording has the file of its node.
    pub(crate) is_recorded: bool,
    /// Over the whole run.
    pub(crate) total: Times,
    /// By column.
    pub(crate) columns: Vec<Times>,
    /// The largest number of ready messages.
    pub(crate) queue_max: u32,
    /// When its process began, and when its node left the job.
    lifetime: [u64; 2],
    /// Successful steals.
    pub(crate) steals: u64,
    /// Requests for tasks.
    pub(crate) steal_attempts: u64,
}

impl PeProfile {
    /// How much of an interval the PE was there for, in nanoseconds: its process may have begun
    /// later, and its node may have left earlier.
    pub(crate) fn time_within(&self, [begin_ns, until_ns]: [u64; 2]) -> f64 {
        let [began_ns, ended_ns] = self.lifetime;
        until_ns.min(ended_ns).saturating_sub(begin_ns.max(began_ns)) as f64
    }
}

/// The time of all PEs.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// When the job ended; at least 1.
    pub(crate) end_ns: u64,
    /// Begin of the first handler and end of the last one. In virtual time, in which there is no
    /// launch and no teardown, the whole job.
    pub(crate) active: [u64; 2],
    /// Width of a column.
    pub(crate) column_ns: u64,
    /// By number of PE.
    pub(crate) pes: Vec<PeProfile>,
    sums: Sums,
}

/// Sums over all recorded PEs. Kept, because limits ask for them once for each PE.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Number of these PEs.
    count: usize,
    pe_time_ns: f64,
    total: Times,
}

impl Profile {
    /// The times of this recording.
    pub(crate) fn of(recording: &Recording, places: &Places) -> Self {
        let spans = recording.pes.iter().flat_map(|record| &record.spans);
        let last_ns = spans.map(Span::end_ns).max().unwrap_or(0);
        let end_ns = recording.end_ns().max(last_ns).max(1);
        let active = active(recording, end_ns);
        let most = (CELLS_MAX / places.pe_count().max(1)) as u64;
        let column_ns = column_ns(recording, end_ns, most.max(COLUMNS_MIN));
        let mut pes = vec![PeProfile::default(); places.pe_count()];
        for record in &recording.pes {
            if let Some(pe) = pes.get_mut(record.pe as usize) {
                *pe = of_pe(record, column_ns, active, places.lifetime(record));
            }
        }
        let mut sums = Sums::default();
        for pe in pes.iter().filter(|pe| pe.is_recorded) {
            sums.count += 1;
            sums.pe_time_ns += pe.time_within(active);
            sums.total.add(pe.total);
        }
        Self { end_ns, active, column_ns, pes, sums }
    }

    /// The PEs whose records are there.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (usize, &PeProfile)> {
        self.pes.iter().enumerate().filter(|(_, pe)| pe.is_recorded)
    }

    /// The number of PEs whose records are there.
    pub(crate) fn recorded_count(&self) -> usize {
        self.sums.count
    }

    /// The time of all recorded PEs together without launch and teardown, at least 1.
    pub(crate) fn pe_time_ns(&self) -> f64 {
        self.sums.pe_time_ns.max(1.0)
    }

    /// The sum over all recorded PEs.
    pub(crate) fn total(&self) -> Times {
        self.sums.total
    }

    /// Returns the overhead of all PEs within intervals that do not overlap. Columns at the ends of
    /// an interval count in part.
    pub(crate) fn overhead_within(&self, times: impl Iterator<Item = [u64; 2]>) -> f64 {
        let columns = self.recorded().map(|(_, pe)| pe.columns.len()).max().unwrap_or(0);
        let mut until = vec![0.0; columns + 1];
        for (_, pe) in self.recorded() {
            for (sum, times) in until.iter_mut().skip(1).zip(&pe.columns) {
                *sum += times.overhead_ns();
            }
        }
        for at in 1..until.len() {
            until[at] += until[at - 1];
        }
        let before = |ns: u64| {
            let at = ((ns / self.column_ns) as usize).min(columns);
            let part = (ns % self.column_ns) as f64 / self.column_ns as f64;
            let next = until[(at + 1).min(columns)];
            until[at] + (next - until[at]) * part
        };
        times.map(|[from, to]| before(to) - before(from)).sum()
    }

    /// Returns the work per second of all PEs in a part of the run: busy time times speed. `None`
    /// if fewer than `columns_min` whole columns are in it.
    pub(crate) fn work_rate(
        &self,
        places: &Places,
        [from_ns, to_ns]: [u64; 2],
        columns_min: u64,
    ) -> Option<f64> {
        let first = from_ns.div_ceil(self.column_ns);
        let end = to_ns / self.column_ns;
        if end < first.saturating_add(columns_min) {
            return None;
        }
        let mut work = 0.0;
        for (pe, profile) in self.recorded() {
            let columns = profile.columns.iter().take(end as usize).skip(first as usize);
            work += columns.map(|times| times.busy_ns as f64).sum::<f64>() * places.speed(pe);
        }
        Some(work / ((end - first) * self.column_ns) as f64)
    }

    /// Returns the unevenness of PEs: the greatest busy time over the mean, in each of about
    /// `parts` parts of the run, averaged with the work of the parts as weights. 1 if PEs are even
    /// at each time.
    pub(crate) fn unevenness(&self, parts: usize) -> f64 {
        let columns = self.recorded().map(|(_, pe)| pe.columns.len()).max().unwrap_or(0);
        let width = columns.div_ceil(parts.max(1)).max(1);
        let (mut sum, mut weight) = (0.0, 0.0);
        for first in (0..columns).step_by(width) {
            let busy = |(_, pe): (usize, &PeProfile)| {
                let columns = pe.columns.iter().skip(first).take(width);
                columns.map(|times| times.busy_ns as f64).sum::<f64>()
            };
            let (most, all, count) =
                self.recorded().map(busy).fold((0.0_f64, 0.0, 0.0), |(most, all, count), busy| {
                    (most.max(busy), all + busy, count + 1.0)
                });
            if all > 0.0 {
                sum += most * count;
                weight += all;
            }
        }
        if weight > 0.0 { sum / weight } else { 1.0 }
    }
}

/// Returns the width of columns: that of the widest bins, doubled until there are at most `most`
/// columns.
fn column_ns(recording: &Recording, end_ns: u64, most: u64) -> u64 {
    let widest = recording.pes.iter().map(|record| record.bin_ns).max().unwrap_or(0).max(1);
    let mut width = widest;
    while end_ns.div_ceil(width) > most {
        width = width.saturating_mul(2);
    }
    width
}

/// Returns when the first handler began and the last one ended: by spans, and also by bins where
/// spans were dropped.
fn active(recording: &Recording, end_ns: u64) -> [u64; 2] {
    let (mut begin, mut until) = (u64::MAX, 0);
    for record in &recording.pes {
        for span in &record.spans {
            (begin, until) = (begin.min(span.begin_ns), until.max(span.end_ns()));
        }
        let is_busy = |bin: &Bin| Times::of(bin).busy_ns > 0;
        let at = |number: usize| (number as u64).saturating_mul(record.bin_ns);
        if record.dropped_spans > 0 {
            let first = record.bins.iter().position(is_busy).map_or(u64::MAX, at);
            let last = record.bins.iter().rposition(is_busy).map_or(0, |last| at(last + 1));
            (begin, until) = (begin.min(first), until.max(last.min(end_ns)));
        }
    }
    match recording.header.driver {
        DriverKind::Threads | DriverKind::Processes if begin < until => [begin, until],
        _ => [0, end_ns],
    }
}

/// Returns the time of a bin, without idle time outside of the active part of the run. PEs may not
/// have filled the last bin up to its end.
fn cut(bin: &Bin, [begin_ns, end_ns]: [u64; 2], active: [u64; 2]) -> Times {
    if end_ns <= active[0] || begin_ns >= active[1] {
        return Times::default();
    }
    let times = Times::of(bin);
    let filled_ns = (times.occupied_ns() as u64).saturating_add(times.idle_ns);
    let filled_until = begin_ns.saturating_add(filled_ns).min(end_ns);
    let before_ns = active[0].saturating_sub(begin_ns);
    let outside_ns = before_ns.saturating_add(filled_until.saturating_sub(active[1]));
    Times { idle_ns: times.idle_ns.saturating_sub(outside_ns), ..times }
}

fn of_pe(record: &PeRecord, column_ns: u64, active: [u64; 2], lifetime: [u64; 2]) -> PeProfile {
    let mut profile = PeProfile { is_recorded: true, lifetime, ..PeProfile::default() };
    for (number, bin) in (0_u64..).zip(&record.bins) {
        let column = (number.saturating_mul(record.bin_ns) / column_ns) as usize;
        if profile.columns.len() <= column {
            profile.columns.resize(column + 1, Times::default());
        }
        let bin_times =
            [number, number.saturating_add(1)].map(|it| it.saturating_mul(record.bin_ns));
        let times = cut(bin, bin_times, active);
        profile.columns[column].add(times);
        profile.total.add(times);
        profile.queue_max = profile.queue_max.max(bin.queue);
        profile.steals = profile.steals.saturating_add(u64::from(bin.steals));
        let attempts = u64::from(bin.steal_attempts);
        profile.steal_attempts = profile.steal_attempts.saturating_add(attempts);
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, busy_bin, complete, recording, span};
    use super::*;
    use gridspan_record::{JobEnding, RecordedEvent, What};

    /// PE 0 has two bins of 10 ns, PE 1 one of 20 ns.
    fn profile() -> (Places, Profile) {
        let mut recording = recording(1, 2);
        recording.pes[0].bin_ns = 10;
        recording.pes[0].bins = vec![busy_bin(8, 2), busy_bin(4, 6)];
        recording.pes[1].bin_ns = 20;
        recording.pes[1].bins = vec![busy_bin(4, 16)];
        recording.ending = Some(JobEnding { at_ns: 20, ..JobEnding::default() });
        let places = Places::of(&recording);
        let profile = Profile::of(&recording, &places);
        (places, profile)
    }

    #[test]
    fn bins_of_different_widths_share_columns() {
        let (places, profile) = profile();
        assert_eq!((profile.column_ns, profile.end_ns), (20, 20));
        assert_eq!((profile.pes[0].columns.len(), profile.pes[0].columns[0].busy_ns), (1, 12));
        assert_eq!((profile.total().busy_ns, profile.total().idle_ns), (16, 24));
        assert_eq!((profile.pe_time_ns(), profile.recorded_count()), (40.0, 2));
        assert_eq!(profile.work_rate(&places, [0, 20], 1), Some(0.8));
        assert_eq!(profile.work_rate(&places, [1, 20], 1), None);
    }

    #[test]
    fn a_pe_that_joins_later_has_no_time_before() {
        let mut recording = recording(1, 2);
        recording.pes[1].began_ns = 15;
        recording.ending = Some(JobEnding { at_ns: 20, ..JobEnding::default() });
        assert_eq!(Profile::of(&recording, &Places::of(&recording)).pe_time_ns(), 25.0);
    }

    #[test]
    fn a_pe_whose_node_leaves_has_no_time_afterwards() {
        let mut recording = recording(1, 2);
        recording.events = vec![RecordedEvent { at_ns: 12, what: What::Left { node: 1 } }];
        recording.ending = Some(JobEnding { at_ns: 20, ..JobEnding::default() });
        assert_eq!(Profile::of(&recording, &Places::of(&recording)).pe_time_ns(), 32.0);
    }

    #[test]
    fn overhead_within_times_is_counted_in_part_at_their_ends() {
        let (_, mut profile) = profile();
        profile.pes[0].columns =
            vec![Times { network_ns: 8, runtime_ns: 2, ..Times::default() }; 2];
        let within = |times: &[[u64; 2]]| profile.overhead_within(times.iter().copied());
        assert_eq!(
            [within(&[[0, 40]]), within(&[[10, 20], [30, 90]]), within(&[])],
            [20.0, 10.0, 0.0]
        );
    }

    #[test]
    fn launch_and_teardown_are_no_time_of_pes() {
        let mut recording = recording(1, 2);
        recording.header.driver = DriverKind::Processes;
        recording.pes[1].spans = vec![span(1, 0, [30, 50]), span(1, 1, [60, 70])];
        complete(&mut recording, 100);
        let profile = Profile::of(&recording, &Places::of(&recording));
        assert_eq!((profile.active, profile.end_ns), ([30 * MS, 70 * MS], 100 * MS));
        assert_eq!(profile.pe_time_ns(), 80e6);
        assert_eq!((profile.total().idle_ns, profile.total().busy_ns), (50 * MS, 30 * MS));
    }

    #[test]
    fn unevenness_is_the_greatest_load_over_the_mean() {
        assert!((profile().1.unevenness(10) - 1.5).abs() < 1e-9);
    }

    #[test]
    fn many_pes_have_few_columns() {
        let mut recording = recording(1, 2);
        recording.pes.iter_mut().for_each(|record| record.bin_ns = 1);
        assert_eq!(column_ns(&recording, 100_000, 64), 2048);
        assert_eq!(column_ns(&recording, 100_000, 1), 1 << 17);
    }
}
