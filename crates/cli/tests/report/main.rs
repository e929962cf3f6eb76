//! `gridctl report` on runs in which a cause of slowness was planted: the first sentence names the
//! cause and its place, and its share of the time is about the planted one. Each cause is planted
//! twice, in different sizes.
//!
//! This test is itself the program that `gridctl sim` runs.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod planted;

use cases::{CASES, Case, HEALTHY};
use common::run;
use serde_json::Value;
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tempfile::TempDir;

/// Number of runs at a time.
const THREADS: usize = 2;

fn main() -> ExitCode {
    if std::env::var_os("GRIDSPAN_DRIVER").is_some() {
        return planted::run();
    }
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let is_wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter));
    let wanted: Vec<&Case> = CASES.iter().filter(|case| is_wanted(case.name)).collect();
    let next = AtomicUsize::new(0);
    let failures: usize = thread::scope(|scope| {
        let work = || {
            let mut failures = 0;
            while let Some(case) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = check(case);
                let text = outcome.as_ref().err().map_or("ok", String::as_str);
                println!("test {} ... {text}", case.name);
                failures += usize::from(outcome.is_err());
            }
            failures
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    if is_wanted("summary_and_page") {
        summary_and_page();
        println!("test summary_and_page ... ok");
    }
    if is_wanted("what_is_no_recording") {
        what_is_no_recording_is_refused();
        println!("test what_is_no_recording ... ok");
    }
    ExitCode::from(u8::from(failures > 0))
}

/// Records a run. Returns the folder of the recording.
fn record(flags: &[&str], job: &[&str]) -> Result<TempDir, String> {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = std::env::current_exe().unwrap();
    let (program, path) = (program.to_str().unwrap(), folder.path().to_str().unwrap());
    let words = [&["sim"][..], flags, &["--record", path, program], job].concat();
    let output = run(&words);
    match output.code {
        Some(0) => Ok(folder),
        _ => Err(format!("{words:?} failed: {output:?}")),
    }
}

/// Checks what the report of a planted run says.
fn check(case: &Case) -> Result<(), String> {
    let folder = record(case.flags, case.job)?;
    let output = run(&["report", folder.path().to_str().unwrap(), "--json"]);
    if output.code != Some(0) {
        return Err(format!("the report failed: {output:?}"));
    }
    let document: Value = serde_json::from_str(&output.stdout).map_err(|it| it.to_string())?;
    let diagnosis = &document["diagnosis"];
    let sentence = diagnosis["sentence"].as_str().unwrap_or_default();
    let first = &diagnosis["limits"][0];
    let share = first["share"].as_f64().unwrap_or(0.0);
    let wrong = |what: &str| Err(format!("{what}: {diagnosis:#}\nwaits: {:#}", document["waits"]));
    if case.kind == HEALTHY {
        return match diagnosis["verdict"] == "healthy" && sentence.starts_with("The run is healthy")
        {
            true => Ok(()),
            false => wrong("it is healthy"),
        };
    }
    let [least, most] = case.share;
    let percent = format!("that took {:.0} % of the time of all PEs.", share * 100.0);
    match () {
        () if diagnosis["verdict"] != "limited" => wrong("it is limited"),
        () if first["kind"] != case.kind => wrong(case.kind),
        () if !sentence.starts_with("What limited the run: ") => wrong("the sentence"),
        () if !sentence.contains(case.says) => wrong(case.says),
        () if !sentence.ends_with(&percent) => wrong(&percent),
        () if !(least..=most).contains(&share) => wrong("its share is out of bounds"),
        () => Ok(()),
    }
}

fn summary_and_page() {
    let job = ["ring", "actors=8", "steps=10", "work=1000"];
    let folder = record(&["-e", "2x2,wan=20ms"], &job).unwrap();
    let path = folder.path().to_str().unwrap();

    let output = run(&["report", path]);

    assert_eq!(output.code, Some(0), "{output:?}");
    let json = run(&["report", path, "--json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let sentence = document["diagnosis"]["sentence"].as_str().unwrap();
    assert_eq!(output.stdout.lines().next(), Some(sentence));
    let page = folder.path().join("report.html");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert!(output.stdout.ends_with(&format!("the page is {}\n", page.display())), "{output:?}");

    let other = folder.path().join("other.html");
    let named = run(&["report", path, "-o", other.to_str().unwrap()]);
    assert_eq!(named.code, Some(0), "{named:?}");
    assert_eq!(fs::read_to_string(other).unwrap(), html, "the same recording gives the same page");
    assert_eq!(run(&["report", path, "-o", "-"]).stdout, html);
    let both = run(&["report", path, "--json", "-o", "x"]);
    assert_eq!(both.code, Some(2), "{both:?}");
    let unwritable = run(&["report", path, "-o", "/dev/null/page.html"]);
    assert_eq!(unwritable.code, Some(1), "{unwritable:?}");
}

fn what_is_no_recording_is_refused() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = run(&["report", folder.path().to_str().unwrap()]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("is not a recording"), "{output:?}");
}
