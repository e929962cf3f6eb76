//! Nodes on other hosts: the arguments of `ssh`, and how the nodes that it starts end.
//!
//! A script replaces `ssh`: it records its arguments and its environment, and runs the command on
//! this machine. Addresses of the loopback network act as hosts.
#![cfg(target_os = "linux")]

use crate::common::{
    JOB, LIMIT, Running, SLOW_JOB, children_of, finish, gridctl, is_alive, launcher_of, run, state,
    until,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Fails for some hosts as `ssh` or the remote shell does. The command runs in a separate process,
/// so that it does not notice the launcher's death, as over a network.
const SCRIPT: &str = r#"
echo "$@" >> "$FOLDER/arguments"
env >> "$FOLDER/environment"
while [ "$1" != -- ]; do host=$1; shift; done
shift
case $host in
  127.0.0.25) echo "ssh: connect to host $host: Connection refused" >&2; exit 255;;
  127.0.0.28)
    if [ $(wc -l < "$FOLDER/arguments") -le 2 ]; then
      echo "kex_exchange_identification: Connection closed by remote host" >&2; exit 255
    fi;;
  127.0.0.29)
    # It answers until another node has started.
    [ ! -e "$FOLDER/gone" ] || exit 255;;
  127.0.0.27) exec sh -c "/nowhere/program";;
esac
sh -c "$*"
exit $?
"#;

