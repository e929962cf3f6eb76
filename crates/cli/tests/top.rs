//! `gridctl top`: samples of the counters of running jobs.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::terminal::{ALTERNATE, Started, TERMINAL_LIMIT, Terminal};
use common::{LIMIT, Output, Running, finish, gridctl, until, wait};
use rustix::process::Signal;
use rustix::termios::LocalModes;
use serde_json::Value;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Arguments for a job of four processes at two sites.
const PLACE: [&str; 5] = ["run", "--driver", "cluster", "--emulate", "2x2,wan=2ms"];

/// The links between its sites.
const WAYS: [(&str, &str); 2] = [("a", "b"), ("b", "a")];

/// Starts a job with its status in `folder`.
fn start(folder: &Path, job: &[&str]) -> Running {
    let variables = [("XDG_RUNTIME_DIR", folder.to_str().unwrap())];
    Running::start_with(&[&PLACE[..], job].concat(), &variables)
}

/// Runs `gridctl top` to its end.
fn top(folder: &Path, flags: &[&str]) -> Output {
    let mut command = gridctl(&[&["top"], flags].concat());
    command.env("XDG_RUNTIME_DIR", folder);
    finish(command)
}

/// Waits until there is a job to watch.
fn await_job(folder: &Path, id: &str) {
    let socket = folder.join("gridspan").join(format!("{id}.sock"));
    until(|| socket.exists().then_some(()));
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Whether a number grows from one object to the next.
fn grows(before: &Value, after: &Value) -> bool {
    number(before) < number(after)
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

/// The link between two sites.
fn link<'a>(object: &'a Value, from: &str, to: &str) -> &'a Value {
    let mut links = object["links"].as_array().unwrap().iter();
    links.find(|link| link["from"] == from && link["to"] == to).unwrap()
}

