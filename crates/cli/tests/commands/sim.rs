//! `gridctl sim`: the same seed gives the same run.

use crate::common::{Output, run};

/// Returns the output of a simulation, and its summary without the real time. A slow machine shows
/// progress before the summary.
fn simulated(arguments: &[&str]) -> (Output, String) {
    let output = run(&[&["sim"], arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let is_virtual =
        |line: &&str| !line.starts_with("  real time") && !line.starts_with("gridctl│ simulating");
    let summary = output.stderr.lines().filter(is_virtual).collect::<Vec<_>>().join("\n");
    (output, summary)
}

#[test]
fn runs_with_the_same_seed_print_the_same() {
    let arguments =
        ["--emulate", "2x8,wan=20ms,jitter=2ms,loss=0.1%", "--seed", "7", "ring", "--rounds", "5"];

    let (first, first_summary) = simulated(&arguments);
    let (second, second_summary) = simulated(&arguments);

    assert_eq!(first.stdout, second.stdout);
    assert_eq!(first_summary, second_summary);
}

#[test]
fn the_summary_shows_virtual_time_events_and_wide_area_frames() {
    let (output, summary) = simulated(&["--emulate", "2x2,wan=20ms", "ring", "--rounds", "1"]);

    assert!(output.stdout.starts_with("1 rounds over 64 actors on 4 PEs: "));
    assert!(output.stdout.contains("verified: yes (64 hops, "), "{output:?}");
    let lines: Vec<_> = summary.lines().collect();
    assert_eq!(lines[0], "simulated 4 PEs with seed 0");
    assert!(lines[1].starts_with("  virtual time  "), "{summary}");
    assert!(lines[2].starts_with("  events        "), "{summary}");
    assert!(lines[3].starts_with("  wide area     "), "{summary}");
    assert!(output.stderr.contains(" events/s"), "{summary}");
}

#[test]
fn a_token_that_crosses_the_wide_area_twice_takes_two_latencies() {
    let (output, _) = simulated(&["--emulate", "2x1,wan=500ms", "ring", "--rounds", "1"]);
    // The token crosses once to the other site; the reports of the actors there cross back.
    let (_, rest) = output.stdout.split_once(" PEs: ").unwrap();
    let (millis, _) = rest.split_once(" ms").unwrap();
    let millis: f64 = millis.parse().unwrap();
    assert!((1000.0..2600.0).contains(&millis), "{output:?}");
}

#[test]
fn a_job_on_512_pes_is_simulated() {
    let (output, summary) = simulated(&["--pes", "512", "ring"]);
    assert!(output.stdout.contains("on 512 PEs"), "{output:?}");
    assert!(summary.starts_with("simulated 512 PEs"), "{output:?}");
}

#[test]
fn json_has_the_summary_as_an_event() {
    let output = run(&["sim", "--json", "--pes", "8", "ring"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let events: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = events.iter().find(|event| event["event"] == "simulated").unwrap();
    assert_eq!((&summary["pes"], &summary["version"]), (&8.into(), &1.into()));
    assert!(summary["virtual_ns"].as_u64().is_some_and(|ns| ns > 0));
}

#[test]
fn the_progress_of_a_long_simulation_is_not_in_standard_output() {
    // In a debug build this takes seconds, in each of which a launcher hears of the progress.
    let job = ["--emulate", "2x2,wan=20ms", "--seed", "7", "ring", "--rounds", "1000"];
    let (alone, _) = simulated(&job);

    let launched = run(&[&["sim", "--json"], &job[..]].concat());

    assert_eq!(launched.code, Some(0), "{launched:?}");
    let events: Vec<serde_json::Value> =
        launched.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["event"] != "simulating"), "{launched:?}");
    let printed = events.iter().filter(|event| event["event"] == "output");
    let printed: Vec<_> = printed.map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(printed, alone.stdout.lines().collect::<Vec<_>>());
}

#[test]
fn a_failed_simulation_exits_with_1_and_ends_with_the_error() {
    let output = run(&["sim", "--pes", "2", "drill", "--fail"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.ends_with("\nerror: main was told to fail\n"), "{output:?}");
}

#[test]
fn a_program_that_simulates_nothing_has_failed() {
    for flags in [&["sim"][..], &["sim", "--json"]] {
        let output = crate::common::run(&[flags, &["/bin/true"]].concat());
        assert_eq!(output.code, Some(1), "{output:?}");
        let said = output.stdout + &output.stderr;
        assert!(said.contains("the program ended and simulated nothing"), "{said}");
    }
}

#[test]
fn a_dry_run_of_a_simulation_shows_its_links_and_writes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump");
    let dump = dump.to_str().unwrap();
    let place = ["sim", "--dry-run", "-e", "2x2,wan=20ms", "--balance-dump", dump];
    let output = run(&[&place[..], &["drill", "--fail"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let table = "SITE  HOST   NODE  PES\na     a1        0  0\n";
    assert!(output.stdout.starts_with(table), "{output:?}");
    assert!(output.stdout.contains("  all nodes  threads of gridctl itself\n"), "{output:?}");
    assert!(output.stdout.contains("simulated links, at the start:\n"), "{output:?}");
    assert!(output.stdout.contains("latency 20ms, bandwidth 1gbit  a-b\n"), "{output:?}");
    assert!(!std::path::Path::new(dump).exists());
    let output = run(&[&place[..], &["/bin/true"]].concat());
    assert!(output.stdout.contains(" /bin/true\n"), "a program is a process: {output:?}");
}
