//! Why gridctl on a host does not answer: the messages and exit codes of `ssh` and of shells.

use super::protocol::plain;
use crate::hosts::SSH_FAILED;

/// Exit codes of a shell for a program that it cannot execute, and for one that it does not find.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
/// Exit code of a gridctl that does not know its arguments.
const USAGE: i32 = 2;
/// Hidden verbs that gridctl starts on other hosts. A gridctl that does not know a verb names it in
/// its error.
const VERBS: [&str; 2] = ["__check", "__witness"];
/// What `ssh` says, in any line, if a host has another key than before.
const KEY_CHANGED: &str = "REMOTE HOST IDENTIFICATION HAS CHANGED";
/// What `ssh` says if a gateway does not reach the host.
const GATEWAY_FAILED: &str = "stdio forwarding failed";

/// Why a host could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// `ssh` does not know the host.
    HostUnknown,
    /// The host accepts no connections of ssh.
    Refused,
    /// The network has no route to the host.
    Unreachable,
    /// The host accepts no key of the user.
    NoKey,
    /// The host has another key than before.
    HostKeyChanged,
    /// The user has not accepted the key of the host.
    HostKeyUnknown,
    /// The host has dropped the connection before it asked for a key.
    Dropped,
    /// There was no answer in time.
    TimedOut,
    /// gridctl is not on the host.
    Missing {
        /// Whether the user's program is there, if that is known.
        has_program: Option<bool>,
    },
    /// gridctl cannot be executed on the host.
    NotExecutable,
    /// gridctl on the host is another version.
    OtherVersion,
    /// This machine cannot start `ssh`.
    NoSsh { reason: String },
    /// gridctl cannot read the answer of the host, or did not expect it.
    Unreadable { reason: String },
    /// The command ended for another reason.
    Ended { last_line: String },
}

/// Texts of `ssh`, and what they mean.
static TEXTS: [(&str, Failure); 16] = [
    ("Host key verification failed", Failure::HostKeyUnknown),
    ("Could not resolve hostname", Failure::HostUnknown),
    ("Name or service not known", Failure::HostUnknown),
    ("nodename nor servname provided", Failure::HostUnknown),
    ("Permission denied", Failure::NoKey),
    ("Too many authentication failures", Failure::NoKey),
    ("No supported authentication methods", Failure::NoKey),
    ("Connection refused", Failure::Refused),
    ("No route to host", Failure::Unreachable),
    ("Network is unreachable", Failure::Unreachable),
    ("timed out", Failure::TimedOut),
    ("kex_exchange_identification", Failure::Dropped),
    ("ssh_exchange_identification", Failure::Dropped),
    ("Connection closed", Failure::Dropped),
    ("Connection reset", Failure::Dropped),
    ("Broken pipe", Failure::Dropped),
];

impl Failure {
    /// Returns why a command over ssh ended with this exit code, or by a signal, after it printed
    /// this on standard error.
    pub(crate) fn of(code: Option<i32>, stderr: &str) -> Self {
        match code {
            Some(NOT_FOUND) => return Self::Missing { has_program: None },
            Some(NOT_EXECUTABLE) => return Self::NotExecutable,
            Some(USAGE) if VERBS.iter().any(|verb| stderr.contains(verb)) => {
                return Self::OtherVersion;
            }
            _ => {}
        }
        // The last lines come from ssh, and the first ones may be those of a banner.
        let mut lines = stderr.lines().rev().filter(|line| !line.trim().is_empty());
        let meaning = |line: &str| {
            let found = TEXTS.iter().find(|(text, _)| line.contains(*text));
            found.map(|(_, failure)| failure.clone())
        };
        let mut meanings: Vec<Self> = lines.clone().filter_map(meaning).collect();
        if stderr.contains(GATEWAY_FAILED) {
            // What the gateway reports says more than the end of the connection.
            meanings.retain(|meaning| *meaning != Self::Dropped);
        }
        match meanings.into_iter().next().filter(|_| code == Some(SSH_FAILED)) {
            Some(Self::HostKeyUnknown) if stderr.contains(KEY_CHANGED) => Self::HostKeyChanged,
            Some(failure) => failure,
            None => Self::Ended { last_line: plain(lines.next().unwrap_or_default()) },
        }
    }

    /// Whether another attempt may succeed soon.
    pub(super) fn is_passing(&self) -> bool {
        *self == Self::Dropped
    }

    /// Returns a word or two for a table and for scripts.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::HostUnknown => "unknown host",
            Self::Refused => "refused",
            Self::Unreachable => "no route",
            Self::NoKey => "no key",
            Self::HostKeyChanged => "host key changed",
            Self::HostKeyUnknown => "host key unknown",
            Self::Dropped => "dropped",
            Self::TimedOut => "no answer",
            Self::Missing { .. } => "no gridctl",
            Self::NotExecutable => "not executable",
            Self::OtherVersion => "other gridctl",
            Self::NoSsh { .. } => "no ssh",
            Self::Unreadable { .. } => "unreadable",
            Self::Ended { .. } => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_ssh_are_told_apart_by_their_texts() {
        // Messages of OpenSSH 9.2.
        let cases = [
            (
                "ssh: Could not resolve hostname d09: Name or service not known",
                Failure::HostUnknown,
            ),
            ("ssh: connect to host d01 port 22: Connection refused", Failure::Refused),
            ("ssh: connect to host d01 port 22: No route to host", Failure::Unreachable),
            ("ssh: connect to host d01 port 22: Connection timed out", Failure::TimedOut),
            ("ann@d01: Permission denied (publickey,password).", Failure::NoKey),
            (
                "No ED25519 host key is known for d01 and you have requested strict checking.\n\
                 Host key verification failed.",
                Failure::HostKeyUnknown,
            ),
            (
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@\n\
                 IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\nHost key verification failed.",
                Failure::HostKeyChanged,
            ),
            (
                "kex_exchange_identification: Connection closed by remote host\n\
                 Connection closed by 10.0.0.4 port 22",
                Failure::Dropped,
            ),
            (
                "channel 0: open failed: connect failed: Connection refused\n\
                 stdio forwarding failed\nConnection closed by UNKNOWN port 65535",
                Failure::Refused,
            ),
        ];
        for (text, failure) in cases {
            assert_eq!(Failure::of(Some(255), text), failure, "{text}");
        }
    }

    #[test]
    fn a_banner_is_not_taken_for_the_reason() {
        let text = "Access without permission is Permission denied.\r\n\
                    ssh: connect to host d01 port 22: Connection refused\r\n";
        assert_eq!(Failure::of(Some(255), text), Failure::Refused);
    }

    #[test]
    fn exit_codes_of_shells_are_told_apart_from_those_of_ssh() {
        let missing = "sh: 1: exec: /opt/gridctl: not found";
        assert_eq!(Failure::of(Some(127), missing), Failure::Missing { has_program: None });
        let denied = "sh: 1: exec: /opt/gridctl: Permission denied";
        assert_eq!(Failure::of(Some(126), denied), Failure::NotExecutable);
        for verb in VERBS {
            let old = format!("error: unrecognized subcommand '{verb}'");
            assert_eq!(Failure::of(Some(2), &old), Failure::OtherVersion);
        }
        let ended = Failure::of(None, "a\n\u{1b}b\n\n");
        assert_eq!(ended, Failure::Ended { last_line: "?b".to_owned() });
        let other = Failure::of(Some(1), "Connection refused");
        assert_eq!(other, Failure::Ended { last_line: "Connection refused".to_owned() });
    }
}
