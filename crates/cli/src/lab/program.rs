//! Programs of the system that a lab needs.

use super::error::LabError;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folders that are searched besides `$PATH`, which often lacks those with programs for root.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Returns the path of `unshare`, which runs a program in new namespaces.
pub(super) fn unshare() -> Result<PathBuf, LabError> {
    find("unshare", "util-linux")
}

/// Returns the path of `ip`, which sets up network devices.
pub(super) fn ip() -> Result<PathBuf, LabError> {
    find("ip", "iproute2")
}

/// Runs commands of `ip`, one per line. It stops at the first one that fails.
pub(super) fn run_ip(commands: &str) -> Result<(), LabError> {
    let failed = |error: std::io::Error| LabError::Network { reason: error.to_string() };
    let mut command = Command::new(ip()?);
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // If it ends before it has read all, its message says why.
        let _ = input.write_all(commands.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(LabError::Network { reason: last_line(&output.stderr) }),
    }
}

/// Returns the last line of what a program has printed.
pub(super) fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason is given").to_owned()
}

fn find(program: &'static str, package: &'static str) -> Result<PathBuf, LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(&path, program).ok_or(LabError::NoProgram { program, package })
}

/// Finds a program in the folders of a `$PATH` and in those that each system has.
fn find_in(path: &OsStr, program: &str) -> Option<PathBuf> {
    let folders = std::env::split_paths(path).chain(FOLDERS.map(PathBuf::from));
    // An empty part is the current folder, in which no program of the system is.
    let mut paths = folders.filter(|folder| folder.is_absolute()).map(|it| it.join(program));
    paths.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let file = path.metadata().ok().filter(|file| file.is_file());
    file.is_some_and(|file| file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_are_found_outside_of_the_path_too() {
        assert!(find_in(OsStr::new(""), "sh").is_some());
        assert_eq!(find_in(OsStr::new("/usr/bin"), "no-such-program"), None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ls");
        fs::write(&path, "").unwrap();
        let found = || find_in(folder.path().as_os_str(), "ls").unwrap();
        assert_ne!(found(), path, "it is not executable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(), path);
    }

    #[test]
    fn the_reason_of_a_failure_is_the_last_line() {
        assert_eq!(last_line(b"one\nRTNETLINK answers: no\n\n"), "RTNETLINK answers: no");
        assert_eq!(last_line(b""), "no reason is given");
    }
}
