//! What the kernels have in common: timed iterations, between which their ranks may move.

use super::class::{Check, ProblemClass};
use crate::rank_clock::clock;
use gridspan_ranks::{Comm, Continuation, Rank, RankError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The part of a kernel that one rank has.
pub(super) trait Kernel: Serialize + DeserializeOwned + Send + 'static {
    const NAME: &'static str;

    /// Number of iterations.
    fn iterations(class: ProblemClass) -> u32;

    /// Operations of the timed part, as NPB counts them, in millions.
    fn mega_operations(class: ProblemClass) -> f64;

    /// Makes what is not timed.
    fn prepare(
        world: &Comm,
        class: ProblemClass,
    ) -> impl Future<Output = Result<Self, RankError>> + Send;

    /// Does what is timed before the first iteration.
    fn start(&mut self, _world: &Comm) -> impl Future<Output = Result<(), RankError>> + Send {
        async { Ok(()) }
    }

    /// Does an iteration; they are numbered from 0.
    fn iterate(
        &mut self,
        world: &Comm,
        iteration: u32,
    ) -> impl Future<Output = Result<(), RankError>> + Send;

    /// Does what is timed after the last iteration.
    fn end(&mut self, _world: &Comm) -> impl Future<Output = Result<(), RankError>> + Send {
        async { Ok(()) }
    }

    /// Compares the values with the published ones.
    fn checks(self, world: &Comm) -> impl Future<Output = Result<Vec<Check>, RankError>> + Send;
}

/// What all ranks do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) class: ProblemClass,
    /// Iterations between two migration points; 0 for none.
    pub(super) migrate_every: u32,
}

/// A rank of a kernel.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct KernelRank<K: Kernel> {
    plan: Plan,
    kernel: Option<K>,
    /// Number of iterations that are done.
    iteration: u32,
    /// When the time began, in seconds.
    begin: f64,
}

impl<K: Kernel> Rank for KernelRank<K> {
    type Init = Plan;

    fn create(plan: Plan, _world: &Comm) -> Self {
        Self { plan, kernel: None, iteration: 0, begin: 0.0 }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self>, RankError> {
        let Plan { class, migrate_every } = self.plan;
        let mut kernel = match self.kernel.take() {
            Some(kernel) => kernel,
            None => {
                let mut kernel = K::prepare(&world, class).await?;
                self.begin = clock(&world).await?;
                kernel.start(&world).await?;
                kernel
            }
        };
        let iterations = K::iterations(class);
        while self.iteration < iterations {
            kernel.iterate(&world, self.iteration).await?;
            self.iteration += 1;
            let is_due = migrate_every > 0 && self.iteration.is_multiple_of(migrate_every);
            if is_due && self.iteration < iterations {
                self.kernel = Some(kernel);
                return Ok(Continuation::Migrate(self));
            }
        }
        kernel.end(&world).await?;
        let seconds = clock(&world).await? - self.begin;
        let checks = kernel.checks(&world).await?;
        if world.rank() == 0 {
            report::<K>(&world, class, seconds, &checks)?;
        }
        Ok(Continuation::Done)
    }
}

/// Prints the rate and the values. Fails if one is wrong.
fn report<K: Kernel>(
    world: &Comm,
    class: ProblemClass,
    seconds: f64,
    checks: &[Check],
) -> Result<(), RankError> {
    let ranks = world.size();
    let pes: BTreeSet<_> = (0..ranks).map(|rank| world.pe(rank)).collect();
    println!(
        "nas {} class {class:?}: {ranks} ranks on {} PEs, {seconds:.3} s, {:.2} Mop/s",
        K::NAME,
        pes.len(),
        K::mega_operations(class) / seconds
    );
    for Check { name, found, published, .. } in checks {
        println!("{name}: {found:.13e}, published {published:.13e}");
    }
    let wrong = checks.iter().filter(|check| !check.is_right());
    let wrong: Vec<&str> = wrong.map(|check| check.name.as_str()).collect();
    match wrong.is_empty() && !checks.is_empty() {
        true => {
            println!("verified: yes ({} values)", checks.len());
            Ok(())
        }
        false => Err(format!("verified: no ({} differ)", wrong.join(", ")).into()),
    }
}
