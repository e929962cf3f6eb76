//! What a recording says about a run: a pure function from a [`Recording`] to an [`Analysis`].
//!
//! | module | content |
//! | --- | --- |
//! | `places` | PEs, nodes and sites by number and name |
//! | `kinds`, `durations` | handler types over all PEs, and how long their runs take |
//! | `profile` | where the time of each PE went, over time |
//! | `traffic` | what was sent over each link, over time |
//! | `events` | rebalances, checkpoints, losses |
//! | `broadcasts` | large broadcasts with their trees |
//! | `graph` | the actors, and the bytes between their places, before and after a rebalance |
//! | `history` | the kept spans, and the gaps between them |
//! | `idle` | since when a PE was idle, where its spans were dropped |
//! | `transit` | what the travel time of a message consists of |
//! | `losses` | links with more late messages than lost packets explain |
//! | `awaited`, `waits` | what PEs waited for, traced back to the cause |
//! | `loads` | the actors and senders behind the work of each PE |
//! | `path` | the critical path |
//! | `communication` | messages between actor types, nodes and sites |
//! | `timeline` | what each PE did, in a bounded number of cells |
//! | `utilisation` | how the PEs of each site used their time, and how evenly they were loaded |
//! | `limits` | what limited the run |
//!
//! The size of an analysis is bounded, whatever the size of the recording.

mod awaited;
pub(crate) mod broadcasts;
pub(crate) mod communication;
mod durations;
pub(crate) mod events;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod graph;
mod history;
mod idle;
pub(crate) mod kinds;
pub(crate) mod limits;
mod loads;
mod losses;
pub(crate) mod path;
mod places;
mod profile;
pub(crate) mod timeline;
mod traffic;
mod transit;
pub(crate) mod utilisation;
mod waits;

use awaited::Awaited;
use broadcasts::Broadcasts;
use communication::Communication;
use durations::Durations;
use events::Events;
use graph::{GraphSource, RebalanceGraph};
use gridspan_record::{DriverKind, Recording};
use history::History;
use kinds::{KindRow, Kinds};
use limits::{Diagnosis, Evidence};
use loads::Loads;
use path::CriticalPath;
use places::Places;
use profile::{Profile, Times};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use timeline::Timeline;
use traffic::Traffic;
use transit::Transit;
use utilisation::Utilisation;
use waits::Waits;

/// Maximum number of rows of tables of types, waits, PEs and links.
const ROWS_MAX: usize = 2000;
/// Maximum number of links whose use over time is shown.
const LINKS_MAX: usize = 24;
/// Maximum number of bytes of the command.
const COMMAND_MAX: usize = 1000;
/// Maximum number of columns of a link.
const COLUMNS_MAX: u64 = 256;

/// The outcome of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OutcomeRow {
    /// The exit code; `None` if the recording was cut off.
    pub(crate) exit_code: Option<u8>,
    /// The error, if the job failed.
    pub(crate) failure: Option<String>,
    /// The line by which the job says whether its result is right, if it is recorded.
    pub(crate) verified: Option<String>,
    /// When it ended.
    pub(crate) end_ns: u64,
    /// Time before the first handler: the launch. 0 if simulated.
    pub(crate) launch_ns: u64,
    /// Time after the last handler: main's last work, and the teardown. 0 if simulated.
    pub(crate) teardown_ns: u64,
}

/// How much of the run was recorded, and how much of the recording was used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Coverage {
    /// Spans that the analysis used.
    pub(crate) spans: usize,
    /// Share of all spans that was dropped, by the recorder or to bound the analysis.
    pub(crate) dropped_share: f64,
    /// One of this many windows is used.
    pub(crate) one_window_of: u64,
    /// Width of a window.
    pub(crate) window_ns: u64,
    /// Names of nodes without a file, at most [`ROWS_MAX`].
    pub(crate) missing_nodes: Vec<String>,
    /// The number of all such nodes.
    pub(crate) missing_count: usize,
    /// Number of events of the job that had no room in the recording.
    pub(crate) dropped_events: u64,
    /// Numbers of dropped events by kind, such as `3 checkpoints`, if the kinds are known.
    pub(crate) dropped_kinds: Vec<String>,
    /// Share of the dropped events in all events.
    pub(crate) dropped_event_share: f64,
}

/// A host of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HostRow {
    /// Its name.
    pub(crate) name: String,
    /// Number of nodes there.
    pub(crate) nodes: usize,
    /// Number of PEs there.
    pub(crate) pes: usize,
    /// Number of hardware threads that they could use, if it is known.
    pub(crate) hardware_threads: Option<u32>,
}

