//! Tests comparisons of recordings that are made by hand.

use super::comparison::Comparison;
use super::difference::{Both, Place};
use super::profile::TimeKind;
use super::verdict::Verdict;
use super::{json, text};
use gridspan_record::{
    Bin, Header, JobEnding, OTHER, PeRecord, RebalanceTrigger, RecordedEvent, RecordedNode,
    RecordedPe, Recording, SentTo, TASK, TypeTotal, What,
};
use serde_json::{Value, json};
use std::path::Path;

const SECOND_NS: u64 = 1_000_000_000;

/// A job of two PEs on each node and one node at each site. Each PE was in handlers of cells, idle,
/// and in the network for these numbers of seconds.
fn recording(end_s: u64, pes: &[[u64; 3]]) -> Recording {
    let sites: Vec<String> = ('a'..='z').take(pes.len().div_ceil(2)).map(String::from).collect();
    let node = |(number, site): (usize, &String)| RecordedNode {
        site: number as u32,
        host: site.clone(),
        name: format!("{site}/{number}"),
    };
    let header = Header {
        job: "leanmd".to_owned(),
        command: vec!["sim".to_owned(), "leanmd".to_owned()],
        nodes: sites.iter().enumerate().map(node).collect(),
        pes: (0..pes.len()).map(|pe| RecordedPe { node: pe as u32 / 2, speed: 1.0 }).collect(),
        sites,
        ..Header::default()
    };
    let record = |(pe, [cells, idle, network]): (usize, &[u64; 3])| PeRecord {
        pe: pe as u32,
        types: vec!["Cell".to_owned()],
        totals: vec![TypeTotal {
            number: 0,
            count: 1,
            total_ns: cells * SECOND_NS,
            max_ns: cells * SECOND_NS,
        }],
        bin_ns: end_s * SECOND_NS,
        bins: vec![Bin {
            busy_ns: vec![(0, cells * SECOND_NS)],
            idle_ns: idle * SECOND_NS,
            network_ns: network * SECOND_NS,
            ..Bin::default()
        }],
        ..PeRecord::default()
    };
    Recording {
        header,
        ending: Some(JobEnding { at_ns: end_s * SECOND_NS, exit_code: 0, ..JobEnding::default() }),
        pes: pes.iter().enumerate().map(record).collect(),
        ..Recording::default()
    }
}

fn compared<'a>(a: &'a Recording, b: &'a Recording) -> Comparison<'a> {
    Comparison::new([Path::new("first"), Path::new("second")], [a, b])
}

fn sentence(a: &Recording, b: &Recording) -> String {
    compared(a, b).sentence()
}

/// Ten seconds with a slow site, and eight without.
fn slow_site_and_none() -> [Recording; 2] {
    [
        recording(10, &[[4, 5, 1], [4, 5, 1], [8, 1, 1], [8, 1, 1]]),
        recording(8, &[[4, 3, 1], [4, 3, 1], [4, 3, 1], [4, 3, 1]]),
    ]
}

#[test]
fn the_first_line_names_the_faster_job_the_kind_of_time_and_the_site() {
    let [slow, fast] = slow_site_and_none();
    let reason = "8.00 s instead of 10.0 s; most of the difference is handlers of Cell, 2.00 s less \
                  per PE, mostly at site b";
    assert_eq!(sentence(&slow, &fast), format!("B is faster by 20.0 %: {reason}"));
    assert_eq!(sentence(&fast, &slow), format!("A is faster by 20.0 %: {reason}"));
}

#[test]
fn a_difference_on_one_pe_is_found_there() {
    let slow = recording(10, &[[4, 5, 1], [4, 5, 1], [4, 5, 1], [9, 0, 1]]);
    let fast = recording(8, &[[4, 3, 1], [4, 3, 1], [4, 3, 1], [4, 3, 1]]);
    let said = sentence(&slow, &fast);
    assert!(said.ends_with("handlers of Cell, 1.25 s less per PE, mostly on pe3"), "{said}");
}

