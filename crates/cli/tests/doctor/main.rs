//! `gridctl doctor`: the cause of a planted stall is in its first line, while the job goes on.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

use common::{Output, Running, finish, gridctl, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::Instant;

/// The actors of the job `drill`.
const ACTOR: &str = "gridspan_jobs::fault_drill::FaultInjector";

/// A job, with its status in a separate folder.
struct DiagnosedJob {
    job: Running,
    folder: tempfile::TempDir,
}

impl DiagnosedJob {
    /// Starts the job `drill` with these flags of `gridctl run` and of the job, and waits until its
    /// nodes work.
    fn start(flags: &[&str], of_job: &[&str]) -> Self {
        let arguments = [&["run"], flags, &["drill"], of_job].concat();
        Self::start_job(&arguments, " lines from ")
    }

    /// Starts a job, and waits for a line.
    fn start_job(arguments: &[&str], line: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let variables = [("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())];
        let job = Running::start_with(arguments, &variables);
        job.await_line(line);
        Self { job, folder }
    }

    fn doctor(&self, flags: &[&str]) -> Output {
        let mut command = gridctl(&[&["doctor"], flags].concat());
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        finish(command)
    }

    /// Asks until the answer is as wanted, and returns it. On a busy machine, a PE or a process may
    /// answer too late for one diagnosis.
    fn answer_once(
        &self,
        flags: &[&str],
        wanted: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> String {
        let mut last = None;
        let begin = Instant::now();
        while begin.elapsed() < common::LIMIT {
            let output = self.doctor(flags);
            assert_eq!(output.code, Some(0), "{output:?}");
            if is_wanted(&output.stdout) {
                return output.stdout;
            }
            last = Some(output.stdout);
        }
        panic!("the answer should be {wanted}: {last:#?}");
    }

    /// Asks until the first line contains these texts, and returns all lines.
    fn lines_once(&self, texts: &[&str]) -> Vec<String> {
        self.lines_once_with(texts, "")
    }

    /// As [`lines_once`](Self::lines_once), and until a line begins with `begin`.
    fn lines_once_with(&self, texts: &[&str], begin: &str) -> Vec<String> {
        let is_wanted = |answer: &str| {
            let first = answer.lines().next().unwrap_or_default();
            texts.iter().all(|text| first.contains(text))
                && answer.lines().any(|line| line.starts_with(begin))
        };
        let wanted = format!("{texts:?} in its first line, and `{begin}`");
        self.answer_once(&[], &wanted, is_wanted).lines().map(str::to_owned).collect()
    }

    fn stop_process(&self, node: usize) {
        let pid = Pid::from_raw(self.job.nodes(2)[node] as i32).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
    }
}

#[test]
fn a_member_that_does_not_contribute_is_named() {
    let diagnosed = DiagnosedJob::start(&["-n", "2"], &["--stall", "reduction"]);
    let text = format!(
        "reduction 1 over collection 0, to which 1 of 2 has contributed, waits for {ACTOR} 0x0"
    );
    let lines = diagnosed.lines_once_with(&[&text], "- main waits for reduction 1 over");

    let is_reduction =
        |answer: &str| serde_json::from_str::<Value>(answer).unwrap()["kind"] == "reduction";
    let answer = diagnosed.answer_once(&["--json"], "a reduction", is_reduction);
    let document: Value = serde_json::from_str(&answer).unwrap();
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
    let diagnosed = DiagnosedJob::start(&["-n", "2", "--balance", "refine"], &["--stall", "sync"]);
    diagnosed.lines_once(&[&format!(
        "sync point 0 of collection 0, which 1 of 2 has reached, waits for {ACTOR} 0x0"
    )]);
}

#[test]
fn a_message_to_a_member_that_does_not_exist_is_named() {
    let diagnosed = DiagnosedJob::start(&["-n", "2"], &["--stall", "member"]);
    let text = "1 message is for a member that does not exist, such as";
    diagnosed.lines_once(&[&format!("{text} {ACTOR} 0x2 of collection 0")]);
}

#[test]
fn the_number_of_a_lost_message_is_named_with_its_receiver_and_its_sender() {
    let diagnosed = DiagnosedJob::start(&["-n", "2"], &["--stall", "message"]);
    let text = "1 message waits for an earlier one to the same member: ";
    let waits = format!("{ACTOR} 0x1 of collection 0 waits for message 1 from {ACTOR} 0x0 of ");
    let main = "- main waits for reduction 1 over collection 0";
    diagnosed.lines_once_with(&[&format!("{text}{waits}")], main);
}

#[test]
fn a_question_without_an_answer_is_named() {
    let diagnosed = DiagnosedJob::start(&["-n", "2"], &["--stall", "question"]);
    let text = format!("1 question has no answer: main asked {ACTOR} 0x1 of collection 0");
    diagnosed.lines_once(&[&text]);
}

#[test]
fn an_endless_handler_of_any_node_is_named_while_it_runs() {
    for (node, place) in [("1", "pe1 (node1 at site local)"), ("0", "pe0 (node0 at site local)")] {
        let diagnosed = DiagnosedJob::start(&["-n", "2"], &["--endless", node]);
        let handler = format!("inside a handler of {ACTOR} 0x{node} of collection 0 for ");
        let text = format!("{place} has been {handler}");
        diagnosed.lines_once(&[&text, "; 1 PE has nothing to do, of 2"]);
    }
}

#[test]
fn a_task_that_does_not_end_is_named() {
    let diagnosed = DiagnosedJob::start(&["-n", "2"], &["--stall", "task"]);
    let task = "a task of type gridspan_jobs::fault_drill::EndlessTask";
    let place = "pe1 (node1 at site local)";
    let text = format!("{place} has been inside {task} for ");
    let waits = format!("- tasks are not done: main waits for {task} on pe1");
    diagnosed.lines_once_with(&[&text], &waits);
}

#[test]
fn quiescence_that_a_timer_delays_is_named() {
    let diagnosed = DiagnosedJob::start(&["-n", "2"], &["--stall", "timer"]);
    let text = "main waits for quiescence, but 1 message or operation is not";
    let lines = diagnosed.lines_once(&[text, "1 message is to be sent later, in 3"]);
    assert!(lines[0].ends_with(&format!("to {ACTOR} 0x1 of collection 0")), "{lines:?}");
}

#[test]
fn a_stopped_process_is_named_also_if_the_coordinator_is_there() {
    for node in [1, 0] {
        let diagnosed =
            DiagnosedJob::start(&["-n", "2", "--lost-after", "120s"], &["--wait", "600"]);
        diagnosed.stop_process(node);
        let lines = diagnosed.lines_once(&[&format!("local/{node} has been silent for ")]);
        let is_unanswered = |line: &String| {
            line.contains("pe1 (node1 at site local) has not answered")
                || line.contains("the coordinator of the job has not answered")
        };
        assert!(lines.iter().any(is_unanswered), "{lines:?}");
    }
}

#[test]
fn a_job_that_computes_waits_for_nothing_for_long() {
    let job = ["run", "-n", "2", "leanmd", "--atoms", "8000", "--steps", "100000"];
    let diagnosed = DiagnosedJob::start_job(&job, "      10 ");
    diagnosed.lines_once(&["nothing waits for long: ", "created or handled between two looks"]);
}

#[test]
fn the_answer_leaves_the_job_alone() {
    let mut diagnosed = DiagnosedJob::start(&["-n", "2"], &["--wait", "15"]);
    diagnosed.lines_once(&["main sleeps for another "]);
    assert_eq!(diagnosed.job.wait(common::LIMIT).and_then(|status| status.code()), Some(0));

    let output = diagnosed.doctor(&[]);
    assert_eq!(output.code, Some(2), "no job runs: {output:?}");
}

#[test]
fn the_nodes_of_one_process_name_the_handlers_of_all_their_pes() {
    let place = ["--emulate", "2x1", "--lost-after", "120s"];
    let diagnosed = DiagnosedJob::start(&place, &["--endless", "1"]);
    let handler = format!("inside a handler of {ACTOR} 0x1 of collection 0 for ");
    let text = format!("pe1 (node1 at site b) has been {handler}");
    diagnosed.lines_once(&[&text, "; 1 PE has nothing to do, of 2"]);
}

#[test]
fn the_report_at_the_time_limit_has_the_same_content() {
    let how = ["run", "-n", "2", "--time-limit", "6s", "drill", "--stall"];
    for (stall, text) in [
        ("question", format!("1 question has no answer: main asked {ACTOR} 0x1 of collection 0")),
        ("reduction", format!("1 of 2 has contributed, waits for {ACTOR} 0x0 of collection 0")),
    ] {
        let output = run(&[&how[..], &[stall]].concat());
        assert_eq!(output.code, Some(1), "{output:?}");
        let error = output.stderr.lines().find(|line| line.starts_with("error: "));
        let error = error.unwrap_or_default();
        assert!(error.contains("time limit of 6s") && error.contains(&text), "{output:?}");
    }
}
