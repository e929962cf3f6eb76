//! Snapshots in the load format of DARMA/vt, so that vt's tools can study Gridspan jobs and
//! Gridspan's tools can study vt jobs.
//!
//! vt writes one JSON file for each rank, `stem.<rank>.json`, of type `LBDatafile`: phases with
//! tasks (entity, time) and communications (sender, receiver, messages, bytes). A rank is a PE
//! here. Data for which vt has no field is in `attributes` and `user_defined`: sites and nodes,
//! speeds, backgrounds, bytes of state. Files without these, such as vt's, are read as PEs of speed
//! 1 in one site. vt stores times and bytes of messages as floating-point numbers, so that
//! nanoseconds and bytes beyond 2^53 are rounded. All other parts of a snapshot, such as the
//! hierarchy, links and replicas, are not exported.

use crate::snapshot::{ActorKey, ActorLoad, Edge, PeLoad, Snapshot};
use gridspan_topology::{Layout, PeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;

/// Type of the files.
const KIND: &str = "LBDatafile";

/// The file of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VtFile {
    /// `LBDatafile`, or empty: present versions of vt write the type in the metadata only.
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    phases: Vec<Phase>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Metadata {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default)]
    rank: u32,
    #[serde(default)]
    attributes: Attributes,
}

/// Attributes of a rank that only Gridspan writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Attributes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    site: Option<String>,
    /// Number of the node in the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    speed: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    available: Option<f64>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    background: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Phase {
    id: u64,
    /// vt leaves it out where a rank has no tasks.
    #[serde(default)]
    tasks: Vec<Task>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    communications: Vec<Communication>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Task {
    entity: Entity,
    node: u32,
    resource: String,
    /// Seconds.
    time: f64,
    #[serde(default)]
    user_defined: UserDefined,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct UserDefined {
    /// Bytes of state.
    #[serde(default)]
    state_bytes: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entity {
    /// vt writes one of these two numbers, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq_id: Option<u64>,
    #[serde(default)]
    home: u32,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    migratable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collection_id: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    index: Vec<u128>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Communication {
    #[serde(rename = "type")]
    kind: String,
    from: Entity,
    to: Entity,
    messages: u64,
    bytes: f64,
}

/// Why files do not form a snapshot. Nothing was read.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum VtError {
    /// A file has another type.
    #[error("file {file} has type `{}`; give files of type `LBDatafile`", .kind.escape_debug())]
    Kind {
        /// Position of the file.
        file: usize,
        /// The type found.
        kind: String,
    },
    /// A file has no phase of that number.
    #[error("file {file} has no phase {phase}; choose a phase that all files have")]
    NoSuchPhase {
        /// Position of the file.
        file: usize,
        /// The phase requested.
        phase: u64,
    },
    /// Two tasks have the same entity.
    #[error("entity {id} is listed twice; give the file of each rank once")]
    Twice {
        /// The entity.
        id: u64,
    },
    /// The entity of a task has no number.
    #[error("file {file} has a task whose entity has neither `id` nor `seq_id`; write one of them")]
    NoNumber {
        /// Position of the file.
        file: usize,
    },
    /// A time, a speed or a part of a processor is out of range.
    #[error(
        "file {file} has the {what} {value}; times must not be negative, speeds be above zero, and parts of a processor above zero and at most 1"
    )]
    Number {
        /// Position of the file.
        file: usize,
        /// Name of the value.
        what: &'static str,
        /// The value refused.
        value: f64,
    },
}

impl Task {
    /// Returns whether vt itself has added this task to the first phase of a rank. Such a task
    /// belongs to entity 0, takes no time, and is in the files of all ranks.
    fn is_initial(&self) -> bool {
        let Entity { migratable, collection_id, .. } = &self.entity;
        let is_zero = self.entity.number() == Some(0) && self.time == 0.0;
        is_zero && !migratable && collection_id.is_none()
    }
}

impl Entity {
    fn number(&self) -> Option<u64> {
        self.id.or(self.seq_id)
    }
}

