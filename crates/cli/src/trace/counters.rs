//! Counters: where the time of each PE went, its queue, and bytes per second between sites.

use super::writer::PacketWriter;
use gridspan_record::{Bin, OTHER, PeRecord, Recording};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Nanoseconds per second.
const SECOND_NS: f64 = 1e9;

/// A counter of a PE.
struct Counter {
    name: &'static str,
    unit: &'static str,
    /// Its value in a bin, whose width in nanoseconds is the second argument.
    value: fn(&Bin, f64) -> f64,
}

const COUNTERS: [Counter; 5] = [
    Counter { name: "queue", unit: "messages", value: |bin, _| f64::from(bin.queue) },
    Counter { name: "idle", unit: "%", value: |bin, width_ns| percent(bin.idle_ns, width_ns) },
    Counter {
        name: "runtime",
        unit: "%",
        value: |bin, width_ns| percent(runtime_ns(bin), width_ns),
    },
    Counter {
        name: "network",
        unit: "%",
        value: |bin, width_ns| percent(bin.network_ns, width_ns),
    },
    Counter {
        name: "other threads",
        unit: "%",
        value: |bin, width_ns| percent(bin.waited_ns, width_ns),
    },
];

/// Writes the counters of a PE that are not always zero, below its track.
pub(super) fn write_pe<W: Write>(
    record: &PeRecord,
    above: u64,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    for counter in &COUNTERS {
        let values: Vec<f64> = intervals(record.bins.len(), record.bin_ns, out.end_ns())
            .zip(&record.bins)
            .map(|([begin, end], bin)| (counter.value)(bin, (end - begin) as f64))
            .collect();
        let name = format!("pe{} {}", record.pe, counter.name);
        write_values(&values, record.bin_ns, [&name, counter.unit], above, out)?;
    }
    Ok(())
}

/// Writes the bytes per second between sites, below a track.
pub(super) fn write_links<W: Write>(
    recording: &Recording,
    above: u64,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    // The bins of PEs differ in width: the widest give the steps of these counters.
    let width_ns = recording.pes.iter().map(|record| record.bin_ns).max().unwrap_or(1).max(1);
    let mut links: BTreeMap<[u32; 2], Vec<u64>> = BTreeMap::new();
    for record in &recording.pes {
        let from = recording.site_of(record.pe);
        for (at, bin) in record.bins.iter().enumerate() {
            // Bins are no wider than steps, so that there are no more steps than bins.
            let step = ((at as u64).saturating_mul(record.bin_ns) / width_ns) as usize;
            for sent in bin.sent.iter().filter(|sent| sent.site != from && sent.bytes > 0) {
                let bytes = links.entry([from, sent.site]).or_default();
                bytes.resize(bytes.len().max(step + 1), 0);
                bytes[step] = bytes[step].saturating_add(sent.bytes);
            }
        }
    }
    for (sites, bytes) in &links {
        let rates: Vec<f64> = intervals(bytes.len(), width_ns, out.end_ns())
            .zip(bytes)
            .map(|([begin, end], bytes)| *bytes as f64 * SECOND_NS / (end - begin) as f64)
            .collect();
        let [from, to] = sites.map(|site| site_name(recording, site));
        write_values(&rates, width_ns, [&format!("{from} > {to}"), "B/s"], above, out)?;
    }
    Ok(())
}

/// Writes a counter with a value for each interval of a width, unless all values are zero.
fn write_values<W: Write>(
    values: &[f64],
    width_ns: u64,
    [name, unit]: [&str; 2],
    above: u64,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    if values.iter().all(|value| *value == 0.0) {
        return Ok(());
    }
    let track = out.counter_track(above, name, unit)?;
    let mut last = None;
    // After the last interval the counter is zero.
    for (at, value) in values.iter().chain(&[0.0]).enumerate() {
        if last != Some(*value) {
            out.value((at as u64).saturating_mul(width_ns), track, *value)?;
            last = Some(*value);
        }
    }
    Ok(())
}

/// The intervals of a width that begin before the end; the last one may be shorter.
fn intervals(count: usize, width_ns: u64, end_ns: u64) -> impl Iterator<Item = [u64; 2]> {
    let begins = (0..count as u64).map(move |at| at.saturating_mul(width_ns));
    begins
        .take_while(move |begin| *begin < end_ns)
        .map(move |begin| [begin, begin.saturating_add(width_ns).min(end_ns)])
}

/// The time of work of the runtime, for which there are no slices.
fn runtime_ns(bin: &Bin) -> u64 {
    let runtime = bin.busy_ns.iter().filter(|(kind, _)| *kind == OTHER);
    runtime.map(|(_, ns)| *ns).fold(0, u64::saturating_add)
}

fn percent(part_ns: u64, of_ns: f64) -> f64 {
    100.0 * part_ns as f64 / of_ns
}

fn site_name(recording: &Recording, site: u32) -> &str {
    recording.header.sites.get(site as usize).map_or("?", String::as_str)
}
