//! How the system's `ssh`, or the command in its place, runs a program on another host.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

/// Exit code with which `ssh` reports its own failure, not that of the command (ssh(1)).
pub(crate) const SSH_FAILED: i32 = 255;

/// The program that reaches other hosts, unless the user names another.
const SSH: &str = "ssh";
/// Variable that names the command to run in place of `ssh`, as `--ssh` does.
const SSH_VARIABLE: &str = "GRIDCTL_SSH";
/// First part of the shell script on another host: changes to the folder of this process, if that
/// exists there.
pub(super) const ENTER: &str = "cd \"$1\" 2>/dev/null; shift; ";
/// As [`ENTER`], for the folder of `--wdir`, which must exist.
pub(super) const ENTER_EXISTING: &str = "cd \"$1\" && shift && ";
/// Second part: runs the program, and moves the launcher's channel to a separate descriptor, so
/// that a program that prints its standard input does not print keys.
pub(super) const RUN: &str = "exec \"$@\" 3<&0 </dev/null";
/// As [`RUN`], for a program that reads its standard input itself, such as a bridge.
pub(super) const RUN_BRIDGE: &str = "exec \"$@\"";
/// Descriptor of the launcher's channel.
pub(super) const CHANNEL: &str = "3";

/// Connections that the `ssh` of a node shares with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    /// Socket of a shared connection to the host.
    pub(crate) path: Option<String>,
    /// Command that reaches hosts through a shared connection to the gateway.
    pub(crate) proxy: Option<String>,
}

impl Shared {
    /// Returns the arguments that make `ssh` connect through a gateway.
    pub(crate) fn gateway_arguments(&self, gateway: Option<&str>) -> Vec<String> {
        match (gateway, &self.proxy) {
            (None, _) => vec![],
            (Some(_), Some(proxy)) => vec!["-o".to_owned(), format!("ProxyCommand={proxy}")],
            (Some(gateway), None) => vec!["-J".to_owned(), gateway.to_owned()],
        }
    }
}

/// Returns the command that runs a program with these arguments on a host, which need not be in a
/// grid. `ssh` is the command to run in place of `ssh`, with its first arguments.
pub(crate) fn on_host(
    ssh: &[OsString],
    host: &str,
    options: &[String],
    program: &[&OsStr],
) -> Command {
    let login = login_arguments(host, None, options, &Shared::default());
    let mut command = shell(ssh, login, RUN_BRIDGE);
    command.args(program.iter().map(|word| quoted(word)));
    command
}

/// Returns the command that runs a shell script on another host. The caller appends the words of
/// the script, quoted.
pub(super) fn shell(ssh: &[OsString], login: Vec<String>, script: &str) -> Command {
    let mut words = ssh.iter();
    let mut command = Command::new(words.next().map_or(OsStr::new(SSH), OsString::as_os_str));
    command.args(words).args(login);
    command.args(["--", "sh", "-c"]).arg(quoted(OsStr::new(script))).arg("sh");
    // The ssh command may run the program on this machine, where it must not inherit these
    // variables.
    gridspan::variables::ALL.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// Returns the arguments of `ssh` for a host behind this gateway, if any, these options included.
pub(super) fn login_arguments(
    host: &str,
    gateway: Option<&str>,
    options: &[String],
    shared: &Shared,
) -> Vec<String> {
    let master = |path: &String| {
        [
            "-o".to_owned(),
            "ControlMaster=no".to_owned(),
            "-o".to_owned(),
            format!("ControlPath={path}"),
        ]
    };
    let begin = ["-o", "BatchMode=yes"].map(str::to_owned).into_iter();
    let way = shared.gateway_arguments(gateway);
    let shared = shared.path.iter().flat_map(master);
    let options = options.iter().cloned();
    begin.chain(options).chain(shared).chain(way).chain([host.to_owned()]).collect()
}

/// Returns the command to run in place of `ssh`, with its first arguments, for this value of
/// `--ssh`, which is not blank.
pub(crate) fn ssh_command(flag: Option<&str>) -> Vec<OsString> {
    let variable = std::env::var(SSH_VARIABLE).ok().filter(|value| !value.trim().is_empty());
    let text = flag.map(str::to_owned).or(variable).unwrap_or_else(|| SSH.to_owned());
    text.split_whitespace().map(OsString::from).collect()
}

/// Quotes a word so that a shell reads it as this one word.
pub(crate) fn quoted(word: &OsStr) -> OsString {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./=:,@%+-".contains(byte);
    if !word.is_empty() && word.as_bytes().iter().all(is_plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_in_place_of_ssh_is_split_at_blanks() {
        assert_eq!(ssh_command(Some(" my-ssh  -p 22 ")), ["my-ssh", "-p", "22"]);
    }

    #[test]
    fn a_program_runs_on_a_host_of_no_grid_with_its_words_quoted() {
        let options = ["-p".to_owned(), "22".to_owned()];
        let program = [OsStr::new("/opt/my gridctl"), OsStr::new("__witness")];
        let command = on_host(&["ssh".into(), "-v".into()], "ann@c1", &options, &program);
        let login = ["ssh", "-v", "-o", "BatchMode=yes", "-p", "22", "ann@c1"];
        let rest = ["--", "sh", "-c", "'exec \"$@\"'", "sh", "'/opt/my gridctl'", "__witness"];
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(words, [&login[..], &rest].concat());
    }
}
