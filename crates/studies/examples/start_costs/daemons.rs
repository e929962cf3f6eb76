//! The processor time that the daemons of Slurm with `munged`, their `slurmstepd` and the tasks use
//! for an `srun`.
//!
//! `srun` asks the daemons to start the tasks, so it does not wait for them, and its own times do
//! not have theirs. Each `slurmd` starts a `slurmstepd` for a step and leaves it: it forks twice,
//! and waits for the first of the two processes alone. The `slurmstepd` starts the tasks and waits
//! for them. So the times of both would go to the first process of the system. To keep them, the
//! process that starts the daemons is a reaper (`PR_SET_CHILD_SUBREAPER` in prctl(2)): the kernel
//! gives it each orphan below it, and once it has waited for the orphan, the times of the orphan
//! and of its tasks are in those of its ended children. This is so, too, for processes that `srun`
//! leaves behind. The environment variable [`REAPER`] names the reaper.
//!
//! What Slurm has used is then the sum over two parts: the ended children of the reaper, and all
//! live processes below it with their ended children. The branch of the reaper in which this study
//! runs is not part of it; the study reads the times of `srun` from those of its own children. The
//! sum is read before and after each `srun`, when no step runs, so each process is in exactly one
//! part. Linux cuts off each time to 10 ms when it is read, before and after alike, so a mean has
//! no bias. It would have one if ended processes were summed one by one, without a reaper.
//!
//! `srun` returns before the daemons have completed its step and its allocation. So the second sum
//! waits for the end of all processes that were not there before, and then for [`COMPLETION`].
//! What the daemons use when idle for as long is subtracted; it is measured once, over [`IDLE`].
//!
//! A control group (cgroups(7)) would count the same without a reaper, but containers seldom let
//! a test create one.

use crate::bounded::Cost;
use gridspan_studies::ProcessTimes;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

/// The variable with the number of the process that has started the daemons and adopts orphans.
const REAPER: &str = "STUDIES_SLURM_REAPER";
/// Time over which the daemons are measured without work.
const IDLE: Duration = Duration::from_secs(10);
/// Time after the end of the tasks in which the daemons complete a step and its allocation.
const COMPLETION: Duration = Duration::from_secs(2);
/// Time that the processes of a step have to end after `srun`.
const END_MAX: Duration = Duration::from_secs(30);
/// Time between two looks at the processes.
const PAUSE: Duration = Duration::from_millis(50);

/// The daemons of a Slurm on this machine, all below one reaper.
pub(crate) struct Daemons {
    reaper: u32,
    /// The processes that run without a step.
    known: BTreeSet<u32>,
    /// Processor seconds that they use in each second without a step.
    pub(crate) idle_rate: f64,
}

impl Daemons {
    /// Measures the daemons without work. Fails if the variable names no process that has some
    /// below it, or if some have ended meanwhile.
    pub(crate) fn measured() -> Result<Self, Box<dyn Error>> {
        let reaper = env::var(REAPER).map_err(|error| format!("{REAPER}: {error}"))?;
        let reaper = reaper.parse::<u32>().map_err(|error| format!("{REAPER}: {error}"))?;
        // They may still complete earlier work.
        thread::sleep(COMPLETION);
        let (before, begin) = (Used::now(reaper)?, Instant::now());
        thread::sleep(IDLE);
        let (after, elapsed) = (Used::now(reaper)?, begin.elapsed());
        if before.processes.is_empty() || before.processes != after.processes {
            return Err(format!("{REAPER}: no daemons run all the time below {reaper}").into());
        }
        let idle_rate = (after.seconds - before.seconds) / elapsed.as_secs_f64();
        Ok(Self { reaper, known: before.processes, idle_rate })
    }

    /// Runs a command by `run`, and adds to its cost what the daemons and the tasks have used for
    /// it. Fails if the command fails, or if processes that it has started do not end.
    pub(crate) fn added_to(
        &self,
        run: impl FnOnce() -> Result<Cost, Box<dyn Error>>,
    ) -> Result<Cost, Box<dyn Error>> {
        // Other programs may have left processes to the reaper.
        self.await_end()?;
        let (before, begin) = (Used::now(self.reaper)?, Instant::now());
        let cost = run();
        // After a failure, too, so that the next command finds idle daemons.
        let ended = self.await_end();
        thread::sleep(COMPLETION);
        let Cost { wall_s, processor_s } = cost?;
        ended?;
        let (after, elapsed) = (Used::now(self.reaper)?, begin.elapsed());
        let idle_s = self.idle_rate * elapsed.as_secs_f64();
        Ok(Cost { wall_s, processor_s: processor_s + after.seconds - before.seconds - idle_s })
    }