impl VtFile {
    fn kind(&self) -> &str {
        let inner = self.metadata.as_ref().and_then(|metadata| metadata.kind.as_deref());
        if self.kind.is_empty() { inner.unwrap_or_default() } else { &self.kind }
    }

    /// Returns the numbers of its phases, in the order of the file.
    pub fn phases(&self) -> impl Iterator<Item = u64> + '_ {
        self.phases.iter().map(|phase| phase.id)
    }
}

/// Returns the files of a snapshot, one for each PE in order. Each has only phase 0.
pub fn to_vt(snapshot: &Snapshot) -> Vec<VtFile> {
    let entity = |at: usize| {
        let actor = &snapshot.actors[at];
        Entity {
            id: Some(at as u64),
            seq_id: None,
            home: actor.pe.0,
            kind: "object".to_owned(),
            migratable: actor.migratable,
            collection_id: Some(actor.id.collection),
            index: vec![actor.id.index],
        }
    };
    let file = |(pe, load): (PeId, &PeLoad)| VtFile {
        kind: KIND.to_owned(),
        metadata: Some(Metadata {
            kind: Some(KIND.to_owned()),
            rank: pe.0,
            attributes: Attributes {
                site: Some(snapshot.layout.site_name(snapshot.layout.site_of(pe)).to_owned()),
                node: Some(snapshot.layout.node_of(pe).0),
                speed: Some(load.speed),
                available: Some(load.available),
                background: Some(load.background.as_secs_f64()),
                steps: Some(snapshot.steps),
            },
        }),
        phases: vec![Phase { id: 0, tasks: Vec::new(), communications: Vec::new() }],
    };
    let mut files: Vec<VtFile> = snapshot.layout.pes().zip(&snapshot.pes).map(file).collect();
    for (at, actor) in snapshot.actors.iter().enumerate() {
        files[actor.pe.index()].phases[0].tasks.push(Task {
            entity: entity(at),
            node: actor.pe.0,
            resource: "cpu".to_owned(),
            time: actor.load.as_secs_f64(),
            user_defined: UserDefined { state_bytes: actor.bytes as f64 },
        });
    }
    for edge in &snapshot.edges {
        let sender = snapshot.actors[edge.from as usize].pe;
        files[sender.index()].phases[0].communications.push(Communication {
            kind: "SendRecv".to_owned(),
            from: entity(edge.from as usize),
            to: entity(edge.to as usize),
            messages: edge.messages,
            bytes: edge.bytes as f64,
        });
    }
    files
}

