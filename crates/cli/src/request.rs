//! Requests to a running job, over a socket of its launcher.
//!
//! The socket is `ID.sock` among the status files (see `status`), which only the user can reach.
//! A client writes one line of JSON, a [`Request`], and gets one line back, an [`Answer`], which
//! may take until main's next progress point. Both sides refuse lines of other versions.

use crate::roster::NewNode;
use crate::slurm::Allocation;
use crate::status::Status;
use gridspan_runtime::Diagnosis;
use gridspan_runtime::message::telemetry::{TelemetryLease, TelemetrySample};
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Version of the lines.
const VERSION: u32 = 1;
/// Time within which a launcher that runs answers a request that does not wait for main. A
/// diagnosis takes up to five seconds.
const SOON: Duration = Duration::from_secs(15);
/// Length in bytes of the longest line.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// A request to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Answer with the states of all nodes of the grid.
    Nodes,
    /// Take samples of the counters of the job for some time, and answer with the latest one.
    Sample(TelemetryLease),
    /// Let these nodes leave, by a deadline if there is one.
    Drain { nodes: BTreeSet<NodeId>, deadline: Option<Duration> },
    /// Start these nodes, and let them join.
    Add { nodes: BTreeSet<NodeId> },
    /// Start nodes that the job does not have yet, and let them join.
    AddNew(NewNodes),
    /// Stop the job, as SIGTERM of its launcher does.
    Stop,
    /// Kill the processes of the job.
    Kill,
    /// Kill the processes of these members, as if they were lost.
    KillNodes { nodes: BTreeSet<NodeId> },
    /// Answer when the job has ended.
    Wait,
    /// Find out why the job is slow or does not go on.
    Diagnose,
}

/// Nodes that a job does not have yet. The client has looked up their hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewNodes {
    pub(crate) nodes: Vec<NewNode>,
    /// The addresses of their hosts, except that of the machine of the launcher.
    pub(crate) addresses: BTreeMap<String, IpAddr>,
    /// The allocation of Slurm that runs them as tasks, in this order, if one does.
    pub(crate) allocation: Option<Allocation>,
}

/// The answer of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The request has been carried out.
    Done(String),
    /// The request was not carried out, for this reason.
    Refused(String),
    /// The states of the nodes, by number.
    Nodes(Vec<NodeState>),
    /// What the job waits for.
    Diagnosis(Diagnosis),
    /// The running job, as its launcher knows it.
    Observed(Box<Observed>),
    /// The job has ended with this exit code.
    Ended(u8),
}

/// A running job, as its launcher knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Observed {
    /// The latest sample of its counters; `None` while there is none.
    pub(crate) sample: Option<Box<TelemetrySample>>,
    /// Number of rebalances that have moved actors.
    pub(crate) rebalances: u64,
    /// Number of nodes that were lost.
    pub(crate) losses: u64,
    /// Number of the run of the job, whose counters begin at zero.
    #[serde(default)]
    pub(crate) run: u64,
    /// The last events, the latest last.
    pub(crate) events: Vec<JobEvent>,
}

/// An event of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobEvent {
    /// Time since the launcher began to attend to the job.
    pub(crate) at: Duration,
    pub(crate) kind: JobEventKind,
    /// Description of the event.
    pub(crate) text: String,
}

/// Kinds of events of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobEventKind {
    /// Actors have been moved.
    Rebalance,
    /// Nodes were lost, have left or joined, or the job goes on after that.
    Membership,
    /// A guest has joined, is leaving, has left or was lost.
    Guest,
    /// An irregularity.
    Warning,
}

/// State of a node of the grid of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NodeState {
    /// It takes part in the job.
    Member,
    /// It takes part, and will leave.
    Leaving,
    /// It will take part.
    Joining,
    /// It takes no part: it is a spare node, has left, or was lost.
    Absent,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Member => "member",
            Self::Leaving => "leaving",
            Self::Joining => "joining",
            Self::Absent => "absent",
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    version: u32,
    content: T,
}

/// Writes a request or an answer.
pub(crate) fn write<T: Serialize>(mut to: impl Write, content: T) -> io::Result<()> {
    to.write_all(&line(content)?)?;
    to.flush()
}

fn line<T: Serialize>(content: T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line { version: VERSION, content })?;
    line.push(b'\n');
    Ok(line)
}