/// A row of the table of waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WaitRow {
    pub(crate) awaited: String,
    /// Share of the time of all PEs.
    pub(crate) share: f64,
}

/// A row of the table of PEs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PeRow {
    /// The number of the PE.
    pub(crate) pe: usize,
    pub(crate) node: String,
    pub(crate) site: String,
    /// The number of its site.
    pub(crate) site_number: usize,
    pub(crate) speed: f64,
    #[serde(flatten)]
    pub(crate) times: Times,
    /// The largest number of ready messages.
    pub(crate) queue_max: u32,
    /// Successful steals.
    pub(crate) steals: u64,
    /// Requests for tasks.
    pub(crate) steal_attempts: u64,
}

/// A link over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LinkRow {
    /// Its name.
    pub(crate) name: String,
    /// The sending site.
    pub(crate) from: usize,
    /// The receiving site.
    pub(crate) to: usize,
    /// Messages between PEs.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Latency one way at the start, if it is known.
    pub(crate) latency_ns: Option<f64>,
    /// Bandwidth at the start, if it is known.
    pub(crate) bytes_per_second: Option<f64>,
    /// Probability that a packet is lost.
    pub(crate) loss: f64,
    /// Width of a column.
    pub(crate) column_ns: u64,
    /// Bytes by column; empty for links whose use over time is not shown.
    pub(crate) columns: Vec<u64>,
}

impl Coverage {
    /// Names the nodes without a file, at most `most` of them, and says how many there are besides.
    pub(crate) fn missing_names(&self, most: usize) -> String {
        let mut names: Vec<String> = self.missing_nodes.iter().take(most).cloned().collect();
        let others = self.missing_count.saturating_sub(names.len());
        if others > 0 {
            names.push(format!("{others} more"));
        }
        names.join(", ")
    }
}

/// Everything that a report shows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Analysis {
    /// Version of the object that `--json` prints.
    pub(crate) version: u32,
    pub(crate) job: String,
    /// The arguments after `gridctl`; those beyond [`COMMAND_MAX`] bytes are left out.
    pub(crate) command: Vec<String>,
    /// What ran the job.
    pub(crate) driver: DriverKind,
    pub(crate) seed: u64,
    /// Identifies the build of the program, if it is recorded.
    pub(crate) build: Option<String>,
    /// Version of the gridctl that made the recording, if it is recorded.
    pub(crate) gridctl: Option<String>,
    /// When it started, in milliseconds since 1970; `None` if simulated.
    pub(crate) started_unix_ms: Option<u64>,
    pub(crate) sites: Vec<String>,
    pub(crate) node_count: usize,
    pub(crate) pe_count: usize,
    /// Number of PEs with records.
    pub(crate) pes_recorded: usize,
    /// The time of these PEs, without launch and teardown; at least 1.
    pub(crate) pe_time_ns: f64,
    /// The hosts, those with most PEs first; none if simulated.
    pub(crate) hosts: Vec<HostRow>,
    pub(crate) outcome: OutcomeRow,
    /// What limited the run.
    pub(crate) diagnosis: Diagnosis,
    pub(crate) coverage: Coverage,
    /// The time of all PEs.
    pub(crate) times: Times,
    /// The handler types, those with the most time first.
    pub(crate) kinds: Vec<KindRow>,
    /// How long their runs take.
    pub(crate) durations: Durations,
    /// What PEs waited for, the longest waits first.
    pub(crate) waits: Vec<WaitRow>,
    pub(crate) pes: Vec<PeRow>,
    /// The links, those with the most bytes first.
    pub(crate) links: Vec<LinkRow>,
    /// Messages between actor types, nodes and sites.
    pub(crate) communication: Communication,
    pub(crate) broadcasts: Broadcasts,
    pub(crate) path: CriticalPath,
    pub(crate) events: Events,
    /// The actors before and after the rebalance with the largest gain, if one moved actors.
    pub(crate) graph: Option<RebalanceGraph>,
    /// What each PE did over time.
    pub(crate) timeline: Timeline,
    /// How the PEs of each site used their time.
    pub(crate) utilisation: Utilisation,
}

/// Version of the object that `--json` prints.
const VERSION: u32 = 1;