/// Reads one phase of the files of all ranks, in order, as a snapshot. Leaves out messages that a
/// node sends or receives, or an entity that is in no file.
///
/// # Errors
///
/// [`VtError`] if a file has another type or no such phase, two tasks have the same entity, an
/// entity has no number, or a number is out of range.
pub fn from_vt(files: &[VtFile], phase: u64) -> Result<Snapshot, VtError> {
    let (mut tasks, mut communications, mut pes) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (at, file) in files.iter().enumerate() {
        if file.kind() != KIND {
            return Err(VtError::Kind { file: at, kind: file.kind().to_owned() });
        }
        let found = file.phases.iter().find(|found| found.id == phase);
        let found = found.ok_or(VtError::NoSuchPhase { file: at, phase })?;
        for task in found.tasks.iter().filter(|task| !task.is_initial()) {
            let load = seconds(at, "time", task.time)?;
            let id = task.entity.number().ok_or(VtError::NoNumber { file: at })?;
            if tasks.insert(id, (PeId::from(at), load, task)).is_some() {
                return Err(VtError::Twice { id });
            }
        }
        communications.extend(&found.communications);
        let known = attributes(file);
        let speed = known.speed.unwrap_or(1.0);
        if !(speed > 0.0 && speed.is_finite()) {
            return Err(VtError::Number { file: at, what: "speed", value: speed });
        }
        let available = known.available.unwrap_or(1.0);
        if !(available > 0.0 && available <= 1.0) {
            return Err(VtError::Number { file: at, what: "available", value: available });
        }
        let background = seconds(at, "background", known.background.unwrap_or(0.0))?;
        pes.push(PeLoad { speed, available, background, ..PeLoad::default() });
    }
    let actor = |(&id, &(pe, load, task)): (&u64, &(PeId, Duration, &Task))| ActorLoad {
        id: key(id, &task.entity),
        pe,
        load,
        bytes: task.user_defined.state_bytes as u64,
        migratable: task.entity.migratable,
        pace: None,
    };
    let position: BTreeMap<u64, u32> = tasks.keys().copied().zip(0..).collect();
    let mut edges: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for communication in communications {
        // Numbers of nodes are not those of entities.
        let known = |end: &Entity| {
            end.number().filter(|_| end.kind != "node").and_then(|id| position.get(&id))
        };
        let ends = [&communication.from, &communication.to].map(known);
        if let [Some(&from), Some(&to)] = ends {
            let sum = edges.entry((from, to)).or_default();
            sum.0 = sum.0.saturating_add(communication.messages);
            sum.1 = sum.1.saturating_add(communication.bytes as u64);
        }
    }
    let edge = |((from, to), (messages, bytes))| Edge { from, to, messages, bytes };
    let mut snapshot = Snapshot::new(
        tasks.iter().map(actor).collect(),
        edges.into_iter().map(edge).collect(),
        pes,
        layout(files),
    );
    snapshot.steps = files.first().and_then(|file| attributes(file).steps).unwrap_or(1);
    Ok(snapshot)
}

fn attributes(file: &VtFile) -> Attributes {
    file.metadata.as_ref().map(|metadata| metadata.attributes.clone()).unwrap_or_default()
}

fn seconds(file: usize, what: &'static str, value: f64) -> Result<Duration, VtError> {
    Duration::try_from_secs_f64(value).map_err(|_| VtError::Number { file, what, value })
}

/// Returns the key of a member of a collection, or a key made of the number of the entity.
fn key(id: u64, entity: &Entity) -> ActorKey {
    match (entity.collection_id, entity.index.as_slice()) {
        (Some(collection), [index]) => ActorKey { collection, index: *index },
        _ => ActorKey { collection: u32::MAX, index: u128::from(id) },
    }
}

