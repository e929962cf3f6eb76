//! `gridctl check`: hosts that are ready, and hosts that fail in each way.
//!
//! A script replaces `ssh`: it fails as ssh does for some hosts, and runs the command on this
//! machine for others. Addresses of the loopback network act as hosts.
#![cfg(target_os = "linux")]

use crate::common::{Output, finish, gridctl, run};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Fails as OpenSSH does for some hosts. The last of them runs commands, but has no gridctl.
const SCRIPT: &str = r#"
echo "$@" >> "$FOLDER/arguments"
while [ "$1" != -- ]; do host=$1; shift; done
shift
case $host in
  127.0.0.21)
    echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255;;
  127.0.0.22|127.0.1.*)
    echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255;;
  127.0.0.23) echo "ann@$host: Permission denied (publickey)." >&2; exit 255;;
  127.0.0.24)
    echo "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @" >&2
    echo "Host key verification failed." >&2; exit 255;;
  127.0.0.25) exec sleep 100;;
  127.0.0.26) exec sh -c "/nowhere/gridctl";;
  127.0.0.27) echo "gridctl-check {\"say\":\"cheese\"}"; exec sleep 100;;
  127.0.0.28) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255;;
  127.0.0.29) exec sh -c "$(printf '%s' "$*" | sed 's,GRIDCTL,/nowhere/gridctl,')";;
esac
echo "Welcome to $host"
sh -c "$*"
exit $?
"#;

struct Fake {
    folder: TempDir,
}

impl Fake {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = SCRIPT.replace("$FOLDER", folder.path().to_str().unwrap());
        let script = script.replace("GRIDCTL", env!("CARGO_BIN_EXE_gridctl"));
        fs::write(folder.path().join("ssh.sh"), script).unwrap();
        Self { folder }
    }

    /// Checks the hosts of a grid file with this text.
    fn check(&self, grid: &str, arguments: &[&str]) -> Output {
        let path = self.write("grid.toml", grid);
        self.check_with(&[], &[&["--grid", path.as_str()][..], arguments].concat())
    }

    /// Checks hosts with these environment variables.
    fn check_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
        let ssh = format!("sh {}", self.folder.path().join("ssh.sh").display());
        let flags = ["check", "--ssh", ssh.as_str()];
        let mut command = gridctl(&[&flags[..], arguments].concat());
        command.envs(variables.iter().copied());
        finish(command)
    }

    /// Writes a file, and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn arguments(&self) -> String {
        fs::read_to_string(self.folder.path().join("arguments")).unwrap()
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns the texts of the problems about a host.
fn about<'a>(document: &'a Value, host: &str) -> Vec<&'a str> {
    let problems = document["problems"].as_array().unwrap().iter();
    let own = problems.filter(|it| it["hosts"].as_array().unwrap().contains(&host.into()));
    own.map(|it| it["what"].as_str().unwrap()).collect()
}

#[test]
fn hosts_that_are_ready_are_found_equal_and_reach_each_other() {
    let fake = Fake::new();
    let grid = "[site.far]\nhosts = [\"127.0.0.2\", \"127.0.0.3\"]\ngateway = \"head\"\n\
                [site.near]\nhosts = [\"localhost\"]\n";

    let output = fake.check(grid, &["--json"]);

    assert_eq!(output.code, Some(0), "{output:?}");
    let document = json(&output);
    assert_eq!((&document["version"], &document["ready"]), (&1.into(), &true.into()));
    let ways: Vec<_> =
        document["hosts"].as_array().unwrap().iter().map(|host| &host["ssh"]).collect();
    assert_eq!(ways, ["ok", "ok", "here"]);
    for host in document["hosts"].as_array().unwrap() {
        assert_eq!(host["same_program"], true, "{host}");
        assert_eq!(host["program"]["digest"].as_str().map(str::len), Some(64), "{host}");
        // It is the same clock.
        let [ahead, error] =
            ["clock_ahead_ms", "clock_uncertainty_ms"].map(|key| host[key].as_f64().unwrap());
        assert!(ahead.abs() <= error + 1.0 && error < 5000.0, "{host}");
        assert!(host["cores"].as_u64().unwrap() > 0 && host["free_disk_bytes"].is_u64(), "{host}");
        let came = host["udp"].as_array().unwrap();
        assert_eq!(came.len(), 2, "{host}");
        assert!(came.iter().all(|it| it["bytes"] == 1452), "{host}");
        assert_eq!(host["seen_at"], Value::Array(vec![]), "{host}");
    }
    assert_eq!(document["ways"], 6);
    let said = fake.arguments();
    assert_eq!(said.lines().count(), 2, "{said}");
    let login = "-o BatchMode=yes -o ConnectTimeout=20 -J head 127.0.0.2 -- sh -c 'cd ";
    assert!(said.contains(login), "{said}");
}