#[test]
fn objects_show_all_nodes_of_a_running_job_and_their_counters_grow() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let md = ["leanmd", "--atoms", "2000", "--steps", "100000000", "--quiet"];
    let mut job = start(folder, &md);
    let id = format!("leanmd-{}", job.child.id());
    await_job(folder, &id);

    let variables = [("XDG_RUNTIME_DIR", folder.to_str().unwrap())];
    let mut watching = Running::start_with(&["top", &id, "--json", "--every", "500ms"], &variables);
    let next = || serde_json::from_str::<Value>(&watching.await_line("\"tick\"")).unwrap();
    // The counts of a job that has just begun may still be zero, and the counters of a node may
    // come too late for one sample.
    let is_complete = |object: &Value| {
        let nodes = object["nodes"].as_array().unwrap();
        let is_known = |node: &Value| number(&node["messages"]) > 0.0 && !node["busy"].is_null();
        let has_heard = number(&object["telemetry"]["received"]) >= 1.0;
        let is_whole = nodes.len() == 4 && nodes.iter().all(is_known);
        is_whole && has_heard && !object["steps_per_s"].is_null()
    };
    let before = until(|| Some(next()).filter(is_complete));
    let has_grown = |after: &Value| {
        let messages = |node: usize| [&before, after].map(|it| &it["nodes"][node]["messages"]);
        let sent = |(from, to)| [&before, after].map(|it| &link(it, from, to)["messages"]);
        let mut counts = (0..4).map(messages).chain(WAYS.map(sent));
        let mut rates = WAYS.iter().map(|(from, to)| link(after, from, to)["bytes_per_s"].as_f64());
        counts.all(|[before, after]| grows(before, after))
            && rates.all(|rate| rate.is_some_and(|rate| rate > 0.0))
    };
    let after = until(|| Some(next()).filter(is_complete).filter(has_grown));

    for object in [&before, &after] {
        assert_eq!(names(&object["sites"]), ["a", "b"]);
        assert_eq!(names(&object["nodes"]), ["a/0", "a/1", "b/2", "b/3"]);
        assert_eq!(names(&object["pes"]), ["pe0", "pe1", "pe2", "pe3"]);
        for place in ["sites", "nodes", "pes"].iter().flat_map(|it| object[*it].as_array().unwrap())
        {
            let [busy, network, idle] = ["busy", "network", "idle"].map(|it| number(&place[it]));
            assert!([busy, network, idle].iter().all(|it| (0.0..=1.0).contains(it)), "{place}");
            assert!((busy + network + idle - 1.0).abs() < 1e-6, "{place}");
        }
        let cells = object["types"].as_array().unwrap().iter();
        let actors: f64 = cells.map(|it| number(&it["actors"])).sum();
        assert!(actors > 10.0 && actors == number(&object["total"]["actors"]), "{object}");
        let cost = &object["telemetry"];
        assert!(number(&cost["telemetry_micros"]) > 0.0, "{cost}");
        assert!(number(&cost["processor_micros"]) > 0.0, "{cost}");
        assert_eq!(cost["depth"], 3, "{cost}");
        assert!(number(&cost["received_bytes"]) <= 65_536.0, "{cost}");
    }
    assert!(grows(&before["tick"], &after["tick"]));
    assert!(number(&after["step"]) >= number(&before["step"]));
    for node in 0..4 {
        assert!(number(&after["nodes"][node]["memory_bytes"]) > 1e6);
    }

    let text = top(folder, &["--every", "200ms"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    let first = format!("{id}  2 sites, 4 nodes, 4 PEs, up ");
    assert!(text.stdout.starts_with(&first), "{text:?}");
    assert!(text.stdout.lines().any(|line| line.starts_with("a > b ")), "{text:?}");

    job.signal(Signal::TERM);
    let last: Value = serde_json::from_str(&watching.await_line("\"ended\"")).unwrap();
    assert_eq!((&last["ended"], &last["exit_code"]), (&true.into(), &143.into()));
    assert_eq!(watching.wait(LIMIT).unwrap().code(), Some(0));
    assert!(job.wait(LIMIT).is_some());
}

#[test]
fn a_pe_inside_an_endless_handler_counts_as_busy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut job = start(folder, &["drill", "--endless", "1"]);
    job.await_line("4 lines from 4 nodes");

    let late = until(|| {
        let output = top(folder, &["--once", "--json", "--every", "300ms"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(output.stdout.lines().count(), 1);
        let object: Value = serde_json::from_str(&output.stdout).unwrap();
        // A share is not known while the counters of its node are late.
        let is_above = |node: usize, share: &str, least: f64| {
            object["nodes"][node][share].as_f64().is_some_and(|share| share > least)
        };
        let are_idle = [0, 2, 3].iter().all(|&node| is_above(node, "idle", 0.3));
        (object["nodes_heard"] == 4 && is_above(1, "busy", 0.9) && are_idle).then_some(object)
    });

    assert_eq!(late["nodes"][1]["late_pes"], 1);
    assert!(names(&late["types"]).contains(&"FaultInjector"), "{late}");
    job.signal(Signal::TERM);
    assert!(job.wait(LIMIT).is_some());
}

#[test]
fn the_nodes_of_one_process_are_watched_and_listed_and_share_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = top(folder, &["--once"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output:?}");

    let variables = [("XDG_RUNTIME_DIR", folder.to_str().unwrap())];
    let threads = ["run", "--emulate", "2x1,wan=2ms", "drill", "--wait", "60"];
    let job = Running::start_with(&threads, &variables);
    job.await_line("2 lines from 2 nodes");
    // On a busy machine, the counters of a node may come too late for one sample.
    let sample = until(|| {
        let output = top(folder, &["--once", "--json", "--every", "300ms"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let object: Value = serde_json::from_str(&output.stdout).unwrap();
        (object["nodes_heard"] == 2).then_some(object)
    });
    assert_eq!(names(&sample["nodes"]), ["a/0", "b/1"]);
    let memory = |object: &Value| number(&object["memory_bytes"]);
    let [first, second] = [0, 1].map(|node| memory(&sample["nodes"][node]));
    assert!(first > 0.0 && second > 0.0, "{sample}");
    // The memory of the process counts once, not for each node. Nodes read it at different times.
    let resident = resident_bytes(&job);
    assert!(memory(&sample) < 1.5 * resident, "{} of {resident}: {sample}", memory(&sample));

    let mut command = gridctl(&["nodes", "--json"]);
    command.env("XDG_RUNTIME_DIR", folder);
    let listed = finish(command);
    let nodes: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(names(&nodes), ["a/0", "b/1"]);
    assert!(nodes.as_array().unwrap().iter().all(|node| node["state"] == "member"), "{nodes}");
}

/// Starts a job of two nodes on threads, and `gridctl top` of it in a terminal. Waits until the
/// screen shows both sites.
fn watch(terminal: &mut Terminal, folder: &Path) -> (Running, Started) {
    let variables = [("XDG_RUNTIME_DIR", folder.to_str().unwrap())];
    let threads = ["run", "--emulate", "2x1,wan=2ms", "drill", "--wait", "600"];
    let job = Running::start_with(&threads, &variables);
    job.await_line("2 lines from 2 nodes");
    let watching = terminal.start(&["top", "--every", "200ms"], &variables);
    terminal.await_text("[1 sites]");
    terminal.await_beginning("b  ");
    assert!(!terminal.modes().local.contains(LocalModes::ICANON), "keys come one by one");
    (job, watching)
}

/// Checks that the program shows the cursor and has left the alternate screen. Returns what it has
/// printed after that.
fn after_the_screen(terminal: &Terminal) -> String {
    let sent = terminal.sent();
    let [shown, left] = ALTERNATE;
    let (screen, after) = sent.rsplit_once(left).expect("the alternate screen was left");
    assert!(screen.contains(shown) && !after.contains(shown), "{sent:?}");
    assert!(sent.rfind("\u{1b}[?25h") > sent.rfind("\u{1b}[?25l"), "{sent:?}");
    after.to_owned()
}

#[test]
fn keys_change_the_screen_and_q_gives_the_terminal_back() {
    let Some(mut terminal) = Terminal::open() else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = terminal.modes();
    let (_job, mut watching) = watch(&mut terminal, folder.path());

    terminal.await_beginning("sitev");
    // The column between them is for wider screens.
    terminal.press(">>");
    terminal.await_text(" PEsv");
    terminal.press("\r");
    terminal.await_text("5 events  > a");
    terminal.await_beginning("a/0");
    terminal.press("q");

    let status = terminal.await_end(&mut watching);
    assert_eq!((status.code(), terminal.modes()), (Some(0), before), "{:?}", terminal.sent());
    after_the_screen(&terminal);
}

#[test]
fn a_signal_ends_the_screen_and_gives_the_terminal_back() {
    // The terminal has sent all of a key, or only its first part, after which gridctl waits for
    // the rest.
    for keys in ["j", "\u{1b}["] {
        let Some(mut terminal) = Terminal::open() else { return };
        let folder = tempfile::tempdir().unwrap();
        let before = terminal.modes();
        let (_job, mut watching) = watch(&mut terminal, folder.path());
        terminal.press(keys);

        watching.signal(Signal::TERM);

        let status = terminal.await_end(&mut watching);
        assert_eq!((status.code(), terminal.modes()), (Some(143), before), "{:?}", terminal.sent());
        after_the_screen(&terminal);
    }
}

#[test]
fn a_signal_ends_the_screen_of_a_terminal_that_takes_no_output() {
    let Some(mut terminal) = Terminal::open() else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = terminal.modes();
    let (_job, mut watching) = watch(&mut terminal, folder.path());
    terminal.stop_output();
    // By then gridctl waits inside of a drawing, of which it makes ten a second.
    thread::sleep(Duration::from_secs(1));

    watching.signal(Signal::TERM);

    let status = terminal.await_end(&mut watching);
    assert_eq!((status.code(), terminal.modes()), (Some(143), before), "{:?}", terminal.sent());
}

#[test]
fn the_end_of_the_job_ends_the_screen_and_is_printed_below_it() {
    let Some(mut terminal) = Terminal::open() else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = terminal.modes();
    let (mut job, mut watching) = watch(&mut terminal, folder.path());

    job.signal(Signal::TERM);

    let status = terminal.await_end(&mut watching);
    assert_eq!((status.code(), terminal.modes()), (Some(0), before), "{:?}", terminal.sent());
    let end = format!("the job drill-{} has ended with exit code 143", job.child.id());
    let printed = after_the_screen(&terminal);
    assert!(printed.contains(&end), "{printed:?}");
    assert!(job.wait(LIMIT).is_some());
}

#[test]
fn the_end_of_the_terminal_ends_the_screen() {
    if ignores_hangups() {
        return println!("skipped: this process ignores SIGHUP, and so would gridctl");
    }
    let Some(mut terminal) = Terminal::open() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_job, mut watching) = watch(&mut terminal, folder.path());

    drop(terminal);

    let status = wait(&mut watching.0, TERMINAL_LIMIT).expect("it should have ended");
    assert!(!status.success(), "{status}");
}

/// Whether this process ignores SIGHUP, which `nohup` causes.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

/// Resident memory of the only process of a job, in bytes.
fn resident_bytes(job: &Running) -> f64 {
    let process = job.nodes(1)[0];
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<f64>().unwrap() * 1024.0
}
