//! Tasks between progress points, whose outputs are known in advance.

use gridspan_runtime::{Grid, JobError, PeId, Step, Task, TaskContext, TaskPool, TaskStream};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A node of a random tree.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tree {
    height: u32,
    seed: u64,
}

impl Tree {
    fn children(&self) -> Vec<Self> {
        let mut dice = Dice::new(self.seed);
        let child = |dice: &mut Dice| Self { height: self.height - 1, seed: dice.next_u64() };
        (0..self.height.min(1) * dice.below(4_u32)).map(|_| child(&mut dice)).collect()
    }

    fn nodes(&self) -> u64 {
        1 + self.children().iter().map(Self::nodes).sum::<u64>()
    }
}

impl Task for Tree {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        cx.charge(Dice::new(!self.seed).any_scale_up_to(Duration::from_millis(10)));
        self.children().into_iter().for_each(|child| cx.spawn(child));
        Step::Sync(1)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

fn tree(seed: u64) -> Tree {
    Tree { height: 6, seed }
}

/// Runs one tree on any PE.
pub(crate) async fn run(pool: &TaskPool<Tree>, dice: &mut Dice) -> Result<(), JobError> {
    let seed = dice.next_u64();
    let count = pool.run_on(PeId(0), tree(seed)).await?;
    match count == tree(seed).nodes() {
        true => Ok(()),
        false => Err(format!("{count} tasks have run").into()),
    }
}

/// Runs a stream of trees, and returns the sum of their nodes.
pub(crate) async fn stream(
    grid: &Grid,
    pool: &TaskPool<Tree>,
    dice: &mut Dice,
) -> Result<u64, JobError> {
    let seeds: Vec<u64> = (0..1 + dice.below(6_u32)).map(|_| dice.next_u64()).collect();
    let is_private = dice.chance(0.3);
    let private = match is_private {
        true => Some(grid.task_pool::<Tree>().await?),
        false => None,
    };
    let expected: u64 = seeds.iter().map(|&seed| tree(seed).nodes()).sum();
    let mut stream = private.as_ref().unwrap_or(pool).stream(seeds.into_iter().map(tree));
    let mut sum = 0;
    while let Some(next) = stream.next().await {
        sum += next?.1;
    }
    drop(stream);
    if let Some(private) = private {
        private.close();
    }
    match sum == expected {
        true => Ok(sum),
        false => Err(format!("{sum} tasks of a stream have run, and {expected} were to").into()),
    }
}

/// A stream that main goes on with after a loss.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Lasting {
    seeds: Vec<u64>,
    /// The outputs that main has taken.
    counts: BTreeMap<u64, u64>,
}

impl Lasting {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let seeds = (0..2 + dice.below(12_u32)).map(|_| dice.next_u64()).collect();
        Self { seeds, counts: BTreeMap::new() }
    }

    /// Begins to run the trees whose outputs main has not taken.
    pub(crate) fn begin(&self, pool: &TaskPool<Tree>) -> (TaskStream<Tree>, Vec<u64>) {
        let missing = |number: &u64| !self.counts.contains_key(number);
        let missing: Vec<u64> = (0..self.seeds.len() as u64).filter(missing).collect();
        let roots: Vec<Tree> = missing.iter().map(|&at| tree(self.seeds[at as usize])).collect();
        (pool.stream(roots).repeatable(), missing)
    }

    pub(crate) fn take(&mut self, number: u64, count: u64) -> Result<(), JobError> {
        match self.counts.insert(number, count) {
            None => Ok(()),
            Some(_) => Err("an output of a stream came twice".into()),
        }
    }

    /// Checks the outputs of all trees.
    pub(crate) fn end(&self) -> Result<u64, JobError> {
        let expected: Vec<u64> = self.seeds.iter().map(|&seed| tree(seed).nodes()).collect();
        match self.counts.values().copied().collect::<Vec<_>>() == expected {
            true => Ok(expected.iter().sum()),
            false => Err(format!("{:?} tasks, not {expected:?}", self.counts).into()),
        }
    }
}