#[test]
fn each_failure_of_ssh_is_told_apart_within_the_time_limit() {
    let fake = Fake::new();
    let begin = Instant::now();
    let hosts = "[site.a]\nhosts = [\"127.0.0.[21-28]\", \"localhost\", \"nowhere.invalid\"]\n";

    let output = fake.check(hosts, &["--json", "--timeout", "10s"]);

    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(begin.elapsed() < Duration::from_secs(50), "{:?}", begin.elapsed());
    let document = json(&output);
    let words: Vec<_> =
        document["hosts"].as_array().unwrap().iter().map(|host| &host["ssh"]).collect();
    let expected = [
        "unknown host",
        "refused",
        "no key",
        "host key changed",
        "no answer",
        "no gridctl",
        "unreadable",
        "no route",
        "here",
        "ok",
    ];
    assert_eq!(words, expected);
    let changed = about(&document, "127.0.0.24");
    assert_eq!(changed, ["its host key has changed, which may be an attack"]);
    let address = about(&document, "nowhere.invalid");
    assert!(address.iter().any(|it| it.starts_with("its address is not found: ")), "{address:?}");
    let problems = document["problems"].as_array().unwrap();
    assert!(problems.iter().all(|it| !it["remedy"].as_str().unwrap().is_empty()), "{problems:?}");
}

#[test]
fn the_text_has_a_line_for_each_host_and_for_each_problem_what_to_do() {
    let fake = Fake::new();
    let hosts = "[site.a]\nhosts = [\"127.0.0.2\", \"127.0.0.22\", \"127.0.0.23\"]\n";

    let output = fake.check(hosts, &[]);

    assert_eq!(output.code, Some(1), "{output:?}");
    let rows: Vec<Vec<&str>> =
        output.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["SITE", "HOST", "SSH", "PROGRAM"]);
    assert_eq!(rows[1][..4], ["a", "127.0.0.2", "ok", "same"]);
    assert_eq!(rows[2][..4], ["a", "127.0.0.22", "refused", "-"]);
    let line = "error: 127.0.0.22: it refuses connections of ssh; start sshd there";
    assert!(output.stdout.contains(line), "{output:?}");
    let ssh = "-o BatchMode=yes 127.0.0.23 true` must work without a prompt\n";
    assert!(output.stdout.contains(ssh), "{output:?}");
    let summary = output.stdout.lines().last().unwrap();
    assert!(summary.starts_with("3 hosts at 1 site, 3 nodes, "), "{summary}");
    assert!(summary.contains("2 errors"), "{summary}");
}

#[test]
fn equal_lines_of_many_hosts_fit_a_screen() {
    let fake = Fake::new();
    let hosts = "[site.a]\nhosts = [\"127.0.1.[1-20]\"]\n[site.b]\nhosts = [\"127.0.1.[21-40]\"]\n";

    let output = fake.check(hosts, &[]);

    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.lines().count() < 10, "{output:?}");
    let row: Vec<&str> = output.stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..3], ["a", "127.0.1.[1-20]", "refused"]);
    assert!(output.stdout.contains("error: all hosts: it refuses"), "{output:?}");
}

#[test]
fn a_port_in_use_is_an_error_before_a_job_meets_it() {
    let fake = Fake::new();
    let other = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let grid = format!("[site.a]\nhosts = [\"127.0.0.2\"]\nport = {port}\n");

    let output = fake.check(&grid, &[]);

    assert_eq!(output.code, Some(1), "{output:?}");
    let line = format!("error: 127.0.0.2: UDP port {port} cannot be used: Address already in use");
    assert!(output.stdout.contains(&line), "{output:?}");
    assert!(output.stdout.contains("another `port`"), "{output:?}");
}

