//! Records a short simulated run: `gridctl` starts itself, as the user could.

use crate::args::Command;
use crate::error::{CliError, PlanCommandError};
use crate::progress::is_of_simulation;
use crate::recorded;
use gridspan_record::Recording;
use std::io;
use std::process::{self, Stdio};

/// Name of the operation in errors.
const RECORD: &str = "record a simulated run";
/// Limit of the size of the recording: the largest that a reader accepts, because the prediction
/// needs all spans.
const BYTES: &str = "1GB";

/// Simulates a program on a grid in the notation of `--emulate`, and returns the recording.
pub(super) fn simulated(spec: &str, seed: u64, program: &Command) -> Result<Recording, CliError> {
    let failed = |error: io::Error| CliError::System { what: RECORD, error };
    let parent = tempfile::tempdir().map_err(failed)?;
    let folder = parent.path().join("recording");
    let seed = seed.to_string();
    let mut command = process::Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["sim", "--emulate", spec, "--seed", &seed, "--record-bytes", BYTES, "--record"]);
    command.arg(&folder).args(program.words());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let ended = command.output().map_err(failed)?;
    if !ended.status.success() {
        let reason = reason(&String::from_utf8_lossy(&ended.stderr));
        return Err(PlanCommandError::NotRecorded { reason }.into());
    }
    Ok(recorded::read(&folder)?)
}

/// The standard error of a simulation that has failed, without the lines that show its progress.
fn reason(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !is_of_simulation(line)).collect();
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_of_a_simulation_is_no_reason_for_its_failure() {
        let stderr = "gridctl│ simulating, 10.0 s\n\
                      warning: no room\n\
                      gridctl│ simulating: 1.500s of virtual time, 192 events, 20.0 s\n\
                      error: the job ran out of time\n\
                      hint: set a later one\n";
        let expected = "warning: no room\nerror: the job ran out of time\nhint: set a later one";
        assert_eq!(reason(stderr), expected);
    }
}
