//! `gridctl bcast`: predictions, trees and pictures.

use crate::common::{Output, run};
use serde_json::Value;
use std::io::Write;
use tempfile::NamedTempFile;

/// Two nodes at one site and one at another; 1 MB takes 0.1 s between the sites and 10 ms inside.
const GRID: &str = r#"
wan = { latency = "20ms", bandwidth = "80mbit" }
[site.delft]
hosts = ["d1", "d2"]
lan = { latency = "1ms", bandwidth = "800mbit" }
[site.urbana]
hosts = ["u1"]
lan = { latency = "1ms", bandwidth = "800mbit" }
"#;

const STRATEGIES: [&str; 11] = [
    "star",
    "binomial",
    "hierarchical",
    "mateescu",
    "basic-sa",
    "driver-sa",
    "clustered-sa",
    "annealed",
    "static-pipeline",
    "pipelined",
    "striped",
];

fn grid(text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn bcast(file: &NamedTempFile, flags: &[&str]) -> Output {
    run(&[&["bcast", "--grid", file.path().to_str().unwrap()], flags].concat())
}

fn json(file: &NamedTempFile, flags: &[&str]) -> Value {
    let output = bcast(file, &[flags, &["--json"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

fn is_near(value: &Value, expected: f64) -> bool {
    (value.as_f64().unwrap() / expected - 1.0).abs() < 1e-3
}

#[test]
fn the_bound_uses_relays_if_the_direct_link_is_slower() {
    let file = grid(
        "wan = { latency = \"10ms\", bandwidth = \"1gbit\" }\n\
         [site.a]\nhosts = [\"a1\"]\n[site.b]\nhosts = [\"b1\"]\n[site.c]\nhosts = [\"c1\"]\n\
         [[link]]\nbetween = [\"a\", \"c\"]\nlatency = \"100ms\"\n",
    );

    let document = json(&file, &["-b", "8B", "--initiation", "20us"]);

    let message = &document["messages"][0];
    assert!(is_near(&message["bound_s"], 0.020), "{message}");
    for plan in message["plans"].as_array().unwrap() {
        assert!(plan["over_bound"].as_f64().unwrap() >= 1.0, "{plan}");
    }
}

#[test]
fn predictions_follow_from_the_links_of_the_grid_file() {
    let file = grid(GRID);
    let flags = ["-b", "1MB", "--initiation", "0s", "-s", "star,hierarchical"];
    let document = json(&file, &flags);

    let message = &document["messages"][0];
    // To the other site: 100 ms of transfer and 20 ms of latency. The bound is the sum of both, as
    // the latency follows the narrowest link.
    assert!(is_near(&message["bound_s"], 0.120), "{message}");
    // The star serves its neighbour first, which keeps the root busy for 10 ms; the hierarchical
    // tree sends to the other site first.
    let plans = message["plans"].as_array().unwrap();
    assert!(is_near(&plans[0]["time_s"], 0.130), "{message}");
    assert!(is_near(&plans[1]["time_s"], 0.120), "{message}");
    assert!(is_near(&plans[0]["over_bound"], 0.130 / 0.120), "{message}");
    assert_eq!((&plans[0]["crossings"], &plans[0]["depth"]), (&1.0.into(), &1.into()));
    assert_eq!((&plans[0]["segments"], &plans[0]["segment_bytes"]), (&1.into(), &Value::Null));
    let edge = &plans[0]["trees"][0]["edges"][1];
    assert_eq!((&edge["from"], &edge["to"]), (&0.into(), &2.into()));
    assert!(is_near(&edge["begin_s"], 0.010) && is_near(&edge["complete_s"], 0.130), "{edge}");
    assert_eq!(
        document["nodes"][2],
        serde_json::json!({
            "node": 2, "name": "u1", "site": "urbana", "cluster": "urbana"
        })
    );
}

#[test]
fn every_strategy_reaches_every_node_from_any_root_and_never_beats_the_bound() {
    let clusters = "[site.a.cluster.x]\nhosts = [\"x[1-3]\"]\n[site.a.cluster.y]\nhosts = [\"y[1-4]\"]\n\
                    [site.b]\nhosts = [\"b[1-3]\"]\n[site.c]\nhosts = [\"c1\"]\n";
    let file = grid(clusters);
    for (root, number) in [("y2", 4), ("10", 10)] {
        let flags = ["--bytes", "8B,70kB,2MB", "--root", root, "--effort", "5ms"];
        let document = json(&file, &flags);
        assert_eq!(document["root"], number);
        for message in document["messages"].as_array().unwrap() {
            let plans = message["plans"].as_array().unwrap();
            let names: Vec<_> = plans.iter().map(|plan| plan["strategy"].clone()).collect();
            assert_eq!(names, STRATEGIES);
            for plan in plans {
                let shares: f64 = plan["trees"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|tree| tree["share"].as_f64().unwrap())
                    .sum();
                assert!((shares - 1.0).abs() < 1e-9, "{plan}");
                for tree in plan["trees"].as_array().unwrap() {
                    let edges = tree["edges"].as_array().unwrap().iter();
                    let mut reached: Vec<_> =
                        edges.map(|edge| edge["to"].as_u64().unwrap()).collect();
                    reached.push(number);
                    reached.sort_unstable();
                    assert_eq!(reached, (0..11).collect::<Vec<_>>(), "{plan}");
                }
                assert!(plan["over_bound"].as_f64().unwrap() > 0.999, "{plan}");
            }
        }
    }
}

#[test]
fn a_shared_uplink_halves_the_speed_of_two_transfers() {
    // One site sends to two others at the same time: each transfer is half as fast if they share
    // the uplink.
    let file = grid(
        "wan = { latency = \"1ms\", bandwidth = \"8mbit\" }\n\
                     [site.a]\nhosts = [\"a1\"]\n[site.b]\nhosts = [\"b1\"]\n[site.c]\nhosts = [\"c1\"]\n",
    );
    let time = |sharing| {
        let flags = ["-b", "1MB", "-s", "static-pipeline", "--sharing", sharing];
        json(&file, &flags)["messages"][0]["plans"][0]["time_s"].as_f64().unwrap()
    };
    let (pairs, uplinks) = (time("site-pairs"), time("site-uplinks"));
    assert!(pairs > 1.0 && pairs < 1.2, "{pairs}");
    assert!(uplinks > 2.0 && uplinks < 2.2, "{uplinks}");
}

#[test]
fn a_table_and_trees_are_shown_in_plain_ascii() {
    let flags = ["-b", "1MB", "-s", "hierarchical", "--tree", "--initiation", "0s"];
    let output = bcast(&grid(GRID), &flags);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.is_ascii(), "{output:?}");
    let rows: Vec<Vec<&str>> =
        output.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..7], ["3", "nodes", "in", "2", "clusters", "at", "2"]);
    let row = ["hierarchical", "120", "ms", "1.00", "1", "1", "1.00", "whole"];
    assert!(rows.iter().any(|found| found.starts_with(&row)), "{output:?}");
    let wide = vec!["|-", "1.", "u1", "0", "us", "120", "ms", "urbana,", "from", "another", "site"];
    assert!(rows.contains(&wide), "{output:?}");
    assert!(rows.iter().any(|found| found.starts_with(&["`-", "2.", "d2"])), "{output:?}");
}

#[test]
fn a_chain_is_one_line_and_a_striped_broadcast_shows_each_tree() {
    let output = run(&["bcast", "-e", "1x9", "-b", "1MB", "-s", "static-pipeline", "--tree"]);
    assert!(output.stdout.contains("`- a[2-9] in a chain"), "{output:?}");

    // The search ends by itself; on a busy machine the default effort could end it too early.
    let flags = ["-e", "4x4,wan=5ms,rate=20mbit", "-b", "4MB", "-s", "striped"];
    let output = run(&[&["bcast", "--tree", "--effort", "1min"], &flags[..]].concat());
    assert!(output.stdout.contains("striped, tree 2 of "), "{output:?}");
}

#[test]
fn grids_with_few_and_with_many_nodes_are_drawn() {
    for (grid, root) in [("1x2", "0"), ("2x3", "b2"), ("5x40", "7"), ("9x60", "500")] {
        let flags = ["-b", "1MB", "-s", "striped", "--effort", "2ms", "--svg", "-"];
        let output = run(&[&["bcast", "-e", grid, "--root", root], &flags[..]].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        let svg = output.stdout;
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{grid}");
        assert!(svg.contains(">striped: 1.00 MB from ") && svg.contains("lower bound"), "{grid}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{grid}");
        assert!(svg.len() < 1 << 21, "{grid}: {} bytes", svg.len());
    }
}

#[test]
fn a_picture_goes_to_its_file_and_the_text_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.svg");
    let flags = ["-b", "1kB", "-s", "star,hierarchical", "--svg", path.to_str().unwrap()];
    let output = bcast(&grid(GRID), &flags);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.starts_with("3 nodes in 2 clusters"), "{output:?}");
    let svg = std::fs::read_to_string(path).unwrap();
    assert!(svg.contains(">delft<") && svg.contains(">u1<"), "{svg}");
    let output = bcast(&grid(GRID), &["-s", "star", "--svg", "/nowhere/plan.svg"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("cannot write /nowhere/plan.svg"), "{output:?}");
}

#[test]
fn invalid_requests_for_a_plan_exit_with_2_and_a_hint() {
    let cases: [(&[&str], &[&str]); 11] = [
        (&[], &["there is no grid to broadcast over", "--grid FILE"]),
        (&["-e", "2x2", "-s", "magic"], &["invalid value 'magic'", "clustered-sa", "striped"]),
        (&["-e", "2x2", "-r", "4"], &["`4` does not name exactly one node", "a[1-2], b[1-2]"]),
        (&["-e", "2x2", "-r", "z1"], &["`z1` does not name exactly one node"]),
        (&["-e", "2x2", "-b", "0B"], &["write a size of 1B to 1TB"]),
        (&["-e", "2x2", "-b", "1kB,2TB"], &["write a size of 1B to 1TB"]),
        (&["-e", "2x2", "-b", "12"], &["`12` has no known unit"]),
        (&["-e", "2x2", "--effort", "2min"], &["1ms to 1min"]),
        (&["-e", "1x1"], &["a single node"]),
        (&["-e", "200x2"], &["400 nodes in 200 clusters are too many", "128 clusters"]),
        (&["-g", "/nowhere/grid.toml"], &["/nowhere/grid.toml", "check the path"]),
    ];
    for (arguments, texts) in cases {
        let output = run(&[&["bcast"], arguments].concat());
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(texts.iter().all(|text| output.stderr.contains(text)), "{output:?}");
        assert_eq!(output.stdout, "");
    }
    let output = bcast(&grid("[site.a]\nhosts = 3\n"), &[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("line 2, column 9: `hosts` must be"), "{output:?}");
}

#[test]
fn help_names_strategies_and_examples() {
    for arguments in [
        &["bcast", "--help"][..],
        &["bench", "--help"],
        &["bench", "bcast", "--help"],
        &["bench", "ranks", "--help"],
        &["bench", "messages", "--help"],
        &["bench", "tasks", "--help"],
    ] {
        let output = run(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stdout.contains("Usage: "), "{output:?}");
    }
    let help = run(&["bcast", "--help"]).stdout;
    assert!(STRATEGIES.iter().all(|name| help.contains(name)), "{help}");
}

#[test]
fn the_hierarchical_tree_crosses_once_to_each_site_and_there_once_to_each_cluster() {
    let file = grid(
        "[site.a.cluster.x]\nhosts = [\"x[1-2]\"]\n[site.a.cluster.y]\nhosts = [\"y[1-4]\"]\n\
         [site.b]\nhosts = [\"b[1-2]\"]\n",
    );

    let document = json(&file, &["-b", "8kB", "-s", "hierarchical"]);

    let name = |node: &Value| {
        document["nodes"][node.as_u64().unwrap() as usize]["name"].as_str().unwrap().to_owned()
    };
    let edges = document["messages"][0]["plans"][0]["trees"][0]["edges"].as_array().unwrap();
    let edges: Vec<String> =
        edges.iter().map(|edge| format!("{}>{}", name(&edge["from"]), name(&edge["to"]))).collect();
    assert_eq!(edges, ["x1>b1", "x1>y1", "x1>x2", "y1>y3", "y1>y2", "y3>y4", "b1>b2"]);
}
