//! `gridctl rpc run`: tables, pictures, and errors with the next step.

use crate::common::{Output, run};
use serde_json::Value;
use std::io::Write;
use tempfile::NamedTempFile;

/// Two tasks of 10 s that read 10 MB of the client, and one of 5 s that reads their output.
const WORKFLOW: &str = r#"{
    "name": "fork", "workflow": {
        "specification": {
            "tasks": [
                {"id": "left_ID01", "inputFiles": ["in"], "outputFiles": ["l"]},
                {"id": "right_ID02", "inputFiles": ["in"], "outputFiles": ["r"]},
                {"id": "join_ID03", "inputFiles": ["l", "r"], "outputFiles": ["out"]}
            ],
            "files": [{"id": "in", "sizeInBytes": 10e6}, {"id": "l", "sizeInBytes": 10e6},
                      {"id": "r", "sizeInBytes": 10e6}, {"id": "out", "sizeInBytes": 10e6}]
        },
        "execution": {"tasks": [
            {"id": "left_ID01", "runtimeInSeconds": 10}, {"id": "right_ID02", "runtimeInSeconds": 10},
            {"id": "join_ID03", "runtimeInSeconds": 5}
        ]}
    }
}"#;

/// One server at each of two sites, between which 10 MB take a second.
const PLACE: [&str; 2] = ["-e", "2x1,wan=0ms,lan=0ms,rate=80mbit"];

fn file(text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn rpc(text: &str, flags: &[&str]) -> Output {
    let file = file(text);
    run(&[&["rpc", "run", file.path().to_str().unwrap()], &PLACE[..], flags].concat())
}

fn json(flags: &[&str]) -> Value {
    let output = rpc(WORKFLOW, &[flags, &["--json"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

fn makespan_s(document: &Value, trial: usize) -> f64 {
    document["trials"][trial]["makespan_s"].as_f64().unwrap()
}

#[test]
fn missing_values_of_a_workflow_cause_warnings() {
    let silent = WORKFLOW.replace("\"runtimeInSeconds\": 5", "\"coreCount\": 2");
    let output = rpc(&silent, &["-H", "heft-c"]);

    assert_eq!(output.code, Some(0), "{output:?}");
    for guess in [
        "`join_ID03` has no recorded runtime: assuming 0 s",
        "`join_ID03` used several cores: assuming one core for the same time",
    ] {
        assert!(output.stderr.contains(guess), "{}", output.stderr);
    }
    assert_eq!(rpc(WORKFLOW, &["-H", "heft-c"]).stderr, "");
}

#[test]
fn the_table_names_the_sources_of_data_if_they_differ() {
    let both = rpc(WORKFLOW, &["-H", "heft,heft-c"]).stdout;
    assert!(both.contains("from the nearest copy, once to each site, by heft-c;"), "{both}");
    assert!(both.contains("to each server by itself, by heft\n"), "{both}");
    assert!(!rpc(WORKFLOW, &["-H", "heft-c"]).stdout.contains("nearest copy"));
}

#[test]
fn the_makespan_follows_from_tasks_and_links() {
    let document = json(&["-H", "exhaustive,gridrpc"]);

    // Calculated by hand: `left` runs at the client's site from 0 s; the file reaches the other
    // site in 1 s, `right` ends at 11 s, its result is back at 12 s, and `join` ends at 17 s.
    // Transfers inside a site take 8 ms each.
    assert!((17.0..17.1).contains(&makespan_s(&document, 0)), "{document}");
    // Plain calls transfer this result through the client, which is at the site of `join`.
    assert!((17.0..17.2).contains(&makespan_s(&document, 1)), "{document}");
    assert_eq!(document["trials"][0]["bytes_between_sites"], 20_000_000);
    assert_eq!(document["shortest"]["tasks"].as_array().unwrap().len(), 3);
    assert_eq!(document["servers"].as_array().unwrap().len(), 2);
}

#[test]
fn late_tasks_of_a_slow_host_are_copied() {
    let flags = ["-H", "heft-c", "--slow", "b1=100"];
    let left = json(&[&flags[..], &["--stragglers", "none"]].concat());
    let copied = json(&flags);

    assert!(makespan_s(&left, 0) > 1000.0, "{left}");
    assert!(makespan_s(&copied, 0) < 100.0, "{copied}");
    assert_eq!(copied["trials"][0]["copies"], 1);
}

#[test]
fn the_table_names_all_heuristics_and_all_servers() {
    let output = rpc(WORKFLOW, &[]);

    assert_eq!(output.code, Some(0), "{output:?}");
    for word in ["fork: 3 tasks of 25.0 s", "heft-c", "portfolio", "gridrpc", "a1", "b1"] {
        assert!(output.stdout.contains(word), "{word}: {}", output.stdout);
    }
}

#[test]
fn a_picture_has_a_bar_for_each_task() {
    let output = rpc(WORKFLOW, &["-H", "heft", "--svg", "-"]);

    assert!(output.stdout.starts_with("<svg"), "{output:?}");
    for word in ["left", "right", "join", "receives"] {
        assert!(output.stdout.contains(word), "{word}");
    }
}

#[test]
fn invalid_arguments_of_rpc_run_are_refused_with_a_hint() {
    let refused = |text: &str, flags: &[&str], reason: &str| {
        let output = rpc(text, flags);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(reason), "{output:?}");
    };
    refused("{", &[], "this is not a workflow in WfFormat");
    refused(WORKFLOW, &["-H", "magic"], "heft-c");
    refused(WORKFLOW, &["--slow", "z9=3"], "there is no host `z9`");
    refused(WORKFLOW, &["--slow", "a1=0"], "write a host and a number");
    refused(WORKFLOW, &["--client", "fast"], "--client");
    let missing = run(&["rpc", "run", "/nowhere/w.json", "-e", "2x2"]);
    assert!(missing.stderr.contains("/nowhere/w.json: cannot be read"), "{missing:?}");
    let path = file(WORKFLOW);
    let many = run(&["rpc", "run", path.path().to_str().unwrap(), "-e", "2x600"]);
    assert!(many.stderr.contains("1200 servers are too many"), "{many:?}");
    let placeless = run(&["rpc", "run", file(WORKFLOW).path().to_str().unwrap()]);
    assert!(placeless.stderr.contains("no grid of servers"), "{placeless:?}");
}
