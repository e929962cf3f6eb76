//! The layout rules of ARCHITECTURE.md. A test that fails names the broken rule.
#![allow(clippy::unwrap_used)]

mod effects;
mod imports;
mod stored;

use gridspan_studies::structure::{
    Circle, SharedName, UnexplainedFailure, UnshownType, circles, failures_without_reason, read,
    shared_names, types_without_example,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The crates on which each crate of the workspace may depend.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("topology", &[]),
    ("balance", &["topology"]),
    ("bcast", &["topology"]),
    ("record", &["topology"]),
    ("plan", &["topology", "balance", "record"]),
    ("runtime", &["topology", "balance", "bcast", "record"]),
    ("ranks", &["topology", "runtime"]),
    ("workflow", &["topology"]),
    ("rpc", &["topology", "balance", "bcast", "workflow", "runtime"]),
    ("rpc-net", &["topology", "balance", "bcast", "workflow", "runtime", "rpc"]),
    ("sim", &["topology", "balance", "bcast", "record", "runtime"]),
    ("kernels", &["topology", "balance"]),
    ("jobs", &["topology", "balance", "bcast", "workflow", "runtime", "ranks", "rpc", "kernels"]),
    (
        "cli",
        &[
            "topology", "balance", "bcast", "record", "plan", "workflow", "runtime", "rpc",
            "rpc-net", "sim", "kernels", "jobs",
        ],
    ),
    // `studies` may have external dependencies that only experiments need.
    (
        "studies",
        &[
            "topology", "balance", "bcast", "record", "plan", "workflow", "runtime", "rpc",
            "rpc-net", "sim", "kernels", "jobs",
        ],
    ),
];

/// The layers of crates whose folders and files import downwards only, the lowest first.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "bcast",
        &[
            "search_budget",
            "trees",
            "model",
            "gupta_vadhiyar",
            "anneal",
            "pipeline",
            "advisor",
            "strategies",
        ],
    ),
    (
        "ranks",
        &[
            "element",
            "port",
            "refusal",
            "error",
            "ops",
            "selector",
            "tree",
            "segments",
            "heads",
            "site_links",
            "dissemination",
            "sharing",
            "runs",
            "deadlock",
            "executor",
            "sequential",
            "queues",
            "matching",
            "content",
            "typed_block",
            "ticket",
            "name_server",
            "places",
            "packet",
            "pieces",
            "scope",
            "local",
            "request",
            "comm",
            "p2p",
            "collective",
            "group",
            "cartesian",
            "graph",
            "window",
            "inter",
            "failures",
            "program",
            "actor",
            "main_watch",
            "world",
        ],
    ),
    (
        "runtime",
        &[
            "error",
            "schema",
            "address",
            "reduce",
            "message",
            "session",
            "net",
            "pe",
            "relay",
            "coordinator",
            "job",
            "tasks",
            "driver",
        ],
    ),
];

/// Types that users construct or implement, of the crate that the facade re-exports as a whole.
const MET_IN_WHOLE_CRATE: &[(&str, &str)] = &[
    ("ranks", "CallSite"),
    ("ranks", "Comm"),
    ("ranks", "CommRequest"),
    ("ranks", "Continuation"),
    ("ranks", "Destination"),
    ("ranks", "EagerLimit"),
    ("ranks", "Element"),
    ("ranks", "ErrorsReturn"),
    ("ranks", "Inbox"),
    ("ranks", "InterComm"),
    ("ranks", "InterRoot"),
    ("ranks", "MatchedMessage"),
    ("ranks", "NeighbourGraph"),
    ("ranks", "PersistentRecv"),
    ("ranks", "PersistentSend"),
    ("ranks", "ProcNull"),
    ("ranks", "Rank"),
    ("ranks", "RankFunctions"),
    ("ranks", "RankGroup"),
    ("ranks", "RankPort"),
    ("ranks", "SpawnPlacement"),
    ("ranks", "Cartesian"),
    ("ranks", "Operator"),
    ("ranks", "RankWindow"),
    ("ranks", "Resume"),
    ("ranks", "SequentialActor"),
    ("ranks", "SourceSelector"),
    ("ranks", "Status"),
    ("ranks", "TagSelector"),
    ("ranks", "TypedBlock"),
];

