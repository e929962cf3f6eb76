//! `gridctl plan`: predictions from recordings and from programs.

use crate::common::{Output, run};
use serde_json::Value;
use std::path::Path;

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
