//! Writes the recording of a job into a folder: the header, the events, and the records of the
//! nodes.
//!
//! It writes the header before the first process starts, each event when it is reported, the record
//! of a PE when its process has ended its part of the job, and the end of the job last. If writing
//! fails, the job goes on, and a warning at its end says so.

use super::event::Exit;
use super::host_processors::HostProcessors;
use super::journal;
use super::plan::{Launch, Processes};
use super::record_parts::{NodeParts, Received};
use super::record_plan::{RecordPlan, not_created};
use crate::error::CliError;
use crate::nodes;
use gridspan::binding::Cpu;
use gridspan::control::RecordedPart;
use gridspan::links::LinkReport;
use gridspan::simulated::Summary;
use gridspan_balance::{BalanceReport, Cause};
use gridspan_record::{
    DriverKind, Header, JobEnding, RecordError, RecordedEvent, RecordedHop, RecordedHost,
    RecordedLink, RecordedNode, RecordedPe, RecordingFolder, What,
};
use gridspan_runtime::pe::RecordedPlaces;
use gridspan_runtime::{BroadcastEdge, BroadcastReport, CheckpointReport};
use gridspan_topology::{GridSpec, GroupId, NodeId, SiteId, Time};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of bytes that a node may send above twice its budget, since the budget leaves
/// out the names of types and the minimum for each PE.
const SLACK_BYTES: u64 = 4 << 20;
/// Beginning of the line of output by which a job says whether its result is right.
const VERIFIED: &str = "verified: ";

/// The PEs and sites of a run of these members, by their numbers in the whole grid.
pub(super) fn places(spec: &GridSpec, members: &[NodeId], run: &GridSpec) -> RecordedPlaces {
    let layout = spec.layout();
    let site = |site: SiteId| {
        let first = run.layout().nodes_in(site).next();
        let member = first.and_then(|node| members.get(node.index()));
        member.map_or(site.0, |member| layout.site_of_node(*member).0)
    };
    RecordedPlaces {
        pes: members.iter().flat_map(|member| layout.place(*member).pes.clone()).collect(),
        sites: run.layout().sites().map(site).collect(),
    }
}

/// The recording of a job that runs.
pub(super) struct Recording {
    folder: PathBuf,
    node_bytes: u64,
    started: Instant,
    spec: GridSpec,
    is_simulated: bool,
    /// Whether one process has all nodes.
    is_single: bool,
    state: Mutex<State>,
}

struct State {
    /// `None` once the job has ended, or writing has failed.
    files: Option<RecordingFolder>,
    error: Option<RecordError>,
    header: Header,
    /// By node.
    nodes: Vec<NodeParts>,
    /// The members of the present run, by their numbers in it.
    members: Vec<NodeId>,
    /// Number of runs, and when the first one began.
    runs: u32,
    began_ns: u64,
    /// When a loss was noticed, until the job goes on.
    lost_ns: Option<u64>,
    /// Nodes that were lost since the last run began.
    lost: Vec<NodeId>,
    /// The end of the job in virtual time.
    virtual_ns: Option<u64>,
    /// The processors that processes may use, by host.
    processors: BTreeMap<String, HostProcessors>,
    /// The build of the program, and the node that reported it: the one with the lowest number,
    /// since main runs there.
    build: Option<(NodeId, u64)>,
    /// What is known of the end of the job before it ends.
    ending: JobEnding,
}

impl Recording {
    /// Begins the recording of a launch, if the user requests one.
    pub(super) fn begin(launch: &Launch<'_>) -> Result<Option<Self>, CliError> {
        let Some(plan) = &launch.record else { return Ok(None) };
        let members = launch.members().collect();
        let header = header(launch, plan);
        Self::new(plan, launch.spec, members, header).map(Some).map_err(not_created)
    }

