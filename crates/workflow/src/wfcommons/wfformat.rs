//! Reads workflows in WfFormat, the JSON format of the WfCommons project (schema 1.5 and similar).
//!
//! The reader is lenient: unknown fields, odd identifiers, missing times and sizes, and relations
//! given at one end only are not errors. It fails only if the text is not in this format, has no
//! tasks or two of the same identifier, or describes no valid graph. It reports all assumptions,
//! because they determine how long the execution takes.

use crate::graph::{GraphBuilder, TaskGraph, TaskGraphError};
use crate::id::{DataId, Endpoint, TaskId};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A workflow, ready to be mapped.
///
/// ```
/// use gridspan_workflow::wfcommons::{Workflow, load};
///
/// let text = r#"{"name": "two", "workflow": {
///     "specification": {"tasks": [{"id": "split", "children": ["join"]}, {"id": "join"}]},
///     "execution": {"tasks": [{"id": "split", "runtimeInSeconds": 2.5}]}}}"#;
/// let Workflow { name, graph, guesses, .. } = load(text)?;
/// assert_eq!((name.as_str(), graph.tasks().len(), graph.work_s()), ("two", 2, 2.5));
/// assert!(!guesses.is_empty()); // the time of `join` is missing
/// # Ok::<(), gridspan_workflow::wfcommons::WorkflowError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Workflow {
    /// Name of the workflow.
    pub name: String,
    /// The tasks, with their recorded times on a core of speed 1. The client holds the files that
    /// no task writes, and wants those that no task reads.
    pub graph: TaskGraph,
    /// Recorded makespan in seconds.
    pub recorded_s: Option<f64>,
    /// The missing and invalid values of the file and the assumptions made for them: one sentence
    /// for each kind.
    pub guesses: Vec<String>,
}

