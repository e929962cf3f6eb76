//! Molecular dynamics, in this process and in processes of `gridctl run`.

use crate::observed::{Observed, RECORD_BYTES};
use clap::Parser;
use gridspan_jobs::leanmd::args::Options;
use gridspan_jobs::leanmd::job::job;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::pe::{RecordSettings, Records};
use gridspan_studies::{children_seconds, gridctl, process_seconds};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Number of PEs of the job in this process.
const PES: u32 = 2;
/// Four processes of one PE each; the latency is short against the work of a step, so that PEs
/// compute for most of the time.
const GRID: &str = "2x2,wan=2ms";
/// Longest time from the start of a job until it can be watched.
const BEGIN_MAX: Duration = Duration::from_secs(30);
/// Number of first samples of a watched run that do not count: in these, nodes open the files from
/// which they read their counters.
const FIRST_SAMPLES: usize = 2;

/// The job, and the folder of its runs, which is removed at the end.
pub(crate) struct Molecules {
    steps: u64,
    gridctl: PathBuf,
    folder: PathBuf,
}

/// A run of several processes.
#[derive(Default)]
pub(crate) struct WatchedRun {
    /// Processor time of the launcher and the nodes, in nanoseconds.
    pub(crate) work_ns: f64,
    /// Times of samples by the clock, including the time in which other threads had the processor.
    pub(crate) wall: SampleTimes,
    /// Processor times of the same samples.
    pub(crate) processor: SampleTimes,
}

/// Time of a sample on a node in nanoseconds, for each tick: the mean over the nodes, and the
/// maximum.
#[derive(Default)]
pub(crate) struct SampleTimes {
    pub(crate) mean_ns: Vec<f64>,
    pub(crate) largest_ns: Vec<f64>,
}

impl SampleTimes {
    fn push(&mut self, [mean_ns, largest_ns]: [f64; 2]) {
        self.mean_ns.push(mean_ns);
        self.largest_ns.push(largest_ns);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.mean_ns.extend(&other.mean_ns);
        self.largest_ns.extend(&other.largest_ns);
    }
}

impl Molecules {
    pub(crate) fn new(steps: u64) -> Result<Self, Box<dyn Error>> {
        let gridctl = gridctl()?;
        let name = format!("gridspan-recording-cost-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // Sockets and recordings are for this user only.
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self { steps, gridctl, folder })
    }

    /// Runs the job on threads of this process, and returns its processor time in nanoseconds.
    pub(crate) fn on_threads(&self, is_recorded: bool) -> Result<f64, Box<dyn Error>> {
        let mut options = Options::try_parse_from(["leanmd", "--steps", &self.steps.to_string()])?;
        options.silent = true;
        let records = is_recorded.then(|| Records::new(RecordSettings::new(RECORD_BYTES)));
        let job = job(options);
        let job = match &records {
            Some(records) => job.recording(records),
            None => job,
        };
        let before = process_seconds();
        embedded::run(job, PES)?;
        let spans: usize = records.iter().flat_map(Records::take).map(|pe| pe.spans.len()).sum();
        let after = process_seconds();
        match is_recorded && spans == 0 {
            true => Err("nothing was recorded".into()),
            false => Ok((after - before) * 1e9),
        }
    }

    /// Runs the job on processes of this machine.
    pub(crate) fn in_processes(&self, by: Observed) -> Result<WatchedRun, Box<dyn Error>> {
        let recording = self.folder.join("recording");
        let mut command = self.command(&["run", "--driver", "cluster", "--emulate", GRID]);
        if by == Observed::Events {
            command.arg("--record").arg(&recording);
        }
        command.args(["leanmd", "--quiet", "--steps", &self.steps.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let before = children_seconds()?;
        let mut launcher = command.spawn()?;
        let watching = match by {
            Observed::Counters => match self.watch(&mut launcher) {
                Ok(watching) => Some(watching),
                Err(error) => {
                    // The nodes end with the launcher.
                    launcher.kill()?;
                    launcher.wait()?;
                    return Err(error);
                }
            },
            Observed::Nothing | Observed::Events => None,
        };
        let output = launcher.wait_with_output()?;
        let work_ns = (children_seconds()? - before) * 1e9;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command:?}: {}\n{errors}", output.status).into());
        }
        let mut run = WatchedRun { work_ns, ..WatchedRun::default() };
        if let Some(watching) = watching {
            let lines = watching.lines()?;
            let samples = lines.iter().filter_map(|line| times_ns(line)).skip(FIRST_SAMPLES);
            for [wall, processor] in samples {
                run.wall.push(wall);
                run.processor.push(processor);
            }
            if run.wall.mean_ns.is_empty() {
                return Err("the run was too short for samples; give it more steps".into());
            }
        }
        if by == Observed::Events {
            // The next recorded run uses the same folder.
            fs::remove_dir_all(&recording)?;
        }
        Ok(run)
    }

    /// Starts `gridctl top` for a job that has just begun.
    fn watch(&self, launcher: &mut Child) -> Result<Watching, Box<dyn Error>> {
        let id = format!("leanmd-{}", launcher.id());
        let socket = self.folder.join("gridspan").join(format!("{id}.sock"));
        let begin = Instant::now();
        while !socket.exists() {
            if begin.elapsed() > BEGIN_MAX || launcher.try_wait()?.is_some() {
                return Err(format!("{} does not appear", socket.display()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let mut command = self.command(&["top", &id, "--json", "--every", "1s"]);
        let mut top = command.stdout(Stdio::piped()).spawn()?;
        let output = top.stdout.take().ok_or("the output of `gridctl top` is not piped")?;
        // Read from the start: a full pipe would keep `gridctl top` from asking for samples.
        let reader = thread::spawn(move || std::io::read_to_string(output));
        Ok(Watching { top, reader })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.gridctl);
        command.args(words).env("XDG_RUNTIME_DIR", &self.folder).stdin(Stdio::null());
        command
    }
}

impl Drop for Molecules {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// `gridctl top`, which ends with the job.
struct Watching {
    top: Child,
    reader: thread::JoinHandle<std::io::Result<String>>,
}

impl Watching {
    fn lines(mut self) -> Result<Vec<String>, Box<dyn Error>> {
        let text = self.reader.join().map_err(|_| "the reader of `gridctl top` has panicked")??;
        match self.top.wait()?.success() {
            true => Ok(text.lines().map(str::to_owned).collect()),
            false => Err(format!("`gridctl top` has failed: {text}").into()),
        }
    }
}

/// Returns the mean and the largest time of a sample, and the same in processor time, all in
/// nanoseconds, from a line of `gridctl top --json`.
fn times_ns(line: &str) -> Option<[[f64; 2]; 2]> {
    let object: Value = serde_json::from_str(line).ok()?;
    let times = object.get("telemetry")?;
    let ns = |name: &str| Some(times.get(name)?.as_f64()? * 1e3);
    let wall = [ns("telemetry_micros")?, ns("telemetry_micros_max")?];
    Some([wall, [ns("processor_micros")?, ns("processor_micros_max")?]])
}
