//! `gridctl topo`: measured topologies, and those of running jobs.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Output, Running, children_of, finish, gridctl, run, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn document(output: &Output) -> Value {
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// Returns the members of the coarsest groups, by name.
fn sites(document: &Value) -> Vec<(String, String)> {
    let groups = document["groups"].as_array().unwrap().iter();
    let coarse = groups.filter(|group| group["level"] == 1);
    coarse
        .map(|group| (group["name"].as_str().unwrap().into(), group["nodes"].to_string()))
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|&(name, nodes)| (name.into(), nodes.into())).collect()
}

fn latency(document: &Value, from: u32, to: u32) -> f64 {
    let links = document["links"].as_array().unwrap();
    let link = links.iter().find(|link| link["from"] == from && link["to"] == to).unwrap();
    link["latency_ms"].as_f64().unwrap()
}

/// Shows a topology of the jobs with a status in `folder`.
fn topo(folder: &Path, flags: &[&str]) -> Output {
    let mut command = gridctl(&[&["topo"], flags].concat());
    command.env("XDG_RUNTIME_DIR", folder);
    finish(command)
}

/// Starts a job with its status in `folder`.
fn start(folder: &Path, flags: &[&str]) -> Running {
    Running::start_with(flags, &[("XDG_RUNTIME_DIR", folder.to_str().unwrap())])
}

#[test]
fn sites_over_emulated_links_are_measured_in_one_process_and_in_several() {
    for driver in [&[][..], &["--driver", "cluster"]] {
        let place = ["topo", "--json", "--emulate", "2x2,wan=20ms,rate=100mbit"];
        let document = document(&run(&[&place, driver].concat()));
        assert_eq!(sites(&document), pairs(&[("a", "[0,1]"), ("b", "[2,3]")]));
        assert_eq!(document["source"]["kind"], "measured");
        let ms = latency(&document, 1, 2);
        assert!((18.0..40.0).contains(&ms), "{ms} ms");
        let rates = document["links"].as_array().unwrap().iter();
        let rates: Vec<f64> = rates.filter_map(|link| link["bandwidth_bps"].as_f64()).collect();
        assert!(rates.iter().any(|rate| (5e7..2e8).contains(rate)), "{rates:?}");
    }
}

#[test]
fn nodes_of_this_machine_and_of_a_grid_file_are_started_to_measure() {
    let output = run(&["topo", "-n", "2", "--probe"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("measured on 2 processes of this machine"), "{output:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.toml");
    fs::write(&path, "[site.a]\nhosts = [\"localhost\", \"127.0.0.1\"]\n").unwrap();
    let path = path.to_str().unwrap();
    let described = document(&run(&["topo", "--grid", path, "--json"]));
    assert_eq!(described["source"]["kind"], "grid-file");
    for flags in [&["--grid", path][..], &[path]] {
        let measured = document(&run(&[&["topo", "--probe", "--json"], flags].concat()));
        assert_eq!(measured["source"]["kind"], "measured");
        assert_eq!(measured["nodes"][1]["name"], "127.0.0.1");
    }
}

#[test]
fn a_job_is_shown_while_it_runs_and_its_files_are_removed_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    for driver in ["embedded", "cluster"] {
        let job =
            ["run", "--driver", driver, "--emulate", "2x2,wan=10ms", "drill", "--wait", "600"];
        let mut running = start(folder.path(), &job);
        running.await_line("4 lines from 4 nodes");

        let seen = until(|| {
            let seen = document(&topo(folder.path(), &["--json"]));
            let is_seen = |link: &Value| link["from"] != link["to"] && !link["age_s"].is_null();
            seen["links"].as_array().unwrap().iter().any(is_seen).then_some(seen)
        });

        let id = format!("drill-{}", running.child.id());
        assert_eq!(seen["source"], serde_json::json!({ "kind": "job", "name": id }));
        assert_eq!(sites(&seen), pairs(&[("a", "[0,1]"), ("b", "[2,3]")]));
        assert!((9.0..40.0).contains(&latency(&seen, 1, 2)), "{seen}");
        assert_eq!(topo(folder.path(), &["--job", &id]).code, Some(0));
        let other = topo(folder.path(), &["--job", "drill-1"]);
        assert_eq!(other.code, Some(2), "{other:?}");
        assert!(other.stderr.contains(&format!("hint: running: {id}")), "{other:?}");

        running.signal(Signal::TERM);
        assert!(running.wait(common::LIMIT).is_some());
        assert_eq!(fs::read_dir(folder.path().join("gridspan")).unwrap().count(), 0);
    }
}

