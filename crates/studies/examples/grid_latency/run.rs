//! One point of a figure: a run of the job on two sites, in virtual or in real time.

use crate::metis::Metis;
use crate::problem::Problem;
use gridspan_balance::StrategyName;
use gridspan_jobs::leanmd::job::job_with;
use gridspan_jobs::leanmd::schedule::{HandlingOrder, WorkMode};
use gridspan_runtime::driver::embedded;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::sync::mpsc;
use std::time::Duration;

/// A strategy, and the order in which PEs handle messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) strategy: &'static str,
    pub(crate) order: HandlingOrder,
}

impl Series {
    /// A strategy with messages handled in the order of steps.
    pub(crate) const fn of(strategy: &'static str) -> Self {
        Self { name: strategy, strategy, order: HandlingOrder::Steps }
    }

    /// A strategy with messages handled in the order of arrival.
    pub(crate) const fn as_they_come(name: &'static str, strategy: &'static str) -> Self {
        Self { name, strategy, order: HandlingOrder::Arrival }
    }
}

/// The course of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// Number of steps before the first sync point, between two of them, and after the last.
    pub(crate) steps: u64,
    /// Number of sync points. At the first, the runtime does not know the links between the sites
    /// yet.
    pub(crate) balances: u64,
}

/// The kind of time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    Virtual,
    /// Over QUIC between threads of this process, with waiting in place of computing.
    Real,
}

/// Returns the median step after the last sync point, on `pes` PEs at two sites, one PE per node.
pub(crate) fn median_step(
    problem: &Problem,
    series: Series,
    (pes, latency): (u32, Duration),
    Phases { steps, balances }: Phases,
    time: Time,
) -> Duration {
    let (hosts, micros) = (pes / 2, latency.as_micros());
    // Koenig and Kalé (2007), section 5.1: only latency is added between the sites, and the
    // bandwidth stays the same.
    let spec = format!("2x{hosts},wan={micros}us,rate=100gbit,lanrate=100gbit");
    let spec = GridSpec::from_emulate(&spec).expect("the shorthand is well formed");
    let mut options = problem.options((balances + 1) * steps, steps);
    options.order = series.order;
    options.work = if time == Time::Virtual { WorkMode::Charge } else { WorkMode::Wait };
    let (tell, told) = mpsc::channel();
    let job = job_with(options, move |_, outcome| {
        tell.send(outcome.step_times()).map_err(|error| error.to_string().into())
    });
    // The gate can refuse plans. It is off for single strategies, so that all of their plans are
    // measured, and on for `auto`, as by default.
    let job = job.balance_gate(series.strategy == "auto").seed(1);
    let job = match series.strategy {
        "metis" => job.strategy(Metis { seed: 0, has_two_phases: false }),
        "metis-two-phase" => job.strategy(Metis { seed: 0, has_two_phases: true }),
        name => job.strategy(name.parse::<StrategyName>().expect("it is a name")),
    };
    match time {
        Time::Virtual => Simulation::new(job, spec, SimOptions::default())
            .expect("the job can run")
            .run()
            .outcome
            .expect("the job succeeds"),
        Time::Real => embedded::run_emulated(job, &spec).expect("the job succeeds"),
    }
    let times = told.recv().expect("the job has sent its times");
    median(&times[times.len() - steps as usize..])
}

/// Returns the median of the later half of the steps: in the first ones, actors may still move
/// between PEs, because the job does not wait for the plan of the last sync point.
fn median(times: &[Duration]) -> Duration {
    let mut settled = times[times.len() / 2..].to_vec();
    settled.sort_unstable();
    settled[settled.len() / 2]
}