    /// Waits until the daemons alone are below the reaper.
    fn await_end(&self) -> Result<(), Box<dyn Error>> {
        let begin = Instant::now();
        loop {
            let used = Used::now(self.reaper)?;
            let more: Vec<&u32> = used.processes.difference(&self.known).collect();
            if more.is_empty() {
                return Ok(());
            }
            if begin.elapsed() > END_MAX {
                return Err(format!("processes {more:?} below {} do not end", self.reaper).into());
            }
            thread::sleep(PAUSE);
        }
    }
}

/// What the processes below a reaper have used, except those of this study.
#[derive(Debug, PartialEq)]
struct Used {
    /// Their processor seconds, with those of processes that have ended.
    seconds: f64,
    /// Those that run, or that have ended and were not waited for.
    processes: BTreeSet<u32>,
}

impl Used {
    /// Reads what was used until now. Fails if there is no such reaper.
    fn now(reaper: u32) -> Result<Self, Box<dyn Error>> {
        let used = Self::of(&ProcessTimes::of_all(), reaper, std::process::id());
        used.ok_or_else(|| format!("there is no process {reaper}").into())
    }

    /// `own` is the process of this study. `None` if the reaper is not among the processes.
    fn of(all: &[ProcessTimes], reaper: u32, own: u32) -> Option<Self> {
        let all: BTreeMap<u32, ProcessTimes> =
            all.iter().map(|times| (times.process, *times)).collect();
        let mut used = Self { seconds: all.get(&reaper)?.children_s, processes: BTreeSet::new() };
        let to_study = child_above(&all, reaper, own);
        for times in all.values() {
            let child = child_above(&all, reaper, times.process);
            if child.is_some() && child != to_study {
                used.seconds += times.own_s + times.children_s;
                used.processes.insert(times.process);
            }
        }
        Some(used)
    }
}

/// Returns the child of `reaper` that `process` is, or from which it descends.
fn child_above(all: &BTreeMap<u32, ProcessTimes>, reaper: u32, process: u32) -> Option<u32> {
    let mut child = process;
    // Processes are not read at one moment, so that their parents might form a circle.
    for _ in 0..all.len() {
        let parent = all.get(&child)?.parent;
        if parent == reaper {
            return Some(child);
        }
        child = parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAPER: u32 = 10;
    const STUDY: u32 = 30;

    /// The first process, a reaper, a daemon with a child, and a shell that runs the study.
    fn idle() -> Vec<ProcessTimes> {
        let of = |process, parent, own_s, children_s| ProcessTimes {
            process,
            parent,
            own_s,
            children_s,
        };
        vec![
            of(1, 0, 1000.0, 1000.0),
            of(REAPER, 1, 100.0, 5.0),
            of(20, REAPER, 2.0, 1.0),
            of(21, 20, 0.5, 0.0),
            of(29, REAPER, 100.0, 0.0),
            of(STUDY, 29, 100.0, 100.0),
            of(40, 1, 100.0, 0.0),
        ]
    }

    #[test]
    fn daemons_count_and_the_study_does_not() {
        let used = Used::of(&idle(), REAPER, STUDY).unwrap();
        assert_eq!(used, Used { seconds: 8.5, processes: BTreeSet::from([20, 21]) });
        assert_eq!(Used::of(&idle(), 11, STUDY), None);
    }

    #[test]
    fn an_orphan_counts_the_same_before_and_after_the_reaper_has_waited_for_it() {
        let orphan = ProcessTimes { process: 22, parent: REAPER, own_s: 0.25, children_s: 1.0 };
        let mut ended = idle();
        ended.push(orphan);
        let mut waited = idle();
        waited[1].children_s += orphan.own_s + orphan.children_s;

        let ended = Used::of(&ended, REAPER, STUDY).unwrap();
        let waited = Used::of(&waited, REAPER, STUDY).unwrap();

        assert_eq!((ended.seconds, waited.seconds), (9.75, 9.75));
        assert!(ended.processes.contains(&22) && !waited.processes.contains(&22));
    }

    #[test]
    fn parents_in_a_circle_are_below_no_reaper() {
        let mut all = idle();
        all[2].parent = 21;
        let used = Used::of(&all, REAPER, STUDY).unwrap();
        assert_eq!(used, Used { seconds: 5.0, processes: BTreeSet::new() });
    }
}
