//! Commands about gridctl itself: `programs`, `help`, `completions` and `man`.

use crate::common::run;
use std::fs;

fn done(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    output.stdout
}

#[test]
fn built_in_jobs_are_programs() {
    let listed = done(&["programs"]);
    assert!(listed.lines().any(|line| line.starts_with("leanmd  ")), "{listed}");
    let document: serde_json::Value = serde_json::from_str(&done(&["programs", "--json"])).unwrap();
    let all = document.as_array().unwrap();
    assert_eq!(all.len(), listed.lines().count());
    assert!(all.iter().any(|job| job["name"] == "ring" && job["about"].is_string()), "{document}");
    let old = run(&["jobs"]);
    assert_eq!(old.code, Some(2), "{old:?}");
}

#[test]
fn help_explains_each_verb() {
    let all = done(&["help"]);
    let run_help = done(&["help", "run"]);
    assert!(run_help.contains("Usage: gridctl run [OPTIONS] PROGRAM [ARGS]..."), "{run_help}");
    assert!(done(&["help", "rpc", "serve"]).contains("--write-token <FILE>"));
    let jobs = ["ps", "kill", "wait", "logs", "prune"];
    let recordings = ["report", "plan", "trace", "compare"];
    let others = ["lab", "programs", "completions", "man", "help"];
    for verb in jobs.into_iter().chain(recordings).chain(others) {
        assert!(all.contains(&format!("\n  {verb} ")), "{verb}: {all}");
    }
    assert!(!all.contains("__job") && !all.contains("__lab"), "{all}");
}

#[test]
fn completions_of_all_shells_name_all_verbs() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = done(&["completions", shell]);
        for word in ["programs", "checkpoint-every", "completions", "write-token"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(!words.any(|word| ["__job", "__lab"].contains(&word)), "{shell}");
        assert!(!text.contains("--background") && !text.contains("-l background"), "{shell}");
    }
    assert_eq!(run(&["completions", "sh"]).code, Some(2));
}

#[test]
fn manual_pages_are_written_into_a_new_folder() {
    let folder = tempfile::tempdir().unwrap();
    let man = folder.path().join("share/man/man1");
    let told = done(&["man", man.to_str().unwrap()]);
    let names: Vec<_> = fs::read_dir(&man).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(told, format!("{} pages in {}\n", names.len(), man.display()));
    assert!(names.contains(&"gridctl.1".into()) && names.contains(&"gridctl-run.1".into()));
    let page = fs::read_to_string(man.join("gridctl-wait.1")).unwrap();
    assert!(page.contains("Wait until jobs of yours have ended"), "{page}");
    assert!(page.contains("\\fB\\-\\-timeout\\fR"), "{page}");
    let denied = run(&["man", "/dev/null/man"]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(denied.stderr.contains("cannot write /dev/null/man"), "{denied:?}");
}
