//! Builds the programs that measure, and runs each with a time limit.

use crate::parts::{Part, Work};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which the end of a program is checked.
const POLL: Duration = Duration::from_millis(50);

/// The paths of built programs, by name.
pub(crate) struct Programs(BTreeMap<String, PathBuf>);

impl Programs {
    /// Builds the programs that these parts need. Fails if cargo fails.
    pub(crate) fn build(root: &Path, parts: &[&Part]) -> Result<Self, Box<dyn Error>> {
        let mut words = Vec::new();
        let benches = parts.iter().filter(|part| matches!(part.work, Work::Bench(_)));
        let benches: Vec<&str> = benches.flat_map(|part| ["--bench", part.name]).collect();
        if !benches.is_empty() {
            words.extend(["-p", "gridspan"].into_iter().chain(benches));
        }
        if parts.iter().any(|part| part.work == Work::Broadcasts) {
            words.extend(["-p", "gridctl", "--bin", "gridctl"]);
        }
        if words.is_empty() {
            return Ok(Self(BTreeMap::new()));
        }
        // One command builds all of them. With one command for each package, cargo would select
        // other features each time, and compile the workspace again.
        Ok(Self(built(root, &words)?.into_iter().collect()))
    }

    fn command(&self, name: &str, arguments: &[&str], root: &Path) -> Result<Command, String> {
        let path = self.0.get(name).ok_or_else(|| format!("cargo has built no {name}"))?;
        let mut command = Command::new(path);
        command.args(arguments).current_dir(root).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a program, with its output on that of this process. Fails if the program fails, or has
    /// not ended at the limit.
    pub(crate) fn run(
        &self,
        name: &str,
        arguments: &[&str],
        root: &Path,
        limit: Duration,
    ) -> Result<(), Box<dyn Error>> {
        let mut child = self.command(name, arguments, root)?.spawn()?;
        finished(&mut child, limit)
    }

    /// Runs a program and returns its standard output. Fails as [`run`](Self::run) does.
    pub(crate) fn output(
        &self,
        name: &str,
        arguments: &[&str],
        root: &Path,
        limit: Duration,
    ) -> Result<String, Box<dyn Error>> {
        let mut child = self.command(name, arguments, root)?.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take();
        let reader = thread::spawn(move || {
            let mut text = String::new();
            output.map_or(Ok(0), |mut output| output.read_to_string(&mut text)).map(|_| text)
        });
        finished(&mut child, limit)?;
        Ok(reader.join().map_err(|_| "the reader of its output panicked")??)
    }
}

/// Waits for the end of a program, and ends it at the limit.
fn finished(child: &mut Child, limit: Duration) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() {
                Ok(())
            } else {
                Err(format!("it failed: {status}").into())
            };
        }
        if begin.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(format!("it has not ended after {} s", limit.as_secs()).into());
        }
        thread::sleep(POLL);
    }
}

/// Builds optimised programs with cargo, and returns those that it has built or found built.
fn built(root: &Path, words: &[&str]) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let output = gridspan_studies::cargo()
        .args(["build", "--release"])
        .args(words)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo failed: {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let program = |message: serde_json::Value| {
        let path = message.get("executable")?.as_str()?.into();
        Some((message.get("target")?.get("name")?.as_str()?.to_owned(), path))
    };
    Ok(messages.filter_map(program).collect())
}