#[test]
fn a_difference_on_all_pes_is_at_no_place() {
    let slow = recording(10, &[[4, 5, 1], [4, 5, 1], [4, 5, 1], [4, 5, 1]]);
    let fast = recording(8, &[[4, 3, 1], [4, 3, 1], [4, 3, 1], [4, 3, 1]]);
    let said = sentence(&slow, &fast);
    assert!(said.ends_with("most of the difference is idle time, 2.00 s less per PE"), "{said}");
}

#[test]
fn times_within_a_hundredth_are_the_same() {
    let a = recording(1000, &[[1000, 0, 0]]);
    let b = recording(1009, &[[1009, 0, 0]]);
    assert_eq!(sentence(&a, &b), "A and B take the same time within 1.00 %: 1000 s and 1009 s");
    let c = recording(1020, &[[1020, 0, 0]]);
    assert!(sentence(&a, &c).starts_with("A is faster by 1.96 %: "), "{}", sentence(&a, &c));
}

#[test]
fn a_job_that_was_not_done_is_not_called_faster() {
    let [done, mut other] = slow_site_and_none();
    let failure = Some("node1 was lost".to_owned());
    other.ending =
        Some(JobEnding { at_ns: 3 * SECOND_NS, exit_code: 1, failure, ..JobEnding::default() });
    let wanted = "A: done after 10.0 s; B: failed after 3.00 s: node1 was lost";
    assert_eq!(sentence(&done, &other), wanted);

    other.ending = None;
    other.events = vec![RecordedEvent { at_ns: 5 * SECOND_NS, what: What::Joined { node: 1 } }];
    assert_eq!(sentence(&done, &other), "A: done after 10.0 s; B: cut off after 5.00 s");
    assert_eq!(compared(&done, &other).verdict, Verdict::NotDone);
}

#[test]
fn the_differences_of_all_kinds_add_up_to_that_of_jobs_on_different_numbers_of_pes() {
    let few = recording(10, &[[8, 1, 1], [7, 1, 1]]);
    let many = recording(6, &[[4, 1, 1], [4, 1, 1], [4, 1, 1], [3, 2, 1]]);
    let comparison = compared(&few, &many);

    let sum: f64 = comparison.times.iter().map(|row| row.ns.difference()).sum();
    assert!((sum + 4e9).abs() < 1.0, "{sum}");
    let of = |kind: TimeKind| comparison.times.iter().find(|row| row.kind == kind).unwrap().ns;
    assert_eq!(of(TimeKind::Rest), Both { a: 0.5e9, b: 0.0 });
    assert_eq!(of(TimeKind::Idle), Both { a: 1e9, b: 1.25e9 });
    assert_eq!(of(TimeKind::Handlers("Cell".to_owned())), Both { a: 7.5e9, b: 3.75e9 });
    // What made it faster comes first, and what made it slower last.
    let wanted =
        ["handlers of Cell", "time not recorded", "the network", "other threads", "idle time"];
    let kinds: Vec<_> = comparison.times.iter().map(|row| row.kind.to_string()).collect();
    assert_eq!(kinds, wanted);
}

#[test]
fn the_differences_add_up_if_a_process_began_during_the_job() {
    let [slow, mut fast] = slow_site_and_none();
    // Six of eight seconds had passed.
    let last = &mut fast.pes[3];
    last.began_ns = 6 * SECOND_NS;
    last.bins[0] = Bin { busy_ns: vec![(0, SECOND_NS)], idle_ns: SECOND_NS, ..Bin::default() };

    let comparison = compared(&slow, &fast);

    let sum: f64 = comparison.times.iter().map(|row| row.ns.difference()).sum();
    assert!((sum + 2e9).abs() < 1.0, "{sum}");
    let rest = comparison.times.iter().find(|row| row.kind == TimeKind::Rest).unwrap().ns;
    assert_eq!(rest, Both { a: 0.0, b: 1.5e9 });
}

