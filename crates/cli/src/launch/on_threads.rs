//! A job of one node on threads of this process, which has no launcher. Other commands list it, and
//! send it the requests that they send to launchers.
//!
//! # Start
//!
//! The status file and the socket exist before the job starts. A job runs without them if they
//! cannot be created. Before its threads run, the job has no samples, and refuses diagnoses.
//!
//! # Steady state
//!
//! A thread answers requests, one after the other. The node cannot leave, and no other can join.
//!
//! # End
//!
//! Commands that wait for the end get the exit code, also if SIGINT, SIGTERM or SIGHUP ends the
//! process. If another signal does, their connections end, and the next command that lists the jobs
//! removes the files (see `status`).

use super::event::Event;
use super::journal::Journal;
use super::plan::listed_job_name;
use super::requests::Requests;
use crate::program::Program;
use crate::request::{Answer, JobEventKind, NodeState, Request};
use crate::signals::{exit_code, not_ignored};
use crate::status::{self, Reach, StatusFile};
use gridspan::{EXIT_FAILED, Start};
use gridspan_runtime::Job;
use gridspan_runtime::driver::NodeHandle;
use gridspan_runtime::message::telemetry::{TelemetryLease, TelemetrySample};
use gridspan_topology::GridSpec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A job that takes requests while it runs.
struct Attended {
    state: Mutex<State>,
    journal: Journal,
}

struct State {
    /// `None` once the job has ended.
    requests: Option<Arc<Requests>>,
    /// The job, once it runs.
    node: Option<NodeHandle>,
}

/// Runs the job of `program` on the threads of this process, which are the PEs of the only node of
/// `spec`.
pub(crate) fn run_on_threads(
    job: Job,
    start: &Start,
    program: &Program,
    spec: &GridSpec,
) -> ExitCode {
    let id = listed_job_name(program);
    let folder = status::folder();
    let listed = folder.and_then(|folder| {
        let (whole, reach) = (spec.clone().into(), Reach::Here);
        let file = StatusFile::create_in(&folder, id.clone(), program.name(), whole, reach)?;
        Ok((file, Attended::listen(&folder, &id)?))
    });
    let (_file, attended) = match listed {
        Ok(listed) => listed,
        Err(error) => {
            tracing::info!(%error, "this job is not listed");
            return gridspan::run(job, start);
        }
    };
    if let Err(error) = attended.watch_signals() {
        tracing::info!(%error, "commands that wait for this job do not learn which signal ends it");
    }
    let job = attended.listening(job);
    let code = gridspan::run_with(job, start, |node| attended.begin(node));
    attended.end(if code == ExitCode::SUCCESS { 0 } else { EXIT_FAILED });
    code
}

impl Attended {
    /// Takes requests at the socket of the job `id` in this folder.
    fn listen(folder: &Path, id: &str) -> io::Result<Arc<Self>> {
        let (events, incoming) = channel();
        let requests = Some(Arc::new(Requests::listen(folder, id, events)?));
        let state = State { requests, node: None };
        let attended = Arc::new(Self { state: Mutex::new(state), journal: Journal::new() });
        let answering = attended.clone();
        // The thread ends with the requests.
        let answer = move || answering.answer_all(&incoming);
        thread::Builder::new().name("answers".to_owned()).spawn(answer)?;
        Ok(attended)
    }