/// Returns the layout of the PEs in order, by the sites and nodes that the files name. A rank that
/// names none is a node of the site `vt`.
fn layout(files: &[VtFile]) -> Layout {
    let mut sites: Vec<(String, Vec<u32>)> = Vec::new();
    let mut last_node = None;
    for file in files {
        let known = attributes(file);
        let site = known.site.unwrap_or_else(|| "vt".to_owned());
        if sites.last().is_none_or(|last| last.0 != site) {
            sites.push((site, Vec::new()));
            last_node = None;
        }
        let Some((_, nodes)) = sites.last_mut() else { continue };
        match nodes.last_mut() {
            Some(pes) if known.node.is_some() && known.node == last_node => *pes += 1,
            _ => nodes.push(1),
        }
        last_node = known.node;
    }
    Layout::new(sites)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    #[test]
    fn a_snapshot_written_as_vt_files_is_read_back_unchanged() {
        let mut original = snapshot(&[0, 1, 2, 3, 1]);
        original.pes[2].speed = 2.5;
        original.pes[1].available = 0.75;
        original.actors[0].id.index = u128::MAX;
        let files = to_vt(&original);
        let stored: Vec<String> =
            files.iter().map(|file| serde_json::to_string(file).unwrap()).collect();

        let read: Vec<VtFile> =
            stored.iter().map(|file| serde_json::from_str(file).unwrap()).collect();

        assert_eq!(from_vt(&read, 0), Ok(original));
    }

    #[test]
    fn times_and_bytes_are_written_as_floating_point_numbers() {
        let mut original = snapshot(&[0, 1]);
        original.actors[0].load = Duration::from_secs(3);

        let stored = serde_json::to_string(&to_vt(&original)[0]).unwrap();

        assert!(
            stored.contains(r#""time":3.0"#) && stored.contains(r#""bytes":1000.0"#),
            "{stored}"
        );
        assert!(stored.starts_with(r#"{"type":"LBDatafile""#), "{stored}");
    }

    #[test]
    fn a_file_that_vt_wrote_is_read() {
        // As in the documentation of vt's load files.
        let text = r#"{"type": "LBDatafile", "phases": [{"id": 3, "tasks": [
            {"entity": {"home": 0, "id": 524291, "type": "object", "migratable": true,
              "collection_id": 7, "index": [1, 2]},
             "node": 0, "resource": "cpu", "subphases": [{"id": 0, "time": 0.5}], "time": 0.5}],
            "communications": [{"type": "SendRecv", "bytes": 32.0, "messages": 1,
              "from": {"home": 0, "id": 524291, "type": "object", "migratable": true},
              "to": {"home": 0, "id": 99, "type": "object", "migratable": true}}]}]}"#;
        let file: VtFile = serde_json::from_str(text).unwrap();

        let snapshot = from_vt(std::slice::from_ref(&file), 3).unwrap();

        assert_eq!(snapshot.validate(), Ok(()));
        assert_eq!(snapshot.actors[0].load.as_millis(), 500);
        assert!(snapshot.edges.is_empty(), "no task has entity 99");
        assert_eq!(from_vt(&[file], 0), Err(VtError::NoSuchPhase { file: 0, phase: 0 }));
    }

    #[test]
    fn files_of_present_versions_of_vt_are_read() {
        // Each rank has the type in the metadata and an initial task of entity 0; the second has no
        // task in the second phase.
        let initial = r#"{"entity": {"home": 0, "id": 0, "type": "object", "migratable": false},
            "node": 0, "resource": "cpu", "time": 0.0}"#;
        let task = r#"{"entity": {"home": 0, "seq_id": 1, "type": "object", "migratable": true},
            "node": 0, "resource": "cpu", "time": 0.5}"#;
        let sent = r#"{"type": "CollectionToNode", "bytes": 8.0, "messages": 2,
            "from": {"home": 0, "id": 1, "seq_id": 7, "type": "object", "migratable": true},
            "to": {"type": "node", "id": 1}}"#;
        let begin = |rank: u32| {
            format!(r#"{{"metadata": {{"type": "LBDatafile", "rank": {rank}}}, "phases": ["#)
        };
        let first = format!(
            r#"{}{{"id": 0, "tasks": [{task}, {initial}], "communications": [{sent}]}},
            {{"id": 1, "tasks": [{task}]}}]}}"#,
            begin(0)
        );
        let second = format!(r#"{}{{"id": 0, "tasks": [{initial}]}}, {{"id": 1}}]}}"#, begin(1));
        let files: Vec<VtFile> =
            [first, second].iter().map(|text| serde_json::from_str(text).unwrap()).collect();

        for phase in [0, 1] {
            let snapshot = from_vt(&files, phase).unwrap();

            assert_eq!(snapshot.validate(), Ok(()));
            assert_eq!((snapshot.actors.len(), snapshot.pes.len()), (1, 2));
            assert!(snapshot.edges.is_empty(), "node 1 is not entity 1");
        }
        let unnumbered = format!(r#"{}{{"id": 0, "tasks": [{task}]}}]}}"#, begin(0));
        let unnumbered = unnumbered.replace(r#""seq_id": 1, "#, "");
        let unnumbered: VtFile = serde_json::from_str(&unnumbered).unwrap();
        assert_eq!(from_vt(&[unnumbered], 0), Err(VtError::NoNumber { file: 0 }));
        let other = r#"{"metadata": {"type": "LBStatsfile"}, "phases": []}"#;
        let other: VtFile = serde_json::from_str(other).unwrap();
        let kind = "LBStatsfile".to_owned();
        assert_eq!(from_vt(&[other], 0), Err(VtError::Kind { file: 0, kind }));
    }
}
