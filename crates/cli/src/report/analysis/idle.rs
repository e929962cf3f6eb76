//! Finds the begin of a PE's wait in its bins, where its spans were dropped.

use gridspan_record::PeRecord;

/// Smallest idle part of an interval for which the PE counts as idle throughout.
const WHOLE_MIN: f64 = 0.9;

/// Returns the time since which a PE was idle at `until_ns`, at the earliest `least_ns`. The idle
/// time of a bin counts as its last part. A part of a bin is idle for the same share of its time as
/// the whole bin.
pub(crate) fn idle_since(record: &PeRecord, until_ns: u64, least_ns: u64) -> u64 {
    let width = record.bin_ns.max(1);
    let mut since = until_ns;
    while since > least_ns {
        let number = (since - 1) / width;
        let Some(bin) = record.bins.get(number as usize) else { break };
        let begin = number * width;
        let inside = since - begin;
        if bin.idle_ns as f64 >= WHOLE_MIN * inside as f64 {
            since = begin;
            continue;
        }
        let part = inside as f64 / width as f64;
        let idle = if inside == width { bin.idle_ns } else { (bin.idle_ns as f64 * part) as u64 };
        since -= idle.min(inside);
        break;
    }
    since.max(least_ns.min(until_ns))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::busy_bin;
    use super::idle_since;
    use gridspan_record::PeRecord;

    #[test]
    fn a_wait_begins_where_the_bins_before_it_have_work() {
        let bins = vec![busy_bin(10, 0), busy_bin(6, 4), busy_bin(0, 10), busy_bin(5, 5)];
        let record = PeRecord { bin_ns: 10, bins, ..PeRecord::default() };
        let since = |until, least| idle_since(&record, until, least);
        assert_eq!([since(35, 0), since(30, 0), since(35, 18), since(20, 0)], [16, 16, 18, 16]);
        assert_eq!([since(40, 0), since(5, 0), since(5, 9), since(99, 0)], [35, 5, 5, 99]);
        // 4 of 10 ns are idle, so 2 of 5.
        assert_eq!(since(15, 0), 13);
    }
}
