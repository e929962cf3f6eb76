//! Ways to observe a job, and runs of a job in this process under each of them.

use gridspan_runtime::Job;
use gridspan_runtime::driver::{NodeHandle, embedded};
use gridspan_runtime::message::telemetry::TelemetryLease;
use gridspan_runtime::pe::{RecordSettings, Records};
use gridspan_topology::GridSpec;
use std::error::Error;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Maximum number of recorded bytes of a node, as by default in `gridctl run --record`.
pub(crate) const RECORD_BYTES: u64 = 16_000_000;
/// Time between two samples of counters: the shortest that `gridctl top --every` takes.
const PERIOD: Duration = Duration::from_millis(200);

/// A way to observe a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    Nothing,
    /// Its counters are sampled.
    Counters,
    /// All its events are recorded.
    Events,
}

/// Runs a job on PEs of one node in this process. Only a node with a network gives counters, so the
/// node has one in all cases.
pub(crate) fn run(job: Job, pes: u32, by: Observed) -> Result<(), Box<dyn Error>> {
    let spec = GridSpec::from_emulate(&format!("1x1x{pes}"))?;
    let records = (by == Observed::Events).then(|| Records::new(RecordSettings::new(RECORD_BYTES)));
    let job = match &records {
        Some(records) => job.recording(records),
        None => job,
    };
    let (end, ended) = channel::<()>();
    let mut watching = None;
    let outcome = embedded::run_emulated_with(job, &spec, |handle| {
        if by == Observed::Counters {
            watching = Some(thread::spawn(move || watch(&handle, &ended)));
        }
    });
    drop(end);
    let samples = watching.map(thread::JoinHandle::join).transpose();
    outcome?;
    match samples {
        Ok(Some(0)) => Err("the run was too short for a sample; give it more messages".into()),
        Ok(_) => Ok(()),
        Err(_) => Err("the thread that asks for samples has panicked".into()),
    }
}

/// Asks for samples until the job ends, and returns their number.
fn watch(handle: &NodeHandle, ended: &Receiver<()>) -> u64 {
    let period_ms = u32::try_from(PERIOD.as_millis()).unwrap_or(u32::MAX);
    let lease = TelemetryLease { period_ms, focus: None };
    let mut samples = 0;
    loop {
        samples = handle.sample(lease).map_or(samples, |sample| sample.tick);
        if ended.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
            return samples;
        }
    }
}
