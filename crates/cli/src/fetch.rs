//! `gridctl attach --from`: gets the files that a launcher needs from a host with nodes of the job.
//!
//! The host needs neither gridctl nor the program for that: a shell prints the files that the
//! launcher of the job has sent to the keeper of a node there (see `gridspan::keeper`).

use crate::error::{CliError, DetachedJobError};
use crate::hosts::{quoted, ssh_command};
use crate::job_folder::{JobFolder, Saved, Start, boot, machine};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

/// The script prints this line before the files. The shell may print other lines before it.
const BEGINS: &str = "gridspan keeper";
/// Shell script whose argument is the beginning of a folder's name. It prints the name of the
/// newest such folder, and the contents of `start.json` and `state.json` of a node in it. These
/// files have no line ends.
const SCRIPT: &str = "cd \"${XDG_STATE_HOME:-$HOME/.local/state}/gridspan\" || exit 1; \
    f=$(ls -t \"$1\"*/*/state.json 2>/dev/null | head -n 1); \
    [ -n \"$f\" ] || { echo \"its state folder has none\" >&2; exit 1; }; \
    echo; echo \"gridspan keeper\"; echo \"${f%%/*}\"; \
    cat \"${f%/*}/start.json\"; echo; cat \"$f\"; echo";

/// Copies the folder of a job, or of the latest one, from a host to this machine.
pub(crate) fn receive(
    host: &str,
    id: Option<&str>,
    ssh: Option<&str>,
) -> Result<JobFolder, CliError> {
    let nothing = |reason: String| {
        CliError::Detached(DetachedJobError::NothingKept {
            host: host.to_owned(),
            id: id.map(str::to_owned),
            reason,
        })
    };
    let output = ask(host, id, ssh)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(nothing(text));
    }
    let (name, start, state) = parse(&output.stdout).map_err(|error| nothing(error.to_string()))?;
    let start = Start { machine: machine(), boot: boot(), ..start };
    if !start.folder.is_dir() {
        return Err(DetachedJobError::NoStartFolder { path: start.folder }.into());
    }
    let received = JobFolder::receive(job_of(&name), &start, &state);
    received.map_err(CliError::system("take over the folder of the job"))
}

/// The name of the job whose nodes are in a folder of this name on each host.
pub(crate) fn job_of(kept: &str) -> &str {
    kept.split('.').next().unwrap_or(kept)
}

fn ask(host: &str, id: Option<&str>, ssh: Option<&str>) -> Result<Output, CliError> {
    let words = ssh_command(ssh);
    let failed = CliError::system("ask the host for the job");
    let Some((program, rest)) = words.split_first() else {
        return Err(failed(io::ErrorKind::NotFound.into()));
    };
    let begins = id.map(|id| format!("{id}.")).unwrap_or_default();
    let mut command = Command::new(program);
    command.args(rest).args(["-o", "BatchMode=yes"]);
    // A host that does not answer is noticed within seconds.
    command.args(["-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5"]);
    command.args([host, "--", "sh", "-c"]);
    command.arg(quoted(OsStr::new(SCRIPT))).arg("sh").arg(quoted(OsStr::new(&begins)));
    // If `ssh` fails, the caller reports what it has printed.
    let output = command.stdin(Stdio::null()).output().map_err(&failed)?;
    if output.status.success() {
        // If it succeeds, it may have printed a warning. Standard error may be closed.
        let _ = io::stderr().write_all(&output.stderr);
    }
    Ok(output)
}

/// Reads what the script has printed: the name of the folder, and the two files.
fn parse(printed: &[u8]) -> io::Result<(String, Start, Saved)> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it answers something else");
    let mut lines = printed.split(|&byte| byte == b'\n');
    lines.find(|line| *line == BEGINS.as_bytes()).ok_or_else(invalid)?;
    let mut next = || lines.next().ok_or_else(invalid);
    let name = str::from_utf8(next()?).map_err(|_| invalid())?.to_owned();
    let (start, state) = (Start::from_bytes(next()?)?, Saved::from_bytes(next()?)?);
    if start.kept.as_ref() != Some(&name) || job_of(&name).is_empty() || name.contains('/') {
        return Err(invalid());
    }
    Ok((name, start, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::GridSpec;
    use std::path::PathBuf;

    fn start(kept: &str) -> Start {
        Start {
            arguments: vec!["run".into(), "ring".into()],
            folder: PathBuf::from("/"),
            variables: vec![],
            grid: GridSpec::single(1),
            is_emulated: false,
            machine: "a1".to_owned(),
            kept: Some(kept.to_owned()),
            program: "ring".to_owned(),
            boot: None,
        }
    }

    fn printed(name: &str, start: &Start) -> Vec<u8> {
        let start = serde_json::json!({ "version": 1, "content": start }).to_string();
        let state = Saved::default().to_bytes().unwrap();
        [
            b"welcome\n\ngridspan keeper\n",
            name.as_bytes(),
            b"\n",
            start.as_bytes(),
            b"\n",
            &state,
            b"\n",
        ]
        .concat()
    }

    #[test]
    fn the_files_of_a_keeper_are_read_behind_what_a_shell_prints() {
        let (name, read, state) = parse(&printed("ring-7.a1.5", &start("ring-7.a1.5"))).unwrap();
        assert_eq!((job_of(&name), read), ("ring-7", start("ring-7.a1.5")));
        assert_eq!(state, Saved::default());
        assert!(parse(&printed("ring-7.a1.5", &start("ring-8.a1.5"))).is_err(), "another job");
        assert!(parse(b"welcome\n").is_err());
        assert!(parse(b"gridspan keeper\nx\n{}\n{}\n").is_err());
    }

    #[test]
    fn the_script_finds_the_newest_folder_of_a_job() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join("gridspan").join(name);
        let node = |name: &str, seconds| {
            std::fs::create_dir_all(path(name)).unwrap();
            std::fs::write(path(name).join("start.json"), format!("start of {name}")).unwrap();
            let state = std::fs::File::create(path(name).join("state.json")).unwrap();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            state.set_modified(at).unwrap();
        };
        node("ring-7.a1.5/b-1", 100);
        node("ring-7.a1.5/b-2", 90);
        node("ring-71.a1.6/b-1", 300);
        let said = |pattern: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", SCRIPT, "sh", pattern]).env("XDG_STATE_HOME", folder.path());
            let output = command.output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(said("ring-7."), "\ngridspan keeper\nring-7.a1.5\nstart of ring-7.a1.5/b-1\n\n");
        assert!(said("").contains("\nring-71.a1.6\n"));
        assert_eq!(said("none."), "");
    }
}
