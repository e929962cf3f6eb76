//! `gridctl topo`: topologies from files.

use crate::common::{Output, run};
use std::io::Write;
use tempfile::NamedTempFile;

const GRID: &str = r#"
wan = { latency = "32ms", bandwidth = "100mbit" }
[site.delft]
hosts = ["d[01-04]"]
lan = { latency = "50us", bandwidth = "10gbit" }
[site.urbana]
hosts = ["u1", "u2"]
"#;

fn file(ending: &str, text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn topo(file: &NamedTempFile, flags: &[&str]) -> Output {
    run(&[&["topo", file.path().to_str().unwrap()], flags].concat())
}

fn json(file: &NamedTempFile, flags: &[&str]) -> serde_json::Value {
    let output = topo(file, &[flags, &["--json"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// Returns a matrix of two places with three nodes each. Round trips are 0.2 inside a place and 30
/// between the places, in the unit of the flags.
fn two_places(separator: &str) -> String {
    let cell = |a: usize, b: usize| match (a, b) {
        _ if a == b => "0",
        _ if a % 2 == b % 2 => "0.2",
        _ => "30",
    };
    let row = |a| (0..6).map(|b| cell(a, b)).collect::<Vec<_>>().join(separator) + "\n";
    (0..6).map(row).collect()
}

#[test]
fn a_grid_file_is_shown_as_a_tree_and_tables_in_plain_ascii() {
    let output = topo(&file(".toml", GRID), &[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.is_ascii(), "{output:?}");
    let rows: Vec<Vec<&str>> =
        output.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..5], ["6", "nodes", "in", "2", "levels,"]);
    let delft = ["|-", "delft", "4", "100", "us", "10.0", "Gbit/s", "1.00", "d[01-04]"];
    assert_eq!(rows[4], delft);
    assert_eq!(rows[5][..3], ["`-", "urbana", "2"]);
    assert!(rows.contains(&vec!["from", "delft", "0.050", "32.0"]), "{output:?}");
    assert!(rows.contains(&vec!["from", "urbana", "100", "10000"]), "{output:?}");
}

#[test]
fn the_uplink_of_a_grid_file_is_shown() {
    let text = GRID.replace("[site.urbana]", "[site.urbana]\nuplink = \"50mbit\"");
    let file = file(".toml", &text);
    let output = topo(&file, &[]);
    assert!(output.stdout.contains("\nthe nodes of urbana share one uplink of 50"), "{output:?}");
    assert_eq!(output.stdout.matches("uplink").count(), 1, "{output:?}");
    let document = json(&file, &[]);
    let groups = document["groups"].as_array().unwrap();
    let uplinks = groups.iter().map(|group| &group["uplink"]);
    let known: Vec<_> = uplinks.filter(|uplink| !uplink.is_null()).collect();
    assert_eq!(known, [&serde_json::json!({ "pipes": "shared", "bandwidth_bps": 50_000_000 })]);
}

#[test]
fn flags_about_the_start_of_nodes_are_refused_where_none_are_started() {
    let (grid, rtt) = (file(".toml", GRID), file(".txt", &two_places(" ")));
    let path = grid.path().to_str().unwrap();
    for (flag, value) in [("--ssh", "ssh -v"), ("--driver", "embedded")] {
        let flags = [flag, value];
        let live = run(&[&["topo"], &flags[..]].concat());
        let described = run(&[&["topo", "--grid", path], &flags[..]].concat());
        for output in [live, described, topo(&grid, &flags), topo(&rtt, &flags)] {
            assert_eq!(output.code, Some(2), "{output:?}");
            let expected = format!("error: {flag} is about the start of nodes");
            assert!(output.stderr.starts_with(&expected), "{output:?}");
        }
    }
}

#[test]
fn groups_are_inferred_from_a_matrix_in_either_form_and_unit() {
    let members = |document: &serde_json::Value| {
        let groups = document["groups"].as_array().unwrap();
        let coarse = groups.iter().filter(|group| group["level"] == 1);
        coarse.map(|group| group["nodes"].to_string()).collect::<Vec<_>>()
    };
    for (ending, separator) in [(".csv", ","), (".txt", " "), ("", "\t"), (".txt", ", ")] {
        let document = json(&file(ending, &two_places(separator)), &[]);
        assert_eq!(members(&document), ["[0,2,4]", "[1,3,5]"], "{ending} {separator:?}");
        assert_eq!(document["levels"][0]["rtt_ms"]["median"], 30.0);
    }
    let document = json(&file(".txt", &two_places(" ")), &["--unit", "us"]);
    assert_eq!(document["levels"][0]["rtt_ms"]["median"], 0.03);
}

#[test]
fn names_in_a_matrix_are_shown() {
    let rows = two_places(",");
    let named = rows.lines().enumerate().map(|(n, row)| format!("h{n},{row}\n"));
    let csv = format!(",h0,h1,h2,h3,h4,h5\n{}", named.collect::<String>());
    let document = json(&file(".csv", &csv), &[]);
    assert_eq!(document["nodes"][5]["name"], "h5");
    assert_eq!(document["nodes"][5]["site"], serde_json::Value::Null);
    let output = topo(&file(".csv", &csv), &[]);
    assert!(output.stdout.contains("h0, h2, h4"), "{output:?}");
}

#[test]
fn json_has_its_documented_keys() {
    let document = json(&file(".toml", GRID), &[]);
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let all = ["groups", "levels", "links", "nodes", "source", "version", "warnings"];
    assert_eq!(keys(&document), all);
    assert_eq!(
        (&document["version"], &document["source"]["kind"]),
        (&1.into(), &"grid-file".into())
    );
    assert_eq!(keys(&document["nodes"][0]), ["host", "name", "node", "site"]);
    let group = [
        "bandwidth_bps",
        "confidence",
        "group",
        "level",
        "name",
        "nodes",
        "parent",
        "rtt_ms",
        "uplink",
    ];
    assert_eq!(keys(&document["groups"][1]), group);
    let link = ["age_s", "bandwidth_bps", "confidence", "from", "latency_ms", "loss", "to"];
    assert_eq!(keys(&document["links"][0]), link);
    let between = document["links"].as_array().unwrap().iter();
    let between = between.clone().find(|link| link["from"] == 1 && link["to"] == 2).unwrap();
    assert_eq!(
        (&between["latency_ms"], &between["bandwidth_bps"]),
        (&32.0.into(), &100_000_000.into())
    );
}

#[test]
fn matrices_with_few_and_with_many_nodes_are_drawn() {
    let many = |nodes: usize| {
        let cell = |a: usize, b: usize| if a / 20 == b / 20 { "1" } else { "20" };
        let row = |a| (0..nodes).map(|b| cell(a, b)).collect::<Vec<_>>().join(" ") + "\n";
        file(".txt", &(0..nodes).map(row).collect::<String>())
    };
    for nodes in [2, 30, 256, 400] {
        let output = topo(&many(nodes), &["--svg", "-"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let svg = output.stdout;
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{nodes}");
        assert!(svg.contains("round trip, ms") && !svg.contains("NaN"), "{nodes}");
        assert_eq!(svg.contains("from group"), nodes > 256, "{nodes}");
        assert!(svg.len() < 1 << 20, "{nodes}: {} bytes", svg.len());
    }
}

#[test]
fn a_picture_goes_to_its_file_and_the_text_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.svg");
    let output = topo(&file(".toml", GRID), &["--svg", path.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.starts_with("6 nodes in 2 levels"));
    let svg = std::fs::read_to_string(path).unwrap();
    assert!(svg.contains(">delft<") || svg.contains(">d01<"), "{svg}");
    let output = topo(&file(".toml", GRID), &["--svg", "/nowhere/grid.svg"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("cannot write /nowhere/grid.svg"), "{output:?}");
}

#[test]
fn errors_of_a_topology_file_name_line_and_column() {
    let cases = [
        (".toml", "[site.a]\nhosts = 3\n", "line 2, column 9: `hosts` must be"),
        (".csv", "0,1\n1,x\n", "line 2, column 3: `x` is not a round trip"),
        (".txt", "0 1\n1 0 2\n", "line 2, column 1: this row has 3 numbers"),
        (".txt", "0 1\n", "line 1, column 1: there are fewer rows than columns"),
        (".txt", "# nothing\n", "line 1, column 1: there are no round trips"),
        (".txt", "0 9999999\n1 0\n", "line 1, column 3: 9999999 is more than an hour"),
    ];
    for (ending, text, expected) in cases {
        let output = topo(&file(ending, text), &[]);
        assert_eq!(output.code, Some(2), "{text:?}: {output:?}");
        assert!(output.stderr.contains(expected), "{text:?}: {output:?}");
        assert_eq!(output.stdout, "");
    }
    let output = run(&["topo", "/nowhere/matrix.csv"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("cannot read /nowhere/matrix.csv"), "{output:?}");
    let binary = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(binary.path(), b"\xff\xfe0\n").unwrap();
    let output = run(&["topo", binary.path().to_str().unwrap()]);
    assert_eq!(output.code, Some(2), "{output:?}");
    for part in ["it is not text in UTF-8", "a matrix is text"] {
        assert!(output.stderr.contains(part), "{output:?}");
    }
}

#[test]
fn a_matrix_without_a_single_round_trip_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "NA *\n- 0\n").unwrap();
    let output = run(&["topo", file.path().to_str().unwrap()]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("there are no round trips"), "{output:?}");
}

#[test]
fn names_and_seconds_of_plain_rows_are_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "node oslo bern\noslo * 0.03\nbern 0.03 *\n").unwrap();
    let output = run(&["topo", file.path().to_str().unwrap(), "--unit", "s", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(document["nodes"][1]["name"], "bern", "{document}");
    assert_eq!(document["levels"][0]["rtt_ms"]["median"], 30.0, "{document}");
}
