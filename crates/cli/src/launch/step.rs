//! A step of Slurm: one `srun`, which starts tasks and ends with them.

use super::event::Exit;
use super::lines::LineSplitter;
use super::queue::Queue;
use super::report::Report;
use gridspan_runtime::net::EnrolmentToken;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum time from the end of the tasks to that of `srun`.
const END_MAX: Duration = Duration::from_secs(5);
/// Interval of checks whether `srun`, or its output, has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum time from the end of `srun` to that of its output. Processes that it leaves behind may
/// keep its streams open.
const WORDS_MAX: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 4 << 10;

/// A running `srun`.
pub(super) struct Step {
    process: Child,
    /// The threads that report its output.
    readers: Vec<JoinHandle<()>>,
    is_over: bool,
    is_cancelled: bool,
}

impl Step {
    /// Starts `srun`, which copies the token to all tasks. Its output becomes warnings: nodes do
    /// not print through it. It has a separate process group, so that Ctrl-C on the terminal
    /// reaches only the launcher.
    pub(super) fn start(
        mut command: Command,
        token: &EnrolmentToken,
        reports: &Arc<Queue<Report>>,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.process_group(0).spawn()?;
        let streams = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let mut step = Self { process, readers: Vec::new(), is_over: false, is_cancelled: false };
        if let (Some(mut stdin), Some(out), Some(err)) = streams {
            // If `srun` has ended already, `take_exit` returns how.
            let _ = stdin.write_all(token.to_line().as_bytes());
            step.readers.push(warn_of(out, reports.clone())?);
            step.readers.push(warn_of(err, reports.clone())?);
        }
        Ok(step)
    }

    /// Returns how `srun` ended, in the first call after its end, once its output is reported;
    /// `None` in all other calls.
    pub(super) fn take_exit(&mut self) -> Option<Exit> {
        if self.is_over {
            return None;
        }
        let exit = self.process.try_wait().ok().flatten().map(Exit::from)?;
        self.is_over = true;
        let until = Instant::now() + WORDS_MAX;
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            thread::sleep(LOOK);
        }
        Some(exit)
    }

    /// Sends SIGTERM to `srun`, which withdraws its step, even one that waits in the queue. Returns
    /// whether `srun` runs and was not cancelled before.
    pub(super) fn cancel(&mut self) -> bool {
        if self.is_over || std::mem::replace(&mut self.is_cancelled, true) {
            return false;
        }
        // It may have ended just now.
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::TERM);
        true
    }

    /// Waits for `srun` to end after its tasks. Kills it after [`END_MAX`], for example if a host
    /// does not answer.
    pub(super) fn end(&mut self) {
        let until = Instant::now() + END_MAX;
        while !self.is_over && self.take_exit().is_none() {
            if Instant::now() > until {
                return self.kill();
            }
            thread::sleep(LOOK);
        }
    }

    fn kill(&mut self) {
        if !self.is_over {
            // `srun` may have ended just now.
            let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
            let _ = self.process.wait();
            self.is_over = true;
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a thread that reports lines as warnings.
fn warn_of(
    mut from: impl Read + Send + 'static,
    reports: Arc<Queue<Report>>,
) -> io::Result<JoinHandle<()>> {
    let read = move || {
        let mut warn = |line: &[u8]| {
            let text = String::from_utf8_lossy(line).into_owned();
            reports.push_waiting(Report::Warning { text }, line.len());
        };
        let (mut splitter, mut buffer) = (LineSplitter::default(), vec![0; READ_BYTES]);
        loop {
            match from.read(&mut buffer) {
                Ok(read) if read > 0 => splitter.push(&buffer[..read], &mut warn),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        splitter.finish(&mut warn);
    };
    thread::Builder::new().name("srun".to_owned()).spawn(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::net::{Authority, EnrolmentSecret};

    fn start(script: &str, reports: &Arc<Queue<Report>>) -> Step {
        let authority = Authority::new("ring").unwrap();
        let token = EnrolmentToken::new(EnrolmentSecret::new().unwrap(), &authority);
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Step::start(command, &token, reports).unwrap()
    }

    fn exit(step: &mut Step) -> Exit {
        loop {
            if let Some(exit) = step.take_exit() {
                return exit;
            }
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn it_gets_the_token_and_its_lines_are_warnings() {
        let reports = Arc::new(Queue::new());
        let mut step = start("read line; echo \"${line%% *}\"; echo no >&2; exit 3", &reports);
        assert_eq!(exit(&mut step), Exit::Code(3));
        assert_eq!(step.take_exit(), None, "only once");
        let mut texts = Vec::new();
        while texts.len() < 2 {
            let mut some = Vec::new();
            assert!(reports.take(&mut some));
            texts.extend(some.into_iter().map(|report| match report {
                Report::Warning { text } => text,
                other => panic!("{other:?}"),
            }));
        }
        texts.sort();
        assert_eq!(texts, ["gridspan-enrolment-1", "no"]);
    }

    #[test]
    fn one_that_waits_is_cancelled_once() {
        let reports = Arc::new(Queue::new());
        let script = "read line; trap 'exit 3' TERM; echo ready; while :; do sleep 1; done";
        let mut step = start(script, &reports);
        assert!(reports.take(&mut Vec::new()), "it is ready");

        assert!(step.cancel());

        assert!(!step.cancel(), "only once");
        assert_eq!(exit(&mut step), Exit::Code(3));
        let mut step = start("true", &reports);
        exit(&mut step);
        assert!(!step.cancel(), "it has ended");
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let mut step = start("sleep 100 & wait", &Arc::new(Queue::new()));
        let begin = Instant::now();
        step.kill();
        assert!(begin.elapsed() < END_MAX && step.take_exit().is_none());
        let mut step = start("true", &Arc::new(Queue::new()));
        step.end();
        assert!(step.is_over);
    }
}