#[test]
fn a_program_that_is_missing_is_an_error() {
    let fake = Fake::new();
    let grid = "[site.a]\nhosts = [\"127.0.0.2\", \"localhost\"]\n";
    let output = fake.check(grid, &["/nowhere/job", "--steps", "9"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("error: all hosts: /nowhere/job is not there"), "{output:?}");

    // The check of a program needs no gridctl on the host.
    let grid = "[site.a]\nhosts = [\"127.0.0.29\"]\n";
    let output = fake.check(grid, &["/bin/sh"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let warning = "is not there, so only ssh and the path of the program were checked";
    assert!(output.stdout.contains(warning), "{output:?}");
    let output = fake.check(grid, &["/nowhere/job"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("neither /nowhere/job nor "), "{output:?}");
    let output = fake.check(grid, &["ring"]);
    assert_eq!(output.code, Some(1), "a built-in job needs gridctl: {output:?}");
}

/// Names and values of environment variables.
type Variables<'a> = &'a [(&'a str, &'a str)];

#[test]
fn hosts_of_host_files_and_of_pbs_and_lsf_are_checked_over_ssh() {
    let fake = Fake::new();
    let slots = fake.write("slots", "127.0.0.2 slots=2\n127.0.0.22:1\n");
    let lines = fake.write("lines", "127.0.0.2\n127.0.0.2\n127.0.0.22\n");
    let pbs = ("PBS_NODEFILE", lines.as_str());
    let elsewhere = ("PBS_NODEFILE", "/nowhere/nodes");
    let cases: [(&str, Variables<'_>, &[&str]); 4] = [
        ("hosts", &[elsewhere], &["--json", "--hostfile", slots.as_str()]),
        ("pbs", &[pbs], &["--json"]),
        ("lsf", &[("LSB_DJOB_HOSTFILE", lines.as_str())], &["--json"]),
        ("lsf", &[("LSB_MCPU_HOSTS", "127.0.0.2 2 127.0.0.22 1")], &["--json"]),
    ];
    for (site, variables, arguments) in cases {
        let output = fake.check_with(variables, arguments);
        assert_eq!(output.code, Some(1), "{output:?}");
        let document = json(&output);
        let row = |it: &Value| {
            let text = format!("{} {} {} {}", it["site"], it["host"], it["pes"], it["ssh"]);
            text.replace('"', "")
        };
        let found: Vec<String> = document["hosts"].as_array().unwrap().iter().map(row).collect();
        let expected = ["127.0.0.2 2 ok", "127.0.0.22 1 refused"];
        assert_eq!(found, expected.map(|host| format!("{site} {host}")), "{output:?}");
    }
    let missing = fake.check_with(&[elsewhere], &[]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("cannot read the host file /nowhere/nodes"), "{missing:?}");

    // A grid of the environment and `--emulate` come before the batch system.
    let short = ("GRIDSPAN_EMULATE", "1x1");
    let cases: [(Variables<'_>, &[&str]); 2] =
        [(&[elsewhere, short], &[]), (&[elsewhere], &["--emulate", "1x1"])];
    for (variables, arguments) in cases {
        let output = fake.check_with(variables, arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stdout.contains("this machine  here  same"), "{output:?}");
    }
}

#[test]
fn the_tasks_of_a_slurm_allocation_are_not_confused_with_this_machine() {
    let fake = Fake::new();
    let allocation = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[1-2]")];
    let malformed = [allocation[0], ("SLURM_JOB_NODELIST", "n[1-")];
    for (variables, reason) in [
        (allocation, "in this allocation of Slurm srun starts the nodes"),
        (malformed, "SLURM_JOB_NODELIST: `n[1-`: the brackets"),
    ] {
        let output = fake.check_with(&variables, &[]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output:?}");
        assert!(output.stderr.contains(reason), "{output:?}");
        let hint = "hint: `srun --overlap --label gridctl check --emulate 1x1 …` checks each host";
        assert!(output.stderr.contains(hint), "{output:?}");
    }

    // As in each task of that `srun`.
    let task = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")];
    let task = [&allocation[..], &task].concat();
    let output = fake.check_with(&task, &["--emulate", "1x1"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("this machine  here  same"), "{output:?}");
}

#[test]
fn this_machine_is_checked_for_an_emulated_grid() {
    for arguments in [&["check"][..], &["check", "--emulate", "2x2"]] {
        let output = run(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stdout.contains("this machine  here  same"), "{output:?}");
        assert!(output.stdout.lines().last().unwrap().starts_with("1 host, "), "{output:?}");
    }
    let output = run(&["check", "--emulate", "2x2", "--json"]);
    let document = json(&output);
    let udp = &document["hosts"][0]["udp"];
    assert_eq!(udp[0]["bytes"], 1452, "its nodes reach each other: {document}");
}

#[test]
fn wrong_usage_of_check_exits_with_2() {
    for wrong in [
        &["check", "--grid", "/nowhere/grid.toml"][..],
        &["check", "rign"],
        &["check", "--timeout", "never"],
        &["check", "--emulate", "2x2", "--grid", "grid.toml"],
        &["check", "--hostfile", "hosts", "--grid", "grid.toml"],
        &["check", "--hostfile", "/nowhere/hosts"],
    ] {
        let output = run(wrong);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn an_agent_ends_with_its_input() {
    let mut command = gridctl(&["__check", "/bin/sh"]);
    command.stdin(std::process::Stdio::null());
    let output = crate::common::finish(command);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{output:?}");
}
