//! Namespaces: those that a lab needs, whether the system allows them, and how to enter those of a
//! host.

use super::error::LabError;
use super::program::last_line;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, geteuid, getpid, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// Options of `unshare` for the process that forwards packets. Devices are in its network until
/// they are moved to hosts. When the first process that it starts ends, all others end.
const OF_LAB: [&str; 3] = ["--net", "--mount", "--pid"];
/// Options of `unshare` that make the user root in a new user namespace.
const OF_USER: [&str; 2] = ["--user", "--map-root-user"];
/// Options of `unshare` for each host. With common shared memory, MPI libraries would detect that
/// the hosts are one machine.
pub(super) const OF_HOST: [&str; 4] = ["--net", "--mount", "--uts", "--ipc"];
/// The same namespaces, as flags to enter them.
const ENTERED: ThreadNameSpaceType = ThreadNameSpaceType::NETWORK
    .union(ThreadNameSpaceType::MOUNT)
    .union(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME)
    .union(ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION);

/// Settings of systems that restrict user namespaces.
#[derive(Debug, Default)]
struct Settings {
    /// `user.max_user_namespaces`.
    most: Option<String>,
    /// `kernel.unprivileged_userns_clone`, of Debian.
    debian: Option<String>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, of Ubuntu.
    ubuntu: Option<String>,
}

/// Checks whether this user may have the namespaces. Returns the options of `unshare` for the
/// process that forwards packets.
pub(super) fn available(unshare: &Path) -> Result<Vec<&'static str>, LabError> {
    // This moves the process to the network in which it already is, so nothing changes.
    if is_unknown(move_to(getpid(), ThreadNameSpaceType::NETWORK)) {
        return Err(LabError::OldSystem);
    }
    let with_user = [&OF_USER[..], &OF_LAB].concat();
    let ways = match geteuid().is_root() {
        // Root in a container may lack the rights of root outside.
        true => vec![OF_LAB.to_vec(), with_user],
        false => vec![with_user],
    };
    let mut reason = String::new();
    for way in ways {
        // The process ends at once. It mounts /proc, as hosts do.
        let mut command = Command::new(unshare);
        command.args(&way).args(["--fork", "--mount-proc", "--", "/bin/sh", "-c", ":"]);
        match command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok(way),
            Ok(output) => reason = last_line(&output.stderr),
            Err(error) => reason = error.to_string(),
        }
    }
    let setting = |path| fs::read_to_string(path).ok();
    let settings = Settings {
        most: setting("/proc/sys/user/max_user_namespaces"),
        debian: setting("/proc/sys/kernel/unprivileged_userns_clone"),
        ubuntu: setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
    };
    Err(LabError::NoNamespaces { reason, advice: settings.advice() })
}

impl Settings {
    /// Returns the next step for the user if the system refuses namespaces.
    fn advice(&self) -> String {
        let is = |setting: &Option<String>, value: &str| {
            setting.as_ref().is_some_and(|text| text.trim() == value)
        };
        let change = if is(&self.most, "0") {
            "user.max_user_namespaces=10000"
        } else if is(&self.debian, "0") {
            "kernel.unprivileged_userns_clone=1"
        } else if is(&self.ubuntu, "1") {
            "kernel.apparmor_restrict_unprivileged_userns=0"
        } else {
            return "run gridctl as root; a container must allow it, for example with \
                    `docker run --privileged`"
                .to_owned();
        };
        format!("run gridctl as root; or, as root, allow user namespaces: `sysctl -w {change}`")
    }
}

/// Moves the calling process, which must have one thread, to the namespaces of `process`, a process
/// of a host.
pub(super) fn enter(process: u32) -> Result<(), LabError> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| LabError::Enter(io::ErrorKind::InvalidInput.into()))?;
    move_to(pid, ENTERED).map_err(|errno| LabError::Enter(errno.into()))
}

fn move_to(process: Pid, namespaces: ThreadNameSpaceType) -> rustix::io::Result<()> {
    let process = pidfd_open(process, PidfdFlags::empty())?;
    move_into_thread_name_spaces(process.as_fd(), namespaces)
}

/// Whether the system cannot move a process to the namespaces of another: Linux before 5.3 has no
/// descriptors of processes, and Linux before 5.8 does not accept them for this. Without root, a
/// move to its own network fails with another error.
fn is_unknown(moved: rustix::io::Result<()>) -> bool {
    matches!(moved, Err(Errno::NOSYS | Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_setting_that_forbids_namespaces() {
        let some = |value: &str| Some(format!("{value}\n"));
        let none = Settings::default();
        assert!(none.advice().starts_with("run gridctl as root; a container"), "{none:?}");
        let debian = Settings { debian: some("0"), ubuntu: some("0"), ..Settings::default() };
        assert!(debian.advice().contains("kernel.unprivileged_userns_clone=1"));
        let ubuntu = Settings { ubuntu: some("1"), debian: some("1"), ..Settings::default() };
        assert!(ubuntu.advice().contains("apparmor_restrict_unprivileged_userns=0"));
        let most = Settings { most: some("0"), ..Settings::default() };
        assert!(most.advice().contains("user.max_user_namespaces"));
        let fine = Settings { most: some("96365"), debian: some("1"), ubuntu: some("0") };
        assert_eq!(fine.advice(), none.advice());
    }

    #[test]
    fn a_system_that_is_too_old_is_told_from_one_that_forbids() {
        assert!(is_unknown(Err(Errno::NOSYS)) && is_unknown(Err(Errno::INVAL)));
        assert!(!is_unknown(Err(Errno::PERM)) && !is_unknown(Ok(())));
    }

    #[test]
    fn no_process_has_the_number_zero() {
        assert!(matches!(enter(0), Err(LabError::Enter(_))));
        assert!(matches!(enter(u32::MAX), Err(LabError::Enter(_))));
    }
}