impl Analysis {
    /// Analyses a recording. Takes a few seconds at most, and half a gigabyte at most besides
    /// the recording.
    pub(crate) fn of(recording: &Recording) -> Self {
        let places = Places::of(recording);
        let kinds = Kinds::of(recording);
        let profile = Profile::of(recording, &places);
        let traffic = Traffic::of(recording, &places, &profile);
        let events = Events::of(recording, &places, &profile);
        let history = History::of(recording, &places, profile.active);
        let transit = Transit { places: &places, traffic: &traffic };
        let waits = Waits::of(&history, transit, &events.pauses.in_quiet(&history));
        let loads = Loads::of(&history, &kinds);
        let evidence = Evidence {
            places: &places,
            kinds: &kinds,
            profile: &profile,
            traffic: &traffic,
            waits: &waits,
            loads: &loads,
            events: &events,
            is_simulated: recording.header.driver == DriverKind::Simulated,
            parallelism: history.parallelism(),
            kept_part: history.kept_part(),
        };
        let source = GraphSource {
            history: &history,
            kinds: &kinds,
            places: &places,
            profile: &profile,
            traffic: &traffic,
        };
        let header = &recording.header;
        Self {
            version: VERSION,
            job: header.job.clone(),
            command: command(recording),
            driver: header.driver,
            seed: header.seed,
            build: header.build.clone(),
            gridctl: header.gridctl.clone(),
            started_unix_ms: header.started_unix_ms,
            sites: header.sites.clone(),
            node_count: places.node_count(),
            pe_count: places.pe_count(),
            pes_recorded: profile.recorded_count(),
            pe_time_ns: profile.pe_time_ns(),
            hosts: match header.driver {
                // The host of the simulator says nothing about the run.
                DriverKind::Simulated => Vec::new(),
                DriverKind::Threads | DriverKind::Processes => host_rows(recording),
            },
            outcome: outcome(recording, &profile),
            diagnosis: Diagnosis::of(&evidence),
            coverage: coverage(recording, &history, &places),
            times: profile.total(),
            kinds: kinds.rows.iter().take(ROWS_MAX).cloned().collect(),
            durations: Durations::of(&history, &kinds),
            waits: wait_rows(&evidence),
            pes: pe_rows(&profile, &places),
            links: link_rows(&traffic, &places, profile.end_ns),
            communication: Communication::of(&history, &kinds, &places, &traffic),
            broadcasts: Broadcasts::of(recording, &places),
            path: CriticalPath::of(&history, &kinds, &places),
            graph: RebalanceGraph::of(source, &events),
            timeline: Timeline::of(recording, &places, &kinds, &profile),
            utilisation: Utilisation::of(&places, &profile),
            events,
        }
    }

    /// Returns the share of this time in that of all recorded PEs, without launch and teardown.
    pub(crate) fn share_of(&self, ns: u64) -> f64 {
        ns as f64 / self.pe_time_ns
    }
}

/// The first words of the command, up to [`COMMAND_MAX`] bytes.
fn command(recording: &Recording) -> Vec<String> {
    let mut left = COMMAND_MAX;
    let is_short = |word: &&String| {
        left = left.saturating_sub(word.len());
        left > 0
    };
    let all = &recording.header.command;
    let mut words: Vec<String> = all.iter().take_while(is_short).cloned().collect();
    if words.len() < all.len() {
        words.push("…".to_owned());
    }
    words
}

fn outcome(recording: &Recording, profile: &Profile) -> OutcomeRow {
    let [begin_ns, until_ns] = profile.active;
    let ending = recording.ending.as_ref();
    OutcomeRow {
        exit_code: ending.map(|ending| ending.exit_code),
        failure: ending.and_then(|ending| ending.failure.clone()),
        verified: ending.and_then(|ending| ending.verified.clone()),
        end_ns: profile.end_ns,
        launch_ns: begin_ns,
        teardown_ns: profile.end_ns.saturating_sub(until_ns),
    }
}

fn host_rows(recording: &Recording) -> Vec<HostRow> {
    let header = &recording.header;
    let mut hosts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for node in header.nodes.iter().filter(|node| !node.host.is_empty()) {
        hosts.entry(&node.host).or_default()[0] += 1;
    }
    for pe in &header.pes {
        let host = header.nodes.get(pe.node as usize).map_or("", |node| &node.host);
        if let Some([_, pes]) = hosts.get_mut(host) {
            *pes += 1;
        }
    }
    let known = header.hosts.iter().map(|host| (host.name.as_str(), host.hardware_threads));
    let threads: BTreeMap<&str, u32> = known.collect();
    let row = |(name, [nodes, pes]): (&str, [usize; 2])| HostRow {
        name: name.to_owned(),
        nodes,
        pes,
        hardware_threads: threads.get(name).copied(),
    };
    let mut rows: Vec<HostRow> = hosts.into_iter().map(row).collect();
    rows.sort_by_key(|row| Reverse(row.pes));
    rows.truncate(ROWS_MAX);
    rows
}

