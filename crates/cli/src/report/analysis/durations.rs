//! Durations of handlers and tasks: quantiles and a histogram by type, from the kept spans.

use super::history::History;
use super::kinds::Kinds;
use gridspan_record::OTHER;
use serde::Serialize;
use std::collections::BTreeMap;

/// Number of buckets between two powers of two. Quantiles are read from buckets, with an error of
/// at most 3 %.
const PARTS: u64 = 16;
/// Number of buckets for all durations.
const BUCKETS: usize = 64 * PARTS as usize;
/// Maximum number of types.
const TYPES_MAX: usize = 200;
/// Number of bounds of a histogram: 1, 2, 5, 10, ... from 1 µs to 1000 s.
const BOUNDS: usize = 28;

/// The durations of a type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DurationRow {
    /// Name of the type.
    pub(crate) name: String,
    /// Number of kept runs.
    pub(crate) runs: u64,
    /// Half of the runs are shorter.
    pub(crate) median_ns: u64,
    /// 90 % of the runs are shorter.
    pub(crate) p90_ns: u64,
    /// 99 % of the runs are shorter.
    pub(crate) p99_ns: u64,
    /// Number of runs below the first bound, between each two bounds, and from the last bound on.
    pub(crate) histogram: Vec<u64>,
}

/// The durations of all types.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Durations {
    /// Bounds of the histograms.
    pub(crate) bounds_ns: Vec<u64>,
    /// The types with kept runs, those with the most time first.
    pub(crate) rows: Vec<DurationRow>,
}

/// Counts of the durations of a type.
struct Counts {
    buckets: Vec<u64>,
    histogram: Vec<u64>,
    runs: u64,
}

impl Durations {
    /// Collects the durations of the spans of a history.
    pub(crate) fn of(history: &History<'_>, kinds: &Kinds) -> Self {
        let bounds_ns: Vec<u64> = bounds().collect();
        let mut found: BTreeMap<usize, Counts> = BTreeMap::new();
        for (pe, known) in history.pes.iter().enumerate() {
            for span in known.spans.iter().map(|kept| kept.span).filter(|span| span.kind != OTHER) {
                let counts = found.entry(kinds.place(pe, span.kind)).or_insert_with(Counts::new);
                counts.add(span.duration_ns, &bounds_ns);
            }
        }
        // The positions of types follow their total times, the largest first.
        let row = |(place, counts): (usize, Counts)| DurationRow {
            name: kinds.name(place).to_owned(),
            runs: counts.runs,
            median_ns: counts.quantile(0.5),
            p90_ns: counts.quantile(0.9),
            p99_ns: counts.quantile(0.99),
            histogram: counts.histogram,
        };
        let rows = found.into_iter().take(TYPES_MAX).map(row).collect();
        Self { bounds_ns, rows }
    }

    /// Returns the durations of the type of this name.
    pub(crate) fn of_type(&self, name: &str) -> Option<&DurationRow> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// Returns 1, 2, 5, 10, ... microseconds, in nanoseconds.
fn bounds() -> impl Iterator<Item = u64> {
    (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power) * 1000)).take(BOUNDS)
}

/// The bucket of a duration.
fn bucket(ns: u64) -> usize {
    let ns = ns.max(1);
    let power = u64::from(ns.ilog2());
    // The four binary digits after the first one.
    let part = if power >= 4 { ns >> (power - 4) } else { ns << (4 - power) };
    (power * PARTS + part % PARTS) as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let (power, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    let from = |part: u64| {
        let scaled = u128::from(PARTS + part) << power;
        u64::try_from(scaled / u128::from(PARTS)).unwrap_or(u64::MAX)
    };
    from(part).midpoint(from(part + 1))
}

impl Counts {
    fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], histogram: vec![0; BOUNDS + 1], runs: 0 }
    }

    fn add(&mut self, ns: u64, bounds_ns: &[u64]) {
        self.buckets[bucket(ns)] += 1;
        self.histogram[bounds_ns.partition_point(|bound| *bound <= ns)] += 1;
        self.runs += 1;
    }

    /// Returns the duration below which this share of the runs lies.
    fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.runs as f64 * share).ceil() as u64).max(1);
        let sums = self.buckets.iter().scan(0, |sum: &mut u64, runs| {
            *sum += runs;
            Some(*sum)
        });
        sums.zip(0..).find(|(sum, _)| *sum >= rank).map_or(0, |(_, bucket)| middle(bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{complete, recording, span};
    use super::super::places::Places;
    use super::*;
    use gridspan_record::Span;

    #[test]
    fn the_middle_of_a_bucket_is_near_all_of_its_durations() {
        let all = (0..64).flat_map(|power| [0, 1, 7, 100].map(|more| (1_u64 << power) + more));
        for ns in all.chain([1_234_567, u64::MAX]) {
            let found = middle(bucket(ns));
            let difference = found.abs_diff(ns);
            assert!(difference as f64 <= 0.0325 * ns as f64 + 1.0, "{ns}: {found}");
        }
    }

    #[test]
    fn bounds_are_round_numbers_from_a_microsecond_to_a_thousand_seconds() {
        let all: Vec<u64> = bounds().collect();
        assert_eq!(all[..5], [1000, 2000, 5000, 10_000, 20_000]);
        assert_eq!(all.last(), Some(&1_000_000_000_000));
    }

    #[test]
    fn quantiles_and_histograms_are_those_of_the_kept_spans() {
        let mut recording = recording(1, 1);
        let of = |number: u64, kind, duration_ns| Span {
            number,
            kind,
            begin_ns: number * 1_000_000,
            duration_ns,
            ..span(0, 0, [0, 0])
        };
        // 98 runs of 3 µs, one of 1.5 µs, one of 800 µs; and one of another type.
        recording.pes[0].spans = (0..101)
            .map(|number| match number {
                0 => of(number, 0, 1500),
                1 => of(number, 0, 800_000),
                2 => of(number, 1, 400),
                _ => of(number, 0, 3000),
            })
            .collect();
        complete(&mut recording, 110);
        let places = Places::of(&recording);
        let history = History::of(&recording, &places, [0, 110_000_000]);

        let found = Durations::of(&history, &Kinds::of(&recording));

        let worker = found.of_type("Worker").unwrap();
        assert_eq!((found.rows.len(), worker.runs), (2, 100));
        for (quantile, expected) in [(worker.median_ns, 3000_u64), (worker.p99_ns, 3000)] {
            assert!(quantile.abs_diff(expected) < 100, "{quantile}");
        }
        let filled = worker.histogram.iter().enumerate().filter(|(_, runs)| **runs > 0);
        // From 1, from 2 and from 500 µs on.
        assert_eq!(filled.collect::<Vec<_>>(), [(1, &1), (2, &98), (9, &1)]);
        assert_eq!(found.of_type("Sink").map(|sink| sink.histogram[0]), Some(1));
        assert_eq!(found.of_type("Other"), None);
    }
}
