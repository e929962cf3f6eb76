//! The common parts of the kernels: timed iterations, between which their ranks may move.

use super::class::{Check, ProblemClass};
use crate::rank_clock::clock;
use gridspan_ranks::{Comm, Continuation, Rank, RankError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The part of a kernel that one rank has.
pub(super) trait Kernel: Serialize + DeserializeOwned + Send + 'static {
    const NAME: &'static str;

    fn iterations(class: ProblemClass) -> u32;

    /// Operations of the timed part, as NPB counts them, in millions.
    fn mega_operations(class: ProblemClass) -> f64;

    /// Does the work before the timed part.
    fn prepare(
        world: &Comm,
        class: ProblemClass,
    ) -> impl Future<Output = Result<Self, RankError>> + Send;

    /// Does the timed work before the first iteration.
    fn start(&mut self, _world: &Comm) -> impl Future<Output = Result<(), RankError>> + Send {
        async { Ok(()) }
    }

    /// Does the iteration with this number, counted from 0.
    fn iterate(
        &mut self,
        world: &Comm,
        iteration: u32,
    ) -> impl Future<Output = Result<(), RankError>> + Send;

    /// Does the timed work after the last iteration.
    fn end(&mut self, _world: &Comm) -> impl Future<Output = Result<(), RankError>> + Send {
        async { Ok(()) }
    }

    /// Returns the computed values together with the published ones.
    fn checks(
        &mut self,
        world: &Comm,
    ) -> impl Future<Output = Result<Vec<Check>, RankError>> + Send;

    /// Restores the state that [`prepare`](Self::prepare) has made.
    fn reset(&mut self, world: &Comm);

    /// Drops values that the next iteration computes again, so that a move transfers less.
    fn shrink(&mut self) {}
}

/// The parameters that all ranks share.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) class: ProblemClass,
    /// Iterations between two migration points; 0 for none.
    pub(super) migrate_every: u32,
    /// Number of times that the kernel is run, one after the other.
    pub(super) repeat: u32,
}

/// A rank of a kernel.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct KernelRank<K: Kernel> {
    plan: Plan,
    kernel: Option<K>,
    /// Number of times that the kernel has been run.
    repetition: u32,
    /// Number of completed iterations of this run.
    iteration: u32,
    /// Time at which the first run began, in seconds. The time between runs counts too, since ranks
    /// may move then.
    begin: f64,
}

impl<K: Kernel> Rank for KernelRank<K> {
    type Init = Plan;
    type Value = ();

    fn create(plan: Plan, _world: &Comm) -> Self {
        Self { plan, kernel: None, repetition: 0, iteration: 0, begin: 0.0 }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self>, RankError> {
        let mut kernel = match self.kernel.take() {
            Some(kernel) => kernel,
            None => K::prepare(&world, self.plan.class).await?,
        };
        loop {
            if self.iteration == 0 {
                if self.repetition == 0 {
                    self.begin = clock(&world).await?;
                }
                kernel.start(&world).await?;
            }
            if self.iterate(&world, &mut kernel).await? {
                return Ok(self.moves(kernel));
            }
            kernel.end(&world).await?;
            self.repetition += 1;
            let is_last = self.repetition == self.plan.repeat;
            let seconds = if is_last { clock(&world).await? - self.begin } else { 0.0 };
            let checks = kernel.checks(&world).await?;
            if world.rank() == 0 {
                if is_last {
                    self.print(&world, seconds, &checks);
                }
                check(&checks)?;
            }
            if is_last {
                if world.rank() == 0 {
                    println!("verified: yes ({} values)", checks.len());
                }
                return Ok(Continuation::Done(()));
            }
            kernel.reset(&world);
            self.iteration = 0;
            if self.is_due() {
                return Ok(self.moves(kernel));
            }
        }
    }
}

impl<K: Kernel> KernelRank<K> {
    /// Does the iterations up to the next migration point or the last one. Returns whether it stops
    /// at a migration point.
    async fn iterate(&mut self, world: &Comm, kernel: &mut K) -> Result<bool, RankError> {
        let iterations = K::iterations(self.plan.class);
        while self.iteration < iterations {
            kernel.iterate(world, self.iteration).await?;
            self.iteration += 1;
            if self.iteration < iterations && self.is_due() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether ranks may move after the iterations so far.
    fn is_due(&self) -> bool {
        let Plan { class, migrate_every, .. } = self.plan;
        let before = u64::from(self.repetition) * u64::from(K::iterations(class));
        let done = before + u64::from(self.iteration);
        migrate_every > 0 && done.is_multiple_of(u64::from(migrate_every))
    }

    /// Returns the rank to be moved, without values that it can compute again.
    fn moves(mut self, mut kernel: K) -> Continuation<Self> {
        kernel.shrink();
        self.kernel = Some(kernel);
        Continuation::Migrate(self)
    }

    /// Prints the rate and the values.
    fn print(&self, world: &Comm, seconds: f64, checks: &[Check]) {
        let (ranks, Plan { class, repeat, .. }) = (world.size(), self.plan);
        let pes: BTreeSet<_> = (0..ranks).map(|rank| world.pe(rank)).collect();
        let rate = K::mega_operations(class) * f64::from(repeat) / seconds;
        let times = if repeat > 1 { format!(", {repeat} times") } else { String::new() };
        let (kernel, pes) = (K::NAME, pes.len());
        println!(
            "nas {kernel} class {class:?}: {ranks} ranks on {pes} PEs, {seconds:.3} s, {rate:.2} \
             Mop/s{times}"
        );
        for Check { name, found, published, .. } in checks {
            println!("{name}: {found:.13e}, published {published:.13e}");
        }
    }
}

/// Fails if a value is wrong, or if there are no values.
fn check(checks: &[Check]) -> Result<(), RankError> {
    let wrong = checks.iter().filter(|check| !check.is_right());
    let wrong: Vec<&str> = wrong.map(|check| check.name.as_str()).collect();
    if checks.is_empty() {
        return Err("verified: no (the kernel has no values to compare)".into());
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("verified: no ({} differ)", wrong.join(", ")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_and_missing_values_are_named() {
        let values =
            |found| [Check::new("zeta", found, 2.0, 1e-3), Check::new("rms", 1.0, 1.0, 0.0)];
        let error = |checks: &[Check]| check(checks).unwrap_err().to_string();

        check(&values(2.0)).unwrap();
        assert!(error(&values(3.0)).contains("verified: no (zeta differ)"));
        assert!(error(&[]).contains("verified: no (the kernel has no values to compare)"));
    }
}