fn coverage(recording: &Recording, history: &History<'_>, places: &Places) -> Coverage {
    let missing = recording.missing.iter().take(ROWS_MAX);
    let dropped_events = recording.dropped_events();
    let events = dropped_events as f64 + recording.events.len() as f64;
    Coverage {
        spans: history.span_count(),
        dropped_share: 1.0 - history.share,
        one_window_of: history.every,
        window_ns: history.window_ns,
        missing_nodes: missing.map(|node| places.node_name(*node as usize)).collect(),
        missing_count: recording.missing.len(),
        dropped_events,
        dropped_kinds: dropped_kinds(recording),
        dropped_event_share: if events > 0.0 { dropped_events as f64 / events } else { 0.0 },
    }
}

/// The numbers of events that had no room, with their kinds in words.
fn dropped_kinds(recording: &Recording) -> Vec<String> {
    let Some(ending) = &recording.ending else { return Vec::new() };
    let mut others = 0_u64;
    let mut all = Vec::new();
    for (kind, &number) in &ending.dropped_kinds {
        match EVENT_KINDS.iter().find(|(name, ..)| name == kind) {
            Some((_, one, _)) if number == 1 => all.push(format!("1 {one}")),
            Some((_, _, several)) => all.push(format!("{number} {several}")),
            // A later version wrote this kind; its text is not safe to print.
            None => others = others.saturating_add(number),
        }
    }
    if others > 0 {
        all.push(format!("{others} of other kinds"));
    }
    all
}

/// The kinds of events in a recording, and words for one and for several of them.
const EVENT_KINDS: [(&str, &str, &str); 10] = [
    ("balanced", "rebalance", "rebalances"),
    ("broadcast", "broadcast", "broadcasts"),
    ("checkpoint", "checkpoint", "checkpoints"),
    ("exited", "end of a process", "ends of processes"),
    ("joined", "node that joined", "nodes that joined"),
    ("left", "node that left", "nodes that left"),
    ("link_changed", "change of a link", "changes of links"),
    ("lost", "loss", "losses"),
    ("recovered", "recovery", "recoveries"),
    ("warning", "warning", "warnings"),
];

fn wait_rows(evidence: &Evidence<'_>) -> Vec<WaitRow> {
    let row = |(awaited, ns): (&Awaited, &f64)| WaitRow {
        awaited: awaited.name(evidence.places),
        share: evidence.share_of_waits(*ns),
    };
    let known = evidence.waits.awaited.iter().filter(|(awaited, _)| **awaited != Awaited::Unknown);
    let mut rows: Vec<WaitRow> = known.map(row).collect();
    let share = evidence.unknown_share();
    rows.push(WaitRow { awaited: Awaited::Unknown.name(evidence.places), share });
    rows.sort_by(|a, b| b.share.total_cmp(&a.share));
    rows.truncate(ROWS_MAX);
    rows
}

fn pe_rows(profile: &Profile, places: &Places) -> Vec<PeRow> {
    let row = |(pe, profile): (usize, &profile::PeProfile)| PeRow {
        pe,
        node: places.node_label(places.node_of(pe)).to_owned(),
        site: places.site_name(places.site_of(pe)).to_owned(),
        site_number: places.site_of(pe),
        speed: places.speed(pe),
        times: profile.total,
        queue_max: profile.queue_max,
        steals: profile.steals,
        steal_attempts: profile.steal_attempts,
    };
    profile.recorded().take(ROWS_MAX).map(row).collect()
}

