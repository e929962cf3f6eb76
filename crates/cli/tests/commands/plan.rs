//! `gridctl plan`: predictions from recordings and from programs.

use crate::common::{Output, finish, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const JOB: [&str; 7] = ["stencil", "--n", "128", "--blocks", "4", "--iterations", "12"];

fn planned(arguments: &[&str]) -> Value {
    let output = run(&[&["plan", "--json"], arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

fn recorded(folder: &Path, place: &str, job: &[&str]) {
    let record = ["sim", "-e", place, "--record", folder.to_str().unwrap()];
    let output = run(&[&record, job].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn a_program_is_recorded_and_predicted_on_a_grid() {
    let output: Output = run(&[&["plan", "-e", "2x2,wan=20ms"], &JOB[..]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("stencil: "), "{output:?}");
    assert!(lines[0].contains(" on 4 PEs at 2 sites, "), "{output:?}");
    assert!(output.stdout.contains("the latency counts"), "{output:?}");
    for change in ["latency*2", "latency*0.5", "sites+1", "sites-1", "strategy auto"] {
        let is_row = |line: &&str| line.starts_with(change);
        assert!(lines.iter().any(is_row), "{change}: {output:?}");
    }
}

#[test]
fn a_program_is_recorded_also_if_the_parent_of_gridctl_ignores_sigchld() {
    let script = "trap '' CHLD; exec \"$0\" \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_gridctl"), "plan", "-e", "2x2"]).args(JOB);
    let output = finish(command);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn twice_the_latency_takes_nearly_twice_the_time_where_it_counts() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("rec");
    recorded(&folder, "1x4", &JOB);
    let source = ["--recording", folder.to_str().unwrap()];
    let place = ["-e", "2x2,wan=50ms", "--what-if", "latency*2"];

    let document = planned(&[&source[..], &place].concat());

    let step = document["forecast"]["step_ns"].as_f64().unwrap();
    assert!((50e6..60e6).contains(&step), "{document}");
    let changes = document["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{document}");
    let doubled = changes[0]["step_ns"].as_f64().unwrap();
    assert!((1.9..2.1).contains(&(doubled / step)), "{document}");
    let more = planned(&[&source[..], &place, &["--times", "3"]].concat());
    assert!(more["forecast"]["total_ns"].as_u64() > document["forecast"]["total_ns"].as_u64());
    let actors = document["forecast"]["pes"].as_array().unwrap().iter();
    assert_eq!(actors.map(|pe| pe["actors"].as_u64().unwrap()).sum::<u64>(), 16, "{document}");
}

#[test]
fn what_a_change_cannot_change_or_has_to_guess_is_noted() {
    let changes = ["-p", "2", "--what-if", "latency*2", "--what-if", "sites+1"];
    let document = planned(&[&changes[..], &JOB].concat());
    let changes = document["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{document}");
    assert_eq!((&changes[0]["name"], &changes[0]["pes"]), (&"sites+1".into(), &4.into()));
    let notes: Vec<&str> =
        document["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let has = |part: &str| notes.iter().any(|note| note.contains(part));
    assert!(has("latency*2 has no effect") && has("the site of sites+1"), "{notes:?}");
}

#[test]
fn remote_calls_are_predicted_only_on_the_recorded_sites() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("rec");
    let job = ["hydropad", "--n", "12", "--steps", "2", "--window", "2", "--form", "group"];
    recorded(&folder, "2x2,wan=2ms", &job);
    let source = ["--recording", folder.to_str().unwrap()];
    let refused = |place: &[&str]| {
        let output = run(&[&["plan"], &source[..], place].concat());
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains("recorded on 2 sites of 2 PEs, and go to"), "{output:?}");
        assert!(output.stderr.contains("`gridctl sim` gives the time"), "{output:?}");
    };
    refused(&["-e", "3x2,wan=10ms"]);
    refused(&["-e", "2x3,wan=10ms"]);
    refused(&["-e", "2x2,wan=10ms", "--what-if", "sites+1"]);

    let document = planned(&[&source[..], &["-e", "2x2,wan=10ms"]].concat());

    let changes = document["changes"].as_array().unwrap().iter();
    let names: Vec<&str> = changes.map(|change| change["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"latency*2"), "{document}");
    assert!(!names.iter().any(|name| name.starts_with("sites")), "{document}");
}

#[test]
fn two_sizes_predict_a_third_one() {
    let parent = tempfile::tempdir().unwrap();
    let source = |n: &str| {
        let folder = parent.path().join(n);
        let job = ["stencil", "--n", n, "--blocks", "4", "--iterations", "12"];
        recorded(&folder, "1x4", &job);
        format!("{}={n}", folder.display())
    };
    let (small, large) = (source("512"), source("1024"));
    let recordings = ["--recording", &small, "--recording", &large, "-p", "4"];
    let step = |size: &str| {
        let document = planned(&[&recordings[..], &["--size", size]].concat());
        document["forecast"]["step_ns"].as_f64().unwrap()
    };
    // A square with twice the side has four times as many points.
    let ratio = step("2048") / step("1024");
    assert!((3.0..5.0).contains(&ratio), "{ratio}");
    let equal = format!("{}=512", large.trim_end_matches("=1024"));
    let equal = ["plan", "--recording", &small, "--recording", &equal, "-p", "4", "--size", "2048"];
    let output = run(&equal);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("sizes must be different"), "{output:?}");
    let output = run(&["plan", "--recording", &small, "-p", "4", "--size", "2048"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("needs two recordings"), "{output:?}");
}

#[test]
fn what_is_missing_is_said_with_advice() {
    let advice = |arguments: &[&str], expected: &str| {
        let output = run(&[&["plan"], arguments].concat());
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(expected), "{output:?}");
    };
    advice(&["leanmd"], "write `--pes`, `--grid` or `--emulate`");
    advice(&["-e", "2x2"], "write `--recording DIR`");
    advice(&["-e", "2x2", "--recording", "r", "ring"], "leave out `--recording`");
    advice(&["-e", "2x2", "--recording", "no-such-folder"], "no-such-folder");
    advice(&["-e", "2x2", "--recording", "r", "--what-if", "sites*2"], "write latency*2");
    let output = run(&["plan", "-p", "2", "leanmd", "--cutoff", "30", "--atoms", "2000"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("the simulated run has failed"), "{output:?}");
}
