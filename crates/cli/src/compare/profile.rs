//! The times and the traffic of a recorded job, by the names of kinds and sites, which make two
//! recordings comparable.

use gridspan_record::{OTHER, PeRecord, Recording, TASK, What};
use std::collections::BTreeMap;
use std::fmt;

/// A kind of time of a PE.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimeKind {
    /// In handlers of a type of actors.
    Handlers(String),
    Tasks,
    Runtime,
    Network,
    /// Ready, while other threads had the processor.
    Waited,
    Idle,
    /// The rest of the time of the job, such as the time before a late process of the PE began.
    Rest,
}

impl fmt::Display for TimeKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handlers(name) => write!(out, "handlers of {name}"),
            Self::Tasks => out.write_str("tasks"),
            Self::Runtime => out.write_str("the runtime"),
            Self::Network => out.write_str("the network"),
            Self::Waited => out.write_str("other threads"),
            Self::Idle => out.write_str("idle time"),
            Self::Rest => out.write_str("time not recorded"),
        }
    }
}

/// Where a PE is: at which site, on which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PePlace {
    /// Name of its site.
    pub(super) site: String,
    /// Name of its node.
    pub(super) node: String,
    pub(super) pe: u32,
}

/// The time of a PE.
pub(super) struct PeTime {
    pub(super) place: PePlace,
    /// Nanoseconds of each kind, which add up to the time of the job. The rest may be negative,
    /// because the other kinds are not exact.
    pub(super) ns: BTreeMap<TimeKind, f64>,
}

/// Messages from one site to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PairTraffic {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

/// The unit of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountUnit {
    /// Occurrences.
    Times,
    Bytes,
    Nanoseconds,
}

/// A count of what the runtime did. All profiles have the same counts in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobCount {
    pub(super) name: &'static str,
    pub(super) unit: CountUnit,
    pub(super) value: u64,
}

/// A recorded job in numbers.
pub(super) struct Profile {
    /// Time of the job in nanoseconds.
    pub(super) end_ns: u64,
    /// Its PEs, without those that left no record.
    pub(super) pes: Vec<PeTime>,
    /// Traffic from a site to another, or inside a site.
    pub(super) traffic: BTreeMap<[String; 2], PairTraffic>,
    pub(super) counts: Vec<JobCount>,
}

impl Profile {
    /// Adds up a recording.
    pub(super) fn of(recording: &Recording) -> Self {
        let end_ns = recording.end_ns();
        let pe_time = |record: &PeRecord| PeTime {
            place: place(recording, record.pe),
            ns: times(record, end_ns),
        };
        Self {
            end_ns,
            pes: recording.pes.iter().map(pe_time).collect(),
            traffic: traffic(recording),
            counts: counts(recording),
        }
    }

    /// Returns the time of a kind, in nanoseconds, as the mean over the PEs.
    pub(super) fn mean_ns(&self, kind: &TimeKind) -> f64 {
        let sum: f64 = self.pes.iter().filter_map(|pe| pe.ns.get(kind)).sum();
        sum / self.pes.len().max(1) as f64
    }
}

fn place(recording: &Recording, pe: u32) -> PePlace {
    let header = &recording.header;
    let node = header.pes.get(pe as usize).and_then(|pe| header.nodes.get(pe.node as usize));
    PePlace {
        site: site_name(recording, recording.site_of(pe)),
        node: node.map(|node| node.name.clone()).unwrap_or_default(),
        pe,
    }
}

fn site_name(recording: &Recording, site: u32) -> String {
    let name = recording.header.sites.get(site as usize);
    name.cloned().unwrap_or_else(|| site.to_string())
}

/// The time of a PE by kinds.
fn times(record: &PeRecord, end_ns: u64) -> BTreeMap<TimeKind, f64> {
    let mut ns: BTreeMap<TimeKind, f64> = BTreeMap::new();
    let mut add = |kind, part_ns: u64| *ns.entry(kind).or_default() += part_ns as f64;
    for bin in &record.bins {
        for (number, busy_ns) in &bin.busy_ns {
            let kind = match *number {
                TASK => TimeKind::Tasks,
                OTHER => TimeKind::Runtime,
                number => TimeKind::Handlers(record.type_name(number).to_owned()),
            };
            add(kind, *busy_ns);
        }
        add(TimeKind::Network, bin.network_ns);
        add(TimeKind::Waited, bin.waited_ns);
        add(TimeKind::Idle, bin.idle_ns);
    }
    let known: f64 = ns.values().sum();
    ns.insert(TimeKind::Rest, end_ns as f64 - known);
    ns
}

fn traffic(recording: &Recording) -> BTreeMap<[String; 2], PairTraffic> {
    let mut pairs: BTreeMap<[u32; 2], PairTraffic> = BTreeMap::new();
    for record in &recording.pes {
        let from = recording.site_of(record.pe);
        for sent in record.bins.iter().flat_map(|bin| &bin.sent) {
            let pair = pairs.entry([from, sent.site]).or_default();
            pair.messages = pair.messages.saturating_add(sent.messages.into());
            pair.bytes = pair.bytes.saturating_add(sent.bytes);
        }
    }
    let named =
        pairs.into_iter().map(|(sites, sent)| (sites.map(|site| site_name(recording, site)), sent));
    named.collect()
}

fn counts(recording: &Recording) -> Vec<JobCount> {
    let [mut rebalances, mut moved, mut moved_bytes, mut pause_ns] = [0_u64; 4];
    let [mut checkpoints, mut lost] = [0_u64; 2];
    for event in &recording.events {
        match &event.what {
            What::Balanced { moved: actors, bytes, pause_ns: pause, .. } => {
                rebalances += 1;
                moved = moved.saturating_add(*actors);
                moved_bytes = moved_bytes.saturating_add(*bytes);
                pause_ns = pause_ns.saturating_add(*pause);
            }
            What::Checkpoint { .. } => checkpoints += 1,
            What::Lost { nodes } => lost += nodes.len() as u64,
            _ => {}
        }
    }
    let bins = || recording.pes.iter().flat_map(|record| &record.bins);
    let totals = recording.pes.iter().flat_map(|record| &record.totals);
    let runs = totals.fold(0_u64, |sum, total| sum.saturating_add(total.count));
    let count = |name, value| JobCount { name, unit: CountUnit::Times, value };
    vec![
        count("steps", bins().map(|bin| bin.steps).max().unwrap_or(0)),
        count("runs of handlers and tasks", runs),
        count("rebalances", rebalances),
        count("actors moved", moved),
        JobCount { name: "bytes moved", unit: CountUnit::Bytes, value: moved_bytes },
        JobCount { name: "paused to rebalance", unit: CountUnit::Nanoseconds, value: pause_ns },
        count("steals", bins().map(|bin| u64::from(bin.steals)).sum()),
        count("steals asked for", bins().map(|bin| u64::from(bin.steal_attempts)).sum()),
        count("checkpoints", checkpoints),
        count("lost nodes", lost),
    ]
}
