//! Connections of `ssh` that several nodes share: one for the nodes of a host, one for a gateway.
//!
//! A master is opened first (`ControlMaster` of ssh_config(5)), goes to the background once it is
//! authenticated, and has a socket in a private folder. The `ssh` of a node finds that socket by
//! `ControlPath`, and opens a connection of its own where the master is gone or refuses another
//! session. What nodes are told goes through the same descriptors as without a master.
//!
//! A master that cannot be opened is done without. All are told to end with the job; should the
//! launcher be killed, they end when no node has used them for a while.

use crate::hosts::{Hosts, RemoteHost, Shared, quoted};
use gridspan_topology::NodeId;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use tempfile::TempDir;

/// Sessions over one connection, which is what sshd accepts (`MaxSessions` of sshd_config(5)).
const SESSIONS_MAX: usize = 10;
/// Hosts or gateways to which connections are opened at the same time.
const ENTRIES_MAX: usize = 16;
/// A socket's path may have 108 bytes, of which `ssh` adds 17 while it makes it.
const PATH_BYTES_MAX: usize = 90;
/// For how long a master stays that nobody uses.
const PERSIST: &str = "ControlPersist=30";
const CONNECT_TIMEOUT: &str = "ConnectTimeout=10";

/// The masters of a job, which end with it.
#[derive(Default)]
pub(crate) struct Sharing {
    /// Where the sockets are.
    folder: Option<TempDir>,
    masters: Vec<Master>,
    of_node: BTreeMap<NodeId, Shared>,
}

/// A connection that others share.
struct Master {
    ssh: Vec<OsString>,
    path: String,
    host: String,
}

impl Master {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.ssh[0]);
        command.args(&self.ssh[1..]).args(["-o", &format!("ControlPath={}", self.path)]);
        command.args(arguments).arg(&self.host);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Connects. Whether nodes can share the connection.
    fn open(&self, shared: &Shared, gateway: Option<&str>) -> bool {
        let way = shared.gateway_arguments(gateway);
        let flags = ["-o", "BatchMode=yes", "-o", "ControlMaster=yes", "-o", PERSIST];
        let way: Vec<_> = flags.into_iter().chain(way.iter().map(String::as_str)).collect();
        let all = [&way[..], &["-o", CONNECT_TIMEOUT, "-f", "-N"]].concat();
        self.command(&all).status().is_ok_and(|status| status.success())
            && Path::new(&self.path).exists()
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.command(&["-O", "exit"]).status();
    }
}

/// The nodes behind one host or gateway.
#[derive(Default)]
struct Entry<'a> {
    gateway: Option<&'a str>,
    hosts: BTreeMap<&'a str, Vec<NodeId>>,
}

impl Sharing {
    /// Opens what nodes of these hosts can share, if `ssh` is one that can.
    pub(crate) fn open(hosts: &Hosts) -> Self {
        let mut entries: BTreeMap<_, Entry<'_>> = BTreeMap::new();
        for (node, RemoteHost { name, gateway, .. }) in hosts.elsewhere() {
            let gateway = gateway.as_deref();
            let entry = entries.entry((gateway.is_some(), gateway.unwrap_or(name))).or_default();
            entry.gateway = gateway;
            entry.hosts.entry(name).or_default().push(node);
        }
        entries.retain(|_, entry| entry.hosts.values().map(Vec::len).sum::<usize>() > 1);
        if entries.is_empty() || !is_able(hosts.ssh()) {
            return Self::default();
        }
        let Some(folder) = folder() else { return Self::default() };
        let (masters, of_node) = Default::default();
        let mut sharing = Self { folder: Some(folder), masters, of_node };
        let entries: Vec<_> = entries.into_values().enumerate().collect();
        for some in entries.chunks(ENTRIES_MAX) {
            sharing.open_some(some, hosts.ssh());
        }
        sharing
    }

