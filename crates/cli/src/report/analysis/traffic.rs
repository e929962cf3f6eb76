//! The traffic of each link over time, and its properties.

use super::places::Places;
use super::profile::Profile;
use gridspan_record::{Recording, What};
use std::collections::BTreeMap;

/// Maximum number of columns of all links together: 64 MB with their sums.
const CELLS_MAX: usize = 1 << 22;

/// The properties of a link since a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkState {
    /// When they began to hold.
    pub(crate) since_ns: u64,
    /// Latency one way, in nanoseconds.
    pub(crate) latency_ns: f64,
    /// Bandwidth, if it is known.
    pub(crate) bytes_per_second: Option<f64>,
}

/// One direction between two sites, or the network inside a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkTraffic {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Bytes by column.
    pub(crate) columns: Vec<u64>,
    /// For each column, the bytes in all columns before it.
    before: Vec<u64>,
    /// Probability that a packet is lost, at the start.
    pub(crate) loss: f64,
    /// Its properties, in the order of time; empty if nothing is known.
    pub(crate) states: Vec<LinkState>,
}

impl LinkTraffic {
    /// The properties at a time.
    pub(crate) fn state(&self, at_ns: u64) -> Option<&LinkState> {
        let known = self.states.partition_point(|state| state.since_ns <= at_ns);
        self.states.get(known.saturating_sub(1))
    }
}

/// The traffic of all links that are known or were used.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// Width of a column.
    pub(crate) column_ns: u64,
    /// By sending and receiving site.
    pub(crate) links: BTreeMap<(usize, usize), LinkTraffic>,
}

impl Traffic {
    /// The traffic of this recording.
    pub(crate) fn of(recording: &Recording, places: &Places, profile: &Profile) -> Self {
        let mut links = known(recording);
        for record in &recording.pes {
            let from = places.site_of(record.pe as usize);
            for sent in record.bins.iter().flat_map(|bin| &bin.sent) {
                links.entry((from, sent.site as usize)).or_default();
            }
        }
        let most = (CELLS_MAX / links.len().max(1)).max(1) as u64;
        let mut column_ns = profile.column_ns;
        while profile.end_ns.div_ceil(column_ns) > most {
            column_ns = column_ns.saturating_mul(2);
        }
        for record in &recording.pes {
            let from = places.site_of(record.pe as usize);
            for (number, bin) in (0_u64..).zip(&record.bins) {
                let column = (number.saturating_mul(record.bin_ns) / column_ns) as usize;
                for sent in &bin.sent {
                    let link = links.entry((from, sent.site as usize)).or_default();
                    link.messages = link.messages.saturating_add(u64::from(sent.messages));
                    link.bytes = link.bytes.saturating_add(sent.bytes);
                    if link.columns.len() <= column {
                        link.columns.resize(column + 1, 0);
                    }
                    link.columns[column] = link.columns[column].saturating_add(sent.bytes);
                }
            }
        }
        for link in links.values_mut() {
            let sums = link.columns.iter().scan(0_u64, |sum, bytes| {
                *sum = sum.saturating_add(*bytes);
                Some(*sum)
            });
            link.before = std::iter::once(0).chain(sums).collect();
        }
        Self { column_ns, links }
    }

    /// The link between two sites, if it is known or was used.
    pub(crate) fn link(&self, from: usize, to: usize) -> Option<&LinkTraffic> {
        self.links.get(&(from, to))
    }

    /// Returns the bytes that were sent over a link between two times. The columns at both ends
    /// count in full. If there is no column between them, they count in part for a short interval.
    pub(crate) fn bytes_within(&self, link: &LinkTraffic, [from_ns, to_ns]: [u64; 2]) -> f64 {
        let first = from_ns / self.column_ns;
        let end = (to_ns / self.column_ns).saturating_add(1);
        let sum = |column: u64| {
            let known = link.before.len().saturating_sub(1) as u64;
            link.before.get(column.min(known) as usize).copied().unwrap_or(0)
        };
        let bytes = sum(end).saturating_sub(sum(first)) as f64;
        let columns_ns = (end - first) as f64 * self.column_ns as f64;
        let length = to_ns.saturating_sub(from_ns) as f64;
        if end - first > 2 { bytes } else { bytes * (2.0 * length / columns_ns).min(1.0) }
    }

    /// All messages and their bytes.
    pub(crate) fn total(&self) -> (u64, u64) {
        self.links.values().fold((0, 0), |(messages, bytes): (u64, u64), link| {
            (messages.saturating_add(link.messages), bytes.saturating_add(link.bytes))
        })
    }
}

/// Returns the links of the header, with their changes.
fn known(recording: &Recording) -> BTreeMap<(usize, usize), LinkTraffic> {
    let mut links: BTreeMap<(usize, usize), LinkTraffic> = BTreeMap::new();
    let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
    let state = |since_ns: u64, latency_us: f64, bytes_per_second: Option<f64>| {
        let latency_ns = if latency_us.is_finite() { latency_us.max(0.0) * 1e3 } else { 0.0 };
        LinkState { since_ns, latency_ns, bytes_per_second: bytes_per_second.filter(is_rate) }
    };
    for link in &recording.header.links {
        let entry = links.entry((link.from as usize, link.to as usize)).or_default();
        entry.loss = if link.loss.is_finite() { link.loss.clamp(0.0, 1.0) } else { 0.0 };
        entry.states = vec![state(0, link.latency_us, link.bytes_per_second)];
    }
    for event in &recording.events {
        if let What::LinkChanged { from, to, latency_us, bytes_per_second } = &event.what {
            let entry = links.entry((*from as usize, *to as usize)).or_default();
            entry.states.push(state(event.at_ns, *latency_us, *bytes_per_second));
        }
    }
    links.values_mut().for_each(|link| link.states.sort_by_key(|state| state.since_ns));
    links
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, complete, recording};
    use super::*;
    use gridspan_record::{RecordedEvent, SentTo};

    #[test]
    fn bytes_are_summed_over_links_and_time() {
        let mut recording = recording(2, 1);
        complete(&mut recording, 10);
        for ms in [2, 3, 8] {
            recording.pes[0].bins[ms].sent = vec![SentTo { site: 1, messages: 2, bytes: 500 }];
        }
        recording.events.push(RecordedEvent {
            at_ns: 5 * MS,
            what: What::LinkChanged { from: 0, to: 1, latency_us: 99.0, bytes_per_second: None },
        });
        let places = Places::of(&recording);
        let traffic = Traffic::of(&recording, &places, &Profile::of(&recording, &places));

        let link = traffic.link(0, 1).unwrap();

        assert_eq!((link.messages, link.bytes, traffic.total()), (6, 1500, (6, 1500)));
        assert_eq!(traffic.bytes_within(link, [0, 10 * MS]), 1500.0);
        assert_eq!(traffic.bytes_within(link, [2 * MS, 5 * MS]), 1000.0);
        assert_eq!(traffic.bytes_within(link, [20 * MS, 30 * MS]), 0.0);
        assert_eq!(link.state(0).map(|state| state.latency_ns), Some(1e7));
        let later = link.state(6 * MS).unwrap();
        assert_eq!((later.latency_ns, later.bytes_per_second), (99e3, None));
        assert!(traffic.link(1, 0).unwrap().columns.is_empty());
    }
}
