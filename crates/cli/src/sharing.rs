//! Connections of `ssh` that several nodes share: one for up to ten nodes of a host, and one for a
//! gateway.
//!
//! A master (`ControlMaster` of ssh_config(5)) is opened first, goes to the background once it is
//! authenticated, and has a socket in a private folder. The `ssh` of a node finds the socket
//! through `ControlPath`, and opens a separate connection if the master is gone or refuses another
//! session. The launcher writes to nodes through the same descriptors as without a master.
//!
//! If a master cannot be opened in time, its nodes connect without it. All masters end with the
//! job. If the launcher is killed, they end when no node has used them for a while, and the user's
//! next launcher finds the folder's lock free and removes the folder.
//!
//! Each master is opened in a separate process group, for two reasons. Ctrl-C at the launcher's
//! terminal does not reach the `ssh` that connects a master through a gateway. If a master is not
//! open in time, the launcher kills it with all processes that it has started.

use crate::hosts::{Hosts, RemoteHost, Shared, quoted};
use gridspan_topology::NodeId;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Largest number of sessions over one connection: the default of sshd (`MaxSessions` of
/// sshd_config(5)).
const SESSIONS_MAX: usize = 10;
/// Largest number of hosts or gateways to which connections are opened at the same time.
const ENTRIES_MAX: usize = 16;
/// Largest number of hosts behind one gateway to which connections are opened at the same time.
const HOSTS_MAX: usize = 8;
/// Time limit for opening all connections.
const OPEN_MAX: Duration = Duration::from_secs(20);
/// Time limit for closing a connection.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Interval between checks whether a connection is open.
const LOOK: Duration = Duration::from_millis(10);
/// Longest path of a socket: the system allows 108 bytes, and `ssh` appends 17 while it creates the
/// socket.
const PATH_BYTES_MAX: usize = 90;
/// Option by which an unused master stays for 120 s, longer than all nodes take to start.
const PERSIST: &str = "ControlPersist=120";
const CONNECT_TIMEOUT: &str = "ConnectTimeout=10";

/// The masters of a job, which end with it.
#[derive(Default)]
pub(crate) struct Sharing {
    folder: Option<Folder>,
    masters: Vec<Master>,
    of_node: BTreeMap<NodeId, Shared>,
}

/// A connection that nodes share.
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

    /// Connects. Returns whether nodes can share the connection.
    fn open(&self, shared: &Shared, gateway: Option<&str>, patience: &Patience<'_>) -> bool {
        let way = shared.gateway_arguments(gateway);
        let flags = ["-o", "BatchMode=yes", "-o", "ControlMaster=yes", "-o", PERSIST];
        let way: Vec<_> = flags.into_iter().chain(way.iter().map(String::as_str)).collect();
        let all = [&way[..], &["-o", CONNECT_TIMEOUT, "-f", "-N"]].concat();
        patience.has_succeeded(&mut self.command(&all)) && Path::new(&self.path).exists()
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // Without a socket there is no master.
        if Path::new(&self.path).exists() {
            let is_stopped = AtomicBool::new(false);
            let patience = Patience { until: Instant::now() + CLOSE_MAX, is_stopped: &is_stopped };
            patience.has_succeeded(&mut self.command(&["-O", "exit"]));
        }
    }
}

/// Time limit for opening or closing connections.
struct Patience<'a> {
    until: Instant,
    /// Set when the connections are no longer wanted.
    is_stopped: &'a AtomicBool,
}

impl Patience<'_> {
    fn is_over(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed) || Instant::now() >= self.until
    }

    /// Returns whether a command succeeds in time. If it does not end in time, kills its process
    /// group.
    fn has_succeeded(&self, command: &mut Command) -> bool {
        if self.is_over() {
            return false;
        }
        let Ok(mut child) = command.process_group(0).spawn() else { return false };
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if !self.is_over() => thread::sleep(LOOK),
                Ok(None) | Err(_) => {
                    // The processes may have ended just now.
                    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                    let _ = child.wait();
                    return false;
                }
            }
        }
    }
}

/// The nodes behind one host or gateway.
#[derive(Default)]
struct Entry<'a> {
    gateway: Option<&'a str>,
    hosts: BTreeMap<&'a str, Vec<NodeId>>,
}

