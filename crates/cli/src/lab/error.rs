//! Errors of labs, and what to do.

use std::io;
use thiserror::Error;

/// A lab cannot run. It leaves nothing behind.
#[derive(Debug, Error)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) enum LabError {
    /// The flags name no grid.
    #[error("there is no grid to emulate")]
    NoGrid,
    /// The system has no namespaces.
    #[cfg(not(target_os = "linux"))]
    #[error("a lab needs Linux")]
    OtherSystem,
    /// Linux is too old: a process cannot enter all namespaces of another one at once.
    #[error("a lab needs Linux 5.8 or later")]
    OldSystem,
    /// A host of the grid has a name that no host of a lab can have.
    #[error("a host of a lab cannot be named `{}`", .name.escape_debug())]
    HostName { name: String },
    /// A host is at two sites.
    #[error("the host `{name}` is at two sites")]
    TwoSites { name: String },
    /// There are too many hosts.
    #[error("the grid has more than {limit} hosts")]
    TooManyHosts { limit: usize },
    /// A program is not installed.
    #[error("a lab needs the program `{program}`, which is not installed")]
    NoProgram {
        program: &'static str,
        /// The package of Debian that has it.
        package: &'static str,
    },
    /// The system refuses TUN devices.
    #[error("a lab needs /dev/net/tun: {0}")]
    NoTun(io::Error),
    /// The system refuses namespaces.
    #[error("a lab needs root or user namespaces: {reason}")]
    NoNamespaces {
        /// The message of `unshare`.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// The lab's file systems cannot be mounted.
    #[error("cannot mount {what} for a lab: {error}")]
    Mount {
        /// The file system.
        what: &'static str,
        error: io::Error,
    },
    /// A command of `ip` failed.
    #[error("cannot set up the network of a lab: {reason}")]
    Network {
        /// The message of `ip`.
        reason: String,
    },
    /// A host has ended, or has reported that it could not be set up.
    #[error("the host `{name}` of the lab has ended")]
    HostEnded { name: String },
    /// The first process of the lab has ended, and with it all others.
    #[error("all processes of the lab were killed")]
    Killed,
    /// The process to enter is not a host of this lab.
    #[error("cannot enter the host of the lab: {0}")]
    Enter(io::Error),
}

impl LabError {
    /// Whether the command line or the grid is wrong.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoGrid
                | Self::HostName { .. }
                | Self::TwoSites { .. }
                | Self::TooManyHosts { .. }
        )
    }

    /// Returns the next step, unless the error already states it.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoGrid => "write a short form, such as `--emulate 2x2,wan=20ms`, or name a grid \
                 file with `--grid FILE`"
                .into(),
            Self::HostName { .. } => {
                "write a name of at most 64 letters, digits, `.`, `-` and `_` \
                 that is neither an address nor `localhost`"
                    .into()
            }
            Self::TwoSites { .. } => "give the host another name at one of them".into(),
            Self::TooManyHosts { .. } => {
                "give fewer hosts more PEs: a host has a slot for each of its PEs".into()
            }
            Self::NoProgram { package, .. } => {
                format!("install it; on Debian, `apt-get install {package}` does")
            }
            Self::NoTun(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "as root, `chmod 666 /dev/net/tun` lets all users have such devices in their own \
                 namespaces"
                    .into()
            }
            Self::NoTun(_) => {
                "as root, `modprobe tun` loads the driver; a container must be given \
                 the device, for example with `docker run --device /dev/net/tun`"
                    .into()
            }
            Self::NoNamespaces { advice, .. } => advice.clone(),
            Self::Mount { .. } => {
                "a container may forbid it; `docker run --privileged` allows it".into()
            }
            Self::HostEnded { .. } => "see the message above, if there is one".into(),
            Self::Killed => "`dmesg` shows whether memory ran out".into(),
            Self::Enter(_) => {
                "run this inside the lab: its hosts cannot be entered from outside".into()
            }
            Self::OldSystem | Self::Network { .. } => return None,
            #[cfg(not(target_os = "linux"))]
            Self::OtherSystem => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_forbidden_is_told_from_one_that_is_missing() {
        let hint = |kind: io::ErrorKind| LabError::NoTun(kind.into()).hint().unwrap();
        assert!(hint(io::ErrorKind::PermissionDenied).contains("chmod"));
        assert!(hint(io::ErrorKind::NotFound).contains("modprobe"));
        assert!(!LabError::NoTun(io::ErrorKind::NotFound.into()).is_usage());
        assert!(LabError::NoGrid.is_usage());
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = LabError::NoProgram { program: "ip", package: "iproute2" };
        assert_eq!(error.to_string(), "a lab needs the program `ip`, which is not installed");
        assert!(error.hint().unwrap().contains("apt-get install iproute2"));
    }
}
