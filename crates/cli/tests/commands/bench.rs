//! `gridctl bench`: measurements of broadcasts, of messages and collective operations of ranks, of
//! messages of actors, and of tasks.

use crate::common::run;
use serde_json::Value;

/// Returns the objects that the job printed, from the `output` events.
fn results(stdout: &str) -> Vec<Value> {
    let events = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .filter(|event| event["event"] == "output")
        .map(|event| serde_json::from_str(event["text"].as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn broadcasts_are_measured_over_processes_and_emulated_links() {
    let measured = ["--bytes", "1B,70kB", "--rounds", "2"];
    for place in [["-n", "3"], ["-e", "2x2,wan=2ms"]] {
        let output = run(&[&["bench", "bcast"], &place[..], &measured].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        for text in ["2 rounds of each size over ", "     70000  ", "verified: yes (20 payloads"] {
            assert!(output.stdout.contains(text), "{output:?}");
        }
    }
    let flags = ["--nodes", "2", "--bytes", "8B,1kB", "--rounds", "2", "--json"];
    let output = run(&[&["bench", "bcast"], &flags[..]].concat());
    let results = results(&output.stdout);
    assert_eq!((&results[0]["bytes"], &results[1]["bytes"]), (&8.into(), &1000.into()));
    assert!(results[0]["runtime"]["median_ns"].as_f64().unwrap() > 0.0, "{results:?}");
    assert_eq!(results[2]["verified"], true);
    let output = run(&["bench", "bcast", "--bytes", "1GB"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("at most 48MiB"), "{output:?}");
}

#[test]
fn messages_and_collective_operations_of_ranks_are_measured() {
    let measured = ["--bytes", "1B,70kB", "--seconds", "0.001"];
    for place in [["-n", "2"], ["-e", "1x1x2"], ["-e", "2x2,wan=2ms"]] {
        let output = run(&[&["bench", "ranks"], &place[..], &measured].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        for text in ["messages between rank 0 and rank ", "  allreduce", "verified: yes"] {
            assert!(output.stdout.contains(text), "{output:?}");
        }
    }
    let flags = ["--nodes", "1", "--bytes", "8B", "--ranks", "3", "--seconds", "0", "--json"];
    let output = run(&[&["bench", "ranks", "--no-collectives"], &flags[..]].concat());
    let results = results(&output.stdout);
    let names: Vec<_> = results.iter().map(|result| &result["operation"]).collect();
    assert_eq!(names, ["round trip", "window"], "{output:?}");
    assert!(results[1]["bytes_per_s"].as_f64().unwrap() > 0.0, "{output:?}");
    for (flags, text) in [
        (["--bytes", "5MB"], "at most 4MiB"),
        (["--ranks", "1"], "1 is not in"),
        (["--seconds", "61"], "a number of seconds from 0 to 60"),
    ] {
        let output = run(&[&["bench", "ranks"], &flags[..]].concat());
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(text), "{output:?}");
    }
}

#[test]
fn messages_of_actors_are_measured_on_one_pe_and_between_pes_nodes_and_sites() {
    let measured = ["--bytes", "1B,70kB", "--rounds", "2", "--seconds", "0.001"];
    let pes = "between PE 0 and PE 1 of one node";
    for (place, pairs) in [
        (["-n", "2"], &["on PE 0", "between two nodes of site "][..]),
        (["-e", "1x1x2"], &["on PE 0", pes][..]),
        (["-e", "2x2,wan=2ms"], &["between two nodes of site ", "between site a and "][..]),
    ] {
        let output = run(&[&["bench", "messages"], &place[..], &measured].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stdout.contains("verified: yes (messages of 2 sizes"), "{output:?}");
        assert!(pairs.iter().all(|pair| output.stdout.contains(pair)), "{output:?}");
    }
    let flags = ["--bytes", "1kB", "--rounds", "1", "--seconds", "0", "--json"];
    let output = run(&[&["bench", "messages"], &flags[..]].concat());
    let results = results(&output.stdout);
    let pairs: Vec<_> = results.iter().map(|result| result["between"].as_str().unwrap()).collect();
    // One process of two PEs, then two processes; a round trip and a window of each.
    let expected = ["one pe", "one pe", "pes", "pes", "one pe", "one pe", "nodes", "nodes"];
    assert_eq!(pairs, expected, "{output:?}");
    assert!(results[7]["messages_per_s"].as_f64().unwrap() > 0.0, "{output:?}");
    let output = run(&["bench", "messages", "--bytes", "5MB"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("at most 4MiB"), "{output:?}");
}

#[test]
fn times_of_messages_count_the_crossings_of_the_wide_area() {
    let flags = ["--pairs", "--bytes", "8B", "--rounds", "2", "--seconds", "0", "--json"];
    let output = run(&[&["sim", "-e", "2x1,wan=20ms", "pingpong"], &flags[..]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let objects = output.stdout.lines().filter(|line| line.starts_with('{'));
    let figures: Vec<Value> = objects.map(|object| serde_json::from_str(object).unwrap()).collect();
    let far: Vec<_> = figures.iter().filter(|figure| figure["between"] == "sites").collect();
    assert_eq!(far.len(), 2, "{output:?}");
    for figure in far {
        assert_eq!(figure["sites"], serde_json::json!(["a", "b"]));
        let ms = figure["ns"].as_f64().unwrap() / 1e6;
        assert!((40.0..42.0).contains(&ms), "{figure}: {ms} ms");
    }
}

#[test]
fn tasks_are_measured_on_one_pe_and_over_nodes() {
    let measured = ["--fib", "18", "--rounds", "2"];
    for place in [["-n", "1"], ["-e", "2x2,wan=2ms"]] {
        let output = run(&[&["bench", "tasks"], &place[..], &measured].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        for text in ["fib(18) by 8361 tasks on ", " ns a task", "verified: yes (fib(18) = 2584"] {
            assert!(output.stdout.contains(text), "{output:?}");
        }
    }
    let output = run(&[&["bench", "tasks", "--json"], &measured[..]].concat());
    let results = results(&output.stdout);
    let nodes: Vec<_> = results.iter().map(|result| &result["nodes"]).collect();
    assert_eq!(nodes, [1, 2], "{output:?}");
    assert!(results.iter().all(|result| result["ns"].as_f64().unwrap() > 0.0), "{output:?}");
    let output = run(&["bench", "tasks", "--fib", "61"]);
    assert_eq!(output.code, Some(2), "{output:?}");
}

#[test]
fn times_of_ranks_count_the_crossings_of_the_wide_area_and_no_barrier() {
    let flags = ["--bytes", "8B", "--seconds", "0.001", "--json"];
    let output = run(&[&["sim", "-e", "2x1,wan=20ms", "ranks"], &flags[..]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let objects = output.stdout.lines().filter(|line| line.starts_with('{'));
    let figures: Vec<Value> = objects.map(|object| serde_json::from_str(object).unwrap()).collect();
    // There is one repetition of each, so that one crossing too many would show.
    for (operation, crossings) in
        [("round trip", 2.0), ("window", 2.0), ("barrier", 1.0), ("allreduce", 1.0)]
    {
        let figure = figures.iter().find(|figure| figure["operation"] == operation).unwrap();
        let ms = figure["ns"].as_f64().unwrap() / 1e6;
        assert!((20.0 * crossings..21.0 * crossings).contains(&ms), "{operation}: {ms} ms");
    }
}
