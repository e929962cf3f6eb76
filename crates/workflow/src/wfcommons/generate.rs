//! Generated workflows, for cases in which recorded ones are not available or not large enough.

use crate::graph::{GraphBuilder, TaskGraph, TaskGraphError};
use crate::id::{DataId, Endpoint};
use gridspan_topology::dice::Dice;

/// Largest number of levels, each of which reads files written by the level before it.
const LEVELS: u32 = 10;
/// Maximum number of files that a task reads.
const READS_MAX: u32 = 3;

/// Generates a workflow in levels: each task reads one to three files of the level before it, of
/// 0.1 to 100 MB, and computes for 1 to 100 s, both distributed log-uniformly; the tasks of the
/// first level read a file from the client.
///
/// # Errors
///
/// Those of [`GraphBuilder::build`], whose limits the generated times and sizes do not reach.
pub fn layered(tasks: u32, seed: u64) -> Result<TaskGraph, TaskGraphError> {
    let mut dice = Dice::new(seed);
    let width = tasks.div_ceil(LEVELS).max(1);
    let mut builder = GraphBuilder::default();
    let mut above: Vec<DataId> = Vec::new();
    let mut level: Vec<DataId> = Vec::new();
    for number in 0..tasks {
        if number % width == 0 {
            above = std::mem::take(&mut level);
        }
        let task = builder.task(format!("t{number}"), dice.logarithmic(1.0, 100.0));
        if above.is_empty() {
            let input = builder.external(format!("in{number}"), 1_000_000, [Endpoint::Client]);
            builder.read(task, input);
        } else {
            for _ in 0..=dice.below(READS_MAX) {
                builder.read(task, dice.one_of(&above));
            }
        }
        let bytes = dice.logarithmic(1e5, 1e8) as u64;
        level.push(builder.write(task, format!("f{number}"), bytes));
    }
    for data in level {
        builder.want(data);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_workflow_is_within_its_bounds_and_reproducible() {
        let graph = layered(100, 7).unwrap();

        assert_eq!(graph.tasks().len(), 100);
        assert_eq!(graph, layered(100, 7).unwrap());
        assert_ne!(graph, layered(100, 8).unwrap());
        assert!(graph.tasks().iter().all(|task| (1..=3).contains(&task.inputs.len())));
        assert!(graph.tasks().iter().all(|task| (1.0..=100.0).contains(&task.work_s)));
    }
}