    /// Lets a signal that would end this process do so after the commands that wait have the exit
    /// code.
    fn watch_signals(self: &Arc<Self>) -> io::Result<()> {
        let mut signals = Signals::new(not_ignored(&[SIGHUP, SIGINT, SIGTERM]))?;
        let ending = self.clone();
        let watch = move || {
            for signal in signals.forever() {
                ending.end(exit_code(signal));
                // It fails only for signals that do not exist.
                let _ = emulate_default_handler(signal);
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
        Ok(())
    }

    /// Records the events of the job, and passes on its diagnoses.
    fn listening(self: &Arc<Self>, job: Job) -> Job {
        let [warned, balanced, diagnosed, failed] = [(); 4].map(|()| self.clone());
        let note = move |text: &str| warned.journal.note(JobEventKind::Warning, text);
        job.on_warning(move |warning| note(&warning.to_string()))
            .on_balance(move |report| {
                if report.moved > 0 {
                    balanced.journal.note_rebalance(report);
                }
            })
            .on_diagnosis(move |request, diagnosis| {
                diagnosed.answer(request, &Answer::Diagnosis(diagnosis.clone()));
            })
            // The process may end in the next listener.
            .on_failure(move |_| failed.end(EXIT_FAILED))
    }

    /// Notes that the job runs.
    fn begin(&self, node: NodeHandle) {
        self.lock().node = Some(node);
    }

    /// Ends the requests: the job has ended with this exit code, or will at once.
    fn end(&self, code: u8) {
        let requests = self.lock().requests.take();
        if let Some(requests) = requests {
            requests.end(code);
        }
    }

    fn answer_all(&self, incoming: &Receiver<Event>) {
        for event in incoming {
            if let Event::Requested { id, request } = event {
                self.handle(id, &request);
            }
        }
    }

    /// Carries out a request, and answers it, at once or later.
    fn handle(&self, id: u64, request: &Request) {
        let answer = match request {
            Request::Nodes => Answer::Nodes(vec![NodeState::Member]),
            Request::Sample(lease) => {
                Answer::Observed(Box::new(self.journal.observed(self.sample(*lease), 0, 0)))
            }
            Request::Diagnose => match self.node() {
                Some(node) => {
                    // The listener of the job has the answer.
                    node.diagnose(id);
                    return;
                }
                None => Answer::Refused("it is starting; ask again later".to_owned()),
            },
            Request::KillNodes { .. } => {
                let reason = "its only node is gridctl itself; `gridctl kill` without --node kills \
                              it";
                Answer::Refused(reason.to_owned())
            }
            Request::Drain { .. } | Request::Add { .. } | Request::AddNew(_) => {
                let reason = "its only node is gridctl itself; run it with `-n` or `--driver \
                              cluster`, so that nodes can leave and join";
                Answer::Refused(reason.to_owned())
            }
            Request::Stop => return self.end_by(SIGTERM, id, "the job is stopping"),
            Request::Kill => return self.end_by(SIGKILL, id, "the job is killed"),
            // The socket answers it.
            Request::Wait => return,
        };
        self.answer(id, &answer);
    }

    /// Ends this process by a signal, on request.
    fn end_by(&self, signal: i32, request: u64, done: &str) {
        self.answer(request, &Answer::Done(done.to_owned()));
        self.end(exit_code(signal));
        // This ends the process even if gridctl was started to ignore the signal. It fails only for
        // signals that do not exist.
        let _ = emulate_default_handler(signal);
    }

    /// The latest sample of the counters of the job.
    fn sample(&self, lease: TelemetryLease) -> Option<Box<TelemetrySample>> {
        self.node()?.sample(lease).map(Box::new)
    }

    fn node(&self) -> Option<NodeHandle> {
        self.lock().node.clone()
    }

    fn answer(&self, id: u64, answer: &Answer) {
        // The answer is sent without the lock: a client that does not read must not delay the
        // coordinator.
        let requests = self.lock().requests.clone();
        if let Some(requests) = requests {
            requests.answer(id, answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{read, write};
    use gridspan_runtime::driver::embedded;
    use gridspan_runtime::{Grid, JobError};
    use std::collections::BTreeSet;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    const ID: &str = "waits-1";
    /// Longest time that a test waits for anything, on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Sends a request to the job in this folder.
    fn ask(folder: &Path, request: Request) -> UnixStream {
        let stream = UnixStream::connect(status::socket_path(folder, ID)).unwrap();
        write(&stream, request).unwrap();
        stream
    }

    fn answer(folder: &Path, request: Request) -> Answer {
        read(&ask(folder, request)).unwrap().expect("it is answered")
    }

    fn refusal(folder: &Path, request: Request) -> String {
        match answer(folder, request) {
            Answer::Refused(reason) => reason,
            other => panic!("it should be refused: {other:?}"),
        }
    }

    fn until(attempt: impl Fn() -> bool) {
        let begin = Instant::now();
        while !attempt() {
            assert!(begin.elapsed() < LIMIT, "it should have happened");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn those_who_wait_get_the_exit_code_and_others_are_answered_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let attended = Attended::listen(folder, ID).unwrap();
        let waiting = ask(folder, Request::Wait);

        assert_eq!(answer(folder, Request::Nodes), Answer::Nodes(vec![NodeState::Member]));
        let sample = Request::Sample(TelemetryLease { period_ms: 1000, focus: None });
        assert_eq!(answer(folder, sample), Answer::Observed(Box::default()));
        assert!(refusal(folder, Request::Diagnose).starts_with("it is starting"));
        let add = Request::Add { nodes: BTreeSet::new() };
        assert!(refusal(folder, add).contains("gridctl itself"));

        attended.end(3);

        assert_eq!(read::<Answer>(&waiting).unwrap(), Some(Answer::Ended(3)));
        assert!(!status::socket_path(folder, ID).exists());
    }

    #[test]
    fn a_running_job_is_diagnosed() {
        let folder = tempfile::tempdir().unwrap();
        let attended = Attended::listen(folder.path(), ID).unwrap();
        let job = attended.listening(Job::new("waits").main(async |grid: Grid| {
            grid.sleep(Duration::from_secs(3600)).await?;
            Ok(())
        }));
        let running = attended.clone();
        let run = move || embedded::run_with(job, 1, |node| running.begin(node));
        let running = thread::spawn(run);
        until(|| attended.node().is_some());

        // On a busy machine, the PE may answer too late for one diagnosis.
        until(|| match answer(folder.path(), Request::Diagnose) {
            Answer::Diagnosis(found) => found.pes == 1 && found.summary().contains("main sleeps"),
            other => panic!("it should be a diagnosis: {other:?}"),
        });

        attended.node().unwrap().cancel();
        assert_eq!(running.join().unwrap(), Err(JobError::Cancelled));
    }
}
