//! Nodes behind a real `sshd` on the loopback network, also through a gateway. Where no `sshd` is
//! installed, or it refuses this user, the tests print the reason and end.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    LIMIT, Running, SLOW_JOB, children_of, finish, gridctl, launcher_of, processes_with, run, until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A server of this test alone: own port, keys and configuration.
struct Sshd {
    folder: TempDir,
    server: Child,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // It has ended if it could not start.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Sshd {
    /// Starts a server, or returns why it cannot be used.
    fn start() -> Result<Self, String> {
        let program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"];
        let program = program.into_iter().find(|path| Path::new(path).exists());
        let program = program.ok_or("sshd is not installed")?;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for key in ["host_key", "user_key"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key));
            let made = command.status().map_err(|error| format!("ssh-keygen: {error}"))?;
            assert!(made.success());
        }
        fs::copy(path("user_key.pub"), path("authorized")).unwrap();
        let port = free_port();
        let here = folder.path().display();
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\n\
             HostKey {here}/host_key\nAuthorizedKeysFile {here}/authorized\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        );
        fs::write(path("server"), text).unwrap();
        let text = format!(
            "Host *\nPort {port}\nIdentityFile {here}/user_key\nIdentitiesOnly yes\n\
             UserKnownHostsFile {here}/known\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n"
        );
        fs::write(path("client"), text).unwrap();
        let mut command = Command::new(program);
        command.arg("-D").arg("-e").arg("-f").arg(path("server"));
        let log = fs::File::create(path("log")).unwrap();
        let server = command.stdin(Stdio::null()).stderr(log).spawn().map_err(|e| e.to_string())?;
        let mut sshd = Self { folder, server };
        sshd.await_login()?;
        Ok(sshd)
    }

    /// Waits until a login succeeds. Fails if the server ends, or refuses the key.
    fn await_login(&mut self) -> Result<(), String> {
        let mut refusal = String::new();
        for _ in 0..50 {
            if let Some(status) = self.server.try_wait().unwrap() {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
                return Err(format!("sshd ended ({status}): {log}"));
            }
            let mut command = Command::new("ssh");
            command.arg("-F").arg(self.client()).args(["-o", "BatchMode=yes", "127.0.0.2", "true"]);
            let output = command.output().map_err(|error| format!("ssh: {error}"))?;
            if output.status.success() {
                return Ok(());
            }
            refusal = String::from_utf8_lossy(&output.stderr).into_owned();
            if refusal.contains("Permission denied") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        Err(format!("sshd does not let this user in: {refusal}"))
    }

    fn client(&self) -> PathBuf {
        self.folder.path().join("client")
    }

    /// Returns the command for `--ssh`.
    fn command(&self) -> String {
        format!("ssh -F {}", self.client().display())
    }

    fn grid(&self, text: &str) -> String {
        let path = self.folder.path().join("grid.toml");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Returns a TCP port that is free on all loopback addresses now.
fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server, or prints why the test is skipped.
fn sshd() -> Option<Sshd> {
    for _ in 0..5 {
        match Sshd::start() {
            Ok(sshd) => return Some(sshd),
            // Another program has taken the port since it was free.
            Err(reason) if reason.contains("Address already in use") => {}
            Err(reason) => {
                eprintln!("skipped: {reason}");
                return None;
            }
        }
    }
    panic!("other programs have taken five free ports");
}

#[test]
fn a_job_runs_on_hosts_behind_sshd_and_leaves_no_process() {
    let Some(sshd) = sshd() else { return };
    let hosts = "[\"127.0.0.2\", \"127.0.0.3\", \"127.0.0.3\"]";
    let ways = ["", "gateway = \"127.0.0.1\"\n"];
    for way in ways {
        let grid = sshd.grid(&format!("[site.far]\nhosts = {hosts}\n{way}"));
        let ssh = sshd.command();
        let flags = ["run", "-v", "--ssh", &ssh, "--grid", &grid, "ring", "--members", "12"];

        let output = run(&flags);

        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stdout.contains("10 rounds over 12 actors on 3 PEs"), "{output:?}");
        // Shared connections name the configuration, too.
        let client = sshd.client().display().to_string();
        until(|| processes_with("cmdline", &client).is_empty().then_some(()));
    }
}

#[test]
fn nodes_behind_sshd_end_when_their_launcher_is_killed() {
    let Some(sshd) = sshd() else { return };
    for signal in [Signal::KILL, Signal::TERM] {
        let grid = sshd.grid("[site.a]\nhosts = [\"127.0.0.2\", \"127.0.0.3\"]\n");
        let ssh = sshd.command();
        // A number of seconds that no other test uses, by which the nodes are found.
        let wait = (1_000_000 + std::process::id()).to_string();
        let flags = ["run", "--ssh", &ssh, "--grid", &grid, "drill", "--wait", &wait];
        let mut running = Running::start(&flags);
        running.await_line("2 lines from 2 nodes");
        assert!(processes_with("cmdline", &wait).len() >= 3, "the launcher and two nodes");

        running.signal(signal);

        assert!(running.wait(common::LIMIT).is_some());
        until(|| processes_with("cmdline", &wait).is_empty().then_some(()));
    }
}

#[test]
fn a_detached_job_behind_sshd_goes_on_without_its_connections() {
    let Some(sshd) = sshd() else { return };
    let grid = sshd.grid("[site.a]\nhosts = [\"127.0.0.2\", \"127.0.0.3\"]\n");
    let (ssh, state) = (sshd.command(), sshd.folder.path().join("state").display().to_string());
    let of_state = format!("XDG_STATE_HOME={state}");
    let flags = ["run", "--detach", "--ssh", &ssh, "--grid", &grid, "--env", &of_state];
    let job = [&SLOW_JOB[..], &["150"]].concat();
    let mut command = gridctl(&[&flags[..], &["--checkpoint-every", "10steps"], &job].concat());
    let home = [("XDG_STATE_HOME", &*state), ("XDG_RUNTIME_DIR", &*state)];
    std::fs::create_dir(&state).unwrap();
    command.envs(home);
    let started = finish(command);
    assert_eq!(started.code, Some(0), "{started:?}");
    let id = started.stdout.split(' ').next().unwrap();

    let mut attached = Running::start_with(&["attach", id], &home);
    attached.await_line("      20 ");
    for ssh in children_of(launcher_of(id)) {
        kill_process(Pid::from_raw(ssh as i32).unwrap(), Signal::KILL).unwrap();
    }
    attached.await_line("the connection to its host broke; it is opened again");
    let launcher = launcher_of(id);
    kill_process(Pid::from_raw(launcher as i32).unwrap(), Signal::KILL).unwrap();

    attached.await_line("this one attends to it now");
    attached.await_line("every bit as on one thread");
    assert_eq!(attached.wait(LIMIT).expect("the job ends").code(), Some(0));
    until(|| {
        processes_with("cmdline", &sshd.client().display().to_string()).is_empty().then_some(())
    });
}

#[test]
fn a_key_that_sshd_refuses_is_an_error_that_shows_the_command_to_try() {
    let Some(sshd) = sshd() else { return };
    fs::write(sshd.folder.path().join("authorized"), "").unwrap();
    let grid = sshd.grid("[site.a]\nhosts = [\"127.0.0.2\"]\n");

    let output = run(&["run", "--ssh", &sshd.command(), "--grid", &grid, "ring"]);

    assert_eq!(output.code, Some(1), "{output:?}");
    let error = "error: a/0: ssh cannot start a node on host `127.0.0.2`";
    assert!(output.stderr.contains(error), "{output:?}");
    assert!(output.stderr.contains("Permission denied"), "{output:?}");
    assert!(output.stderr.contains("127.0.0.2 true` must work"), "{output:?}");
}

#[test]
fn hosts_behind_sshd_are_checked_and_failures_of_keys_are_told_apart() {
    let Some(sshd) = sshd() else { return };
    let grid = sshd.grid("[site.a]\nhosts = [\"127.0.0.2\", \"127.0.0.3\"]\n");
    let check = || {
        let output = run(&["check", "--ssh", &sshd.command(), "--grid", &grid, "--json"]);
        let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let hosts = document["hosts"].as_array().unwrap().iter();
        let words: Vec<String> =
            hosts.map(|host| host["ssh"].as_str().unwrap().to_owned()).collect();
        (output.code, words, document)
    };

    let (code, words, document) = check();
    assert_eq!((code, words), (Some(0), vec!["ok".to_owned(); 2]), "{document}");
    for host in document["hosts"].as_array().unwrap() {
        assert_eq!((&host["same_program"], &host["udp"][0]["bytes"]), (&true.into(), &1452.into()));
    }
    let client = sshd.client().display().to_string();
    until(|| processes_with("cmdline", &client).is_empty().then_some(()));

    let authorized = sshd.folder.path().join("authorized");
    let key = fs::read_to_string(&authorized).unwrap();
    fs::write(&authorized, "").unwrap();
    let (code, words, document) = check();
    assert_eq!((code, words), (Some(1), vec!["no key".to_owned(); 2]), "{document}");

    // Replaces the known host key by another one: that of the user.
    let known = sshd.folder.path().join("known");
    let other = key.split(' ').nth(1).unwrap();
    let lines = fs::read_to_string(&known).unwrap();
    let lines = lines.lines().map(|line| {
        let (host, _) = line.rsplit_once(' ').unwrap();
        format!("{host} {other}\n")
    });
    fs::write(&known, lines.collect::<String>()).unwrap();
    let (code, words, document) = check();
    assert_eq!((code, words), (Some(1), vec!["host key changed".to_owned(); 2]), "{document}");
}
