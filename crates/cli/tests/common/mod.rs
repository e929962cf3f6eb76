//! Starts gridctl, waits for it within a time limit, and inspects its processes.
// Each test file uses only some of these items.
#![allow(missing_docs, dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod slurm;
#[cfg(target_os = "linux")]
pub mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time that a test waits for anything: on a busy machine a serial run of molecular
/// dynamics prints nothing for more than a minute.
pub const LIMIT: Duration = Duration::from_secs(240);

/// A small molecular dynamics job, which compares its result bit by bit with a serial run. The
/// caller appends the number of steps.
pub const JOB: [&str; 9] = [
    "leanmd",
    "--system",
    "uniform",
    "--size",
    "8",
    "--report-every",
    "5",
    "--check-serial",
    "--steps",
];

/// The same with steps of at least 20 ms, for tests in which no emulated link slows the job down.
pub const SLOW_JOB: [&str; 11] = [
    "leanmd",
    "--system",
    "uniform",
    "--size",
    "8",
    "--pause",
    "20",
    "--report-every",
    "5",
    "--check-serial",
    "--steps",
];

/// A finished command.
#[derive(Debug)]
pub struct Output {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Returns a gridctl command without environment variables that could change its behaviour.
pub fn gridctl(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridctl"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

/// Runs gridctl to its end.
pub fn run(arguments: &[&str]) -> Output {
    finish(gridctl(arguments))
}

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (stdout, stderr) = (read(stdout), read(stderr));
    let status = wait(&mut child, LIMIT).expect("gridctl should have ended");
    Output {
        code: status.code(),
        stdout: stdout.recv_timeout(LIMIT).unwrap(),
        stderr: stderr.recv_timeout(LIMIT).unwrap(),
    }
}

fn read(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = vec![];
        from.read_to_end(&mut bytes).unwrap();
        // The test may have given up.
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receive
}

/// Waits for a child, and kills it if it does not end within `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// A running gridctl, with its output line by line.
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts gridctl.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// Starts gridctl with these environment variables.
    pub fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = gridctl(arguments);
        command.envs(variables.iter().copied());
        Self::of(command)
    }

    /// Starts a command that runs gridctl.
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let send = send.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self { child, lines }
    }

    /// Waits for a line, of either stream, that contains `text`.
    pub fn await_line(&self, text: &str) -> String {
        self.await_line_for(text, LIMIT)
    }

    /// As [`await_line`](Self::await_line), with another time limit for each line.
    pub fn await_line_for(&self, text: &str, limit: Duration) -> String {
        let mut others = Vec::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(limit) else {
                panic!("a line with `{text}` should have come, not {others:?}");
            };
            if line.contains(text) {
                return line;
            }
            others.push(line);
        }
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Returns the node processes in the order of their nodes, once there are `count` of them.
    pub fn nodes(&self, count: usize) -> Vec<u32> {
        until(|| {
            // Process ids begin again after the largest, so their order says nothing. The number of
            // a process is read once, since a process may begin its program meanwhile.
            let found = children_of(self.child.id());
            let mut found: Vec<_> =
                found.into_iter().map(|pid| (number_of_node(pid), pid)).collect();
            found.sort_unstable();
            let numbered = found.iter().filter(|(number, _)| number.is_some()).count();
            // The last process may not have begun its program. Processes that are not nodes have no
            // number.
            let have_begun = numbered == 0 || numbered == found.len();
            let all = (found.len() == count && have_begun).then_some(found)?;
            Some(all.into_iter().map(|(_, pid)| pid).collect())
        })
    }

    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait(&mut self.child, limit)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process has ended already if the test succeeded.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tries until an attempt returns a value. Panics after [`LIMIT`].
pub fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "it should have happened");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs; a dead process that is not yet reaped does not.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Returns the state of a process, as proc(5) writes it.
pub fn state(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process exists");
    stat.rsplit_once(") ").expect("a name in parentheses comes first").1[..1].to_owned()
}

/// Returns the processes that `parent` has started.
pub fn children_of(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let found: u32 = rest.split(' ').nth(1)?.parse().ok()?;
        (found == parent && is_alive(pid)).then_some(pid)
    });
    pids.collect()
}

/// Returns the other processes whose file of /proc, such as `cmdline` or `environ`, has this text.
pub fn processes_with(file: &str, text: &str) -> Vec<u32> {
    let own = std::process::id();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
        let found = String::from_utf8_lossy(&bytes).contains(text);
        (found && pid != own && is_alive(pid)).then_some(pid)
    });
    pids.collect()
}

/// Returns the number of the node that a process runs, or for which it runs `ssh`.
fn number_of_node(pid: u32) -> Option<u32> {
    let number_in = |file: &str| -> Option<u32> {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (_, number) = text.split_once("GRIDSPAN_NODE=")?;
        number.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    };
    number_in("environ").or_else(|| number_in("cmdline"))
}

/// Returns the words of a file of /proc, which are separated by zero bytes.
pub fn proc_words(pid: u32, file: &str) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap();
    let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Returns the launcher that attends to a detached job, once there is one.
pub fn launcher_of(id: &str) -> u32 {
    until(|| launchers_of(id).into_iter().next())
}

/// Returns the launchers that attend to a detached job, which may be on several machines.
pub fn launchers_of(id: &str) -> Vec<u32> {
    let is_it = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = words.split(|&byte| byte == 0);
        words.any(|word| word == b"--background") && words.next() == Some(id.as_bytes())
    };
    let pid = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let pids = fs::read_dir("/proc").unwrap().filter_map(pid);
    pids.filter(|pid| is_alive(*pid) && is_it(pid)).collect()
}