#[test]
fn a_job_with_a_killed_launcher_is_not_shown_and_its_status_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = start(folder.path(), &["run", "-n", "2", "drill", "--wait", "600"]);
    running.await_line("2 lines from 2 nodes");
    let status = folder.path().join("gridspan").join(format!("drill-{}.json", running.child.id()));
    assert!(status.exists());
    running.signal(Signal::KILL);
    running.wait(common::LIMIT);

    let output = topo(folder.path(), &[]);

    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        output.stderr.contains("no running job to ask\nhint: start a job; for `topo`, name a file"),
        "{output:?}"
    );
    assert!(!status.exists());
}

#[test]
fn a_job_of_one_node_has_no_links() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), &["run", "-n", "1", "drill", "--wait", "600"]);
    running.await_line("1 line from 1 node");
    let output = topo(folder.path(), &[]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("runs as a single node"), "{output:?}");
}

#[test]
fn a_changed_link_is_reported_while_the_job_runs() {
    let change = "2x2,wan=10ms; at 4s link a-b latency=200ms";
    let mut running = Running::start(&["run", "--emulate", change, "drill", "--wait", "600"]);
    let line = running.await_line("gridctl│ link a-b: ");
    assert!(line.contains(" ms → "), "{line}");
    running.signal(Signal::TERM);
    assert!(running.wait(common::LIMIT).is_some());

    let mut running =
        Running::start(&["run", "--json", "--emulate", change, "drill", "--wait", "600"]);
    let line = running.await_line("\"event\":\"link\",\"from\":\"a\",\"to\":\"b\"");
    let event: Value = serde_json::from_str(&line).unwrap();
    assert!(event["after"]["latency_ms"].as_f64() > event["before"]["latency_ms"].as_f64());
    running.signal(Signal::TERM);
    assert!(running.wait(common::LIMIT).is_some());
}

#[test]
fn a_measurement_leaves_no_process_and_can_be_interrupted() {
    let mut running = Running::start(&["topo", "-n", "3", "--probe"]);
    let id = running.child.id();
    assert!(running.wait(common::LIMIT).is_some());
    assert!(children_of(id).is_empty());

    let mut running = Running::start(&["topo", "--emulate", "2x2,wan=2s"]);
    running.nodes(1);
    running.signal(Signal::INT);
    let status = running.wait(common::LIMIT).unwrap();
    assert_eq!(status.code(), Some(130));
}

#[test]
fn invalid_sources_of_a_topology_are_refused() {
    for flags in [
        &["grid.toml", "--emulate", "2x2"][..],
        &["grid.toml", "--job", "x"],
        &["--job", "x", "-n", "2"],
        &["--probe"],
        &["matrix.csv", "--probe"],
        &["--emulate", "two"],
    ] {
        let output = run(&[&["topo"], flags].concat());
        assert_eq!(output.code, Some(2), "{flags:?}: {output:?}");
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn a_node_far_from_its_site_causes_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.toml");
    let grid = "wan = { latency = \"20ms\" }\n[site.a]\nlan = { latency = \"20ms\" }\n\
                cluster.x = { hosts = [\"x1\", \"x2\"] }\ncluster.y = { hosts = [\"y1\"] }\n\
                [site.b]\nhosts = [\"b1\", \"b2\"]\n";
    fs::write(&path, grid).unwrap();
    let path = path.to_str().unwrap();

    let output = run(&["topo", "--json", "--emulate", path]);
    let measured = document(&output);
    let warning = measured["warnings"][0].as_str().unwrap().to_owned();
    assert!(warning.starts_with("node2 is said to be in site `a`, but is "), "{warning}");
    assert!(!output.stderr.contains("warning"), "it is in the document: {output:?}");

    let output = run(&["run", "--emulate", path, "drill", "--wait", "4"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let is_warning = |line: &&str| line.starts_with("gridctl│ warning: node2 is said to be in");
    assert_eq!(output.stderr.lines().filter(is_warning).count(), 1, "{output:?}");
}