/// Why a file is not a workflow. Nothing was read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkflowError {
    /// The text is not JSON, or does not contain tasks.
    #[error("this is not a workflow in WfFormat 1.4 or later: {0}")]
    Format(#[from] serde_json::Error),
    /// There are no tasks.
    #[error("the workflow has no tasks; there is nothing to execute")]
    Empty,
    /// Two tasks have the same identifier.
    #[error("two tasks have the identifier `{id}`; give each a different one")]
    Twice {
        /// The identifier.
        id: String,
    },
    /// The tasks do not form a valid graph.
    #[error(transparent)]
    Graph(#[from] TaskGraphError),
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    name: String,
    workflow: Body,
}

#[derive(Deserialize)]
struct Body {
    specification: Specification,
    #[serde(default)]
    execution: Execution,
}

#[derive(Deserialize)]
struct Specification {
    tasks: Vec<Specified>,
    #[serde(default)]
    files: Vec<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Specified {
    id: String,
    #[serde(default)]
    parents: Vec<String>,
    #[serde(default)]
    children: Vec<String>,
    #[serde(default)]
    input_files: Vec<String>,
    #[serde(default)]
    output_files: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    id: String,
    #[serde(default)]
    size_in_bytes: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Execution {
    #[serde(default)]
    makespan_in_seconds: Option<f64>,
    #[serde(default)]
    tasks: Vec<Executed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Executed {
    id: String,
    #[serde(default)]
    runtime_in_seconds: Option<f64>,
    #[serde(default)]
    core_count: Option<f64>,
}

/// Parses a workflow from the text of its file.
///
/// # Errors
///
/// [`WorkflowError::Format`] if the text is not JSON of this format; [`WorkflowError::Empty`] if it
/// has no tasks; [`WorkflowError::Twice`] if two tasks have the same identifier;
/// [`WorkflowError::Graph`] if tasks depend on themselves, or their total time or size exceeds its
/// limit.
pub fn load(text: &str) -> Result<Workflow, WorkflowError> {
    let Document { name, workflow } = serde_json::from_str(text)?;
    let Body { specification, execution } = workflow;
    if specification.tasks.is_empty() {
        return Err(WorkflowError::Empty);
    }
    let guesses = guesses(&specification, &execution);
    let graph = Reader::new(&specification, &execution)?.read()?;
    Ok(Workflow { name, graph, recorded_s: execution.makespan_in_seconds, guesses })
}

/// Returns a size or time if it is valid.
fn sensible(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite() && *number >= 0.0)
}

/// Returns the missing and invalid values of the file, with the number of cases and the first case
/// of each kind.
fn guesses(from: &Specification, execution: &Execution) -> Vec<String> {
    let tasks: BTreeSet<&str> = from.tasks.iter().map(|task| task.id.as_str()).collect();
    let times: BTreeMap<&str, &Executed> =
        execution.tasks.iter().map(|task| (task.id.as_str(), task)).collect();
    let sizes: BTreeMap<&str, Option<f64>> =
        from.files.iter().map(|file| (file.id.as_str(), file.size_in_bytes)).collect();
    let files =
        from.tasks.iter().flat_map(|task| task.input_files.iter().chain(&task.output_files));
    let files: BTreeSet<&str> = files.map(String::as_str).collect();
    let time = |id: &str| times.get(id).and_then(|task| task.runtime_in_seconds);
    let size = |id: &str| sizes.get(id).copied().flatten();
    let cores = |id: &str| times.get(id).and_then(|task| task.core_count);
    let wrong = |number: Option<f64>| number.is_some() && sensible(number).is_none();
    let related = from.tasks.iter().flat_map(|task| task.parents.iter().chain(&task.children));
    let ids = || from.tasks.iter().map(|task| task.id.as_str());
    [
        guess(ids().filter(|id| time(id).is_none()), "has no recorded runtime", "0 s"),
        guess(ids().filter(|id| wrong(time(id))), "has an invalid recorded runtime", "0 s"),
        guess(
            ids().filter(|id| cores(id).is_some_and(|cores| cores > 1.0)),
            "used several cores",
            "one core for the same time",
        ),
        guess(
            files.iter().copied().filter(|id| size(id).is_none()),
            "has no recorded size",
            "0 bytes",
        ),
        guess(
            files.iter().copied().filter(|id| wrong(size(id))),
            "has an invalid recorded size",
            "0 bytes",
        ),
        guess(
            related.map(String::as_str).filter(|id| !tasks.contains(id)),
            "is a parent or child, but no task of the file",
            "no dependency",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Formats one sentence about all items with the same problem.
fn guess<'a>(mut all: impl Iterator<Item = &'a str>, is: &str, taken: &str) -> Option<String> {
    let first = all.next()?;
    let others = match all.count() {
        0 => String::new(),
        more => format!(", like {more} more"),
    };
    Some(format!("`{first}` {is}{others}: assuming {taken}"))
}

/// A graph under construction.
struct Reader<'a> {
    specified: &'a [Specified],
    sizes: BTreeMap<&'a str, u64>,
    ids: BTreeMap<&'a str, TaskId>,
    data: BTreeMap<&'a str, DataId>,
    builder: GraphBuilder,
}

impl<'a> Reader<'a> {
    fn new(from: &'a Specification, execution: &'a Execution) -> Result<Self, WorkflowError> {
        let size = |file: &'a File| {
            (file.id.as_str(), sensible(file.size_in_bytes).unwrap_or_default() as u64)
        };
        let time = |task: &'a Executed| {
            (task.id.as_str(), sensible(task.runtime_in_seconds).unwrap_or_default())
        };
        let times: BTreeMap<_, _> = execution.tasks.iter().map(time).collect();
        let mut builder = GraphBuilder::default();
        let mut ids = BTreeMap::new();
        for task in &from.tasks {
            let work_s = times.get(task.id.as_str()).copied().unwrap_or_default();
            if ids.insert(task.id.as_str(), builder.task(&task.id, work_s)).is_some() {
                return Err(WorkflowError::Twice { id: task.id.clone() });
            }
        }
        let sizes = from.files.iter().map(size).collect();
        Ok(Self { specified: &from.tasks, sizes, ids, data: BTreeMap::new(), builder })
    }

    fn read(mut self) -> Result<TaskGraph, WorkflowError> {
        let fed = self.files();
        self.relations(&fed);
        Ok(self.builder.build()?)
    }

    /// Adds the files, and returns the pairs of tasks connected by a file. If a file has several
    /// writers, the first counts. A file that a task both reads and writes is not its input.
    fn files(&mut self) -> BTreeSet<(TaskId, TaskId)> {
        let tasks = self.specified.iter().map(|task| (self.ids[task.id.as_str()], task));
        let tasks: Vec<(TaskId, &Specified)> = tasks.collect();
        let size = |sizes: &BTreeMap<&str, u64>, file: &str| sizes.get(file).copied().unwrap_or(0);
        let mut writers = BTreeMap::new();
        for &(id, task) in &tasks {
            for file in &task.output_files {
                if !self.data.contains_key(file.as_str()) {
                    let bytes = size(&self.sizes, file);
                    self.data.insert(file, self.builder.write(id, file, bytes));
                    writers.insert(file.as_str(), id);
                }
            }
        }
        let mut fed = BTreeSet::new();
        let mut is_read = BTreeSet::new();
        for &(id, task) in &tasks {
            for file in &task.input_files {
                let writer = writers.get(file.as_str()).copied();
                if writer == Some(id) {
                    continue;
                }
                let bytes = size(&self.sizes, file);
                let builder = &mut self.builder;
                let data = *self
                    .data
                    .entry(file)
                    .or_insert_with(|| builder.external(file, bytes, [Endpoint::Client]));
                self.builder.read(id, data);
                is_read.insert(file.as_str());
                fed.extend(writer.map(|writer| (writer, id)));
            }
        }
        for file in writers.keys().filter(|file| !is_read.contains(*file)) {
            self.builder.want(self.data[file]);
        }
        fed
    }

    /// Adds the dependencies without a file, as data of zero bytes.
    fn relations(&mut self, fed: &BTreeSet<(TaskId, TaskId)>) {
        let mut pairs = BTreeSet::new();
        for task in self.specified {
            let id = self.ids[task.id.as_str()];
            let known = |other: &String| self.ids.get(other.as_str()).copied();
            pairs.extend(task.parents.iter().filter_map(known).map(|parent| (parent, id)));
            pairs.extend(task.children.iter().filter_map(known).map(|child| (id, child)));
        }
        for &(parent, child) in pairs.difference(fed) {
            let signal = self.builder.write(parent, "done", 0);
            self.builder.read(child, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: &str = r#"{
        "name": "small", "schemaVersion": "1.5", "unknown": {"x": 1},
        "workflow": {
            "specification": {
                "tasks": [
                    {"name": "a", "id": "ns/a:1", "parents": [], "children": ["b"],
                     "inputFiles": ["in"], "outputFiles": ["mid"]},
                    {"name": "b", "id": "b", "parents": ["ns/a:1"], "children": [],
                     "inputFiles": ["in", "mid"], "outputFiles": ["out"]},
                    {"name": "c", "id": "c", "parents": ["b", "gone"], "children": []}
                ],
                "files": [{"id": "in", "sizeInBytes": 10}, {"id": "mid", "sizeInBytes": 20.0},
                          {"id": "out", "sizeInBytes": 30}]
            },
            "execution": {
                "makespanInSeconds": 9, "tasks": [
                    {"id": "ns/a:1", "runtimeInSeconds": 1.5, "coreCount": 1},
                    {"id": "b", "runtimeInSeconds": 2}
                ], "machines": []
            }
        }
    }"#;

    #[test]
    fn files_become_data_and_times_become_work() {
        let workflow = load(SMALL).unwrap();
        let graph = &workflow.graph;

        assert_eq!((workflow.name.as_str(), workflow.recorded_s), ("small", Some(9.0)));
        let work: Vec<f64> = graph.tasks().iter().map(|task| task.work_s).collect();
        assert_eq!(work, [1.5, 2.0, 0.0], "a task without a record takes no time");
        let find = |name: &str| graph.data().iter().find(|data| data.name == name).unwrap();
        assert_eq!(find("in").held_by, [Endpoint::Client]);
        assert_eq!(find("in").consumers, [TaskId(0), TaskId(1)]);
        assert_eq!((find("mid").bytes, find("mid").producer), (20, Some(TaskId(0))));
        assert!(find("out").is_wanted && !find("mid").is_wanted);
        // c waits for b, although b writes no file for it.
        assert_eq!(find("done").consumers, [TaskId(2)]);
        assert_eq!(graph.data().len(), 4);
    }

    #[test]
    fn each_kind_of_guess_is_reported_once() {
        assert_eq!(
            load(SMALL).unwrap().guesses,
            [
                "`c` has no recorded runtime: assuming 0 s",
                "`gone` is a parent or child, but no task of the file: assuming no dependency",
            ]
        );

        let odd = r#"{"workflow": {
            "specification": {
                "tasks": [
                    {"id": "a", "outputFiles": ["x", "y"]}, {"id": "b", "inputFiles": ["x", "z"]}
                ],
                "files": [{"id": "x", "sizeInBytes": -1}, {"id": "y"}]
            },
            "execution": {"tasks": [
                {"id": "a", "runtimeInSeconds": -2, "coreCount": 1},
                {"id": "b", "runtimeInSeconds": 3, "coreCount": 4}
            ]}
        }}"#;
        assert_eq!(
            load(odd).unwrap().guesses,
            [
                "`a` has an invalid recorded runtime: assuming 0 s",
                "`b` used several cores: assuming one core for the same time",
                "`y` has no recorded size, like 1 more: assuming 0 bytes",
                "`x` has an invalid recorded size: assuming 0 bytes",
            ]
        );
    }

    #[test]
    fn invalid_workflows_are_refused_with_the_reason() {
        let refused = |text: &str| load(text).unwrap_err().to_string();

        assert!(refused("{").starts_with("this is not a workflow in WfFormat"));
        assert!(refused(r#"{"workflow": {"tasks": []}}"#).contains("specification"));
        let empty = r#"{"workflow": {"specification": {"tasks": []}}}"#;
        assert!(refused(empty).contains("no tasks"));
        let twice = r#"{"workflow": {"specification": {"tasks": [{"id": "a"}, {"id": "a"}]}}}"#;
        assert!(refused(twice).contains("two tasks have the identifier `a`"));
        let circle = r#"{"workflow": {"specification": {"tasks": [
            {"id": "a", "parents": ["b"]}, {"id": "b", "parents": ["a"]}]}}}"#;
        assert!(refused(circle).contains("depends on its own output"));
    }

    #[test]
    fn excessive_sizes_and_times_are_refused() {
        let refused =
            |from: &str, to: &str| load(&SMALL.replace(from, to)).unwrap_err().to_string();

        assert!(refused("20.0", "1e300").contains("data"));
        assert!(refused("1.5, \"core", "1e308, \"core").contains("tasks"));
    }

    proptest! {
        #[test]
        fn a_damaged_workflow_is_read_or_refused(
            at in 0..SMALL.len(),
            length in 0_usize..40,
            other in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let end = (at + length).min(SMALL.len());
            let bytes = [&SMALL.as_bytes()[..at], &other, &SMALL.as_bytes()[end..]].concat();
            let text = String::from_utf8_lossy(&bytes);
            match load(&text) {
                Ok(workflow) => {
                    prop_assert!(workflow.graph.tasks().len() <= text.len());
                    prop_assert!(workflow.graph.work_s().is_finite());
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