pub(crate) struct Fake {
    folder: TempDir,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self::of(SCRIPT)
    }

    fn of(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = script.replace("$FOLDER", folder.path().to_str().unwrap());
        fs::write(folder.path().join("ssh.sh"), script).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the command that replaces `ssh`.
    pub(crate) fn command(&self) -> String {
        format!("sh {}", self.path("ssh.sh").display())
    }

    pub(crate) fn grid(&self, text: &str) -> String {
        fs::write(self.path("grid.toml"), text).unwrap();
        self.path("grid.toml").to_str().unwrap().to_owned()
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

const TWO_SITES: &str = "[site.far]\nhosts = [\"127.0.0.2\"]\ngateway = \"head.far\"\n\
                         [site.near]\nhosts = [\"localhost\"]\n";

/// Returns all descendants of a process.
pub(crate) fn below(pid: u32) -> Vec<u32> {
    let children = children_of(pid);
    children.iter().flat_map(|&child| below(child)).chain(children.iter().copied()).collect()
}

pub(crate) fn assert_no_secret(text: &str) {
    for secret in ["PRIVATE", "BEGIN", "incarnation", "seed", "certificate"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

/// The text with `PID` in place of the process id in the name of the job.
fn without_launcher(text: &str, program: &str) -> String {
    let (begin, rest) = text.split_once(&format!(" GRIDSPAN_JOB={program}-")).unwrap();
    let (launcher, end) = rest.split_once(' ').unwrap();
    assert!(launcher.parse::<u32>().is_ok(), "it is a process: {text}");
    format!("{begin} GRIDSPAN_JOB={program}-PID {end}")
}

#[test]
fn a_node_on_another_host_is_started_by_ssh_and_joins_the_job() {
    let fake = Fake::new();
    let grid = fake.grid(TWO_SITES);
    let flags = ["run", "-v", "--ssh", &fake.command(), "--grid", &grid];
    let output = run(&[&flags[..], &["ring", "--members", "8", "--rounds", "3"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.starts_with(" far/0│ 3 rounds over 8 actors on 2 PEs"), "{output:?}");

    let own = env!("CARGO_BIN_EXE_gridctl");
    let expected = format!(
        "-o BatchMode=yes -J head.far 127.0.0.2 -- sh -c 'cd \"$1\" 2>/dev/null; shift; exec \"$@\" 3<&0 </dev/null' \
         sh {here} env RUST_LOG=info GRIDSPAN_DRIVER=node GRIDSPAN_NODE=0 GRIDSPAN_NODES=2 \
         GRIDSPAN_SITE=far GRIDSPAN_SITE_INDEX=0 GRIDSPAN_SITES=2 GRIDSPAN_LOCAL_NODE=0 \
         GRIDSPAN_LOCAL_NODES=1 GRIDSPAN_JOB=ring-PID GRIDSPAN_RUN=0 GRIDSPAN_LAUNCHER=3 {own} __job ring \
         --members 8 --rounds 3\n",
        here = std::env::current_dir().unwrap().display()
    );
    let said = without_launcher(&fake.said("arguments"), "ring");
    assert_eq!(said, expected, "once, for the node that is not here");
    assert_no_secret(&fake.said("arguments"));
    assert_no_secret(&fake.said("environment"));
}

#[test]
fn a_variable_can_replace_ssh() {
    let fake = Fake::new();
    let grid = fake.grid("[site.far]\nhosts = [\"127.0.0.2\", \"127.0.0.3\"]\n");
    let mut command = gridctl(&["run", "--grid", &grid, "ring"]);
    command.env("GRIDCTL_SSH", fake.command());
    let output = finish(command);
    assert_eq!(output.code, Some(0), "{output:?}");
    let said = fake.said("arguments");
    assert_eq!(said.lines().count(), 2);
    assert!(!said.contains("-J"), "there is no gateway: {said}");
}

#[test]
fn links_to_other_hosts_are_measured() {
    let fake = Fake::new();
    let grid = fake.grid(TWO_SITES);
    let flags = ["topo", "--ssh", &fake.command(), "--grid", &grid, "--probe", "--json"];
    let output = run(&flags);
    assert_eq!(output.code, Some(0), "{output:?}");
    let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(document["nodes"][0]["host"], "127.0.0.2");
    assert!(document["levels"][0]["rtt_ms"]["median"].as_f64().unwrap() < 10.0, "{document}");
}

#[test]
fn a_host_that_refuses_is_reported_with_a_hint() {
    let cases = [
        (
            "127.0.0.25",
            "cannot start a node on host `127.0.0.25`",
            "-o BatchMode=yes 127.0.0.25 true` must work",
        ),
        ("127.0.0.27", "host `127.0.0.27` cannot run the program", "same path on every host"),
    ];
    for (host, message, hint) in cases {
        let fake = Fake::new();
        let grid = fake.grid(&format!("[site.a]\nhosts = [\"localhost\", \"{host}\"]\n"));
        let ssh = fake.command();
        for verb in [
            &["run", "--ssh", &ssh, "--grid", &grid, "ring"][..],
            &["topo", "--ssh", &ssh, "--grid", &grid, "--probe"],
        ] {
            let output = run(verb);
            assert_eq!(output.code, Some(1), "{output:?}");
            let error = &output.stderr[output.stderr.find("error: a/1: ").unwrap()..];
            assert!(error.lines().next().unwrap().contains(message), "{output:?}");
            assert!(error.contains("hint: ") && error.contains(hint), "{output:?}");
        }
        let refusal = "    ssh: connect to host 127.0.0.25: Connection refused";
        let output = run(&["run", "--ssh", &ssh, "--grid", &grid, "ring"]);
        assert_eq!(output.stderr.contains(refusal), host == "127.0.0.25", "{output:?}");
    }
}

#[test]
fn a_connection_that_a_busy_host_drops_is_opened_again() {
    let fake = Fake::new();
    let grid = fake.grid("[site.a]\nhosts = [\"localhost\", \"127.0.0.28\"]\n");

    let output = run(&["run", "--ssh", &fake.command(), "--grid", &grid, "ring"]);

    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(fake.said("arguments").lines().count(), 3, "it was dropped twice");
    let warning = "warning: a/1: `127.0.0.28` dropped the ssh connection";
    assert_eq!(output.stderr.matches(warning).count(), 2, "{output:?}");
}

#[test]
fn the_hint_shows_the_ssh_command_that_was_used() {
    let fake = Fake::new();
    let grid = fake.grid("[site.a]\nhosts = [\"localhost\", \"127.0.0.25\"]\ngateway = \"head\"\n");
    let ssh = format!("{} -p 2222", fake.command());

    let output = run(&["run", "--ssh", &ssh, "--grid", &grid, "ring"]);

    let login = format!("hint: `{ssh} -o BatchMode=yes -J head 127.0.0.25 true` must work");
    assert!(output.stderr.contains(&login), "{output:?}");
}

#[test]
fn a_program_that_prints_its_input_prints_no_keys() {
    let fake = Fake::new();
    let grid = fake.grid(TWO_SITES);
    let ssh = fake.command();
    for place in [&["--ssh", &ssh, "--grid", &grid][..], &["-n", "2"]] {
        let output = run(&[&["run"], place, &["/bin/cat"]].concat());
        assert_eq!(output.code, Some(1), "{output:?}");
        assert_no_secret(&output.stdout);
        assert_no_secret(&output.stderr);
        assert!(output.stderr.contains("is the program linked with"), "{output:?}");
    }
}

#[test]
fn a_missing_replacement_of_ssh_is_an_error() {
    let fake = Fake::new();
    let grid = fake.grid("[site.a]\nhosts = [\"127.0.0.2\"]\n");
    let place = ["run", "--ssh", "/nowhere/ssh", "--grid", &grid];
    let output = run(&[&place[..], &["--metrics", "0", "ring"]].concat());
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("cannot start /nowhere/ssh"), "{output:?}");
    // The launcher still prints the address of its metrics.
    assert!(output.stderr.contains("metrics: http://127.0.0.1:"), "{output:?}");
}

#[test]
fn nodes_on_other_hosts_end_with_their_launcher() {
    for signal in [Signal::KILL, Signal::TERM] {
        let fake = Fake::new();
        let grid = fake.grid("[site.a]\nhosts = [\"127.0.0.2\", \"localhost\", \"127.0.0.3\"]\n");
        let ssh = fake.command();
        let mut running =
            Running::start(&["run", "--ssh", &ssh, "--grid", &grid, "drill", "--wait", "600"]);
        running.await_line("3 lines from 3 nodes");
        let processes = below(running.child.id());
        assert!(processes.len() >= 5, "two scripts, and three nodes: {processes:?}");

        running.signal(signal);

        assert!(running.wait(crate::common::LIMIT).is_some());
        until(|| (!processes.iter().any(|&pid| is_alive(pid))).then_some(()));
    }
}

#[test]
fn a_dry_run_connects_to_no_host() {
    let fake = Fake::new();
    let grid = fake.grid("[site.a]\nhosts = [\"nowhere.invalid\"]\n");
    let ssh = fake.command();
    let output = run(&["run", "--dry-run", "--ssh", &ssh, "--grid", &grid, "ring"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!Path::new(&fake.path("arguments")).exists());
    assert!(output.stdout.contains(" nowhere.invalid -- sh -c "), "{output:?}");
    let warning = "warning: cannot find the address of host `nowhere.invalid`";
    assert!(output.stderr.contains(warning), "{output:?}");
}

#[test]
fn a_dry_run_shows_the_commands_that_a_run_starts_and_no_values_of_variables() {
    let fake = Fake::new();
    let grid = fake.grid(TWO_SITES);
    let ssh = fake.command();
    let flags = ["run", "--ssh", &ssh, "--grid", &grid, "--env", "KEY=it's secret"];
    let job = ["ring", "--members", "8", "--rounds", "1"];
    let dry = run(&[&flags[..], &["--dry-run", "--json"], &job].concat());
    assert_eq!(dry.code, Some(0), "{dry:?}");
    let lines: Vec<serde_json::Value> =
        dry.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let processes: Vec<_> =
        lines.iter().filter(|line| line["event"] == "process").map(|it| &it["process"]).collect();
    assert_eq!(processes.iter().map(|it| &it["start"]).collect::<Vec<_>>(), ["ssh", "here"]);
    assert_eq!(processes[1]["environment"]["KEY"], "***");
    let words = processes[0]["command"].as_array().unwrap().iter();
    let words: Vec<_> = words.map(|word| word.as_str().unwrap()).collect();
    assert!(!dry.stdout.contains("secret"), "{dry:?}");

    let output = run(&[&flags[..], &job].concat());

    assert_eq!(output.code, Some(0), "{output:?}");
    let started = without_launcher(&fake.said("arguments"), job[0]);
    // The first two words are the command in place of ssh.
    let planned = words[2..].join(" ").replace("'KEY=***'", r"'KEY=it'\''s secret'");
    assert_eq!(started, planned + "\n");

    let text = run(&[&flags[..], &["--dry-run"], &job].concat());
    assert!(text.stdout.contains("far/0   sh "), "{text:?}");
    assert!(text.stdout.contains("near/1  env GRIDSPAN_DRIVER=node GRIDSPAN_JOB"), "{text:?}");
    assert!(text.stdout.contains(" GRIDSPAN_SITE_INDEX=1 'KEY=***' "), "{text:?}");
    assert!(text.stdout.contains(r"''\''KEY=***'\'''"), "quoted for two shells: {text:?}");
    assert!(!text.stdout.contains("secret"), "{text:?}");
}

#[test]
fn named_sites_run_on_this_machine_without_emulated_links() {
    let sites = ["--site", "delft:2", "--site", "urbana"];
    let output = run(&[&["run"], &sites[..], &["ring"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let text = " delft/0│ 10 rounds over 64 actors on 3 PEs";
    assert!(output.stdout.contains(text), "{output:?}");
    let output = run(&[&["run", "--dry-run"], &sites[..], &["ring"]].concat());
    assert!(output.stdout.contains("delft   localhost      0  0\n"), "{output:?}");
    let output = run(&[&["run", "--driver", "embedded"], &sites[..], &["ring"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    for wrong in ["a:0", "a:b", "a b", "a:4000000000"] {
        let output = run(&["run", "--site", wrong, "ring"]);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains("--site"), "{output:?}");
    }
}

/// Imitates the shared connections of `ssh` with files: a master leaves a file in the place of its
/// socket, and other calls record the path of this file, or `alone` if they have none.
const SHARING_SCRIPT: &str = r#"#!/bin/sh
path=
for word in "$@"; do
  case $word in
    ControlPath=*) path=${word#ControlPath=};;
    ProxyCommand=*) proxy=${word#*ControlPath=}; proxy=${proxy%% *};;
  esac
done
case " $* " in
  *" -G "*) echo knows >> "$FOLDER/masters"; exit $ABLE;;
  *" -O exit "*) echo "exit $path" >> "$FOLDER/masters"; rm "$path"; exit;;
  *" -N "*)
    [ -z "$proxy" ] || [ -e "$proxy" ] || exit 255
    echo "open $path" >> "$FOLDER/masters"
    $OPEN
    : > "$path"; exit;;
esac
if [ -n "$path" ]; then
  [ -e "$path" ] && echo "$path" >> "$FOLDER/sessions"
else
  echo alone >> "$FOLDER/sessions"
fi
while [ "$1" != -- ]; do shift; done
shift
sh -c "$*"
exit $?
"#;

struct SharingFake(Fake);

impl SharingFake {
    /// `able` is the exit code of `ssh -G`; `open` is a command that a master runs.
    fn new(able: &str, open: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let fake = Fake::new();
        let script = SHARING_SCRIPT.replace("$FOLDER", fake.folder.path().to_str().unwrap());
        let script = script.replace("$ABLE", able).replace("$OPEN", open);
        fs::write(fake.path("ssh"), script).unwrap();
        fs::set_permissions(fake.path("ssh"), fs::Permissions::from_mode(0o700)).unwrap();
        Self(fake)
    }

    /// Runs a job on a host with `nodes` nodes, behind a gateway. Returns its sessions.
    fn sessions(&self, nodes: usize) -> Vec<String> {
        let hosts = vec!["\"127.0.0.2\""; nodes].join(", ");
        let grid = format!("[site.far]\nhosts = [{hosts}]\ngateway = \"head.far\"\n");
        let ssh = self.0.path("ssh").display().to_string();
        let output = run(&["run", "--ssh", &ssh, "--grid", &self.0.grid(&grid), "ring"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        self.0.said("sessions").lines().map(str::to_owned).collect()
    }
}

#[test]
fn nodes_of_one_host_share_connections_of_ten_sessions_that_end_with_the_job() {
    let fake = SharingFake::new("0", ":");

    let sessions = fake.sessions(12);

    let counts: std::collections::BTreeMap<_, usize> =
        sessions.iter().fold(Default::default(), |mut counts, path| {
            *counts.entry(path.clone()).or_default() += 1;
            counts
        });
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [10, 2], "{sessions:?}");
    let masters = fake.0.said("masters");
    let of = |what: &str| masters.lines().filter_map(|line| line.strip_prefix(what)).collect();
    let (opened, mut ended): (Vec<_>, Vec<_>) = (of("open "), of("exit "));
    assert_eq!(opened.len(), 3, "one is to the gateway: {masters}");
    assert!(counts.keys().eq(&opened[1..]), "{masters}");
    ended.reverse();
    assert_eq!(opened, ended, "connections behind the gateway end first");
    assert!(opened.iter().all(|path| path.len() < 100 && !Path::new(path).exists()));
}

#[test]
fn nodes_connect_separately_if_connections_cannot_be_shared() {
    for (able, open) in [("255", ":"), ("0", "exit 255")] {
        let fake = SharingFake::new(able, open);
        assert_eq!(fake.sessions(3), ["alone"; 3], "{able} {open}");
    }
}

#[test]
fn ctrl_z_stops_a_launcher_that_opens_connections() {
    let fake = SharingFake::new("0", "sleep 600");
    let grid = fake.0.grid("[site.far]\nhosts = [\"127.0.0.2\", \"127.0.0.2\"]\n");
    let ssh = fake.0.path("ssh").display().to_string();
    let mut running = Running::start(&["run", "--ssh", &ssh, "--grid", &grid, "ring"]);
    until(|| fs::read_to_string(fake.0.path("masters")).ok()?.contains("open ").then_some(()));

    running.signal(Signal::TSTP);
    until(|| (state(running.child.id()) == "T").then_some(()));
    running.signal(Signal::CONT);
    until(|| (state(running.child.id()) != "T").then_some(()));

    running.signal(Signal::INT);
    assert_eq!(running.wait(LIMIT).expect("it ends").code(), Some(130));
}

#[test]
fn nodes_of_a_detached_job_on_other_hosts_outlive_its_launcher() {
    let fake = Fake::new();
    let grid = fake.grid("[site.far]\nhosts = [\"127.0.0.2\", \"127.0.0.3\", \"127.0.0.4\"]\n");
    let variables = ["XDG_STATE_HOME", "XDG_RUNTIME_DIR"]
        .map(|name| (name, fake.folder.path().to_str().unwrap()));
    let ssh = fake.command();
    let flags =
        ["run", "--detach", "--ssh", &ssh, "--grid", &grid, "--checkpoint-every", "10steps"];
    let job = [&SLOW_JOB[..], &["150"]].concat();
    let mut command = gridctl(&[&flags[..], &job].concat());
    command.envs(variables);
    let started = finish(command);
    assert_eq!(started.code, Some(0), "{started:?}");
    let id = started.stdout.split(' ').next().unwrap();
    let launcher = launcher_of(id);
    assert_eq!(children_of(launcher).len(), 3);
    kill_process(Pid::from_raw(launcher as i32).unwrap(), Signal::KILL).unwrap();

    let mut attached = Running::start_with(&["attach"], &variables);

    attached.await_line("this one attends to it now");
    attached.await_line("      30 ");
    // The launcher sees that the connection to a host breaks. The node goes on.
    let shells = until(|| Some(children_of(launcher_of(id))).filter(|found| found.len() == 3));
    let group = Pid::from_raw(shells[2] as i32).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    attached.await_line("the connection to its host broke; it is opened again");
    attached.await_line("every bit as on one thread");
    assert_eq!(attached.wait(LIMIT).expect("the job ends").code(), Some(0));
    let said = fake.said("arguments");
    assert!(said.contains("GRIDSPAN_DETACHED=bridge") && !said.contains("GRIDSPAN_LAUNCHER"));
    assert_no_secret(&said);
    assert_no_secret(&fake.said("environment"));
    // The keepers remove their folders some time after the exit code is written. The folder of the
    // launcher, in the same home, stays.
    until(|| {
        let folders = fs::read_dir(fake.path("gridspan")).unwrap();
        let mut names = folders.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        (!names.any(|name| name.starts_with(&format!("{id}.")))).then_some(())
    });
}

#[test]
fn a_spare_host_takes_the_place_of_one_that_is_gone() {
    let fake = Fake::new();
    let hosts = "[\"127.0.0.2\", \"127.0.0.29\", \"127.0.0.3\"]";
    let grid = fake.grid(&format!("[site.far]\nhosts = {hosts}\n"));
    let ssh = fake.command();
    let flags = ["run", "--ssh", &ssh, "--grid", &grid, "--checkpoint-every", "10steps"];
    let spare = ["--on-loss", "replace", "--spare", "127.0.0.3"];
    let job = [&SLOW_JOB[..], &["90"]].concat();
    let mut job = Running::start(&[&flags[..], &spare, &job].concat());
    job.await_line("      30 ");
    fs::write(fake.path("gone"), "").unwrap();

    let shells = job.nodes(2);
    let group = Pid::from_raw(shells[1] as i32).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();

    job.await_line("lost far/1: it was killed");
    job.await_line("far/2 takes the place of far/1");
    job.await_line("2 nodes go on");
    job.await_line("every bit as on one thread");
    assert_eq!(job.wait(LIMIT).expect("the job ends").code(), Some(0));
}

/// Runs the command in another process group, which the launcher cannot kill. A shell of that group
/// starts the node, so that the kernel does not end the node with the process that started it.
const APART: &str = r#"
while [ "$1" != -- ]; do shift; done
shift
setsid sh -c 'sh -c "$1"; exit $?' sh "$*"
exit $?
"#;

#[test]
fn a_stopped_node_that_the_others_have_left_behind_ends_when_it_continues() {
    let fake = Fake::of(APART);
    let grid = fake.grid("[site.far]\nhosts = [\"127.0.0.2\", \"127.0.0.3\", \"127.0.0.4\"]\n");
    let ssh = fake.command();
    let flags = ["run", "--ssh", &ssh, "--grid", &grid, "--checkpoint-every", "10steps"];
    let mut running = Running::start(&[&flags[..], &SLOW_JOB, &["150"]].concat());
    running.await_line("      20 ");
    let node = below(running.nodes(3)[2]);
    let signal = |signal| {
        node.iter().for_each(|&pid| {
            // A process may have ended with the one that was continued before it.
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), signal);
        });
    };

    signal(Signal::STOP);
    running.await_line("it was silent for 3");
    running.await_line("2 nodes go on");
    assert!(!node.is_empty() && node.iter().all(|&pid| state(pid) == "T"), "it has not continued");
    signal(Signal::CONT);

    until(|| node.iter().all(|&pid| !is_alive(pid)).then_some(()));
    running.await_line("every bit as on one thread");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
}

/// Writes what the node on a host reads from the launcher into a file, too.
const TAPPED: &str = r#"
while [ "$1" != -- ]; do host=$1; shift; done
shift
mkfifo "$FOLDER/pipe-$host"
exec 4<&0
tee "$FOLDER/read-$host" <&4 >"$FOLDER/pipe-$host" &
sh -c "$*" <"$FOLDER/pipe-$host" 4<&-
code=$?
kill $!
exit $code
"#;

/// Decodes Base64 (RFC 4648).
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').chars() {
        bits = (bits << 6) | DIGITS.find(digit).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// The secrets in the lines that a node reads from the launcher: its private key as text and as
/// bytes, the key of the job's probes, and the seed of the node.
fn secrets(lines: &str) -> [Vec<u8>; 4] {
    let bundle = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line["identity"]["key"].is_string().then_some(line)
    };
    let bundle = lines.lines().find_map(bundle).expect("the node gets its key");
    let bytes = |value: &serde_json::Value| -> Vec<u8> {
        value.as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect()
    };
    let pem = bundle["identity"]["key"].as_str().unwrap();
    let text: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = decoded(&text.concat());
    // The key is an octet string of 32 bytes within another one (RFC 8410, section 7).
    let begin = der.windows(4).position(|it| it == [4, 34, 4, 32]).unwrap() + 4;
    let key = der[begin..begin + 32].to_vec();
    let probe_key = bytes(&bundle["identity"]["probe_key"]);
    [text[0].as_bytes().to_vec(), key, probe_key, bytes(&bundle["seed"])]
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    paths.flat_map(files).collect()
}

#[test]
fn a_folder_of_checkpoints_contains_no_secret_of_the_job() {
    let fake = Fake::of(TAPPED);
    let hosts = ["127.0.0.2", "127.0.0.3"];
    let grid = fake.grid("[site.far]\nhosts = [\"127.0.0.2\", \"127.0.0.3\"]\n");
    let folder = fake.path("checkpoints");
    let (ssh, place) = (fake.command(), folder.to_str().unwrap());
    let flags = ["run", "--ssh", &ssh, "--grid", &grid, "--checkpoint", place];
    let often = ["--checkpoint-every", "10steps"];

    let output = run(&[&flags[..], &often, &JOB, &["20"]].concat());

    assert_eq!(output.code, Some(0), "{output:?}");
    let files = files_below(&folder);
    // Two checkpoints, each with a manifest and a part of each node.
    assert!(files.len() >= 6, "{files:?}");
    let of_nodes = hosts.iter().flat_map(|host| secrets(&fake.said(&format!("read-{host}"))));
    let secrets: Vec<Vec<u8>> = of_nodes.chain([b"PRIVATE KEY".to_vec()]).collect();
    assert!(secrets.iter().all(|secret| secret.len() >= 11), "{secrets:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        for secret in &secrets {
            let has_secret = bytes.windows(secret.len()).any(|part| part == &secret[..]);
            assert!(!has_secret, "{} has {secret:?}", file.display());
        }
    }
}
