//! Runs many seeds and adds up their results.

use super::action_counts::ActionCounts;
use super::{Planted, Scenario, ledger};
use crate::faults::{FaultCounts, QuicCounts};
use crate::report::{Ending, SimReport};
use crate::simulation::Detected;
use gridspan_runtime::pe::PendingWork;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A range of seeds.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seeds.
    pub seeds: Range<u64>,
    /// Virtual time in seconds during which each job starts new actions. Default 60.
    pub virtual_seconds: u64,
    /// Number of threads that run seeds. The report does not depend on it, except that later seeds
    /// may count after a failure. Default 1.
    pub threads: usize,
    /// The bug to plant. Default none.
    pub planted: Planted,
    /// Whether to run only the seeds whose nodes communicate over QUIC. Default false.
    pub only_quic: bool,
}

impl Campaign {
    /// A campaign of these seeds, with the defaults.
    pub fn new(seeds: Range<u64>) -> Self {
        Self { seeds, virtual_seconds: 60, threads: 1, planted: Planted::None, only_quic: false }
    }

    /// Runs the seeds in order until one fails. With several threads, some later seeds may run,
    /// too.
    pub fn run(&self) -> CampaignReport {
        let next = AtomicU64::new(self.seeds.start);
        let failed = AtomicU64::new(u64::MAX);
        let report = Mutex::new(CampaignReport::default());
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= self.seeds.end || seed > failed.load(Ordering::Relaxed) {
                    return;
                }
                if self.only_quic && !Scenario::is_over_quic(seed) {
                    continue;
                }
                let run = self.run_seed(seed);
                if run.failure.is_some() {
                    failed.fetch_min(seed, Ordering::Relaxed);
                }
                report.lock().unwrap_or_else(PoisonError::into_inner).add(run);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        report.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_seed(&self, seed: u64) -> CampaignReport {
        let duration = Duration::from_secs(self.virtual_seconds);
        let scenario = Scenario::new(seed, duration, self.planted);
        let (report, actions, problem) = run_scenario(&scenario, false);
        CampaignReport {
            runs: 1,
            quic_runs: u64::from(scenario.faults.quic.is_some()),
            virtual_time: Duration::from_nanos(report.virtual_time.as_nanos()),
            events: report.events,
            messages: report.messages,
            frames: report.frames,
            actions,
            faults: report.faults,
            quic: report.quic,
            failure: problem.map(|what| CampaignFailure {
                seed,
                virtual_seconds: self.virtual_seconds,
                planted: self.planted,
                what,
            }),
        }
    }
}

/// Runs one scenario, with a log of its events if `log`. Returns the report, the counts of actions,
/// and the violation, if any.
pub fn run_scenario(scenario: &Scenario, log: bool) -> (SimReport, ActionCounts, Option<String>) {
    scenario.install_model();
    let report = match scenario.simulation(log) {
        Ok(mut simulation) => {
            simulation.on_detection(Box::new(|what, pending| {
                ledger::with(|ledger| match what {
                    Detected::Quiescence => {
                        ledger.quiet();
                        if has_work(pending) {
                            ledger.violated(format!("not quiet: {pending}"));
                        }
                    }
                    Detected::Completion => ledger.completed(),
                });
            }));
            simulation.run()
        }
        Err(error) => unreachable!("the campaign's own job is well defined: {error}"),
    };
    let Some(ledger) = ledger::take() else {
        unreachable!("the model was installed above and only this function takes it")
    };
    let mut actions = ledger.actions;
    (actions.reductions, actions.syncs) = ledger.rounds.completed();
    (actions.notes, actions.replicas) = (ledger.notes.count(), report.statistics.replicas);
    actions.handovers = report.statistics.handovers;
    actions.guests = scenario.guests.len() as u64;
    let problem = match (ledger.problem(), &report.outcome) {
        (Some(problem), _) => Some(format!("{problem} ({})", report.pending)),
        (None, Err(error)) => Some(error.to_string()),
        (None, Ok(())) => leftovers(&report, ledger.living_count()),
    };
    (report, actions, problem)
}

/// Whether work is pending that a quiescent job cannot have.
fn has_work(pending: &PendingWork) -> bool {
    let unfinished = [
        pending.held,
        pending.awaiting,
        pending.early,
        pending.departing,
        pending.arriving,
        pending.early_broadcasts,
        // More are processed than created if a bug handles a message twice.
        pending.created.abs_diff(pending.processed),
    ];
    unfinished != [0; 7]
}

/// The error for work or members that a job with a good outcome must not leave behind.
fn leftovers(report: &SimReport, living: u64) -> Option<String> {
    let pending = &report.pending;
    // A rebalance that started by itself after the last quiescence is no error.
    if pending.rebalances > 0 {
        return None;
    }
    if report.ending != Ending::Finished || has_work(pending) {
        return Some(format!("the job succeeded, but left work behind: {pending}"));
    }
    (pending.members != living).then(|| {
        format!("{} members live according to the PEs, {living} to the model", pending.members)
    })
}

/// The failure of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignFailure {
    /// The seed.
    pub seed: u64,
    /// Virtual time in seconds during which the job started new actions.
    pub virtual_seconds: u64,
    /// The bug that was planted.
    pub planted: Planted,
    /// The violation.
    pub what: String,
}

