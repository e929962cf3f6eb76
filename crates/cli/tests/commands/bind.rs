//! `gridctl run --bind`: on which processors the threads of PEs may run.
#![cfg(target_os = "linux")]

use crate::common::{LIMIT, Running, run};
use gridspan::binding::{Cpu, cpus};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;

/// Returns the processors on which the thread of this name may run in a process.
fn allowed(pid: u32, name: &str) -> BTreeSet<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let is_it = |path: &std::path::PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|found| found.trim() == name)
    };
    let task = tasks.into_iter().find(is_it).unwrap_or_else(|| panic!("no thread {name}"));
    let status = fs::read_to_string(task.join("status")).unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
    };
    list.trim().split(',').flat_map(range).collect()
}

/// The processors of each core that this process may use.
fn cores() -> Vec<BTreeSet<u32>> {
    let cpus: Vec<Cpu> = cpus().unwrap();
    let cores: BTreeSet<(u32, u32)> = cpus.iter().map(|cpu| (cpu.numa, cpu.core)).collect();
    let of_core = |core: &(u32, u32)| {
        let threads = cpus.iter().filter(|cpu| (cpu.numa, cpu.core) == *core);
        threads.map(|cpu| cpu.number).collect()
    };
    cores.iter().map(of_core).collect()
}

#[test]
fn each_pe_of_the_nodes_on_a_machine_has_its_core() {
    let cores = cores();
    if cores.len() < 2 {
        println!("skipped: two PEs need two cores");
        return;
    }
    let mut job = Running::start(&["run", "-n", "2", "--bind", "core", "drill", "--wait", "60"]);
    job.await_line("2 lines from 2 nodes");
    let nodes = job.nodes(2);

    let found = [allowed(nodes[0], "pe0"), allowed(nodes[1], "pe1")];

    assert_eq!(found, [cores[0].clone(), cores[1].clone()]);
    let all: BTreeSet<u32> = cores.into_iter().flatten().collect();
    assert_eq!(allowed(nodes[0], "watchdog"), all, "other threads are not bound");
    job.signal(Signal::TERM);
    assert!(job.wait(LIMIT).is_some());
}

#[test]
fn threads_of_one_process_are_bound_too() {
    let cores = cores();
    if cores.len() < 2 {
        println!("skipped: two PEs need two cores");
        return;
    }
    let arguments = ["run", "--emulate", "2x1", "--bind", "core", "drill", "--wait", "60"];
    let mut job = Running::start(&arguments);
    job.await_line("2 lines from 2 nodes");
    let process = job.nodes(1)[0];

    assert_eq!(
        [allowed(process, "pe0"), allowed(process, "pe1")],
        [&cores[0], &cores[1]].map(Clone::clone)
    );
    job.signal(Signal::TERM);
    assert!(job.wait(LIMIT).is_some());
}

#[test]
fn more_pes_than_cores_are_not_bound_and_a_warning_says_so() {
    let cores = cores().len();
    let pes = (cores + 1).to_string();
    let output = run(&["run", "-n", &pes, "--bind", "core", "ring", "--rounds", "2"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let warning = format!(
        "warning: no PE is bound: {pes} PEs on this host are more than the {cores} cores that \
         they may use"
    );
    let lines = output.stderr.lines().filter(|line| line.contains("no PE is bound"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{output:?}");
    assert!(lines[0].ends_with(&warning), "{output:?}");
}
