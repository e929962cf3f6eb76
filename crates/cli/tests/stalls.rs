//! Reports of gridctl about jobs that do not end.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

mod common;

use common::{LIMIT, Running, run};
use rustix::process::Signal;

#[test]
fn a_stalled_job_causes_a_warning_and_is_not_ended() {
    let mut running = Running::start(&["run", "-n", "3", "drill", "--stall", "reduction"]);

    let line = running.await_line("warning: the job has stalled");

    assert!(line.contains("reduction 1 over collection 0, to which 2 of 3"), "{line}");
    assert!(running.child.try_wait().unwrap().is_none(), "it is not ended");
    running.signal(Signal::INT);
    assert_eq!(running.wait(LIMIT).and_then(|status| status.code()), Some(130));
}

#[test]
fn a_stalled_job_fails_if_the_user_requests_that() {
    let how = ["run", "-n", "2", "--balance", "refine", "--on-stall", "fail"];
    let output = run(&[&how[..], &["drill", "--stall", "sync"]].concat());
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("error: the job has stalled"), "{output:?}");
    assert!(
        output.stderr.contains("1 member waits at a sync point that others have not reached"),
        "{output:?}"
    );
}

#[test]
fn endless_handlers_of_any_node_are_named_at_the_time_limit() {
    for (node, place) in [("1", "pe1 (node1 at site local)"), ("0", "pe0 (node0 at site local)")] {
        let output = run(&["run", "-n", "2", "--time-limit", "6s", "drill", "--endless", node]);
        assert_eq!(output.code, Some(1), "{output:?}");
        let error = output.stderr.lines().find(|line| line.starts_with("error: "));
        let error = error.unwrap_or_default();
        assert!(error.contains("time limit of 6s"), "{output:?}");
        let handler = format!(
            "{place} has been inside a handler of gridspan_jobs::fault_drill::FaultInjector"
        );
        assert!(error.contains(&handler), "{output:?}");
    }
}

#[test]
fn a_simulation_ends_at_its_time_limit() {
    let output = run(&["sim", "--pes", "2", "--time-limit", "2s", "drill", "--wait", "9"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("time limit of 2s"), "{output:?}");
}
