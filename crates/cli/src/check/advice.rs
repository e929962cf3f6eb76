//! What to do about a host that could not be checked.

use super::failure::Failure;
use super::finding::Level;
use super::subject::Subject;
use std::path::Path;

/// The programs that are to run on the hosts.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// Path of the program.
    pub(super) program: &'a Path,
    /// Path of gridctl.
    pub(super) gridctl: &'a Path,
    /// Whether the program is gridctl.
    pub(super) is_built_in: bool,
}

/// Returns the level of a failure, its description and its remedy.
pub(super) fn advice(
    failure: &Failure,
    subject: &Subject,
    wanted: &Wanted<'_>,
) -> (Level, String, String) {
    let try_it = match &subject.ssh {
        Some(ssh) => format!("`{} true` must work without a prompt", ssh.login),
        None => "try again".to_owned(),
    };
    let what_and_remedy = |what: &str, remedy: &str| (what.to_owned(), remedy.to_owned());
    let (what, remedy) = match failure {
        Failure::Missing { .. } | Failure::NotExecutable | Failure::OtherVersion => {
            return of_program(failure, wanted);
        }
        Failure::HostUnknown => what_and_remedy(
            "ssh does not know the host",
            "correct its name, or make it known to the DNS or ~/.ssh/config",
        ),
        Failure::Refused => what_and_remedy(
            "it refuses connections of ssh",
            "start sshd there, or check its port (`Port` in ~/.ssh/config) and its firewall",
        ),
        Failure::Unreachable => what_and_remedy(
            "the network has no route to it",
            "check the network, or set the `gateway` of its site in a grid file",
        ),
        Failure::NoKey => (
            "sshd accepts no key (Permission denied)".to_owned(),
            format!("add your key there (`ssh-copy-id`), or to your agent (`ssh-add`); {try_it}"),
        ),
        Failure::HostKeyChanged => (
            "its host key has changed, which may be an attack".to_owned(),
            format!(
                "ask its administrator; if the new key is right, `ssh-keygen -R {}` and log in once",
                bare(&subject.name)
            ),
        ),
        Failure::HostKeyUnknown => (
            "its host key is not known here".to_owned(),
            format!("log in once by hand and accept the key; then {try_it}"),
        ),
        Failure::Dropped => what_and_remedy(
            "it drops connections before the login",
            "try again; if it lasts, ask for a larger `MaxStartups` of its sshd",
        ),
        Failure::TimedOut => what_and_remedy(
            "it did not answer in time",
            "check whether it is up and lets ssh pass, or allow more time with --timeout",
        ),
        Failure::NoSsh { reason } if subject.ssh.is_none() => {
            (format!("gridctl cannot be started here: {reason}"), "check its path".to_owned())
        }
        Failure::NoSsh { reason } => (
            format!("ssh cannot be started here: {reason}"),
            "install it, or name another command with --ssh".to_owned(),
        ),
        Failure::Unreadable { reason } => {
            (format!("its answer cannot be read: {reason}"), try_it + " and without output")
        }
        Failure::Ended { last_line } if last_line.is_empty() => {
            ("the check ended there without a reason".to_owned(), try_it)
        }
        Failure::Ended { last_line } => (format!("the check ended there: {last_line}"), try_it),
    };
    (Level::Error, what, remedy)
}

/// Like [`advice`], for a gridctl that cannot answer. The user's program may run without it.
fn of_program(failure: &Failure, wanted: &Wanted<'_>) -> (Level, String, String) {
    let (gridctl, program) = (wanted.gridctl.display(), wanted.program.display());
    let level = if wanted.is_built_in { Level::Error } else { Level::Warning };
    let copy = "copy this one there, or use a shared file system";
    let (level, what, remedy) = match failure {
        Failure::Missing { has_program: Some(false) } if !wanted.is_built_in => (
            Level::Error,
            format!("neither {program} nor {gridctl} is there"),
            "copy both there, or use a shared file system",
        ),
        Failure::Missing { .. } if wanted.is_built_in => {
            (level, format!("{gridctl} is not there"), copy)
        }
        Failure::Missing { .. } => (
            level,
            format!("{gridctl} is not there, so only ssh and the path of the program were checked"),
            "copy gridctl there to check the rest",
        ),
        Failure::NotExecutable => (
            level,
            format!("{gridctl} cannot be executed there"),
            "it must be built for that system, and be executable (`chmod +x`)",
        ),
        _ => (level, format!("{gridctl} is another version there, which cannot answer"), copy),
    };
    (level, what, remedy.to_owned())
}

/// Returns the name of a host without its user.
fn bare(name: &str) -> &str {
    name.rsplit_once('@').map_or(name, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::super::subject::SshWay;
    use super::*;
    use gridspan_topology::NodeId;
    use std::net::{IpAddr, Ipv4Addr};

    fn subject() -> Subject {
        let ssh = SshWay { entry: "d01".to_owned(), login: "ssh -p 2 ann@d01".to_owned() };
        let address: IpAddr = Ipv4Addr::new(10, 0, 0, 4).into();
        Subject {
            site: "a".to_owned(),
            site_number: 0,
            name: "ann@d01".to_owned(),
            first: NodeId(0),
            nodes: 1,
            pes: 1,
            ports: vec![0],
            ssh: Some(ssh),
            listen: Ipv4Addr::UNSPECIFIED.into(),
            address: Ok(address),
        }
    }

    fn wanted(is_built_in: bool) -> Wanted<'static> {
        let program = if is_built_in { "/opt/gridctl" } else { "/opt/job" };
        Wanted { program: Path::new(program), gridctl: Path::new("/opt/gridctl"), is_built_in }
    }

    #[test]
    fn each_failure_has_another_text_and_a_remedy() {
        let failures = [
            Failure::HostUnknown,
            Failure::Refused,
            Failure::Unreachable,
            Failure::NoKey,
            Failure::HostKeyChanged,
            Failure::HostKeyUnknown,
            Failure::Dropped,
            Failure::TimedOut,
            Failure::Missing { has_program: None },
            Failure::NotExecutable,
            Failure::OtherVersion,
            Failure::NoSsh { reason: "none".to_owned() },
            Failure::Unreadable { reason: "none".to_owned() },
            Failure::Ended { last_line: String::new() },
        ];
        let texts = failures.iter().map(|failure| advice(failure, &subject(), &wanted(true)));
        let texts: Vec<_> = texts.collect();
        assert!(
            texts.iter().all(|(level, _, remedy)| *level == Level::Error && !remedy.is_empty())
        );
        let different: std::collections::BTreeSet<_> = texts.iter().map(|(_, it, _)| it).collect();
        assert_eq!(different.len(), texts.len(), "{texts:?}");
        let (_, _, remedy) = advice(&Failure::NoKey, &subject(), &wanted(true));
        assert!(remedy.ends_with("`ssh -p 2 ann@d01 true` must work without a prompt"));
        let (_, _, remedy) = advice(&Failure::HostKeyChanged, &subject(), &wanted(true));
        assert!(remedy.contains("`ssh-keygen -R d01`"), "{remedy}");
    }

    #[test]
    fn a_missing_gridctl_is_an_error_only_if_the_job_needs_it() {
        let level = |has_program, is_built_in| {
            advice(&Failure::Missing { has_program }, &subject(), &wanted(is_built_in)).0
        };
        assert_eq!(level(Some(true), true), Level::Error);
        assert_eq!(level(Some(true), false), Level::Warning);
        assert_eq!(level(Some(false), false), Level::Error);
    }
}
