//! Wrong programs whose compile errors say what to write instead.
//!
//! The compiler must reject each program of `cases`, and print the texts that `ADVICE` lists for
//! it. The other lines are not compared, since they differ between toolchains.
#![allow(missing_docs, clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each program, and texts that the compiler must print for it.
const ADVICE: &[(&str, &[&str])] = &[
    // The advice of `serde`.
    (
        "state_without_serde",
        &[
            "consider adding `#[derive(serde::Serialize)]` to your `Cell` type",
            "consider adding `#[derive(serde::Deserialize)]` to your `Cell` type",
        ],
    ),
    (
        "message_without_serde",
        &[
            "consider adding `#[derive(serde::Serialize)]` to your `Message` type",
            "consider adding `#[derive(serde::Deserialize)]` to your `Message` type",
        ],
    ),
    ("index_that_is_a_number", &["`usize` is not an index of actors", "use `Ix1` to `Ix6`"]),
    ("indices_that_are_a_range", &["is not a set of indices", "write `Ix1::range(n)`"]),
    ("job_of_a_message", &["`Message` is not an actor", "write `impl Actor for Message`"]),
    (
        "contribution_of_a_struct",
        &["`Particle` cannot be contributed to a reduction", "wrap values of other types as `List"],
    ),
    ("task_that_is_none", &["`Fib` is not a task", "write `impl Task for Fib`"]),
    (
        "total_that_does_not_merge",
        &["`u64` cannot be the total of a search", "write `impl Merge for u64`"],
    ),
    (
        "strategy_by_name",
        &[
            "`&str` is not a balancing strategy",
            "write a value such as `GridCut::default()`",
            "`&str` is not a stealing policy",
            "write a value such as `Lifeline::default()`",
        ],
    ),
    (
        "messages_of_ranks",
        &[
            "`String` is not an element of a message",
            "receive it by `recv_value`",
            "`&str` is not an operator over slices of `f64`",
            "write one of `ranks::ops`, such as `ops::sum`",
        ],
    ),
    (
        "rank_that_is_none",
        &[
            "`Adder` is not a rank",
            "write `impl Rank for Adder`",
            "`Adder` is not a sequential actor",
            "write `impl SequentialActor for Adder`",
        ],
    ),
    (
        "calls_of_a_group",
        &[
            "`Vec<u64>` is not a catalogue of functions",
            "write `impl Catalogue for Vec<u64>`",
            "`u64` is not a tuple of one to six parts",
            "write `Function<(A, B), (C,)>`",
            "`(u64,)` cannot be the arguments of a function of `(u64,)`",
            "`group.value(&value)?` makes one of a value",
            "`str` is not a heuristic",
            "write a reference to one, such as `&HeftC::default()`",
        ],
    ),
];

#[test]
fn errors_of_the_compiler_say_what_to_write() {
    let libraries = Libraries::built();
    for (case, texts) in ADVICE {
        let printed = libraries.compile(case).expect_err("a wrong program compiles");
        for text in *texts {
            assert!(printed.contains(text), "{case} without `{text}`:\n{printed}");
        }
    }
}

#[test]
fn every_case_is_compiled() {
    let files = std::fs::read_dir(cases()).unwrap();
    let names = files.map(|file| file.unwrap().path().file_stem().unwrap().to_owned());
    for name in names {
        assert!(ADVICE.iter().any(|(case, _)| name == *case), "{} has no advice", name.display());
    }
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advice/cases")
}

/// The libraries that the programs use, as cargo has built them for this test.
struct Libraries {
    gridspan: PathBuf,
    serde: PathBuf,
}

impl Libraries {
    fn built() -> Self {
        let mut command = gridspan_studies::cargo();
        // The whole workspace, so that the features are those of `cargo test --workspace`.
        command.args(["build", "--quiet", "--offline", "--workspace", "--test", "advice"]);
        command.args(["--message-format", "json"]);
        let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let messages = String::from_utf8(output.stdout).unwrap();
        let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
        let messages: Vec<Value> = messages.collect();
        let library = |name| messages.iter().find_map(|message| rlib(message, name)).unwrap();
        Self { gridspan: library("gridspan"), serde: library("serde") }
    }

    /// Compiles a program, or returns what the compiler printed.
    fn compile(&self, case: &str) -> Result<(), String> {
        let named = |name: &str, path: &Path| format!("{name}={}", path.display());
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(compiler)
            .arg(cases().join(case).with_extension("rs"))
            .args(["--edition", "2024", "--emit", "metadata", "--out-dir"])
            .arg(env!("CARGO_TARGET_TMPDIR"))
            .args(["--extern", &named("gridspan", &self.gridspan)])
            .args(["--extern", &named("serde", &self.serde)])
            .args(["-L", &named("dependency", self.gridspan.parent().unwrap())])
            .args(["-L", &named("dependency", self.serde.parent().unwrap())])
            .output()
            .unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

/// Returns the library of this name, if the message of cargo is about it.
fn rlib(message: &Value, name: &str) -> Option<PathBuf> {
    let is_library = message["reason"] == "compiler-artifact"
        && message["target"]["name"] == name
        && message["target"]["kind"].as_array()?.iter().any(|kind| kind == "lib");
    let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str);
    let mut files = files.map(PathBuf::from);
    files.find(|file| is_library && file.extension().is_some_and(|end| end == "rlib"))
}
