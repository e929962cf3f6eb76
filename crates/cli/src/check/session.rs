//! A conversation of `gridctl check` with the agent of one host, over the pipes of its `ssh`.
//!
//! Threads read the output, so that every wait has a time limit. The agent ends when its input
//! does. What it sends is bounded: in length by `protocol`, in number by a queue.

use super::clock::{ClockOffset, ClockSample, offset};
use super::failure::Failure;
use super::protocol::{Arrival, Facts, Order, Peer, Reply, Request, Sent, hear};
use crate::small_thread::spawn;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of answers that may wait: there is one for each question.
const REPLIES_MAX: usize = 4;
/// Bytes of the end of standard error that are kept: the message about a changed host key has 1 kB.
const STDERR_BYTES: usize = 16 << 10;
/// Time for the process to end after its output, and for its last messages to arrive.
const END_MAX: Duration = Duration::from_secs(2);
/// Interval between looks at whether the process has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Number of questions for the time: a few, because any answer may be late.
const CLOCK_SAMPLES: u32 = 8;

/// A conversation with an agent. Its process is killed when this is dropped.
pub(super) struct Session {
    child: Child,
    /// `None` once the input of the agent has ended.
    input: Option<ChildStdin>,
    replies: Receiver<Result<Reply, String>>,
    /// The end of its standard error. The thread that reads it is the other owner.
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Session {
    /// Starts the command of an agent.
    pub(super) fn start(mut command: Command) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::NoSsh { reason: error.to_string() };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take();
        let pipes = (child.stdout.take(), child.stderr.take());
        let (send, replies) = sync_channel(REPLIES_MAX);
        let stderr = Arc::<Mutex<Vec<u8>>>::default();
        let session = Self { child, input, replies, stderr: stderr.clone() };
        if let (Some(out), Some(err)) = pipes {
            spawn("answers", move || hear(out, |said| send.send(said).is_ok())).map_err(failed)?;
            spawn("errors", move || keep_end(err, &stderr)).map_err(failed)?;
        }
        Ok(session)
    }

    /// Opens the ports of the host, and asks what the agent finds there.
    pub(super) fn begin(&mut self, order: Order, until: Instant) -> Result<Facts, Failure> {
        match self.ask(&Request::Begin(order), until)? {
            Reply::Facts(facts) => Ok(*facts),
            _ => Err(unexpected()),
        }
    }

    /// Asks for the time, several times. Returns how much the clock of the host is ahead.
    pub(super) fn clock(&mut self, until: Instant) -> Result<Option<ClockOffset>, Failure> {
        let mut samples = vec![];
        for number in 0..CLOCK_SAMPLES {
            let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else { return Ok(None) };
            let (asked, begin) = (nanoseconds(now), Instant::now());
            match self.ask(&Request::Clock { number }, until)? {
                Reply::Clock { number: answered, time_ns } if answered == number => {
                    let came = asked.saturating_add(nanoseconds(begin.elapsed()));
                    samples.push(ClockSample { asked, answer: time_ns, came });
                }
                _ => return Err(unexpected()),
            }
        }
        Ok(offset(&samples))
    }

    /// Requests that the agent sends datagrams. It answers when it has sent all.
    pub(super) fn request_datagrams(&mut self, peers: Vec<Peer>) {
        self.write(&Request::Send { peers });
    }

    /// Waits until the agent has sent its datagrams.
    pub(super) fn await_sent(&mut self, until: Instant) -> Result<Sent, Failure> {
        match self.reply(until)? {
            Reply::Sent(sent) => Ok(sent),
            _ => Err(unexpected()),
        }
    }

    /// Asks which datagrams have come.
    pub(super) fn arrivals(&mut self, until: Instant) -> Result<Vec<Arrival>, Failure> {
        match self.ask(&Request::Report, until)? {
            Reply::Received { arrivals } => Ok(arrivals),
            _ => Err(unexpected()),
        }
    }

