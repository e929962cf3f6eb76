//! `gridctl lab`: hosts with names and networks, whose links are those of the grid. Where the
//! system gives no namespaces or TUN devices, the tests print the reason and end; with
//! GRIDSPAN_NEED_LAB they fail.
//!
//! This test is also the program that measures links, on the hosts of labs.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod probe;

use common::{
    LIMIT, Output, Running, children_of, finish, gridctl, is_alive, processes_with, until,
};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// If this variable is set, labs must work.
const NEED: &str = "GRIDSPAN_NEED_LAB";
/// Where labs look for commands.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = words.as_slice()
        && first == probe::VERB
    {
        return probe::run(rest);
    }
    let all: [(&str, fn()); 12] = [
        ("hosts_have_names_and_find_each_other", hosts_have_names_and_find_each_other),
        ("a_round_trip_between_sites_takes_the_configured_time", round_trips),
        ("packets_are_lost_with_the_configured_probability", losses),
        ("a_bulk_transfer_has_the_configured_rate", rate),
        ("links_change_while_the_command_runs", changes),
        ("the_exit_code_and_the_streams_are_those_of_the_command", exit_codes),
        ("signals_reach_the_command", signals),
        ("nothing_is_left_of_a_lab", nothing_is_left),
        ("a_grid_that_cannot_be_a_lab_is_refused", refusals),
        ("a_ring_of_open_mpi_has_the_latency_of_the_links", open_mpi),
        ("processes_of_mpich_run_on_all_hosts", mpich),
        ("a_job_has_the_same_round_trips_as_with_emulated_links", same_round_trips),
    ];
    if let Err(reason) = available() {
        assert!(std::env::var_os(NEED).is_none(), "{reason}");
        println!("skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    let filter = words.iter().find(|word| !word.starts_with('-'));
    for (name, test) in all {
        if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

/// Checks that labs work here. Fails with the reason if not.
fn available() -> Result<(), String> {
    let output = lab(&["-e", "1x1"], &["true"]);
    match output.code {
        Some(0) => Ok(()),
        Some(1) if output.stderr.starts_with("error: ") => Err(output.stderr),
        _ => panic!("{output:?}"),
    }
}

/// Runs a command in a lab.
fn lab(options: &[&str], command: &[&str]) -> Output {
    finish(lab_command(options, command))
}

fn lab_command(options: &[&str], command: &[&str]) -> Command {
    let mut lab = gridctl(&[&["lab"][..], options, &["--"], command].concat());
    lab.env("PATH", PATH);
    lab
}

fn done(options: &[&str], command: &[&str]) -> String {
    let output = lab(options, command);
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout
}

/// Measures the link from `a1` to another host with this program. Returns the numbers it prints.
fn measure(options: &[&str], what: &[&str]) -> Vec<f64> {
    let own = std::env::current_exe().unwrap();
    let stdout = done(options, &[&[own.to_str().unwrap(), probe::VERB][..], what].concat());
    stdout.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

fn hosts_have_names_and_find_each_other() {
    let script = "hostname; ssh b2 hostname; ssh root@10.2.0.1 'hostname; exit 3'; echo $?";
    let printed = done(&["-e", "2x2,wan=1ms"], &["sh", "-c", script]);
    assert_eq!(printed, "a1\nb2\nb1\n3\n");

    let script = "PATH=$PATH:/usr/sbin:/sbin; ip route get 10.9.0.9 2>&1";
    let output = lab(&["-e", "2x1"], &["sh", "-c", script]);
    assert!(output.stdout.contains("Network is unreachable"), "no host has it: {output:?}");
    if Path::new("/etc/nsswitch.conf").exists() {
        let script = "grep '^hosts:' /etc/nsswitch.conf; ssh b1 grep '^hosts:' /etc/nsswitch.conf";
        let printed = done(&["-e", "2x1"], &["sh", "-c", script]);
        assert_eq!(printed, "hosts: files\nhosts: files\n", "no daemon outside is asked");
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.toml");
    fs::write(&path, "[site.delft]\nhosts = [\"d[1-2].example\"]\npes = 2\n").unwrap();
    let script = "cat $GRIDCTL_LAB_HOSTFILE; getent hosts d2; ssh d2 cat /etc/hosts; \
                  ls /sys/class/net /dev/shm; ssh d3 true 2>&1";
    let output = lab(&["--grid", path.to_str().unwrap()], &["sh", "-c", script]);
    assert_eq!(output.code, Some(255), "there is no d3: {output:?}");
    let hosts = "d1.example slots=2\nd2.example slots=2\n10.1.0.2        d2.example d2\n";
    assert!(output.stdout.starts_with(hosts), "{output:?}");
    assert!(output.stdout.contains("\n10.1.0.1 d1.example d1\n"), "{output:?}");
    assert!(output.stdout.contains("/dev/shm:\n\n"), "it is empty: {output:?}");
    assert!(output.stdout.ends_with("Could not resolve hostname d3: Name or service not known\n"));
}

fn round_trips() {
    let median = |options: &[&str], host| measure(options, &["round-trips", host, "101"])[0];
    let wide = median(&["-e", "2x2,wan=20ms"], "b1");
    assert!((40.0..42.0).contains(&wide), "{wide} ms, not 40 within 5 %");
    // Half of the largest delay is added in each direction, on average.
    let jitter = median(&["-e", "2x1,wan=10ms,jitter=10ms"], "b1");
    assert!((27.0..33.0).contains(&jitter), "{jitter} ms, not 30 within 10 %");
    let local = median(&["-e", "2x2,wan=20ms,lan=10ms"], "a2");
    assert!((20.0..21.0).contains(&local), "{local} ms, not 20 within 5 %");
}

fn losses() {
    let lost = |seed| {
        let options = ["-e", "2x1,wan=1ms,loss=10%", "--seed", seed];
        measure(&options, &["lost", "b1", "2000"])
    };
    let numbers = lost("7");
    // A datagram and its echo are lost independently: both arrive with probability 0.81. Five
    // standard deviations: sqrt(2000 * 0.81 * 0.19) = 17.5.
    let arrived = 2000 - numbers.len();
    assert!(arrived.abs_diff(1620) < 88, "{arrived} arrived");
    assert_eq!(lost("7"), numbers, "the seed decides which");
    assert_ne!(lost("8"), numbers);
}

fn rate() {
    // 300 packets of 1500 bytes at 20 Mbit/s leave 0.6 ms apart.
    let spread = measure(&["-e", "2x1,wan=5ms,rate=20mbit"], &["spread", "b1", "300"])[0];
    let expected = 299.0 * 0.6;
    assert!((spread / expected - 1.0).abs() < 0.05, "{spread} ms, not {expected} within 5 %");
    // A queue of ten packets, besides the one that leaves.
    let queue = ["-e", "2x1,wan=5ms,rate=100kbit,queue=15kB"];
    let spread = measure(&queue, &["spread", "b1", "100"]);
    assert!((11.0..=13.0).contains(&spread[1]), "{spread:?}: 11 packets, and what left meanwhile");
}

fn changes() {
    // A busy machine may need a second or two until the first datagram is sent.
    let grid = "2x1,wan=2ms; at 4s link a-b latency=30ms";
    let numbers = measure(&["-e", grid], &["over-time", "b1", "7000"]);
    let median_of = |numbers: &[f64]| {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let first = median_of(&numbers[..10]);
    let last = median_of(&numbers[numbers.len() - 10..]);
    assert!((4.0..8.0).contains(&first), "{first} ms at the start");
    assert!((60.0..64.0).contains(&last), "{last} ms at the end");
}

fn exit_codes() {
    let output = lab(&["-e", "1x1"], &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.code, Some(7), "{output:?}");
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
    let killed = lab(&["-e", "1x1"], &["sh", "-c", "kill -KILL $$"]);
    assert_eq!(killed.code, Some(137), "{killed:?}");
    let missing = lab(&["-e", "1x1"], &["no-such-program"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("cannot start no-such-program"), "{missing:?}");
    let folder = tempfile::tempdir().unwrap();
    let mut here = lab_command(&["-e", "1x1"], &["sh", "-c", "pwd; ls"]);
    fs::write(folder.path().join("a-file"), "").unwrap();
    here.current_dir(folder.path());
    let output = finish(here);
    assert_eq!(output.stdout, format!("{}\na-file\n", folder.path().display()), "{output:?}");
}

fn signals() {
    let script = "trap 'echo asked; exit 5' TERM; echo started; while :; do sleep 0.05; done";
    let mut running = Running::of(lab_command(&["-e", "2x1"], &["sh", "-c", script]));
    running.await_line("started");
    running.signal(Signal::TERM);
    running.await_line("asked");
    assert_eq!(running.wait(LIMIT).expect("the lab ends").code(), Some(5));
}

/// Returns the processes that a process has started, those that these have started, and so on.
fn descendants_of(process: u32) -> Vec<u32> {
    let children = children_of(process).into_iter();
    children.flat_map(|child| [vec![child], descendants_of(child)].concat()).collect()
}

fn nothing_is_left() {
    // Numbers of seconds that no other process has as an argument.
    let seconds = |n: u32| (10_000_000 * n + std::process::id()).to_string();
    let (left, long) = (seconds(1), seconds(2));
    // The daemon has left its session and its parent.
    let script =
        format!("ssh b1 'setsid sleep {left} >/dev/null 2>&1 </dev/null &'; echo started; $0");
    let ends = lab(&["-e", "2x1"], &["sh", "-c", &script, "true"]);
    assert_eq!((ends.code, ends.stdout.as_str()), (Some(0), "started\n"), "{ends:?}");
    let found = processes_with("cmdline", &left);
    assert!(found.is_empty(), "the lab waits for the end of its processes: {found:?}");

    let lab = lab_command(&["-e", "2x1"], &["sh", "-c", &script, &format!("sleep {long}")]);
    let mut killed = Running::of(lab);
    killed.await_line("started");
    until(|| (!processes_with("cmdline", &format!("sleep\0{left}")).is_empty()).then_some(()));
    let processes = descendants_of(killed.child.id());
    assert!(
        processes.len() >= 5,
        "the first one, two hosts, the command, the daemon: {processes:?}"
    );
    killed.signal(Signal::KILL);
    assert!(killed.wait(LIMIT).is_some());
    until(|| {
        (processes_with("cmdline", &left).is_empty() && processes_with("cmdline", &long).is_empty())
            .then_some(())
    });
    // Other labs may run on this machine, so the test checks these processes only.
    until(|| (!processes.iter().any(|&process| is_alive(process))).then_some(()));
    let devices = fs::read_dir("/sys/class/net").unwrap();
    let names = devices.map(|device| device.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("lab")).count(), 0);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("/lab tmpfs"), "{mounts}");
}

fn refusals() {
    let refused = |options: &[&str], expected: &str| {
        let output = lab(options, &["true"]);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(expected), "{output:?}");
    };
    refused(&[], "there is no grid to emulate");
    refused(&["-e", "2x100"], "the grid has more than 128 hosts");
    refused(&["-e", "2x2,wan=9"], "--emulate: option `wan`");
    refused(&["--grid", "no-such-file.toml"], "no-such-file.toml");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.toml");
    fs::write(&path, "[site.a]\nhosts = [\"127.0.0.2\"]\n").unwrap();
    refused(&["--grid", path.to_str().unwrap()], "a host of a lab cannot be named `127.0.0.2`");
    assert_eq!(lab(&["-e", "1x1"], &[]).code, Some(2), "there is no command");
}

/// Compiles the ring for Open MPI. Prints why the test is skipped if it cannot.
fn compiled_ring(folder: &Path) -> Option<String> {
    let compiler = "mpicc.openmpi";
    let program = folder.join("ring");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/ring.c");
    let mut command = Command::new(compiler);
    let output = command.args(["-O2", "-o"]).args([&program, &source]).output();
    match output {
        Ok(output) if output.status.success() => Some(program.to_str().unwrap().to_owned()),
        Ok(output) => panic!("{compiler}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped a part: {compiler}: {error}");
            None
        }
    }
}

fn open_mpi() {
    let folder = tempfile::tempdir().unwrap();
    let Some(ring) = compiled_ring(folder.path()) else { return };
    let printed = done(&["-e", "2x2,wan=20ms"], &["mpirun.openmpi", &ring]);
    let line = |begin: &str| {
        let found = printed.lines().find_map(|line| line.strip_prefix(begin));
        found.unwrap_or_else(|| panic!("no line with {begin}: {printed}")).to_owned()
    };
    let mut hosts: Vec<String> = line("hosts ").split(' ').map(str::to_owned).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["a1", "a2", "b1", "b2"], "without flags, a process on each host");
    // The ranks are in the order of the slots, so a turn crosses the wide area twice.
    let turn: f64 = line("turn ").parse().unwrap();
    assert!((40.0..42.0).contains(&turn), "{turn} ms, not 40 within 5 %");
    assert_eq!(line("number "), "63", "three others add one in each of 21 turns");
}

fn mpich() {
    if Command::new("mpirun.mpich").arg("--version").output().is_err() {
        return println!("skipped a part: MPICH is not installed");
    }
    let printed = done(&["-e", "2x2,wan=2ms"], &["mpirun.mpich", "-n", "4", "hostname"]);
    let mut hosts: Vec<&str> = printed.lines().collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["a1", "a2", "b1", "b2"]);
}

/// The least of the one-way times, in milliseconds, that the job `pingpong` prints.
fn least_one_way(printed: &str) -> f64 {
    let rows = printed.lines().filter_map(|line| {
        let row = line.split_once('│').map_or(line, |(_, row)| row);
        let mut words = row.split_whitespace();
        let _bytes: u32 = words.next()?.parse().ok()?;
        words.next()?.parse::<f64>().ok()
    });
    let least = rows.fold(f64::INFINITY, f64::min) / 1e3;
    assert!(least.is_finite(), "{printed}");
    least
}

/// `cargo run -p gridspan-studies --example lab_agreement` compares more, over other links, and
/// within 5 %.
fn same_round_trips() {
    let link = "2x1,wan=20ms,rate=50mbit";
    let job = ["pingpong", "--seconds", "0.3", "--max-bytes", "200"];
    let emulate = ["run", "--driver", "cluster", "--emulate", link];
    let emulated = finish(gridctl(&[&emulate[..], &job].concat()));
    assert_eq!(emulated.code, Some(0), "{emulated:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.toml");
    fs::write(&path, "[site.a]\nhosts = [\"a1\"]\n\n[site.b]\nhosts = [\"b1\"]\n").unwrap();
    let on_hosts = [env!("CARGO_BIN_EXE_gridctl"), "run", "--grid", path.to_str().unwrap()];
    let in_lab = done(&["-e", link], &[&on_hosts[..], &job].concat());

    let [emulated, in_lab] = [emulated.stdout, in_lab].map(|printed| least_one_way(&printed));

    // A packet of 200 bytes and the headers takes less than 0.1 ms at this rate. Other programs can
    // only delay packets. So the least of four means, each over some eight round trips, is near the
    // latency of the link unless all four are disturbed. 10 % are 2 ms one way, more than the tests
    // above allow; a link that is not emulated, or emulated twice, differs by more.
    for one_way in [emulated, in_lab] {
        assert!((20.0..22.0).contains(&one_way), "{one_way} ms, not 20 within 10 %");
    }
    let ratio = in_lab / emulated;
    assert!((0.92..1.08).contains(&ratio), "{in_lab} ms in the lab, {emulated} ms emulated");
}