/// Writes a request. Refuses one that is longer than a job reads: the job would stop reading, and
/// the error of the write would not say why.
fn write_request(mut to: impl Write, request: &Request) -> io::Result<()> {
    let line = line(request)?;
    if line.len() as u64 > LINE_BYTES_MAX {
        let most = LINE_BYTES_MAX >> 20;
        let text = format!("the request takes more than {most} MiB; name fewer nodes at a time");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    to.write_all(&line)?;
    to.flush()
}

/// Reads a request or an answer; `None` if the connection ends before one.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(from: impl Read) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    BufReader::new(from.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
        return Err(invalid("it is longer than any request or answer may be"));
    }
    let line: Line<T> = serde_json::from_slice(&line)
        .map_err(|_| invalid("it is no line of this version of gridctl"))?;
    match line.version {
        VERSION => Ok(Some(line.content)),
        _ => Err(invalid("it is of another version of gridctl")),
    }
}

/// A request that was sent.
pub(crate) struct Pending(UnixStream);

impl Pending {
    /// Waits for the answer, until a time if one is given. `None`: the job ended before.
    ///
    /// # Errors
    ///
    /// If the job cannot be reached any more; [`io::ErrorKind::TimedOut`] if there is no answer in
    /// time.
    pub(crate) fn answer(&self, until: Option<Instant>) -> io::Result<Option<Answer>> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.0.set_read_timeout(left)?;
        read(&self.0).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

/// Sends a request to a job.
///
/// # Errors
///
/// If the job cannot be reached.
pub(crate) fn send(job: &Status, request: &Request) -> io::Result<Pending> {
    let stream = UnixStream::connect(job.socket())?;
    write_request(&stream, request)?;
    Ok(Pending(stream))
}

/// Sends a request to a job, and waits for the answer. `None`: the job ended before.
///
/// # Errors
///
/// If the job cannot be reached.
pub(crate) fn ask(job: &Status, request: &Request) -> io::Result<Option<Answer>> {
    send(job, request)?.answer(None)
}

/// Like [`ask`], for a request that the launcher answers soon.
///
/// # Errors
///
/// Those of [`ask`], and [`io::ErrorKind::TimedOut`] if there is no answer within [`SOON`].
pub(crate) fn ask_soon(job: &Status, request: &Request) -> io::Result<Option<Answer>> {
    let stream = UnixStream::connect(job.socket())?;
    stream.set_write_timeout(Some(SOON))?;
    stream.set_read_timeout(Some(SOON))?;
    let answer = write_request(&stream, request).and_then(|()| read(&stream));
    answer.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let text = format!("its launcher has not answered for {SOON:?}; is it stopped?");
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_lines() {
        let nodes = BTreeSet::from([NodeId(3)]);
        let request = Request::Drain { nodes, deadline: Some(Duration::from_secs(2)) };
        let mut line = Vec::new();
        write(&mut line, &request).unwrap();
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert_eq!(read(&line[..]).unwrap(), Some(request));
        assert_eq!(read::<Request>(&b""[..]).unwrap(), None);
        for wrong in [&b"{}\n"[..], b"{\"version\":2,\"content\":\"nodes\"}\n", b"[[[["] {
            assert!(read::<Request>(wrong).is_err());
        }
        let endless = read::<Request>(io::repeat(b'[')).unwrap_err();
        assert!(endless.to_string().contains("longer"), "{endless}");
    }

    #[test]
    fn a_request_that_no_job_would_read_is_not_written() {
        let nodes = |count| Request::KillNodes { nodes: (0..count).map(NodeId).collect() };
        let mut line = Vec::new();
        let refused = write_request(&mut line, &nodes(1_000_000)).unwrap_err();
        assert!(refused.to_string().contains("name fewer nodes"), "{refused}");
        assert!(line.is_empty());
        write_request(&mut line, &nodes(1_000)).unwrap();
        assert_eq!(read(&line[..]).unwrap(), Some(nodes(1_000)));
    }

    #[test]
    fn an_answer_is_awaited_until_its_time_is_up() {
        let (own, other) = UnixStream::pair().unwrap();
        let pending = Pending(own);
        let soon = Some(Instant::now() + Duration::from_millis(20));
        assert_eq!(pending.answer(soon).unwrap_err().kind(), io::ErrorKind::TimedOut);
        write(&other, Answer::Ended(3)).unwrap();
        assert_eq!(pending.answer(None).unwrap(), Some(Answer::Ended(3)));
        drop(other);
        assert_eq!(pending.answer(None).unwrap(), None);
    }

    #[test]
    fn an_observed_job_is_a_line() {
        let event = JobEvent {
            at: Duration::from_millis(1500),
            kind: JobEventKind::Rebalance,
            text: "sync point: 3 of 9 actors moved".to_owned(),
        };
        let sample = Some(Box::<TelemetrySample>::default());
        let observed = Observed { sample, rebalances: 1, losses: 0, run: 2, events: vec![event] };
        let answer = Answer::Observed(Box::new(observed));
        let mut line = Vec::new();
        write(&mut line, &answer).unwrap();
        assert_eq!(read(&line[..]).unwrap(), Some(answer));
    }
}