#[test]
fn each_use_of_time_has_a_kind() {
    let [mut a, b] = slow_site_and_none();
    let bin = &mut a.pes[0].bins[0];
    bin.busy_ns = vec![(0, SECOND_NS), (TASK, SECOND_NS), (OTHER, SECOND_NS)];
    bin.waited_ns = SECOND_NS;
    let comparison = compared(&a, &b);
    let quarter = |kind: &TimeKind| {
        let ns = comparison.times.iter().find(|row| row.kind == *kind).unwrap().ns;
        ns == Both { a: 0.25e9, b: 0.0 }
    };
    for kind in [TimeKind::Tasks, TimeKind::Runtime, TimeKind::Waited] {
        assert!(quarter(&kind), "{kind}: {:?}", comparison.times);
    }
}

#[test]
fn traffic_and_what_the_runtime_did_are_compared() {
    let [mut a, mut b] = slow_site_and_none();
    let sent = |site, messages, bytes| SentTo { site, messages, bytes };
    a.pes[0].bins[0].sent = vec![sent(0, 1, 10), sent(1, 10, 1000)];
    b.pes[1].bins[0].sent = vec![sent(0, 1, 10), sent(1, 15, 1500)];
    b.pes[2].bins[0].sent = vec![sent(0, 2, 4000)];
    let balanced = What::Balanced {
        trigger: RebalanceTrigger::SyncPoint,
        strategy: "greedy".to_owned(),
        moved: 12,
        bytes: 2000,
        predicted_gain: None,
        actual_gain: None,
        pause_ns: 5_000_000,
    };
    b.events = vec![RecordedEvent { at_ns: 1, what: balanced }];
    (a.pes[3].bins[0].steals, b.pes[3].bins[0].steals) = (3, 6);

    let comparison = compared(&a, &b);
    let pairs: Vec<_> = comparison.traffic.iter().map(|row| row.sites.join(" > ")).collect();
    assert_eq!(pairs, ["b > a", "a > b", "a > a"]);
    let [none, more, same] = [0, 1, 2].map(|at| &comparison.traffic[at]);
    assert_eq!((none.bytes.difference(), none.bytes.percent()), (4000.0, None));
    assert_eq!((more.bytes.difference(), more.bytes.percent()), (500.0, Some(50.0)));
    assert_eq!(more.messages, Both { a: 10.0, b: 15.0 });
    assert_eq!((same.bytes.difference(), same.bytes.percent()), (0.0, Some(0.0)));
    let counts: Vec<_> =
        comparison.counts.iter().map(|row| (row.name, row.values.a, row.values.b)).collect();
    let wanted = [
        ("runs of handlers and tasks", 4.0, 4.0),
        ("rebalances", 0.0, 1.0),
        ("actors moved", 0.0, 12.0),
        ("bytes moved", 0.0, 2000.0),
        ("paused to rebalance", 0.0, 5e6),
        ("steals", 3.0, 6.0),
    ];
    assert_eq!(counts, wanted);

    let text = text::render(&comparison);
    for line in [
        "b > a 0 B 4.00 kB +4.00 kB -",
        "a > b 1.00 kB 1.50 kB +500 B +50.0",
        "bytes moved 0 B 2.00 kB +2.00 kB -",
        "paused to rebalance 0 us 5.00 ms +5.00 ms -",
        "steals 3 6 +3 +100",
    ] {
        assert!(lines(&text).iter().any(|found| found == line), "{line}: {text}");
    }
}

/// The lines of a text, with single blanks.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_text_shows_both_jobs_what_was_different_before_and_the_times() {
    let [a, mut b] = slow_site_and_none();
    b.header.seed = 7;
    b.missing = vec![1];
    let text = text::render(&compared(&a, &b));
    let lines = lines(&text);
    assert!(lines[0].starts_with("B is faster by 20.0 %: "), "{text}");
    for line in [
        "A first: leanmd on 4 PEs of 2 nodes at 2 sites, done after 10.0 s",
        "B second: leanmd on 4 PEs of 2 nodes at 2 sites, done after 8.00 s; 1 node left no record",
        "different seed: 0 | 7",
        "TIME OF A PE A B DIFFERENCE %",
        "all 10.0 s 8.00 s -2.00 s -20.0",
        "handlers of Cell 6.00 s 4.00 s -2.00 s -33.3",
        "the network 1.00 s 1.00 s 0 us 0",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("different command"), "{text}");
}