    /// Creates the recording of a job with this grid, which begins with these members. Fails if its
    /// folder has files or cannot be written.
    fn new(
        plan: &RecordPlan,
        spec: &GridSpec,
        members: Vec<NodeId>,
        header: Header,
    ) -> Result<Self, RecordError> {
        let layout = spec.layout();
        let nodes = layout.nodes().map(|node| NodeParts::new(layout.place(node).pes.clone()));
        let driver = header.driver;
        let state = State {
            files: Some(RecordingFolder::create(&plan.folder, &header)?),
            error: None,
            header,
            nodes: nodes.collect(),
            members,
            runs: 0,
            began_ns: 0,
            lost_ns: None,
            lost: Vec::new(),
            virtual_ns: None,
            processors: BTreeMap::new(),
            build: None,
            ending: JobEnding::default(),
        };
        Ok(Self {
            folder: plan.folder.clone(),
            node_bytes: plan.node_bytes,
            started: plan.started,
            spec: spec.clone(),
            is_simulated: driver == DriverKind::Simulated,
            is_single: driver != DriverKind::Processes,
            state: Mutex::new(state),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a part of the record of a PE, sent by the process of a node. Drops the parts of a node
    /// that sends invalid ones, those of another node, or too many bytes.
    pub(super) fn add(&self, sender: NodeId, part: &RecordedPart) {
        let mut state = self.lock();
        let Some(bytes) = part.bytes() else { return };
        let Some(pe) = state.header.pes.get(part.pe as usize) else { return };
        let node = pe.node;
        if !self.is_single && node != sender.0 {
            return;
        }
        let Some(parts) = state.nodes.get_mut(node as usize) else { return };
        let most = self.node_bytes.saturating_mul(2).saturating_add(SLACK_BYTES);
        let received = parts.receive(part, bytes.len() as u64, most);
        if received != Received::Refused {
            state.write(|files| files.add_to_node(node, &bytes));
        }
        if received == Received::Completed {
            state.write(|files| files.complete_node(node));
        }
    }

    /// Records the processors that the process of a node may use, and its quota of them.
    pub(super) fn note_processors(&self, node: NodeId, cpus: &[Cpu], quota: Option<u32>) {
        if self.is_simulated {
            return;
        }
        let mut state = self.lock();
        let Some(host) = state.header.nodes.get(node.index()).map(|node| node.host.clone()) else {
            return;
        };
        state.processors.entry(host).or_default().add(cpus, quota);
    }

    /// Records the build of the program that the process of a node runs.
    pub(super) fn note_build(&self, node: NodeId, build: u64) {
        let mut state = self.lock();
        let before = state.build;
        if before.is_none_or(|(known, _)| node <= known) {
            state.build = Some((node, build));
        }
        // A launcher that is killed does not reach the end of the recording. Usually all nodes have
        // the same build, so the header is written once.
        if before.map(|(_, build)| build) != state.build.map(|(_, build)| build) {
            state.complete_header();
        }
    }

    /// Records a line of output, if it says whether the result of the job is right.
    pub(super) fn note_output(&self, line: &[u8]) {
        if line.starts_with(VERIFIED.as_bytes()) {
            let line = String::from_utf8_lossy(line);
            note_verified(&mut self.lock().ending, &line);
        }
    }

    /// Records an event that happens now.
    fn note(&self, what: What) {
        let at_ns = self.now_ns();
        self.lock().write(|files| files.add(&RecordedEvent { at_ns, what }));
    }

    /// Records a rebalance.
    pub(super) fn note_balanced(&self, report: &BalanceReport) {
        // The job stands still only at a sync point.
        let is_pause = report.cause == Cause::SyncPoint;
        let what = What::Balanced {
            trigger: journal::trigger(report.cause),
            strategy: report.strategy.clone(),
            moved: report.moved,
            bytes: report.bytes_moved,
            predicted_gain: report.predicted,
            actual_gain: report.realised,
            pause_ns: if is_pause { nanos(report.took) } else { 0 },
        };
        let mut state = self.lock();
        // The report comes later than the rebalance, when its effect is known.
        let at_ns = self.time_of(&state, report.at).unwrap_or_else(|| self.now_ns());
        state.write(|files| files.add(&RecordedEvent { at_ns, what }));
    }

    /// Converts a time of a run to a time of the recording. `None` for later runs, whose times
    /// begin at 0 again.
    fn time_of(&self, state: &State, at: Time) -> Option<u64> {
        match state.runs {
            _ if self.is_simulated => Some(at.as_nanos()),
            0 | 1 => Some(state.began_ns.saturating_add(at.as_nanos()).min(self.now_ns())),
            _ => None,
        }
    }

    /// Notes a large broadcast. Its nodes have the numbers of the present run.
    pub(super) fn note_broadcast(&self, report: &BroadcastReport) {
        let duration_ns = nanos(report.took);
        let mut state = self.lock();
        let number = |node: NodeId| state.members.get(node.index()).map(|member| member.0);
        let hop = |edge: &BroadcastEdge| {
            let (from, to) = (number(edge.from)?, number(edge.to)?);
            Some(RecordedHop { from, to, tree: edge.tree, after_ns: edge.after.map(nanos) })
        };
        let hops: Option<Vec<RecordedHop>> = report.edges.iter().map(hop).collect();
        let (Some(root), Some(hops)) = (number(report.root), hops) else { return };
        let BroadcastReport { bytes, reached, plan, .. } = *report;
        let began = self.time_of(&state, report.at);
        let at_ns = began.unwrap_or_else(|| self.now_ns().saturating_sub(duration_ns));
        let what = What::Broadcast { root, bytes, reached, plan, duration_ns, hops };
        state.write(|files| files.add(&RecordedEvent { at_ns, what }));
    }

    /// Notes how the process of a node ended. Omits the process of a simulation, which is no node.
    pub(super) fn note_exit(&self, node: NodeId, exit: Exit) {
        let (code, signal) = match exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
            Exit::Unknown | Exit::NotStarted | Exit::Unreachable | Exit::TakenOver => (None, None),
        };
        if !self.is_simulated {
            self.note(What::Exited { node: node.0, code, signal });
        }
    }

    /// Notes a complete checkpoint.
    pub(super) fn note_checkpoint(&self, report: &CheckpointReport) {
        let what = What::Checkpoint {
            number: report.number,
            bytes: report.bytes,
            duration_ns: nanos(report.stopped.saturating_add(report.stored)),
            stopped_ns: Some(nanos(report.stopped)),
        };
        let at_ns = if self.is_simulated { report.at.as_nanos() } else { self.now_ns() };
        self.lock().write(|files| files.add(&RecordedEvent { at_ns, what }));
    }

    pub(super) fn note_warning(&self, text: &str) {
        self.note(What::Warning { text: text.to_owned() });
    }

    /// Notes the links that have changed.
    pub(super) fn note_links(&self, report: &LinkReport) {
        let hierarchy = &report.hierarchy;
        let last = hierarchy.groups_at(hierarchy.depth() - 1).next_back();
        let members = self.lock().members.clone();
        let site = |group: u32| {
            let group = Some(GroupId(group)).filter(|group| Some(*group) <= last)?;
            let member = members.get(hierarchy.group(group).leader().index())?;
            Some(self.spec.layout().site_of_node(*member).0)
        };
        for change in &report.changes {
            let (Some(from), Some(to)) = (site(change.from), site(change.to)) else { continue };
            let latency_us = change.after.latency.duration().as_secs_f64() * 1e6;
            let bandwidth = change.after.bandwidth.filter(|it| !it.is_unlimited());
            let bytes_per_second = bandwidth.map(|it| it.bits_per_second() as f64 / 8.0);
            self.note(What::LinkChanged { from, to, latency_us, bytes_per_second });
        }
    }

    /// Notes the summary of a simulation.
    pub(super) fn note_simulated(&self, summary: &Summary) {
        let mut state = self.lock();
        state.virtual_ns = Some(summary.virtual_ns);
        state.header.seed = summary.seed;
        let header = state.header.clone();
        state.write(|files| files.set_header(&header));
    }

    /// Records the loss of nodes, which several other nodes may report.
    pub(super) fn note_lost(&self, nodes: &[NodeId]) {
        if nodes.is_empty() {
            return;
        }
        let now_ns = self.now_ns();
        let mut state = self.lock();
        let is_new = |node: &NodeId| state.members.contains(node) && !state.lost.contains(node);
        let nodes: Vec<NodeId> = nodes.iter().copied().filter(is_new).collect();
        if nodes.is_empty() {
            return;
        }
        state.lost_ns.get_or_insert(now_ns);
        state.lost.extend_from_slice(&nodes);
        let nodes = nodes.iter().map(|node| node.0).collect();
        let event = RecordedEvent { at_ns: now_ns, what: What::Lost { nodes } };
        state.write(|files| files.add(&event));
    }

    /// Records that a run with these members is prepared.
    pub(super) fn note_members(&self, members: &[NodeId]) {
        let at_ns = self.now_ns();
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.members, members.to_vec());
        let lost = std::mem::take(&mut state.lost);
        let left = before.iter().filter(|node| !members.contains(node) && !lost.contains(node));
        let left = left.map(|node| What::Left { node: node.0 });
        let is_new = |node: &&NodeId| !before.contains(node) || lost.contains(node);
        let joined: Vec<NodeId> = members.iter().filter(is_new).copied().collect();
        let events = left.chain(joined.iter().map(|node| What::Joined { node: node.0 }));
        let events: Vec<What> = events.collect();
        for what in events {
            state.write(|files| files.add(&RecordedEvent { at_ns, what }));
        }
        for node in joined {
            state.begin_again(node);
        }
    }

    /// Records the start of a run: its members are connected.
    pub(super) fn note_run(&self) {
        let now_ns = self.now_ns();
        let mut state = self.lock();
        if state.runs == 0 {
            state.began_ns = now_ns;
        }
        state.runs += 1;
        for node in state.members.clone() {
            if let Some(parts) = state.nodes.get_mut(node.index()) {
                parts.note_run();
            }
        }
        if let Some(lost_ns) = state.lost_ns.take() {
            let duration_ns = now_ns.saturating_sub(lost_ns);
            let what = What::Recovered { steps_repeated: None, duration_ns };
            state.write(|files| files.add(&RecordedEvent { at_ns: now_ns, what }));
        }
    }

    /// Ends the recording. Returns what it lacks.
    pub(super) fn end(&self, code: u8, failure: Option<&str>) -> Result<Lacking, RecordError> {
        let now_ns = self.now_ns();
        let mut state = self.lock();
        let nodes_that = |is_such: fn(&NodeParts) -> bool| {
            let nodes = (0..).zip(&state.nodes).filter(|(_, parts)| is_such(parts));
            nodes.map(|(node, _)| NodeId(node)).collect::<Vec<NodeId>>()
        };
        let mut lacking = Lacking {
            missing: nodes_that(NodeParts::is_missing),
            partial: nodes_that(NodeParts::is_partial),
            events: (0, 0),
        };
        for node in nodes_that(NodeParts::is_open) {
            state.write(|files| files.drop_node(node.0));
        }
        state.complete_header();
        let at_ns = state.virtual_ns.unwrap_or(now_ns);
        let failure = failure.map(str::to_owned);
        let known = std::mem::take(&mut state.ending);
        if let Some(files) = state.files.take() {
            lacking.events = (files.events_dropped(), files.events_added());
            files.end(&JobEnding { at_ns, exit_code: code, failure, ..known })?;
        }
        state.error.take().map_or(Ok(lacking), Err)
    }

    fn now_ns(&self) -> u64 {
        match self.is_simulated {
            // Real time would differ from run to run.
            true => 0,
            false => nanos(self.started.elapsed()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a recording lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacking {
    /// Nodes that have not sent their records.
    pub(super) missing: Vec<NodeId>,
    /// Nodes that were started again: the recording has the records of one of their processes.
    pub(super) partial: Vec<NodeId>,
    /// Number of events that were dropped since there was no room, and number of all events.
    pub(super) events: (u64, u64),
}

impl State {
    /// Prepares for another process of a node: its records replace those of the previous process,
    /// which may have arrived in part.
    fn begin_again(&mut self, node: NodeId) {
        if let Some(parts) = self.nodes.get_mut(node.index()) {
            parts.begin_again();
            self.write(|files| files.drop_node(node.0));
        }
    }

    /// Adds to the header what nodes have reported: the processors of hosts, and the build.
    fn complete_header(&mut self) {
        let hosts = self.processors.iter().map(|(name, host)| host.recorded(name));
        let hosts: Vec<RecordedHost> = hosts.collect();
        let build = self.build.map(|(_, build)| format!("{build:016x}"));
        if hosts != self.header.hosts || build != self.header.build {
            (self.header.hosts, self.header.build) = (hosts, build);
            let header = self.header.clone();
            self.write(|files| files.set_header(&header));
        }
    }

    /// Writes to the files. After an error, writes nothing more.
    fn write(&mut self, write: impl FnOnce(&mut RecordingFolder) -> Result<(), RecordError>) {
        if let Some(files) = &mut self.files
            && let Err(error) = write(files)
        {
            tracing::warn!(%error, "the recording ends here");
            (self.files, self.error) = (None, Some(error));
        }
    }
}

/// Notes a line about the verification of the result. The last one counts, but a wrong result stays
/// wrong.
fn note_verified(ending: &mut JobEnding, line: &str) {
    if ending.verified.is_none() || ending.is_verified() {
        ending.verified = Some(line.to_owned());
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn header(launch: &Launch<'_>, plan: &RecordPlan) -> Header {
    let (spec, layout) = (launch.spec, launch.spec.layout());
    let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Processes of this machine have one clock, even if the grid names several hosts.
    let is_elsewhere = |node: NodeId| match &launch.processes {
        Processes::Nodes { tasks: Some(_), .. } => true,
        Processes::Nodes { hosts, .. } => hosts.remote(node).is_some(),
        Processes::Single { .. } => false,
    };
    let node = |node: NodeId| RecordedNode {
        site: layout.site_of_node(node).0,
        host: if is_elsewhere(node) { spec.host(node).to_owned() } else { here.clone() },
        name: nodes::name(spec, node),
    };
    let pes = layout.nodes().flat_map(|node| {
        let pe = RecordedPe { node: node.0, speed: spec.speed(node).factor() };
        layout.place(node).pes.clone().map(move |_| pe.clone())
    });
    let started = u64::try_from(plan.started_unix.as_millis()).ok();
    Header {
        job: launch.program.name(),
        command: plan.command.clone(),
        driver: match &launch.processes {
            Processes::Nodes { .. } => DriverKind::Processes,
            Processes::Single { .. } if launch.is_simulated => DriverKind::Simulated,
            Processes::Single { .. } => DriverKind::Threads,
        },
        seed: plan.seed,
        started_unix_ms: started.filter(|_| !launch.is_simulated),
        sites: layout.sites().map(|site| layout.site_name(site).to_owned()).collect(),
        nodes: layout.nodes().map(node).collect(),
        pes: pes.collect(),
        links: links(spec),
        gridctl: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..Header::default()
    }
}

/// The links between sites and inside of them, at the start of the job, with the rates of single
/// transfers.
fn links(spec: &GridSpec) -> Vec<RecordedLink> {
    let sites: Vec<SiteId> = spec.layout().sites().collect();
    let pairs = sites.iter().flat_map(|from| sites.iter().map(move |to| (*from, *to)));
    let link = |(from, to): (SiteId, SiteId)| {
        let link = spec.link_between(from, to);
        let bandwidth = Some(spec.bandwidth_between(from, to)).filter(|it| !it.is_unlimited());
        RecordedLink {
            from: from.0,
            to: to.0,
            latency_us: link.latency.duration().as_secs_f64() * 1e6,
            bytes_per_second: bandwidth.map(|it| it.bits_per_second() as f64 / 8.0),
            loss: link.loss,
        }
    };
    pairs.map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_a_later_run_have_the_numbers_of_the_grid() {
        let spec = GridSpec::from_emulate("3x2x2").unwrap();
        let members = [NodeId(1), NodeId(4), NodeId(5)];
        let others = [NodeId(0), NodeId(2), NodeId(3)];
        let run = spec.without(&others).unwrap();

        let found = places(&spec, &members, &run);

        assert_eq!(found.pes, [2, 3, 8, 9, 10, 11]);
        let site_of = |pe: usize| {
            found.sites[run.layout().site_of(gridspan_topology::PeId(pe as u32)).index()]
        };
        assert_eq!([site_of(0), site_of(2), site_of(5)], [0, 2, 2]);
    }

    #[test]
    fn the_header_has_the_build_of_the_first_node_as_soon_as_it_is_known() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("recording");
        let plan = RecordPlan {
            folder: folder.clone(),
            node_bytes: 0,
            command: Vec::new(),
            seed: 0,
            started: Instant::now(),
            started_unix: Duration::ZERO,
        };
        let spec = GridSpec::from_emulate("4x1").unwrap();
        let members = spec.layout().nodes().collect();
        let header = Header { driver: DriverKind::Processes, ..Header::default() };
        let recording = Recording::new(&plan, &spec, members, header).unwrap();

        for (node, build, recorded) in [(2, 7, 7), (3, 9, 7), (1, 7, 7), (0, 5, 5), (2, 9, 5)] {
            recording.note_build(NodeId(node), build);
            let header = gridspan_record::Recording::read(&folder).unwrap().header;
            assert_eq!(header.build, Some(format!("{recorded:016x}")), "after node {node}");
        }
    }

    #[test]
    fn the_last_line_about_the_verification_counts_unless_a_result_was_wrong() {
        let mut ending = JobEnding::default();
        for (line, counts) in [
            ("verified: yes (round 1)", "verified: yes (round 1)"),
            ("verified: yes (round 2)", "verified: yes (round 2)"),
            ("verified: no (round 3)", "verified: no (round 3)"),
            ("verified: yes (round 4)", "verified: no (round 3)"),
        ] {
            note_verified(&mut ending, line);
            assert_eq!(ending.verified.as_deref(), Some(counts));
        }
    }

    #[test]
    fn links_are_those_between_sites_and_inside_of_them() {
        let spec = GridSpec::from_emulate("2x1,wan=8ms").unwrap();
        let links = links(&spec);
        assert_eq!(links.len(), 4);
        let wan = links.iter().find(|link| (link.from, link.to) == (0, 1)).unwrap();
        assert_eq!(wan.latency_us, 8000.0);
    }
}
