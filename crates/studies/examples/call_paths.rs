//! Prints the functions that run from a call to its handler: for a send on one PE and to another
//! node, a migration, a broadcast, a reduction, a steal and a join.
//!
//! ```text
//! cargo run -p gridspan-studies --example call_paths [ROOT [FOLDER]]
//! ```
//!
//! It copies the source code at ROOT (default `.`) to FOLDER (default `target/call_paths`), adds a
//! call to a recorder to all functions of the runtime and its policies, and runs the simulator's
//! example `handler_calls` there. The simulator has one thread, so the functions that run between
//! two points are those of one operation and of other work that the job does at that time.

use gridspan_studies::structure::instrument;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

/// The crates whose functions are recorded.
const RECORDED: [&str; 3] = ["balance", "bcast", "runtime"];
/// The crate with the recorder: all others depend on it. Its own functions are not recorded,
/// because it contains the simulator's model of links.
const BASE: &str = "topology";
/// The recorder.
const RECORDER: &str = r#"//! Records which functions run.
#![allow(missing_docs)]

use std::cell::{Cell, RefCell};

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

pub fn note(label: &'static str) {
    if IS_ON.get() {
        SEEN.with_borrow_mut(|seen| if !seen.contains(&label) { seen.push(label) });
    }
}

pub fn begin() {
    IS_ON.set(true);
    SEEN.with_borrow_mut(Vec::clear);
}

pub fn end() -> Vec<&'static str> {
    IS_ON.set(false);
    SEEN.take()
}
"#;
/// The hooks that the example calls in the copy.
const HOOKS: &str = r#"//! Records which functions run.

use gridspan_topology::recorder;

/// Functions that run from now on are recorded.
pub(crate) fn begin() {
    recorder::begin();
}

/// Those that have run since, in the order in which they ran first.
pub(crate) fn end() -> Vec<&'static str> {
    recorder::end()
}
"#;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let root = arguments.next().unwrap_or_else(|| PathBuf::from("."));
    let folder = arguments.next().unwrap_or_else(|| root.join("target/call_paths"));
    match run(&root, &folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("call_paths: {error}; run it at the root of the workspace, or give its path");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    // An earlier run may have copied files that no longer exist at `root`.
    let crates = folder.join("crates");
    if crates.exists() {
        fs::remove_dir_all(&crates)?;
    }
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files"]).output()?;
    for name in String::from_utf8(listed.stdout)?.lines() {
        let (from, to) = (root.join(name), folder.join(name));
        // Git also lists a file that was deleted without a commit.
        if from.is_file() {
            fs::create_dir_all(to.parent().ok_or("a file is in a folder")?)?;
            copy(&from, name, &to)?;
        }
    }
    let base = crates.join(BASE).join("src");
    fs::write(base.join("recorder.rs"), RECORDER)?;
    let lib = base.join("lib.rs");
    fs::write(&lib, fs::read_to_string(&lib)? + "\npub mod recorder;\n")?;
    fs::write(folder.join("crates/sim/examples/handler_calls/hooks.rs"), HOOKS)?;
    let mut run = gridspan_studies::cargo();
    run.current_dir(folder).args([
        "run",
        "--quiet",
        "-p",
        "gridspan-sim",
        "--example",
        "handler_calls",
    ]);
    match run.status()?.success() {
        true => Ok(()),
        false => Err("the example failed".into()),
    }
}

fn copy(from: &Path, name: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let is_recorded =
        RECORDED.iter().any(|member| name.starts_with(&format!("crates/{member}/src/")));
    if !is_recorded || !name.ends_with(".rs") {
        fs::copy(from, to)?;
        return Ok(());
    }
    let text = instrument(name, &fs::read_to_string(from)?, "::gridspan_topology::recorder::note")?;
    fs::write(to, text)?;
    Ok(())
}