/// Types that need no example, besides identifiers and errors, which end in `Id` and `Error`.
const WITHOUT_EXAMPLE: &[&str] = &[
    // Errors whose names do not end in `Error`, and a part of an error.
    "GridFileProblem",
    "Misuse",
    "UnknownMode",
    "UnknownStealingPolicy",
    "UnknownStrategy",
    // Parts of a policy, in the example of `StealingPolicy`.
    "Amount",
    "Demand",
    "Grant",
    "Share",
    "StandingRequest",
    "StealMessage",
    "StealingLayout",
    "Turn",
    // Results, which users only read.
    "BalanceReport",
    "Cause",
    "Contradiction",
    "Ending",
    "FaultCounts",
    "LinkReport",
    "LogEntry",
    "Outcome",
    "QuicCounts",
    "Refusal",
    "Summary",
    "Traffic",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Items of the parsed source code that the tests examine.
struct Findings {
    effects: Vec<String>,
    circles: Vec<Circle>,
    shared_names: Vec<SharedName>,
    without_example: Vec<UnshownType>,
    unexplained: Vec<UnexplainedFailure>,
}

/// Returns the findings in all source code. It is parsed once, since that takes seconds, and
/// threads cannot share the parsed code.
fn findings() -> &'static Findings {
    static FINDINGS: OnceLock<Findings> = OnceLock::new();
    FINDINGS.get_or_init(|| {
        let sources = read(&root()).unwrap();
        Findings {
            effects: effects::violations(&sources),
            circles: circles(&sources),
            shared_names: shared_names(&sources),
            without_example: types_without_example(&sources, MET_IN_WHOLE_CRATE),
            unexplained: failures_without_reason(&sources),
        }
    })
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Returns the text of a file before its test module. If the test module is in another file, leaves
/// out only its declaration.
fn without_tests(text: &str) -> String {
    let mut parts = text.split("#[cfg(test)]\nmod ");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (declared, rest) = part.split_once('\n').unwrap_or((part, ""));
        if !declared.ends_with(';') {
            break;
        }
        kept.push_str(rest);
    }
    kept
}

#[test]
fn code_after_the_declaration_of_a_test_module_is_examined() {
    let text = "use a;\n#[cfg(test)]\nmod tests;\nuse b;\n#[cfg(test)]\nmod more {\n}\n";
    assert_eq!(without_tests(text), "use a;\nuse b;\n");
}

/// Returns the code of a file without comments and without its test module.
fn code(path: &Path) -> String {
    let text = without_tests(&fs::read_to_string(path).unwrap());
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| {
        part.as_os_str().to_str().is_some_and(|part| part == "tests" || part == "tests.rs")
    })
}

