//! Generated workflows, where recorded ones are not at hand or not large enough.

use crate::graph::{GraphBuilder, TaskGraph, TaskGraphError};
use crate::id::{DataId, Endpoint};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// So many levels, each of which reads what the one before it has written.
const LEVELS: u32 = 10;
/// A task reads so many files at most.
const READS_MAX: u64 = 3;

/// A workflow in levels: each task reads one to three files of the level before it, of 0.1 to 100
/// MB, and computes for 1 to 100 s, both spread evenly over orders of magnitude; those of the first
/// level read a file of the client's.
pub fn layered(tasks: u32, seed: u64) -> Result<TaskGraph, TaskGraphError> {
    let mut dice = Pcg64Mcg::seed_from_u64(seed);
    let mut unit = move || dice.next_u64() as f64 / u64::MAX as f64;
    let width = tasks.div_ceil(LEVELS).max(1);
    let mut builder = GraphBuilder::default();
    let mut above: Vec<DataId> = Vec::new();
    let mut level: Vec<DataId> = Vec::new();
    for number in 0..tasks {
        if number % width == 0 {
            above = std::mem::take(&mut level);
        }
        let task = builder.task(format!("t{number}"), 10_f64.powf(2.0 * unit()));
        if above.is_empty() {
            let input = builder.external(format!("in{number}"), 1_000_000, [Endpoint::Client]);
            builder.read(task, input);
        } else {
            for _ in 0..=(unit() * READS_MAX as f64) as u64 % READS_MAX {
                let drawn = (unit() * above.len() as f64) as usize;
                builder.read(task, above[drawn.min(above.len() - 1)]);
            }
        }
        let bytes = 10_f64.powf(5.0 + 3.0 * unit()) as u64;
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
    fn a_generated_workflow_has_its_tasks_in_levels_and_the_same_seed_gives_the_same() {
        let graph = layered(100, 7).unwrap();

        assert_eq!(graph.tasks().len(), 100);
        assert_eq!(graph, layered(100, 7).unwrap());
        assert_ne!(graph, layered(100, 8).unwrap());
        assert!(graph.tasks().iter().all(|task| (1..=3).contains(&task.inputs.len())));
        assert!(graph.tasks().iter().all(|task| (1.0..=100.0).contains(&task.work_s)));
    }
}
