//! Tasks that a job runs between its other operations, in a pool that stays open.

use crate::phases::ledger;
use gridspan_runtime::{JobError, PeId, Step, Task, TaskContext, TaskPool};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A node of a tree, whose time and number of children are random.
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
        ledger(|ledger| ledger.are_tasks_taken |= cx.pe() != PeId(0));
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

/// Runs some trees, and checks that each of their nodes was visited once.
pub(crate) async fn run(pool: &TaskPool<Tree>, dice: &mut Dice) -> Result<(), JobError> {
    let seeds: Vec<u64> = (0..1 + dice.below(6_u32)).map(|_| dice.next_u64()).collect();
    let tree = |seed: u64| Tree { height: 8, seed };
    let mut counts = vec![0; seeds.len()];
    match seeds[..] {
        [seed] => counts[0] = pool.run(tree(seed)).await?,
        _ => {
            let mut stream = pool.stream(seeds.clone().into_iter().map(tree));
            while let Some(next) = stream.next().await {
                let (number, count) = next?;
                counts[number as usize] += count;
            }
        }
    }
    ledger(|ledger| ledger.are_tasks_taken = false);
    let expected: Vec<u64> = seeds.into_iter().map(|seed| tree(seed).nodes()).collect();
    if counts != expected {
        return Err(format!("{counts:?} tasks have run, and {expected:?} were to").into());
    }
    Ok(())
}