/// Results of a campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignReport {
    /// Number of seeds that were run.
    pub runs: u64,
    /// Of these, the number of seeds whose nodes communicated over QUIC.
    pub quic_runs: u64,
    /// Total virtual time.
    pub virtual_time: Duration,
    /// Number of simulated events.
    pub events: u64,
    /// Number of handled messages.
    pub messages: u64,
    /// Number of frames between nodes.
    pub frames: u64,
    /// Counts of the jobs' actions.
    pub actions: ActionCounts,
    /// Counts of injected faults.
    pub faults: FaultCounts,
    /// Counts of events on QUIC connections.
    pub quic: QuicCounts,
    /// The failure with the lowest seed, if any.
    pub failure: Option<CampaignFailure>,
}

impl CampaignReport {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.quic_runs += other.quic_runs;
        self.virtual_time += other.virtual_time;
        self.events += other.events;
        self.messages += other.messages;
        self.frames += other.frames;
        self.actions += other.actions;
        self.faults += other.faults;
        self.quic += other.quic;
        let later = |this: &CampaignFailure, that: &CampaignFailure| this.seed > that.seed;
        match (&self.failure, other.failure) {
            (Some(first), Some(found)) if later(first, &found) => self.failure = Some(found),
            (None, found) => self.failure = found,
            _ => {}
        }
    }
}

impl fmt::Display for CampaignReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, quic_runs, events, messages, frames, actions, faults, quic, .. } = self;
        writeln!(f, "{runs} seeds, {:.0} virtual seconds", self.virtual_time.as_secs_f64())?;
        writeln!(f, "  {events} events, {messages} messages handled, {frames} frames")?;
        writeln!(f, "  {actions:?}")?;
        writeln!(f, "  {faults:?}")?;
        writeln!(f, "  {quic_runs} of the seeds over QUIC: {quic:?}")?;
        match &self.failure {
            None => write!(f, "  no failure"),
            Some(failure) => write!(f, "  {failure}"),
        }
    }
}

impl fmt::Display for CampaignFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, virtual_seconds, planted, what } = self;
        writeln!(f, "seed {seed} FAILED: {what}")?;
        write!(
            f,
            "  repeat it with: cargo run --release -p gridspan-sim --example campaign -- \
             --seeds {seed}..{} --seconds {virtual_seconds}",
            seed + 1
        )?;
        planted.name().map_or(Ok(()), |name| write!(f, " --plant {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_left_or_handled_twice_is_work_of_a_job_that_is_not_quiet() {
        let messages = |created, processed| {
            let mut pending = PendingWork::default();
            (pending.created, pending.processed) = (created, processed);
            pending
        };

        assert!(!has_work(&messages(3, 3)));
        assert!(has_work(&messages(3, 2)));
        assert!(has_work(&messages(3, 4)));
    }
}
