//! The processes of jobs: none outlives its launcher, and none shows a secret.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

mod common;

use common::{LIMIT, Running, gridctl, is_alive, proc_words, state, until, wait};
use gridspan_runtime::net::Authority;
use gridspan_runtime::net::bootstrap::{Addresses, issue, listening_address};
use gridspan_topology::GridSpec;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// Time within which a process that must end is gone, also on a busy machine. Without a reason to
/// end, the processes of these tests run longer than this.
const SOON: Duration = Duration::from_secs(20);
/// Time that nodes have to end before their launcher kills them.
const GRACE: Duration = Duration::from_secs(5);
/// A program that never joins and ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 0.05; done";

fn assert_gone_soon(pids: &[u32]) {
    let begin = Instant::now();
    until(|| (!pids.iter().any(|&pid| is_alive(pid))).then_some(()));
    assert!(begin.elapsed() < SOON, "it took {:?}", begin.elapsed());
}

#[test]
fn nodes_end_when_their_launcher_is_killed() {
    let mut running = Running::start(&["run", "-n", "3", "drill", "--wait", "600"]);
    let nodes = running.nodes(3);
    running.await_line("3 lines from 3 nodes");

    running.signal(Signal::KILL);

    assert!(running.wait(SOON).is_some());
    assert_gone_soon(&nodes);
}

#[test]
fn nodes_end_when_their_launcher_is_killed_before_they_have_met() {
    let mut running = Running::start(&["run", "-n", "3", "drill", "--wait", "600"]);
    let nodes = running.nodes(3);

    running.signal(Signal::KILL);

    assert!(running.wait(SOON).is_some());
    assert_gone_soon(&nodes);
}

#[test]
fn a_node_killed_during_broadcasts_ends_the_job_with_an_error_that_names_it() {
    // Node 2 forwards to node 3.
    let job = ["run", "-n", "4", "bcast", "--bytes", "4MB", "--rounds", "1000"];
    let mut running = Running::start(&job);
    let nodes = running.nodes(4);
    thread::sleep(Duration::from_millis(1500));
    let victim = rustix::process::Pid::from_raw(nodes[2] as i32).unwrap();

    rustix::process::kill_process(victim, Signal::KILL).unwrap();

    running.await_line("local/2 was killed by SIGKILL (9)");
    let status = running.wait(LIMIT).expect("the job ends");
    assert_eq!(status.code(), Some(1));
    assert_gone_soon(&nodes);
}

#[test]
fn a_silent_node_is_reported_lost_while_all_handlers_are_busy() {
    let mut running = Running::start(&["run", "-n", "4", "drill", "--busy", "50"]);
    let nodes = running.nodes(4);
    running.await_line("4 lines from 4 nodes");
    let victim = rustix::process::Pid::from_raw(nodes[2] as i32).unwrap();

    rustix::process::kill_process(victim, Signal::STOP).unwrap();
    let begin = Instant::now();
    running.await_line("lost node2 at site local: it was silent for 3");

    // The report takes 3 s if a processor is free; handlers take 50 s.
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    running.await_line("error: lost node2");
    let status = running.wait(SOON).expect("the launcher does not wait for a stopped node");
    assert_eq!(status.code(), Some(1));
    assert_gone_soon(&nodes);
}

#[test]
fn a_job_waits_for_a_silent_node_as_long_as_it_is_told_to() {
    let job = ["run", "-n", "3", "--lost-after", "60s", "drill", "--wait", "8"];
    let mut running = Running::start(&job);
    let nodes = running.nodes(3);
    running.await_line("3 lines from 3 nodes");
    let victim = rustix::process::Pid::from_raw(nodes[2] as i32).unwrap();

    rustix::process::kill_process(victim, Signal::STOP).unwrap();
    thread::sleep(Duration::from_secs(5));
    rustix::process::kill_process(victim, Signal::CONT).unwrap();

    let status = running.wait(LIMIT).expect("the job ends");
    assert_eq!(status.code(), Some(0));
    assert_gone_soon(&nodes);
}