impl Sharing {
    /// Opens the connections that the nodes of these hosts can share, if `ssh` supports it. Returns
    /// soon after `is_stopped` is set.
    pub(crate) fn open(hosts: &Hosts, is_stopped: &AtomicBool) -> Self {
        let patience = Patience { until: Instant::now() + OPEN_MAX, is_stopped };
        let mut entries: BTreeMap<_, Entry<'_>> = BTreeMap::new();
        for (node, RemoteHost { name, gateway, .. }) in hosts.elsewhere() {
            let gateway = gateway.as_deref();
            let entry = entries.entry((gateway.is_some(), gateway.unwrap_or(name))).or_default();
            entry.gateway = gateway;
            entry.hosts.entry(name).or_default().push(node);
        }
        entries.retain(|_, entry| entry.hosts.values().map(Vec::len).sum::<usize>() > 1);
        if entries.is_empty() || !is_able(hosts.ssh(), &patience) {
            return Self::default();
        }
        let Some(folder) = Folder::new() else { return Self::default() };
        let (masters, of_node) = Default::default();
        let mut sharing = Self { folder: Some(folder), masters, of_node };
        let entries: Vec<_> = entries.into_values().enumerate().collect();
        for some in entries.chunks(ENTRIES_MAX) {
            sharing.open_some(some, hosts.ssh(), &patience);
        }
        sharing
    }

