//! Other programs on processors of this machine, and threads that are pinned to them. Linux only.

use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use std::error::Error;
use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Maximum run time of another program, regardless of the options.
const LONGEST: Duration = Duration::from_secs(120);

/// Keeps a processor busy. The study calls this in child processes, which [`Hogs::start`] starts.
pub(crate) fn compute(processor: usize, time: Duration) -> Result<(), String> {
    pin(None, processor)?;
    let begin = Instant::now();
    while begin.elapsed() < time.min(LONGEST) {
        std::hint::black_box(0);
    }
    Ok(())
}

/// Pins a thread to a processor; `None` is the calling thread.
pub(crate) fn pin(thread: Option<Pid>, processor: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(thread, &set)
        .map_err(|error| format!("cannot pin a thread to processor {processor}: {error}"))
}

/// Returns the threads of a process and their names.
pub(crate) fn threads(process: u32) -> Vec<(Pid, String)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let thread = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let id = path.file_name()?.to_str()?.parse().ok()?;
        let name = fs::read_to_string(path.join("comm")).ok()?;
        Some((Pid::from_raw(id)?, name.trim_end().to_owned()))
    };
    entries.filter_map(thread).collect()
}

/// Other programs that compute. They end when this value is dropped, or after their time.
pub(crate) struct Hogs(Vec<Child>);

impl Hogs {
    /// No programs.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Starts `count` processes of this program with the options `--compute-on` and
    /// `--compute-for`, with which it calls [`compute`].
    pub(crate) fn start(
        count: u32,
        processor: usize,
        seconds: f64,
    ) -> Result<Self, Box<dyn Error>> {
        let mut hogs = Self::none();
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["--compute-on", &processor.to_string()]);
            command.args(["--compute-for", &seconds.to_string()]);
            hogs.0.push(command.spawn()?);
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