#[test]
fn other_programs_and_a_result_that_one_job_has_not_verified_are_stated() {
    let [mut a, mut b] = slow_site_and_none();
    let said = |a: &Recording, b: &Recording| {
        let text = text::render(&compared(a, b));
        let is_said = |line: &String| line.starts_with("different") || line.starts_with("only");
        lines(&text).into_iter().filter(is_said).collect::<Vec<_>>()
    };
    let line = "verified: yes (4 values)";
    a.header.build = Some("0a".to_owned());
    a.header.gridctl = Some("0.1.0".to_owned());
    a.ending.as_mut().unwrap().verified = Some(line.to_owned());
    assert!(said(&a, &b).is_empty(), "an earlier program has recorded B: {:?}", said(&a, &b));

    b.header.build = Some("0b".to_owned());
    b.header.gridctl = Some("0.2.0".to_owned());
    let programs =
        ["different build of the program: 0a | 0b", "different version of gridctl: 0.1.0 | 0.2.0"];
    assert_eq!(said(&a, &b), [&programs[..], &["only A has verified its result"]].concat());
    a.ending = None;
    b.ending.as_mut().unwrap().verified = Some(line.to_owned());
    assert_eq!(said(&a, &b), [&programs[..], &["only B has verified its result"]].concat());
    b.ending.as_mut().unwrap().exit_code = 1;
    assert_eq!(said(&a, &b), programs, "B has failed after that line");
    b.ending.as_mut().unwrap().exit_code = 0;
    b.ending.as_mut().unwrap().verified = Some("verified: no (zeta differs)".to_owned());
    assert_eq!(said(&a, &b), programs);

    let object: Value = serde_json::from_str(&json::render(&compared(&a, &b))).unwrap();
    assert_eq!((&object["a"]["build"], &object["b"]["gridctl"]), (&json!("0a"), &json!("0.2.0")));
    assert_eq!(object["a"]["verified"], Value::Null);
    assert_eq!(object["b"]["verified"], json!("verified: no (zeta differs)"));
}

#[test]
fn the_json_object_has_the_verdict_and_all_numbers() {
    let [a, b] = slow_site_and_none();
    let object: Value = serde_json::from_str(&json::render(&compared(&a, &b))).unwrap();
    assert_eq!(object["version"], 1);
    assert_eq!((&object["faster"], &object["share"]), (&json!("b"), &json!(0.2)));
    let reason = json!({
        "kind": "handlers", "type": "Cell", "difference_s": -2.0, "place": "site", "name": "b"
    });
    assert_eq!(object["reason"], reason);
    assert_eq!((&object["a"]["outcome"], &object["a"]["seconds"]), (&json!("done"), &json!(10.0)));
    assert_eq!((&object["b"]["pes"], &object["b"]["path"]), (&json!(4), &json!("second")));
    let first = &object["times"][0];
    assert_eq!((&first["kind"], &first["type"]), (&json!("handlers"), &json!("Cell")));
    assert_eq!((&first["a"], &first["difference"]), (&json!(6.0), &json!(-2.0)));
    assert_eq!(object["traffic"], json!([]));
    let runs = json!({
        "name": "runs of handlers and tasks", "unit": "times",
        "a": 4.0, "b": 4.0, "difference": 0.0, "percent": 0.0
    });
    assert_eq!(object["counts"], json!([runs]));
}

#[test]
fn a_recording_without_pes_is_compared_without_a_reason() {
    let [mut a, mut b] = slow_site_and_none();
    (a.pes, b.pes) = (vec![], vec![]);
    assert_eq!(sentence(&a, &b), "B is faster by 20.0 %: 8.00 s instead of 10.0 s");
    let Verdict::Faster { reason, .. } = compared(&a, &b).verdict else { panic!() };
    assert_eq!(reason, None);
}

#[test]
fn the_smallest_place_with_most_of_a_difference_is_named() {
    let [slow, fast] = slow_site_and_none();
    let Verdict::Faster { reason, .. } = compared(&slow, &fast).verdict else { panic!() };
    assert_eq!(reason.unwrap().place, Place::Site("b".to_owned()));
}