    /// Ends the input of the agent, which then ends.
    pub(super) fn close(&mut self) {
        self.input = None;
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn ask(&mut self, request: &Request, until: Instant) -> Result<Reply, Failure> {
        self.write(request);
        self.reply(until)
    }

    /// Writes a request. If the agent does not read it, the answer is missing later.
    fn write(&mut self, request: &Request) {
        let written = match (&mut self.input, serde_json::to_string(request)) {
            (Some(input), Ok(line)) => writeln!(input, "{line}").and_then(|()| input.flush()),
            _ => Ok(()),
        };
        if let Err(error) = written {
            tracing::debug!(%error, "an agent does not read");
        }
    }

    fn reply(&mut self, until: Instant) -> Result<Reply, Failure> {
        match self.replies.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(Reply::Missing { has_program })) => {
                Err(Failure::Missing { has_program: Some(has_program) })
            }
            Ok(Ok(Reply::Refused { is_other_version: true, .. })) => Err(Failure::OtherVersion),
            Ok(Ok(Reply::Refused { reason, .. })) => Err(Failure::Unreadable { reason }),
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(reason)) => Err(Failure::Unreadable { reason }),
            Err(RecvTimeoutError::Timeout) => Err(Failure::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Err(self.ending(until)),
        }
    }

    /// Returns why the process ended, after its output has ended.
    fn ending(&mut self, until: Instant) -> Failure {
        self.close();
        let until = until.max(Instant::now() + LOOK).min(Instant::now() + END_MAX);
        let mut status = None;
        while Instant::now() < until {
            status = self.child.try_wait().ok().flatten();
            if status.is_some() && Arc::strong_count(&self.stderr) == 1 {
                break;
            }
            thread::sleep(LOOK);
        }
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let code = status.and_then(|status| status.code());
        Failure::of(code, &String::from_utf8_lossy(&stderr))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
        if !self.has_ended() {
            // It may have ended just now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn unexpected() -> Failure {
    Failure::Unreadable { reason: "its agent gave the answer to another question".to_owned() }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads a stream to its end, and keeps the last bytes.
pub(crate) fn keep_end(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    // A stream that cannot be read has ended.
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..length]);
        let excess = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{MARK, VERSION};
    use super::*;
    use std::net::Ipv4Addr;

    fn order() -> Order {
        let listen = Ipv4Addr::LOCALHOST.into();
        let token = "t".to_owned();
        Order { version: VERSION, host: 0, listen, ports: vec![0], token, life_s: 0 }
    }

    /// Runs a shell script as an agent, and returns its answer to the first request.
    fn begun(script: &str, limit: Duration) -> Result<Facts, Failure> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut session = Session::start(command).unwrap();
        session.begin(order(), Instant::now() + limit)
    }

    #[test]
    fn the_end_of_an_agent_is_told_by_its_exit_code_and_its_last_messages() {
        let long = Duration::from_secs(30);
        let denied = "echo welcome; echo 'ann@d01: Permission denied (publickey).' >&2; exit 255";
        assert_eq!(begun(denied, long), Err(Failure::NoKey));
        let flood = format!("head -c 100000 /dev/zero | tr '\\0' x >&2; echo >&2; {denied}");
        assert_eq!(begun(&flood, long), Err(Failure::NoKey));
        let missing = "exec /nowhere/gridctl";
        assert_eq!(begun(missing, long), Err(Failure::Missing { has_program: None }));
        let said = format!("echo '{MARK}{{\"say\":\"missing\",\"has_program\":true}}'; exit 127");
        assert_eq!(begun(&said, long), Err(Failure::Missing { has_program: Some(true) }));
    }

    #[test]
    fn an_agent_that_does_not_answer_is_given_up_and_killed() {
        let begin = Instant::now();
        let found = begun("exec sleep 100", Duration::from_millis(200));
        assert_eq!(found, Err(Failure::TimedOut));
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn other_answers_than_those_asked_for_are_errors() {
        let long = Duration::from_secs(30);
        for said in ["{\"say\":\"received\",\"arrivals\":[]}", "{\"say\":", "nonsense"] {
            let found = begun(&format!("echo '{MARK}{said}'; exec sleep 100"), long);
            assert!(matches!(found, Err(Failure::Unreadable { .. })), "{said}: {found:?}");
        }
    }

    #[test]
    fn only_an_agent_of_another_version_is_told_to_be_one() {
        let said = |rest: &str| {
            let said =
                format!("{{\"say\":\"refused\",\"reason\":\"missing field `version`\"{rest}}}");
            begun(&format!("echo '{MARK}{said}'; exec sleep 100"), Duration::from_secs(30))
        };
        assert!(matches!(said(""), Err(Failure::Unreadable { .. })));
        assert_eq!(said(",\"is_other_version\":true"), Err(Failure::OtherVersion));
    }

    #[test]
    fn a_missing_program_for_ssh_is_no_panic() {
        let failed = Session::start(Command::new("/nowhere/ssh")).err();
        assert!(matches!(failed, Some(Failure::NoSsh { .. })), "{failed:?}");
    }
}