    fn open_some(&mut self, entries: &[(usize, Entry<'_>)], ssh: &[OsString]) {
        let Some(folder) = self.folder.as_ref().map(TempDir::path) else { return };
        let opened: Vec<_> = thread::scope(|scope| {
            let begin =
                |(number, entry)| scope.spawn(move || open_entry(folder, number, entry, ssh));
            let all: Vec<_> =
                entries.iter().map(|(number, entry)| begin((*number, entry))).collect();
            all.into_iter().filter_map(|opened| opened.join().ok()).collect()
        });
        for (masters, of_node) in opened {
            self.masters.extend(masters);
            self.of_node.extend(of_node);
        }
    }

    /// What a node shares.
    pub(crate) fn of(&self, node: NodeId) -> Shared {
        self.of_node.get(&node).cloned().unwrap_or_default()
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        // While the sockets are there. Those of hosts come before that of their gateway.
        while self.masters.pop().is_some() {}
    }
}

/// The connections to a gateway, and to hosts with several nodes, one after the other.
fn open_entry(
    folder: &Path,
    number: usize,
    entry: &Entry<'_>,
    ssh: &[OsString],
) -> (Vec<Master>, Vec<(NodeId, Shared)>) {
    let (mut masters, mut of_node) = (vec![], vec![]);
    let path = |name: usize| folder.join(format!("{number}.{name}")).display().to_string();
    let mut way = Shared::default();
    if let Some(host) = entry.gateway.and_then(destination) {
        let master = Master { ssh: of_gateway(ssh), path: path(0), host };
        if master.open(&way, None) {
            way.proxy = Some(proxy(&master));
            masters.push(master);
        }
    }
    for (host, nodes) in &entry.hosts {
        let mut is_open = nodes.len() > 1;
        for some in nodes.chunks(SESSIONS_MAX) {
            let mut shared = way.clone();
            if is_open {
                let path = path(masters.len() + 1);
                let (ssh, host) = (ssh.to_vec(), (*host).to_owned());
                let master = Master { ssh, path: path.clone(), host };
                is_open = master.open(&way, entry.gateway);
                if is_open {
                    shared.path = Some(path);
                    masters.push(master);
                }
            }
            of_node.extend(some.iter().map(|&node| (node, shared.clone())));
        }
    }
    (masters, of_node)
}

/// Whether this is an `ssh` that knows these options. It connects to nothing.
fn is_able(ssh: &[OsString]) -> bool {
    let is_ssh = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == "ssh");
    let [program, rest @ ..] = ssh else { return false };
    let mut command = Command::new(program);
    command.args(rest).args(["-G", "-o", "ControlMaster=no", "-o", PERSIST, "localhost"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    is_ssh(program) && command.status().is_ok_and(|status| status.success())
}

/// A folder of this user alone, whose path is short and plain enough for sockets and shells.
fn folder() -> Option<TempDir> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let is_good = |folder: &TempDir| {
        folder.path().to_str().is_some_and(|path| {
            path.len() + "/1000.1000".len() <= PATH_BYTES_MAX && path.bytes().all(plain)
        })
    };
    let owner_only = std::fs::Permissions::from_mode(0o700);
    let make = |place: &Path| {
        let mut folder = tempfile::Builder::new();
        folder.prefix("gridctl-").permissions(owner_only.clone()).tempdir_in(place).ok()
    };
    let places = [std::env::temp_dir(), "/tmp".into()];
    places.iter().filter_map(|place| make(place)).find(is_good)
}

/// What `ssh` is told to reach a gateway that stands behind `-J` otherwise; none if that is a way
/// over several, or nothing that can stand in a command of a shell.
fn destination(gateway: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@.-_:/[]".contains(&byte);
    if !gateway.bytes().all(is_plain) || (gateway.contains("::") && !gateway.contains('[')) {
        return None;
    }
    let is_short = gateway.starts_with("ssh://") || !gateway.contains(':');
    Some(if is_short { gateway.to_owned() } else { format!("ssh://{gateway}") })
}

/// The `ssh` that reaches a gateway: the same program with the same configuration, as for `-J`.
/// The command that `ssh` has the user's shell run to reach a host behind a gateway. The brackets,
/// which some shells take for a pattern, are quoted, as `ssh` itself does for a jump; `ssh` puts
/// host and port in first.
fn proxy(master: &Master) -> String {
    let word = |word: &OsString| quoted(word).to_string_lossy().replace('%', "%%");
    let words: Vec<_> = master.ssh.iter().map(word).collect();
    format!(
        "{} -o BatchMode=yes -o ControlMaster=no -o ControlPath={} -W '[%h]:%p' {}",
        words.join(" "),
        master.path,
        master.host
    )
}

/// The program of a command, and its configuration file if it names one.
fn of_gateway(ssh: &[OsString]) -> Vec<OsString> {
    let is_file = |word: &OsString| word.as_encoded_bytes().starts_with(b"-F");
    let position = ssh.iter().position(is_file);
    let words = position.map(|at| if ssh[at] == "-F" { at..at + 2 } else { at..at + 1 });
    let file = words.and_then(|words| ssh.get(words)).unwrap_or_default();
    ssh.iter().take(1).chain(file).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_reached_as_behind_a_jump() {
        assert_eq!(destination("head.far").as_deref(), Some("head.far"));
        assert_eq!(destination("me@head:2222").as_deref(), Some("ssh://me@head:2222"));
        assert_eq!(destination("[::1]:22").as_deref(), Some("ssh://[::1]:22"));
        assert_eq!(destination("one,two"), None, "a way over two");
        assert_eq!(destination("head;true"), None, "no shell sees this");
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(of_gateway(&words("ssh -p 2 -F file -v")), words("ssh -F file"));
        assert_eq!(of_gateway(&words("ssh -Ffile -v")), words("ssh -Ffile"));
        assert_eq!(of_gateway(&words("ssh -v -F")), words("ssh"));
    }

    #[test]
    fn a_shell_reads_the_way_over_a_gateway_word_by_word() {
        let ssh = ["/opt/my tools/ssh", "-F", "~/50%"].map(OsString::from).to_vec();
        let (path, host) = ("/tmp/gridctl-1/0.0".to_owned(), "ssh://me@head:2222".to_owned());
        let proxy = proxy(&Master { ssh, path, host });
        // As `ssh` does before it hands the command to the shell.
        let command = proxy.replace("%h", "node1").replace("%p", "22").replace("%%", "%");
        let folder = tempfile::tempdir().unwrap();
        // What a pattern would find.
        std::fs::write(folder.path().join("n:22"), "").unwrap();
        let script = format!("for word in {command}; do printf '%s\\n' \"$word\"; done");
        let shell = Command::new("sh").args(["-c", &script]).current_dir(&folder).output();
        let words = String::from_utf8(shell.unwrap().stdout).unwrap();
        let words: Vec<&str> = words.lines().collect();
        assert_eq!(words[..3], ["/opt/my tools/ssh", "-F", "~/50%"]);
        assert_eq!(words[words.len() - 3..], ["-W", "[node1]:22", "ssh://me@head:2222"]);
    }

    #[test]
    fn sockets_are_in_a_private_folder_with_a_short_path() {
        let folder = folder().unwrap();
        assert!(folder.path().as_os_str().len() < PATH_BYTES_MAX);
        let mode = folder.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
