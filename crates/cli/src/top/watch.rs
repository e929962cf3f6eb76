//! Asks the launcher of a job for samples, one after the other, until the job has ended.

use super::moment::Moment;
use crate::error::CliError;
use crate::nodes::find;
use crate::request::{Answer, Observed, Request, send};
use crate::status::Status;
use gridspan_runtime::message::telemetry::{TelemetryLease, TelemetrySample};
use gridspan_topology::NodeId;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time for the launcher to answer. It answers at once unless its process, or that of node 0, is
/// stopped.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause before another request if there is no newer sample yet.
const SOON: Duration = Duration::from_millis(100);
/// Pause before another request after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// Time for another launcher to take over a job whose launcher has ended, and for the end of a job
/// to become known after the end of its launcher.
const HANDOVER: Duration = Duration::from_secs(2);

/// An event of the watched job.
pub(super) enum News {
    /// There is a newer sample.
    Moment(Box<Moment>),
    /// The job does not answer, for this reason.
    Trouble(String),
    /// The job has ended, with this exit code if it is known.
    Ended(Option<u8>),
}

pub(super) struct Watcher {
    job: String,
    period: Duration,
    /// Whether the job has answered.
    is_reached: bool,
    /// The number and the time of the last sample.
    last: Option<(u64, u64)>,
    /// When to ask for the next one.
    due: Instant,
    /// Receives the end of the job.
    end: Receiver<Option<u8>>,
}

impl Watcher {
    /// Begins to watch a job.
    pub(super) fn new(job: &Status, period: Duration) -> Result<Self, CliError> {
        let (tell, end) = channel();
        let id = job.id.clone();
        thread::Builder::new()
            .name("end".to_owned())
            .spawn(move || await_end(&id, &tell))
            .map_err(CliError::system("start a thread"))?;
        let (is_reached, last, due) = (false, None, Instant::now());
        Ok(Self { job: job.id.clone(), period, is_reached, last, due, end })
    }

    /// The name of the job.
    pub(super) fn job(&self) -> &str {
        &self.job
    }

    /// Waits for a newer sample, for a failure to answer, or for the end of the job. `focus`: the
    /// node whose PEs the sample should list.
    ///
    /// # Errors
    ///
    /// If the job refuses the request, or has not answered before and cannot be reached.
    pub(super) fn next(&mut self, focus: impl Fn() -> Option<NodeId>) -> Result<News, CliError> {
        loop {
            let left = self.due.saturating_duration_since(Instant::now());
            if let Ok(code) = self.end.recv_timeout(left) {
                return Ok(News::Ended(code));
            }
            match self.look(focus()) {
                Ok(Some(moment)) => {
                    self.due = Instant::now() + self.period;
                    return Ok(News::Moment(Box::new(moment)));
                }
                Ok(None) => self.due = Instant::now() + SOON,
                Err(CliError::Unreachable { error, .. }) if self.is_reached => {
                    self.due = Instant::now() + PAUSE;
                    return Ok(News::Trouble(format!("the job does not answer: {error}")));
                }
                Err(CliError::NoJob { .. }) => {
                    return Ok(News::Ended(self.end.recv_timeout(HANDOVER).ok().flatten()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks for the latest sample. `None`: there is no newer one.
    fn look(&mut self, focus: Option<NodeId>) -> Result<Option<Moment>, CliError> {
        let period_ms = u32::try_from(self.period.as_millis()).unwrap_or(u32::MAX);
        let moment = observe(&self.job, TelemetryLease { period_ms, focus })?;
        self.is_reached = true;
        Ok(moment.and_then(|moment| self.newer(moment)))
    }

    /// The moment, if its sample is newer than the last one.
    fn newer(&mut self, moment: Moment) -> Option<Moment> {
        let this = Some((moment.sample.tick, moment.sample.at_us));
        if self.last == this {
            return None;
        }
        self.last = this;
        Some(moment)
    }
}

/// Asks the launcher of a job for the latest sample, and to go on sampling. `None`: there is no
/// sample yet.
///
/// # Errors
///
/// If there is no such job, or its launcher refuses the request or cannot be reached.
pub(crate) fn observe(job: &str, lease: TelemetryLease) -> Result<Option<Moment>, CliError> {
    let status = find(Some(job))?;
    let until = Some(Instant::now() + PATIENCE);
    let answer = send(&status, &Request::Sample(lease)).and_then(|pending| pending.answer(until));
    let unreachable = |error| CliError::Unreachable { job: status.id.clone(), error };
    let observed = match answer.map_err(unreachable)? {
        Some(Answer::Observed(observed)) => *observed,
        Some(Answer::Refused(reason)) => return Err(CliError::Refused { job: status.id, reason }),
        Some(_) => return Err(unreachable(io::ErrorKind::InvalidData.into())),
        // The job has just ended, or another launcher takes over.
        None => return Ok(None),
    };
    let Observed { sample, rebalances, losses, run, events } = observed;
    let Status { id, program, began_ms, grid, links, .. } = status;
    let moment = |sample: Box<TelemetrySample>| Moment {
        job: id,
        program,
        began_ms,
        grid,
        links,
        sample: *sample,
        rebalances,
        losses,
        run,
        events,
    };
    Ok(sample.map(moment))
}

/// Waits for the end of a job, and sends its exit code, if that becomes known. If the launcher ends
/// before the job, asks the next launcher. Does not stop when the watcher is dropped, because a
/// process watches only one job and ends after that.
fn await_end(job: &str, tell: &Sender<Option<u8>>) {
    let mut attended = Instant::now();
    while attended.elapsed() < HANDOVER {
        let Ok(status) = find(Some(job)) else {
            thread::sleep(SOON);
            continue;
        };
        attended = Instant::now();
        match send(&status, &Request::Wait).and_then(|pending| pending.answer(None)) {
            Ok(Some(Answer::Ended(code))) => {
                // The watcher may have ended.
                let _ = tell.send(Some(code));
                return;
            }
            // The launcher has ended.
            Ok(None) => thread::sleep(SOON),
            // For example, too many clients wait for the end, or it does not listen yet.
            Ok(Some(_)) | Err(_) => thread::sleep(PAUSE),
        }
    }
    let _ = tell.send(None);
}