#[test]
fn crates_depend_only_on_those_below_them() {
    for (member, allowed) in MAY_DEPEND_ON {
        let manifest = root().join("crates").join(member).join("Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(&manifest).unwrap().parse().unwrap();
        let dependencies = manifest["dependencies"].as_table().unwrap();
        for name in dependencies.keys() {
            if let Some(other) = name.strip_prefix("gridspan-") {
                assert!(allowed.contains(&other), "rule: {member} must not depend on {other}");
            }
            let heavy = ["tokio", "quinn", "hyper"].contains(&name.as_str());
            // The runtime has an optional `tokio`, for object stores.
            let is_optional =
                dependencies[name].get("optional").is_some_and(|it| it.as_bool() == Some(true));
            assert!(
                !heavy || is_optional || ["cli", "rpc-net"].contains(member),
                "rule: {member} must not depend on {name}"
            );
        }
    }
}

#[test]
fn cargo_run_starts_gridctl() {
    for (member, _) in MAY_DEPEND_ON.iter().filter(|(member, _)| *member != "cli") {
        let program = root().join("crates").join(member).join("src/main.rs");
        assert!(!program.exists(), "rule: `cargo run` is gridctl; move {member}'s to `src/bin`");
    }
    let cli = fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap();
    assert!(cli.contains("default-run = \"gridctl\""), "rule: `cargo run` is gridctl");
}

#[test]
fn every_crate_is_listed_in_the_rules() {
    let mut folders: Vec<_> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut listed: Vec<_> = MAY_DEPEND_ON.iter().map(|(member, _)| (*member).to_owned()).collect();
    listed.sort();
    assert_eq!(folders, listed, "rule: every crate has its place in the layers");
}

#[test]
fn only_listed_files_have_external_effects() {
    let found = &findings().effects;
    assert!(found.is_empty(), "rule: only listed files have external effects; {found:#?}");
}

#[test]
fn circular_calls_between_the_files_of_a_type_only_shrink() {
    let line =
        |circle: &Circle| format!("{} {}: {}", circle.member, circle.of, circle.files.join(" "));
    let found: BTreeSet<String> = findings().circles.iter().map(line).collect();
    // A circle is allowed if a stored one contains all of its files.
    let is_within = |line: &str, stored: &BTreeSet<String>| {
        let (of, files) = line.split_once(": ").unwrap();
        let files: BTreeSet<&str> = files.split(' ').collect();
        let has_all = |other: &String| {
            let (other_of, others) = other.split_once(": ").unwrap();
            of == other_of && files.is_subset(&others.split(' ').collect())
        };
        stored.iter().any(has_all)
    };
    let rule = "methods of one type do not call each other in circles between files";
    stored::assert_only_shrinks("circles.txt", rule, &found, is_within);
}

#[test]
fn public_types_of_different_crates_have_different_names() {
    let line = |shared: &SharedName| format!("{}: {}", shared.name, shared.files.join(" "));
    let found: BTreeSet<String> = findings().shared_names.iter().map(line).collect();
    let is_listed = |line: &str, stored: &BTreeSet<String>| {
        let (name, files) = line.split_once(": ").unwrap();
        let files = files.split(' ').count();
        let is_no_better = |other: &String| {
            let (other_name, others) = other.split_once(": ").unwrap();
            name == other_name && files <= others.split(' ').count()
        };
        stored.iter().any(is_no_better)
    };
    let rule = "public types of two crates have different names";
    stored::assert_only_shrinks("names.txt", rule, &found, is_listed);
}

#[test]
fn types_that_users_meet_have_an_example_in_their_documentation() {
    let needs_none = |name: &str| {
        name.ends_with("Id") || name.ends_with("Error") || WITHOUT_EXAMPLE.contains(&name)
    };
    let found: Vec<_> =
        findings().without_example.iter().filter(|found| !needs_none(&found.name)).collect();
    assert!(found.is_empty(), "rule: an example shows how to use a type; missing for {found:#?}");
}

#[test]
fn public_functions_that_return_a_result_say_when_they_fail() {
    let found = &findings().unexplained;
    assert!(found.is_empty(), "rule: documentation has `# Errors`; missing for {found:#?}");
}

#[test]
fn the_runtime_without_net_has_neither_tokio_nor_quinn() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "-p", "gridspan-runtime", "--no-default-features", "-e", "normal"])
        .args(["--prefix", "none", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.contains("gridspan-topology"), "the tree lists the crates below:\n{tree}");
    for name in ["tokio", "quinn", "rustls", "polling"] {
        let found = tree.lines().find(|line| line.starts_with(name));
        assert_eq!(found, None, "rule: the runtime without `net` must not depend on {name}");
    }
}

/// Returns the files of a crate that are not tests: their paths without extension, and their code.
fn library(member: &str) -> Vec<(String, String)> {
    let source = root().join("crates").join(member).join("src");
    let files = rust_files(&source).into_iter().filter(|path| !is_test_file(path));
    let named = files.map(|path| {
        let name = path.strip_prefix(&source).unwrap().with_extension("");
        (name.to_str().unwrap().to_owned(), code(&path))
    });
    named.collect()
}

#[test]
fn files_import_only_from_layers_below_them() {
    for (member, layers) in LAYERS {
        let upward = imports::upward(&library(member), layers);
        assert!(upward.is_empty(), "rule: imports of {member} lead downwards; {upward:#?}");
    }
}

#[test]
fn the_files_of_a_crate_import_each_other_in_no_circle() {
    for (member, _) in MAY_DEPEND_ON {
        let circles = imports::circles(&library(member));
        assert!(circles.is_empty(), "rule: no import circles; in {member}: {circles:?}");
    }
}

#[test]
fn unsafe_code_is_in_one_file_only() {
    // In two parts, so that this file is not found.
    let allowed = concat!("allow(", "unsafe_code)");
    let folders = ["crates", "src", "tests", "benches", "examples"];
    let files = folders.iter().flat_map(|folder| rust_files(&root().join(folder)));
    let found: Vec<PathBuf> = files
        .filter(|path| fs::read_to_string(path).unwrap().contains(allowed))
        .map(|path| path.strip_prefix(root()).unwrap().to_owned())
        .collect();
    assert_eq!(found, [Path::new("crates/cli/src/lab/tun.rs")], "rule: unsafe code has one place");
}

#[test]
fn files_have_a_purpose_in_their_first_line() {
    for folder in ["crates", "src", "tests", "benches", "examples"] {
        for path in rust_files(&root().join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.starts_with("//! "), "rule: {} must say what it is for", path.display());
        }
    }
}
