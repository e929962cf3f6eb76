//! `gridctl doctor`: the cause of a planted stall is in its first line, while the job goes on.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

use common::{Output, Running, finish, gridctl, run, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The actors of the job `drill`.
const ACTOR: &str = "gridspan_jobs::fault_drill::FaultInjector";

/// A job, with its status in a separate folder.
struct Patient {
    job: Running,
    folder: tempfile::TempDir,
}

impl Patient {
    /// Starts the job `drill` with these flags of `gridctl run` and of the job, and waits until its
    /// nodes work.
    fn start(flags: &[&str], of_job: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = [&["run"], flags, &["drill"], of_job].concat();
        let variables = [("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())];
        let job = Running::start_with(&arguments, &variables);
        job.await_line(" lines from ");
        Self { job, folder }
    }

    fn doctor(&self, flags: &[&str]) -> Output {
        let mut command = gridctl(&[&["doctor"], flags].concat());
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        finish(command)
    }

    /// Asks until the first line contains a text, and returns all lines.
    fn lines_once(&self, text: &str) -> Vec<String> {
        let mut last = None;
        let begin = Instant::now();
        while begin.elapsed() < common::LIMIT {
            let output = self.doctor(&[]);
            assert_eq!(output.code, Some(0), "{output:?}");
            let lines: Vec<String> = output.stdout.lines().map(str::to_owned).collect();
            if lines[0].contains(text) {
                return lines;
            }
            last = Some(lines);
        }
        panic!("the first line should contain `{text}`: {last:#?}");
    }

    fn stop_process(&self, node: usize) {
        let pid = Pid::from_raw(self.job.nodes(2)[node] as i32).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
    }
}

#[test]
fn a_member_that_does_not_contribute_is_named() {
    let patient = Patient::start(&["-n", "2"], &["--stall", "reduction"]);
    let text = format!(
        "reduction 1 over collection 0, to which 1 of 2 has contributed, waits for {ACTOR} 0x0"
    );
    let lines = patient.lines_once(&text);
    assert!(lines[1..].iter().any(|line| line.starts_with("- main waits for reduction 1 over")));

    let output = patient.doctor(&["--json"]);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(document["kind"], "reduction");
    assert_eq!(document["cause"], lines[0].as_str());
    assert_eq!(document["pes"], 2);
    let waits = document["waits"].as_array().unwrap();
    let found = waits.iter().find(|wait| wait["kind"] == "reduction").unwrap();
    assert_eq!(found["count"], 1);
    assert_eq!(found["of"], 2);
    assert_eq!(found["examples"][0], format!("{ACTOR} 0x0 of collection 0"));
}

#[test]
fn a_member_that_does_not_reach_a_sync_point_is_named() {
    let patient = Patient::start(&["-n", "2", "--balance", "refine"], &["--stall", "sync"]);
    patient.lines_once(&format!(
        "sync point 0 of collection 0, which 1 of 2 has reached, waits for {ACTOR} 0x0"
    ));
}

#[test]
fn a_message_to_a_member_that_does_not_exist_is_named() {
    let patient = Patient::start(&["-n", "2"], &["--stall", "member"]);
    let text = "1 message is for a member that does not exist, such as";
    patient.lines_once(&format!("{text} {ACTOR} 0x2 of collection 0"));
}

#[test]
fn a_question_without_an_answer_is_named() {
    let patient = Patient::start(&["-n", "2"], &["--stall", "question"]);
    patient
        .lines_once(&format!("1 question has no answer: main asked {ACTOR} 0x1 of collection 0"));
}

#[test]
fn an_endless_handler_of_any_node_is_named_while_it_runs() {
    for (node, place) in [("1", "pe1 (node1 at site local)"), ("0", "pe0 (node0 at site local)")] {
        let patient = Patient::start(&["-n", "2"], &["--endless", node]);
        let handler = format!("inside a handler of {ACTOR} 0x{node} of collection 0 for ");
        let lines = patient.lines_once(&format!("{place} has been {handler}"));
        assert!(lines[0].ends_with("; 1 PE has nothing to do, of 2"), "{lines:?}");
    }
}

#[test]
fn a_task_that_does_not_end_is_named() {
    let patient = Patient::start(&["-n", "2"], &["--stall", "task"]);
    let task = "a task of type gridspan_jobs::fault_drill::EndlessTask";
    let place = "pe1 (node1 at site local)";
    let lines = patient.lines_once(&format!("{place} has been inside {task} for "));
    let wanted = format!("- tasks are not done: main waits for {task} on pe1");
    assert!(lines.contains(&wanted), "{lines:?}");
}

#[test]
fn quiescence_that_a_timer_delays_is_named() {
    let patient = Patient::start(&["-n", "2"], &["--stall", "timer"]);
    let lines = patient.lines_once("main waits for quiescence, but 1 message or operation is not");
    assert!(lines[0].contains("1 message is to be sent later, in 3"), "{lines:?}");
    assert!(lines[0].ends_with(&format!("to {ACTOR} 0x1 of collection 0")), "{lines:?}");
}

#[test]
fn a_stopped_process_is_named_also_if_the_coordinator_is_there() {
    for node in [1, 0] {
        let patient = Patient::start(&["-n", "2", "--lost-after", "120s"], &["--wait", "600"]);
        patient.stop_process(node);
        let begin = Instant::now();
        let lines = patient.lines_once(&format!("local/{node} has been silent for "));
        assert!(begin.elapsed() < Duration::from_secs(30), "an answer takes a few seconds");
        let is_unanswered = |line: &String| {
            line.contains("pe1 (node1 at site local) has not answered")
                || line.contains("the coordinator of the job has not answered")
        };
        assert!(lines.iter().any(is_unanswered), "{lines:?}");
    }
}

#[test]
fn a_job_that_computes_waits_for_nothing_for_long() {
    let patient = Patient::start(&["-n", "2"], &["--busy", "25", "--wait", "60"]);
    patient.lines_once("nothing waits for long: 2 of 2 PEs are inside handlers");
}

#[test]
fn the_answer_leaves_the_job_alone() {
    let mut patient = Patient::start(&["-n", "2"], &["--wait", "6"]);
    patient.lines_once("main sleeps for another ");
    assert_eq!(patient.job.wait(common::LIMIT).and_then(|status| status.code()), Some(0));

    let output = patient.doctor(&[]);
    assert_eq!(output.code, Some(2), "no job runs: {output:?}");
}

#[test]
fn a_job_of_threads_cannot_be_asked() {
    let patient = Patient::start(&["--emulate", "2x1"], &["--wait", "60"]);
    let output = until(|| Some(patient.doctor(&[])).filter(|output| output.code != Some(2)));
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("only jobs whose nodes are processes take requests"));
}

#[test]
fn the_report_at_the_time_limit_has_the_same_content() {
    let how = ["run", "-n", "2", "--time-limit", "2s", "drill", "--stall"];
    for (stall, text) in [
        ("question", format!("1 question has no answer: main asked {ACTOR} 0x1 of collection 0")),
        ("reduction", format!("1 of 2 has contributed, waits for {ACTOR} 0x0 of collection 0")),
    ] {
        let output = run(&[&how[..], &[stall]].concat());
        assert_eq!(output.code, Some(1), "{output:?}");
        let error = output.stderr.lines().find(|line| line.starts_with("error: "));
        let error = error.unwrap_or_default();
        assert!(error.contains("time limit of 2s") && error.contains(&text), "{output:?}");
    }
}