#[test]
fn an_accepted_silence_below_a_second_is_refused() {
    let output = common::run(&["run", "-n", "2", "--lost-after", "500ms", "drill"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("write a time from 1s to a day"), "{}", output.stderr);
}

#[test]
fn a_job_that_ends_while_handlers_are_busy_has_not_failed() {
    let output = common::run(&["run", "-n", "3", "drill", "--busy", "1", "--busy-from", "1"]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn a_node_ends_when_its_standard_input_ends() {
    let spec = GridSpec::from_emulate("1x2").unwrap();
    let bundle = issue(&Authority::new("test").unwrap(), &spec).unwrap().remove(0);
    let mut command = gridctl(&["__job", "drill", "--wait", "600"]);
    command.env("GRIDSPAN_DRIVER", "node").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = command.spawn().unwrap();
    let mut stdin = node.stdin.take().unwrap();
    stdin.write_all(bundle.to_line().unwrap().as_bytes()).unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(node.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let address = listening_address(&line).unwrap();
    let addresses = Addresses(vec![address, ([127, 0, 0, 1], 9).into()]);
    stdin.write_all(addresses.to_line().unwrap().as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(200));
    assert!(is_alive(node.id()));

    drop(stdin);

    let status = wait(&mut node, SOON).expect("it should have ended");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_node_without_a_launcher_gives_a_hint() {
    let mut command = gridctl(&["__job", "ring"]);
    command.env("GRIDSPAN_DRIVER", "node");
    let output = common::finish(command);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("hint: `gridctl run` starts nodes"), "{output:?}");
}

#[test]
fn an_interrupt_ends_the_job_with_130() {
    let mut running = Running::start(&["run", "-n", "2", "drill", "--wait", "600"]);
    let nodes = running.nodes(2);
    running.await_line("2 lines from 2 nodes");

    running.signal(Signal::INT);

    running.await_line("stopping");
    assert_eq!(running.wait(GRACE).unwrap().code(), Some(130), "they need not be killed");
    assert_gone_soon(&nodes);
}

#[test]
fn a_second_interrupt_kills_nodes_that_ignore_the_first() {
    let mut running = Running::start(&["run", "-n", "2", "/bin/sh", "-c", STUBBORN]);
    let nodes = running.nodes(2);
    for _ in &nodes {
        running.await_line("ready");
    }

    let begin = Instant::now();
    running.signal(Signal::INT);
    running.await_line("stopping");
    thread::sleep(Duration::from_millis(300));
    assert!(nodes.iter().all(|&pid| is_alive(pid)));
    running.signal(Signal::INT);

    assert_eq!(running.wait(LIMIT).unwrap().code(), Some(130));
    let took = begin.elapsed();
    assert!(took < GRACE, "they are killed at once, and not after {took:?}");
    assert_gone_soon(&nodes);
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_later() {
    let mut running = Running::start(&["run", "-n", "1", "/bin/sh", "-c", STUBBORN]);
    running.await_line("ready");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(LIMIT).unwrap().code(), Some(143));
}

#[test]
fn unread_output_stalls_the_program_and_not_the_launcher() {
    let mut command = gridctl(&["run", "-n", "1", "/bin/sh", "-c", "yes | tr -d '\\n'"]);
    let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    let status = fs::read_to_string(format!("/proc/{}/status", launcher.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 100_000, "{kilobytes} kB");

    let pid = rustix::process::Pid::from_raw(launcher.id() as i32).unwrap();
    for _ in 0..3 {
        // The launcher may end at the second signal.
        let _ = rustix::process::kill_process(pid, Signal::INT);
        thread::sleep(Duration::from_millis(300));
    }

    assert_eq!(wait(&mut launcher, SOON).unwrap().code(), Some(130));
}

#[test]
fn a_job_ends_when_the_reader_closes_its_output() {
    let mut command = gridctl(&["run", "-n", "1", "/bin/sh", "-c", "yes"]);
    let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(launcher.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();

    drop(stdout);

    assert_eq!(wait(&mut launcher, LIMIT).unwrap().code(), Some(141));
}

#[test]
fn arguments_and_environment_of_nodes_contain_no_secret() {
    let running = Running::start(&["run", "-n", "2", "drill", "--wait", "600"]);
    let nodes = running.nodes(2);
    running.await_line("2 lines from 2 nodes");
    for node in nodes {
        let words = proc_words(node, "cmdline");
        assert_eq!(words[1..], ["__job", "drill", "--wait", "600"]);
        let environment = proc_words(node, "environ");
        let (names, values): (Vec<&str>, Vec<&str>) = environment
            .iter()
            .filter_map(|it| it.strip_prefix("GRIDSPAN_")?.split_once('='))
            .unzip();
        let expected = [
            "DRIVER",
            "JOB",
            "LAUNCHER",
            "LOCAL_NODE",
            "LOCAL_NODES",
            "NODE",
            "NODES",
            "RUN",
            "SITE",
            "SITES",
            "SITE_INDEX",
        ];
        assert_eq!((names, environment.len()), (expected.to_vec(), 11), "{environment:?}");
        assert_eq!(values[0], "node");
        assert_eq!(values[1], format!("drill-{}", running.child.id()));
        assert!(values[2].parse::<u16>().is_ok_and(|number| number > 2), "{}", values[2]);
        assert_eq!(values[3], values[5]);
        assert_eq!(values[6..], ["2", "0", "local", "1", "0"]);
    }
    let launcher = running.child.id();
    assert_eq!(proc_words(launcher, "environ"), Vec::<String>::new());
}

#[test]
fn a_launcher_started_to_ignore_sighup_continues() {
    let own = env!("CARGO_BIN_EXE_gridctl");
    // A shell's `trap ''` has the effect of `nohup`.
    let script = format!("trap '' HUP; exec {own} run -n 2 drill --wait 600");
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut launcher = command.spawn().unwrap();
    let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("2 lines from 2 nodes")));
    let pid = rustix::process::Pid::from_raw(launcher.id() as i32).unwrap();
    let nodes = common::children_of(launcher.id());

    rustix::process::kill_process(pid, Signal::HUP).unwrap();

    thread::sleep(Duration::from_millis(300));
    assert!(nodes.len() == 2 && nodes.iter().all(|&node| is_alive(node)));
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(wait(&mut launcher, LIMIT).unwrap().code(), Some(143));
}

#[test]
fn ctrl_z_stops_launcher_and_nodes_until_they_are_continued() {
    let mut running = Running::start(&["run", "-n", "2", "drill", "--wait", "600"]);
    let nodes = running.nodes(2);
    running.await_line("2 lines from 2 nodes");
    let all = [nodes, vec![running.child.id()]].concat();

    running.signal(Signal::TSTP);
    common::until(|| all.iter().all(|&pid| state(pid) == "T").then_some(()));
    // Longer than the timeout of a silent node.
    thread::sleep(Duration::from_secs(5));
    running.signal(Signal::CONT);

    common::until(|| all.iter().all(|&pid| state(pid) != "T").then_some(()));
    thread::sleep(Duration::from_millis(500));
    assert!(all.iter().all(|&pid| is_alive(pid)), "no node considers another lost");
    running.signal(Signal::INT);
    assert_eq!(running.wait(LIMIT).unwrap().code(), Some(130));
}

#[test]
fn ctrl_z_stops_a_launcher_that_waits_for_the_reader_of_its_output() {
    // More than a pipe takes.
    let program = "sleep 2; yes line | head -c 200000";
    let mut command = gridctl(&["run", "-n", "1", "/bin/sh", "-c", program]);
    let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let pid = rustix::process::Pid::from_raw(launcher.id() as i32).unwrap();
    until(|| (!common::children_of(launcher.id()).is_empty()).then_some(()));
    until(|| common::children_of(launcher.id()).is_empty().then_some(()));

    rustix::process::kill_process(pid, Signal::TSTP).unwrap();
    until(|| (state(launcher.id()) == "T").then_some(()));
    rustix::process::kill_process(pid, Signal::CONT).unwrap();
    until(|| (state(launcher.id()) != "T").then_some(()));

    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert!(wait(&mut launcher, SOON).is_some());
}

#[test]
fn output_to_a_full_device_is_an_error() {
    let own = env!("CARGO_BIN_EXE_gridctl");
    for job in ["run -n 2 drill --lines 5", "run ring"] {
        let script = format!("{own} {job} > /dev/full");
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", &script]);
        let output = common::finish(command);
        assert_eq!(output.code, Some(1), "{output:?}");
        let error = "error: cannot write the output: No space left";
        assert!(output.stderr.contains(error) && !output.stderr.contains("panicked"), "{output:?}");
    }
}

#[test]
fn gridctl_ends_silently_when_the_reader_has_closed_its_output() {
    let own = env!("CARGO_BIN_EXE_gridctl");
    let folder = tempfile::tempdir().unwrap();
    let matrix = folder.path().join("rtt.txt");
    std::fs::write(&matrix, "0 1\n1 0\n").unwrap();
    let topo = format!("topo {}", matrix.display());
    let verbs = [
        "programs",
        "run --help",
        "run --dry-run -n 1 ring",
        &topo,
        "bcast -e 2x2",
        "run ring",
        "sim ring",
    ];
    for verb in verbs {
        // The reader is gone before anything is written.
        let script = format!("(sleep 0.2; {own} {verb}) | :");
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", &script]);
        let output = common::finish(command);
        assert_eq!(output.stderr, "", "{verb}");
    }
}