    fn open_some(
        &mut self,
        entries: &[(usize, Entry<'_>)],
        ssh: &[OsString],
        patience: &Patience<'_>,
    ) {
        let Some(folder) = self.folder.as_ref().map(Folder::path) else { return };
        let opened: Vec<_> = thread::scope(|scope| {
            let begin = |(number, entry)| {
                scope.spawn(move || open_entry((folder, number), entry, ssh, patience))
            };
            let all: Vec<_> =
                entries.iter().map(|(number, entry)| begin((*number, entry))).collect();
            all.into_iter().filter_map(|opened| opened.join().ok()).collect()
        });
        for (masters, of_node) in opened {
            self.masters.extend(masters);
            self.of_node.extend(of_node);
        }
    }

    /// Returns the connections that a node shares.
    pub(crate) fn of(&self, node: NodeId) -> Shared {
        self.of_node.get(&node).cloned().unwrap_or_default()
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        // The sockets still exist here. Masters of hosts are closed before that of their gateway.
        while self.masters.pop().is_some() {}
    }
}

/// The opened masters, and the connections that nodes share.
type Opened = (Vec<Master>, Vec<(NodeId, Shared)>);

/// Opens the connection to a gateway, and then those to the hosts with several nodes.
fn open_entry(
    (folder, number): (&Path, usize),
    entry: &Entry<'_>,
    ssh: &[OsString],
    patience: &Patience<'_>,
) -> Opened {
    let path = |name: usize| folder.join(format!("{number}.{name}")).display().to_string();
    let mut opened: Opened = (vec![], vec![]);
    let mut way = Shared::default();
    if let Some(host) = entry.gateway.and_then(destination) {
        let master = Master { ssh: of_gateway(ssh), path: path(0), host };
        if master.open(&way, None, patience) {
            way.proxy = Some(proxy(&master));
            opened.0.push(master);
        }
    }
    // Each master has a separate path.
    let mut names = 1..;
    let hosts: Vec<_> = entry
        .hosts
        .iter()
        .map(|(host, nodes)| {
            let masters = nodes.len().div_ceil(SESSIONS_MAX);
            let paths: Vec<String> = names.by_ref().take(masters).map(path).collect();
            (*host, nodes.as_slice(), paths)
        })
        .collect();
    let way = &way;
    for some in hosts.chunks(HOSTS_MAX) {
        let of_hosts: Vec<_> = thread::scope(|scope| {
            let mut all = vec![];
            for (host, nodes, paths) in some {
                let way = (way, entry.gateway);
                all.push(scope.spawn(move || open_host(host, (nodes, paths), way, ssh, patience)));
            }
            all.into_iter().filter_map(|opened| opened.join().ok()).collect()
        });
        for (masters, of_node) in of_hosts {
            opened.0.extend(masters);
            opened.1.extend(of_node);
        }
    }
    opened
}

/// Opens the connections to one host at these paths, each for up to [`SESSIONS_MAX`] nodes. Opens
/// none for a single node, and no more after one that cannot be opened.
fn open_host(
    host: &str,
    (nodes, paths): (&[NodeId], &[String]),
    (way, gateway): (&Shared, Option<&str>),
    ssh: &[OsString],
    patience: &Patience<'_>,
) -> Opened {
    let mut opened: Opened = (vec![], vec![]);
    let mut is_open = nodes.len() > 1;
    for (some, path) in nodes.chunks(SESSIONS_MAX).zip(paths) {
        let mut shared = way.clone();
        if is_open {
            let master = Master { ssh: ssh.to_vec(), path: path.clone(), host: host.to_owned() };
            is_open = master.open(way, gateway, patience);
            if is_open {
                shared.path = Some(path.clone());
                opened.0.push(master);
            }
        }
        opened.1.extend(some.iter().map(|&node| (node, shared.clone())));
    }
    opened
}

/// Whether the program is called `ssh` and supports the options of masters. The check opens no
/// connection.
fn is_able(ssh: &[OsString], patience: &Patience<'_>) -> bool {
    let is_ssh = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == "ssh");
    let [program, rest @ ..] = ssh else { return false };
    let mut command = Command::new(program);
    command.args(rest).args(["-G", "-o", "ControlMaster=no", "-o", PERSIST, "localhost"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    is_ssh(program) && patience.has_succeeded(&mut command)
}

/// A folder for sockets that only this user can enter.
struct Folder {
    folder: TempDir,
    /// Locked while the launcher runs.
    _lock: File,
}

/// Prefix of the names of folders.
const PREFIX: &str = "gridctl-ssh-";
/// The file in a folder that its launcher has locked.
const LOCK: &str = "lock";

impl Folder {
    /// Creates a folder with a path that is short and plain enough for sockets and shells, if there
    /// is a place for one. Also removes the folders of killed launchers.
    fn new() -> Option<Self> {
        let places = [std::env::temp_dir(), "/tmp".into()];
        let make = |place: &Path| {
            remove_abandoned(place);
            Self::new_in(place).ok()
        };
        places.iter().filter_map(|place| make(place)).find(|made| is_good(made.path()))
    }

    fn new_in(place: &Path) -> io::Result<Self> {
        let owner_only = fs::Permissions::from_mode(0o700);
        let folder =
            tempfile::Builder::new().prefix(PREFIX).permissions(owner_only).tempdir_in(place)?;
        // The file gets its final name once it is locked, so that no other launcher finds it
        // unlocked.
        let new = folder.path().join("lock.new");
        let lock = File::create_new(&new)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&new, folder.path().join(LOCK))?;
        Ok(Self { folder, _lock: lock })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn is_good(path: &Path) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    path.to_str().is_some_and(|path| {
        path.len() + "/1000.1000".len() <= PATH_BYTES_MAX && path.bytes().all(plain)
    })
}

/// Removes the folders of this user's killed launchers.
fn remove_abandoned(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && let Err(error) = remove_if_abandoned(&entry.path())
        {
            tracing::debug!(path = %entry.path().display(), %error, "an old folder stays");
        }
    }
}

/// Removes a folder, its sockets and its lock, if the lock is free. Any other file in it belongs to
/// another program and keeps the folder.
fn remove_if_abandoned(folder: &Path) -> io::Result<()> {
    let data = folder.symlink_metadata()?;
    let is_own = data.is_dir() && data.uid() == rustix::process::geteuid().as_raw();
    if !is_own || data.permissions().mode() & 0o777 != 0o700 {
        return Ok(());
    }
    let lock = File::open(folder.join(LOCK))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(folder.join(LOCK))?;
    fs::remove_dir(folder)
}

/// Converts a gateway from the form of `-J` to the destination argument of `ssh`. Returns `None`
/// for a route over several gateways, and for characters that are unsafe in a shell command.
fn destination(gateway: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@.-_:/[]".contains(&byte);
    if !gateway.bytes().all(is_plain) || (gateway.contains("::") && !gateway.contains('[')) {
        return None;
    }
    let is_short = gateway.starts_with("ssh://") || !gateway.contains(':');
    Some(if is_short { gateway.to_owned() } else { format!("ssh://{gateway}") })
}

/// Returns the command that `ssh` runs in the user's shell to reach a host behind a gateway. `ssh`
/// first inserts host and port for `%h` and `%p`. The brackets are quoted, as `ssh` does for `-J`,
/// since some shells read them as a pattern.
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

/// Returns the `ssh` command for a gateway: the program and its configuration file (`-F`), without
/// the other options, as for `-J`.
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
    fn the_arguments_for_a_gateway_equal_those_of_a_jump() {
        assert_eq!(destination("head.far").as_deref(), Some("head.far"));
        assert_eq!(destination("me@head:2222").as_deref(), Some("ssh://me@head:2222"));
        assert_eq!(destination("[::1]:22").as_deref(), Some("ssh://[::1]:22"));
        assert_eq!(destination("one,two"), None, "two gateways");
        assert_eq!(destination("head;true"), None, "unsafe in a shell");
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(of_gateway(&words("ssh -p 2 -F file -v")), words("ssh -F file"));
        assert_eq!(of_gateway(&words("ssh -Ffile -v")), words("ssh -Ffile"));
        assert_eq!(of_gateway(&words("ssh -v -F")), words("ssh"));
    }

    #[test]
    fn a_shell_splits_the_proxy_command_into_the_right_words() {
        let ssh = ["/opt/my tools/ssh", "-F", "~/50%"].map(OsString::from).to_vec();
        let (path, host) = ("/tmp/gridctl-1/0.0".to_owned(), "ssh://me@head:2222".to_owned());
        let proxy = proxy(&Master { ssh, path, host });
        // `ssh` makes these replacements before it passes the command to the shell.
        let command = proxy.replace("%h", "node1").replace("%p", "22").replace("%%", "%");
        let folder = tempfile::tempdir().unwrap();
        // A file that an unquoted pattern would match.
        std::fs::write(folder.path().join("n:22"), "").unwrap();
        let script = format!("for word in {command}; do printf '%s\\n' \"$word\"; done");
        let shell = Command::new("sh").args(["-c", &script]).current_dir(&folder).output();
        let words = String::from_utf8(shell.unwrap().stdout).unwrap();
        let words: Vec<&str> = words.lines().collect();
        assert_eq!(words[..3], ["/opt/my tools/ssh", "-F", "~/50%"]);
        assert_eq!(words[words.len() - 3..], ["-W", "[node1]:22", "ssh://me@head:2222"]);
    }

    #[test]
    fn connecting_to_dead_hosts_ends_at_the_time_limit_or_when_stopped() {
        // An `ssh` that never connects.
        let folder = tempfile::tempdir().unwrap();
        let ssh = folder.path().join("ssh");
        std::fs::write(&ssh, "#!/bin/sh\ncase $1 in -G) exit 0;; esac\nexec sleep 100\n").unwrap();
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o700)).unwrap();
        let names: Vec<String> = (0..50).map(|host| format!("host{host}")).collect();
        let hosts = names.iter().map(|name| (name.as_str(), vec![NodeId(0), NodeId(1)])).collect();
        let entry = Entry { gateway: Some("head"), hosts };
        let (is_stopped, ssh) = (AtomicBool::new(false), [ssh.into_os_string()]);
        for (limit, is_interrupted) in [(300, false), (60_000, true)] {
            let begin = Instant::now();
            let patience =
                Patience { until: begin + Duration::from_millis(limit), is_stopped: &is_stopped };
            let (masters, of_node) = thread::scope(|scope| {
                let opened =
                    scope.spawn(|| open_entry((folder.path(), 0), &entry, &ssh, &patience));
                thread::sleep(Duration::from_millis(100));
                is_stopped.store(is_interrupted, Ordering::Relaxed);
                opened.join().unwrap()
            });
            assert!(begin.elapsed() < Duration::from_secs(10), "it took {:?}", begin.elapsed());
            assert_eq!((masters.len(), of_node.len()), (0, 100));
        }
    }

    #[test]
    fn only_folders_of_killed_launchers_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let killed = || {
            let Folder { folder, _lock } = Folder::new_in(place.path()).unwrap();
            folder.keep()
        };
        let (dead, used, alive) = (killed(), killed(), Folder::new_in(place.path()).unwrap());
        let socket = std::os::unix::net::UnixListener::bind(dead.join("0.0")).unwrap();
        drop(socket);
        fs::write(used.join("results"), "").unwrap();
        let others = ["gridctl-20261123-results", "gridctl-ssh-notes", "gridctl-ssh-4000000-ab"]
            .map(|name| place.path().join(name));
        for folder in &others {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(folder.join("results"), "").unwrap();
        }
        std::os::unix::fs::symlink(&others[0], place.path().join("gridctl-ssh-link")).unwrap();

        remove_abandoned(place.path());

        assert!(!dead.exists() && alive.path().join(LOCK).exists());
        assert!(used.join("results").exists());
        assert!(others.iter().all(|folder| folder.join("results").exists()));
    }

    #[test]
    fn a_command_that_is_too_slow_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("sleep 100 & echo $! > {}/pid; wait", folder.path().display());
        let is_stopped = AtomicBool::new(false);
        // The shell has begun by then, even on a busy machine.
        let until = Instant::now() + Duration::from_secs(5);

        let patience = Patience { until, is_stopped: &is_stopped };
        assert!(!patience.has_succeeded(Command::new("sh").args(["-c", &script])));

        let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        let begin = Instant::now();
        // A killed process is a zombie until its parent reaps it.
        let stat = || fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(begin.elapsed() < Duration::from_secs(10), "it is still there");
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn sockets_are_in_a_private_folder_with_a_short_path() {
        let folder = Folder::new().unwrap();
        assert!(folder.path().as_os_str().len() < PATH_BYTES_MAX);
        let mode = folder.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
