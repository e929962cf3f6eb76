//! `gridctl balance`: dumps of real and simulated runs can be replayed, and exported for other
//! tools.

use crate::common::run;
use std::fs;
use std::path::PathBuf;

/// Returns a path in a folder of these tests.
fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("balance");
    fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

const LEANMD: [&str; 7] = ["leanmd", "--atoms", "1500", "--steps", "4", "--sync-every", "2"];

#[test]
fn the_measurements_of_a_run_can_be_replayed_with_any_strategy() {
    for (name, place) in [
        ("sim.json", &["sim", "--emulate", "2x2,wan=8ms"][..]),
        ("cluster.json", &["run", "--emulate", "2x2,wan=8ms", "--driver", "cluster"]),
    ] {
        let file = path(name);
        let file = file.to_str().unwrap();
        let dump = ["--balance", "refine", "--balance-dump", file];
        let output = run(&[place, &dump, &LEANMD].concat());
        assert_eq!(output.code, Some(0), "{output:?}");

        let replay = run(&["balance", "replay", file, "-s", "grid-cut,rotate", "--json"]);
        assert_eq!(replay.code, Some(0), "{replay:?}");
        let document: serde_json::Value = serde_json::from_str(&replay.stdout).unwrap();
        let actors = document["actors"].as_u64().unwrap();
        assert!(actors > 0 && document["edges"].as_u64().unwrap() > actors, "{document}");
        let report = &document["plans"][1]["report"];
        assert_eq!(report["migrations"].as_u64(), Some(actors), "rotate moves all actors");
        let compute = &document["plans"][0]["report"]["before"]["compute"];
        assert!(compute["nanos"].as_u64().unwrap() > 0, "loads were measured: {compute}");

        let text = run(&["balance", "replay", file, "-s", "rotate", "--why"]).stdout;
        assert!(text.contains("as it is"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains(" from pe")).count() as u64, actors);
    }
}

#[test]
fn an_export_for_vt_replays_like_its_dump() {
    let (dump, stem) = (path("exported.json"), path("vt"));
    let (dump, stem) = (dump.to_str().unwrap(), stem.to_str().unwrap());
    let place = ["sim", "--emulate", "2x2,wan=8ms", "--balance", "refine", "--balance-dump", dump];
    assert_eq!(run(&[&place[..], &LEANMD].concat()).code, Some(0));

    let export = run(&["balance", "export", "--format", "vt", dump, stem]);
    assert_eq!(export.code, Some(0), "{export:?}");

    assert!(fs::exists(format!("{stem}.3.json")).unwrap());
    assert!(!fs::exists(format!("{stem}.4.json")).unwrap());
    let replay = |arguments: &[&str]| {
        let line = [&["balance", "replay", "-s", "rotate", "--json"], arguments].concat();
        let document: serde_json::Value = serde_json::from_str(&run(&line).stdout).unwrap();
        let report = &document["plans"][0]["report"];
        let migrations = report["migrations"].as_u64().unwrap();
        (document["actors"].clone(), document["edges"].clone(), document["pes"].clone(), migrations)
    };
    let exported = replay(&["--format", "vt", stem]);
    assert_eq!(exported, replay(&[dump]));
    assert!(exported.3 > 0);

    for (stem, number) in [(stem, "2"), ("/nowhere/vt", "1")] {
        let output = run(&["balance", "replay", "--format", "vt", stem, "--rebalance", number]);
        assert_eq!(output.code, Some(2), "{output:?}");
    }
}

#[test]
fn an_invalid_dump_and_a_missing_rebalance_are_usage_errors() {
    let file = path("nonsense.json");
    fs::write(&file, "{\"version\": 1}\n").unwrap();
    let file = file.to_str().unwrap();
    for arguments in
        [vec!["balance", "replay", file], vec!["balance", "replay", file, "--rebalance", "2"]]
    {
        let output = run(&arguments);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains("--balance-dump FILE"), "{output:?}");
    }
    assert_eq!(run(&["balance", "replay", "/nowhere"]).code, Some(2));
}