fn link_rows(traffic: &Traffic, places: &Places, end_ns: u64) -> Vec<LinkRow> {
    let mut links: Vec<_> = traffic.links.iter().filter(|(_, link)| link.bytes > 0).collect();
    links.sort_by_key(|link| Reverse(link.1.bytes));
    let mut width = 1;
    while end_ns.div_ceil(traffic.column_ns.saturating_mul(width)) > COLUMNS_MAX {
        width *= 2;
    }
    let row = |(rank, (ends, link)): (usize, (&(usize, usize), &traffic::LinkTraffic))| {
        let state = link.state(0);
        let sum = |chunk: &[u64]| chunk.iter().copied().fold(0, u64::saturating_add);
        let sums = link.columns.chunks(width as usize).map(sum);
        LinkRow {
            name: places.link_name(ends.0, ends.1),
            from: ends.0,
            to: ends.1,
            messages: link.messages,
            bytes: link.bytes,
            latency_ns: state.map(|state| state.latency_ns),
            bytes_per_second: state.and_then(|state| state.bytes_per_second),
            loss: link.loss,
            column_ns: traffic.column_ns.saturating_mul(width),
            columns: if rank < LINKS_MAX { sums.collect() } else { Vec::new() },
        }
    };
    links.into_iter().take(ROWS_MAX).enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::fixtures::{MS, complete, from, recording, span};
    use super::*;
    use gridspan_record::{RecordedHost, SentTo, Span};

    #[test]
    fn an_analysis_has_all_parts_and_a_json_form() {
        let mut recording = recording(2, 1);
        recording.pes[0].spans = vec![span(0, 0, [0, 20])];
        let last = Span { cause: from(0, 0, [20, 30]), ..span(1, 0, [30, 50]) };
        recording.pes[1].spans = vec![last];
        complete(&mut recording, 50);
        recording.pes[0].bins[20].sent = vec![SentTo { site: 1, messages: 1, bytes: 100 }];

        let analysis = Analysis::of(&recording);

        assert_eq!((analysis.pe_count, analysis.pes_recorded, analysis.node_count), (2, 2, 2));
        assert_eq!(analysis.outcome.exit_code, Some(0));
        assert!((analysis.share_of(analysis.times.busy_ns) - 0.4).abs() < 1e-9);
        let waited: f64 = analysis.waits.iter().map(|row| row.share).sum();
        assert!((waited - 0.6).abs() < 1e-9, "{:?}", analysis.waits);
        assert_eq!(analysis.links[0].name, "a → b");
        assert_eq!(analysis.links[0].columns.iter().sum::<u64>(), 100);
        let document = serde_json::to_value(&analysis).unwrap();
        assert_eq!(document["version"], 1);
        assert_eq!(document["path"]["total_ns"], 50 * MS);
        assert_eq!(document["pes"][1]["busy_ns"], 20 * MS);
        assert!(document["diagnosis"]["sentence"].is_string());
    }

    #[test]
    fn hosts_have_their_nodes_pes_and_hardware_threads() {
        let mut recording = recording(2, 2);
        for (node, host) in ["x", "y", "y", ""].into_iter().enumerate() {
            recording.header.nodes[node].host = host.to_owned();
        }
        let host = RecordedHost { name: "y".to_owned(), cores: 1, hardware_threads: 2 };
        recording.header.hosts = vec![host];
        let row = |name: &str, nodes, hardware_threads| HostRow {
            name: name.to_owned(),
            nodes,
            pes: nodes,
            hardware_threads,
        };
        assert_eq!(host_rows(&recording), [row("y", 2, Some(2)), row("x", 1, None)]);
        assert_eq!(host_rows(&Recording::default()), []);
    }

    #[test]
    fn all_missing_nodes_are_counted_and_the_first_are_named() {
        let mut recording = recording(1, 2100);
        recording.pes.clear();
        recording.missing = (0..2100).collect();

        let coverage = Analysis::of(&recording).coverage;

        assert_eq!((coverage.missing_nodes.len(), coverage.missing_count), (2000, 2100));
        assert_eq!(coverage.missing_names(2), "node a/0, node a/1, 2098 more");
        let one =
            Coverage { missing_nodes: vec!["node a/7".to_owned()], missing_count: 1, ..coverage };
        assert_eq!(one.missing_names(2), "node a/7");
    }

    #[test]
    fn an_empty_recording_is_analysed() {
        let analysis = Analysis::of(&Recording::default());
        assert_eq!((analysis.pe_count, analysis.outcome.exit_code), (0, None));
        assert_eq!(analysis.diagnosis.verdict, limits::Verdict::Unknown);
    }

    #[test]
    fn a_large_recording_has_a_small_analysis() {
        let mut recording = recording(4, 50);
        complete(&mut recording, 500);
        let all = (0..4).map(|site| SentTo { site, messages: 1, bytes: 1 }).collect::<Vec<_>>();
        for record in &mut recording.pes {
            record.bins.iter_mut().for_each(|bin| bin.sent = all.clone());
        }
        let json = serde_json::to_string(&Analysis::of(&recording)).unwrap();
        assert!(json.len() < 2_000_000, "{}", json.len());
    }
}
