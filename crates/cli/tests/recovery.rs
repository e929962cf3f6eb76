//! Jobs that lose real processes go on from their checkpoints, and their results equal those of one
//! thread in every bit.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{JOB, LIMIT, Output, Running, proc_words, run, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Time in which the launcher notices that a process has ended, and says so.
const NOTICED_MAX: Duration = Duration::from_secs(1);

/// A step crosses the wide area twice, so it takes 40 ms and little processor time. The steps are
/// not over yet when the test has found the processes.
fn arguments<'a>(flags: &[&'a str], steps: &'a str) -> Vec<&'a str> {
    arguments_at("2x2,wan=20ms", flags, steps)
}

/// Arguments of a job that loses no process.
fn fast_arguments<'a>(flags: &[&'a str], steps: &'a str) -> Vec<&'a str> {
    arguments_at("2x2,wan=4ms", flags, steps)
}

fn arguments_at<'a>(place: &'a str, flags: &[&'a str], steps: &'a str) -> Vec<&'a str> {
    let place = ["run", "--driver", "cluster", "--emulate", place];
    place.into_iter().chain(flags.iter().copied()).chain(JOB).chain([steps]).collect()
}

/// Processor time that a process has used, in ticks of 10 ms.
fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    // The user and the system time are the 14th and the 15th field, and `rest` begins with the
    // third one.
    rest.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

fn assert_verified(running: &mut Running) {
    running.await_line("every bit as on one thread");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
}

/// A folder of this test, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gridspan-{name}-{}", std::process::id()));
        // An earlier run may have left it.
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_job_goes_on_without_any_one_of_its_nodes() {
    let mut soonest = Duration::MAX;
    for victim in 0..4 {
        let flags = ["--checkpoint-every", "10steps"];
        let mut running = Running::start(&arguments(&flags, "70"));
        let nodes = running.nodes(4);
        running.await_line("      30 ");
        // Each node is lost at another moment of a step.
        thread::sleep(Duration::from_millis(37 * victim as u64));

        kill(nodes[victim], Signal::KILL);

        let killed = Instant::now();
        running.await_line("it was killed by SIGKILL (9); 3 nodes are left");
        soonest = soonest.min(killed.elapsed());
        let summary = running.await_line("3 nodes go on");
        let loss = format!("/{victim} (it was killed by SIGKILL (9), noticed at once); back to ");
        assert!(summary.contains(&loss), "{summary}");
        assert!(summary.contains(" repeated; 3 nodes go on, "), "{summary}");
        assert_verified(&mut running);
    }
    // Other programs may delay the launcher once.
    assert!(soonest <= NOTICED_MAX, "{soonest:?}");
}

#[test]
fn the_automatic_interval_is_stated_with_the_expected_time_to_a_loss() {
    let flags = ["--checkpoint-every", "auto", "--node-mtbf", "14400s"];
    let mut running = Running::start(&fast_arguments(&flags, "20"));

    let stated = running.await_line("checkpoints follow about every ");

    let expected = "and the job is expected to lose a node every 60.0 min (`--node-mtbf`)";
    assert!(stated.ends_with(expected), "{stated}");
    assert_verified(&mut running);
}

#[test]
fn a_job_goes_on_after_the_loss_of_a_site() {
    let flags = ["--checkpoint-every", "10steps", "--protect-sites"];
    let mut running = Running::start(&arguments(&flags, "70"));
    let nodes = running.nodes(4);
    running.await_line("      30 ");

    kill(nodes[2], Signal::KILL);
    kill(nodes[3], Signal::KILL);

    running.await_line("2 nodes go on");
    assert_verified(&mut running);
}

#[test]
fn a_job_goes_on_when_gridctl_kills_a_site() {
    let flags = ["--checkpoint-every", "10steps", "--protect-sites"];
    let mut running = Running::start(&arguments(&flags, "80"));
    running.await_line("      40 ");

    let id = format!("leanmd-{}", running.child.id());
    let killed = run(&["kill", &id, "--node", "b"]);

    assert_eq!((&*killed.stdout, killed.code), ("b/[2-3] are killed\n", Some(0)), "{killed:?}");
    running.await_line("`gridctl kill` kills b/[2-3]");
    running.await_line("2 nodes go on");
    assert_verified(&mut running);
}

#[test]
fn a_loss_during_the_recovery_begins_it_again() {
    let flags = ["--checkpoint-every", "10steps", "--protect-sites"];
    let mut running = Running::start(&arguments(&flags, "80"));
    let nodes = running.nodes(4);
    running.await_line("      40 ");

    kill(nodes[0], Signal::KILL);
    running.await_line("going back to checkpoint");
    kill(nodes[1], Signal::KILL);

    running.await_line("2 nodes go on");
    assert_verified(&mut running);
}

#[test]
fn a_job_goes_back_to_one_checkpoint_twice() {
    let flags = ["--checkpoint-every", "40steps", "--protect-sites"];
    let mut running = Running::start(&arguments(&flags, "130"));
    let nodes = running.nodes(4);
    // The checkpoint of step 40 takes a few latencies.
    running.await_line("      60 ");

    kill(nodes[0], Signal::KILL);
    running.await_line("3 nodes go on");
    // Main has not yet reached its first progress point, where it makes the next checkpoint.
    kill(nodes[1], Signal::KILL);

    running.await_line("2 nodes go on");
    assert_verified(&mut running);
}

#[test]
fn a_folder_with_checkpoints_of_an_earlier_run_is_not_overwritten() {
    let folder = Folder::new("used");
    let flags = ["--checkpoint", folder.path(), "--checkpoint-every", "10steps"];
    assert_eq!(run(&fast_arguments(&flags, "20")).code, Some(0));

    let again = run(&fast_arguments(&flags, "20"));
    assert_eq!(again.code, Some(1));
    let advice = "has checkpoints of an earlier run, the last is 2: continue from it with";
    assert!(again.stderr.contains(advice), "{again:?}");

    let restart = ["--restart", folder.path()];
    let again = run(&fast_arguments(&[&flags[..], &restart].concat(), "20"));
    assert_eq!(again.code, Some(0), "{again:?}");
    let verified = run(&["checkpoint", "verify", folder.path()]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn checkpoints_are_stored_after_the_loss_of_the_node_that_stored_manifests() {
    let folder = Folder::new("manifests");
    let flags = ["--checkpoint", folder.path(), "--checkpoint-every", "10steps"];
    let mut running = Running::start(&arguments(&flags, "70"));
    let nodes = running.nodes(4);
    running.await_line("      30 ");
    kill(nodes[0], Signal::KILL);
    assert_verified(&mut running);

    let listed = run(&["checkpoint", "ls", folder.path(), "--json"]);
    let last: serde_json::Value =
        serde_json::from_str(listed.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["checkpoint"]["nodes"], 3, "{listed:?}");
    assert_eq!(run(&["checkpoint", "verify", folder.path()]).code, Some(0));
}

#[test]
fn a_job_goes_back_to_its_folder_if_no_node_has_a_copy() {
    for (on_loss, left) in [("shrink", "3 nodes go on"), ("replace", "4 nodes go on")] {
        let folder = Folder::new(on_loss);
        let place = ["--checkpoint", folder.path(), "--on-loss", on_loss];
        let often = ["--checkpoint-every", "10steps", "--copies", "1"];
        let flags = [place, often].concat();
        let mut running = Running::start(&arguments(&flags, "70"));
        let nodes = running.nodes(4);
        running.await_line("      30 ");

        kill(nodes[2], Signal::KILL);

        let back = running.await_line("going back to checkpoint");
        assert!(back.contains("; this repeats "), "{back}");
        assert!(
            back.ends_with("; the part of b/2 is read from the folder or object store"),
            "{back}"
        );
        running.await_line(left);
        assert_verified(&mut running);
    }
}

#[test]
fn lost_nodes_are_started_again_if_that_is_wanted() {
    let flags = ["--checkpoint-every", "10steps", "--on-loss", "replace"];
    let mut running = Running::start(&arguments(&flags, "160"));
    let nodes = running.nodes(4);
    running.await_line("      40 ");

    kill(nodes[1], Signal::KILL);

    running.await_line("4 nodes go on");
    let protected = running.await_line(" protects the job again, ");
    assert!(protected.ends_with(" after the loss"), "{protected}");
    let run = |pid: u32| {
        let words = proc_words(pid, "environ");
        words.iter().find_map(|word| word.strip_prefix("GRIDSPAN_RUN=").map(str::to_owned))
    };
    let runs: Vec<_> = running.nodes(4).into_iter().map(run).collect();
    assert_eq!(runs, ["0", "1", "0", "0"].map(|run| Some(run.to_owned())));
    assert_verified(&mut running);
}

#[test]
fn a_silent_node_is_left_behind() {
    let flags = ["--checkpoint-every", "10steps"];
    let mut running = Running::start(&arguments(&flags, "80"));
    let nodes = running.nodes(4);
    running.await_line("      30 ");

    kill(nodes[3], Signal::STOP);

    let lost = running.await_line("; 3 nodes are left");
    assert!(lost.contains("it was silent for 3"), "{lost}");
    let summary = running.await_line("3 nodes go on");
    assert!(summary.contains("lost b/3 (it was silent for 3"), "{summary}");
    assert_verified(&mut running);
}

#[test]
fn a_job_without_a_checkpoint_begins_again() {
    let mut running = Running::start(&arguments(&["--checkpoint-every", "100000steps"], "60"));
    let nodes = running.nodes(4);
    running.await_line("      20 ");

    kill(nodes[2], Signal::KILL);

    running.await_line("the job begins again, since it had made no checkpoint");
    running.await_line("3 nodes go on");
    running.await_line("       0 ");
    assert_verified(&mut running);
}

#[test]
fn a_search_of_a_tree_begins_again_without_the_lost_node() {
    let place = ["run", "--driver", "cluster", "--emulate", "2x2,wan=4ms", "--on-loss", "shrink"];
    let job = ["--json", "uts", "--tree", "T1"];
    let mut running = Running::start(&[&place[..], &job].concat());
    let nodes = running.nodes(4);
    // The job begins when all nodes listen, and prints nothing before its end. The processor time
    // in the condition below is more than the start of a node takes, and less than its part of the
    // search.
    for _ in &nodes {
        running.await_line("\"listening\"");
    }
    let searching = processor_ticks(nodes[0]) + 15;
    until(|| (processor_ticks(nodes[0]) >= searching).then_some(()));

    kill(nodes[0], Signal::KILL);

    running.await_line("the job begins again, since it had made no checkpoint");
    running.await_line("verified: yes (4130071 nodes, ");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
}

#[test]
fn the_tasks_of_a_killed_node_are_repeated_by_the_others() {
    let place = ["run", "--driver", "cluster", "--emulate", "2x2,wan=4ms", "--on-loss", "shrink"];
    let job = ["--json", "uts", "--tree", "T1"];
    for victim in [1, 3] {
        let mut running = Running::start(&[&place[..], &job].concat());
        let nodes = running.nodes(4);
        for _ in &nodes {
            running.await_line("\"listening\"");
        }
        // As above: the node has a part of the search.
        let searching = processor_ticks(nodes[victim]) + 15;
        until(|| (processor_ticks(nodes[victim]) >= searching).then_some(()));

        kill(nodes[victim], Signal::KILL);

        let lost = running.await_line("\"recovery\"");
        let repeat = "it was killed by SIGKILL (9); 3 nodes are left, and repeat its tasks";
        assert!(lost.contains(repeat), "{lost}");
        // If the job began again, it would have the PEs of the three nodes that are left.
        running.await_line("tree T1 on 4 PEs: ");
        running.await_line("verified: yes (4130071 nodes, ");
        assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
    }
}

#[test]
fn a_search_begins_again_if_the_tasks_of_a_killed_node_are_not_kept() {
    let place = ["run", "--driver", "cluster", "--emulate", "2x2,wan=4ms", "--on-loss", "shrink"];
    let job = ["--log-bytes", "0", "--json", "uts", "--tree", "T1"];
    let mut running = Running::start(&[&place[..], &job].concat());
    let nodes = running.nodes(4);
    for _ in &nodes {
        running.await_line("\"listening\"");
    }
    // As above: the node has a part of the search.
    let searching = processor_ticks(nodes[1]) + 15;
    until(|| (processor_ticks(nodes[1]) >= searching).then_some(()));

    kill(nodes[1], Signal::KILL);

    running.await_line("its log of loans, limited to 0B, lacks ");
    running.await_line("verified: yes (4130071 nodes, ");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
}

#[test]
fn meshes_and_particles_go_on_from_a_checkpoint() {
    let jobs: [(&[&str], &str, &str); 2] = [
        (
            &[
                "stencil",
                "-n",
                "768",
                "--blocks",
                "6",
                "--iterations",
                "1500",
                "--report-every",
                "20",
            ],
            "sweep 400:",
            "verified: yes (largest error",
        ),
        (
            &["pic", "--cells", "400", "--particles", "60000", "--steps", "500"],
            "step 150:",
            "particles, each where it must be)",
        ),
    ];
    for (job, reported, verified) in jobs {
        let place = ["run", "--driver", "cluster", "-n", "3", "--checkpoint-every", "3steps"];
        let mut running = Running::start(&[&place[..], job].concat());
        let nodes = running.nodes(3);
        running.await_line(reported);

        kill(nodes[0], Signal::KILL);

        running.await_line("going back to checkpoint");
        running.await_line("2 nodes go on");
        running.await_line(verified);
        assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
    }
}

/// Whether a folder has a complete checkpoint.
fn has_checkpoint(folder: &Folder) -> bool {
    let mut checkpoints = fs::read_dir(&folder.0).into_iter().flatten().flatten();
    checkpoints.any(|checkpoint| checkpoint.path().join("manifest").exists())
}

#[test]
fn ranks_go_on_from_a_checkpoint_with_the_values_of_a_run_without_a_loss() {
    // Each job, the text before its values, and the node that is killed.
    let jobs = [
        ("nas cg --class S --ranks 8 --migrate-every 1", "zeta: ", 0),
        ("jacobi --size 64 --ranks 8 --steps 400 --check 50 --migrate-every 20", "step ", 2),
    ];
    for (job, values, victim) in jobs {
        let job: Vec<&str> = job.split(' ').collect();
        let calm = run(&[&["run", "-n", "1"], &job[..]].concat());
        let with_value = |line: &str| line.find(values).map(|at| line[at..].to_owned());
        let expected: Vec<String> = calm.stdout.lines().filter_map(with_value).collect();
        assert!(calm.code == Some(0) && !expected.is_empty(), "{calm:?}");

        let folder = Folder::new(job[0]);
        let place = ["run", "--driver", "cluster", "--emulate", "2x2,wan=2ms"];
        let flags = ["--checkpoint-every", "2steps", "--checkpoint", folder.path()];
        let mut running = Running::start(&[&place[..], &flags, &job[..]].concat());
        let nodes = running.nodes(4);
        // Nothing is printed before the end.
        until(|| has_checkpoint(&folder).then_some(()));

        kill(nodes[victim], Signal::KILL);

        running.await_line("going back to checkpoint");
        running.await_line("3 nodes go on");
        for value in expected {
            running.await_line(&value);
        }
        running.await_line("verified: yes (");
        assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
    }
}

#[test]
fn a_job_ends_with_the_reason_if_its_main_cannot_begin_again() {
    let place = ["run", "-n", "3", "--checkpoint-every", "auto", "drill", "--wait", "60"];
    let mut running = Running::start(&place);
    let nodes = running.nodes(3);
    running.await_line("3 lines from 3 nodes");

    kill(nodes[2], Signal::KILL);

    running.await_line("its main cannot begin again; define it by `restartable_main`");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(1));
}

#[test]
fn a_job_goes_on_from_a_folder_on_other_numbers_of_nodes() {
    let folder = Folder::new("restart");
    let flags = ["--checkpoint", folder.path(), "--checkpoint-every", "25steps"];
    let first = run(&fast_arguments(&flags, "60"));
    assert_eq!(first.code, Some(0), "{first:?}");

    let listed = run(&["checkpoint", "ls", folder.path()]);
    assert_eq!(listed.stdout.lines().count(), 3, "the last two are kept: {listed:?}");
    let verified = run(&["checkpoint", "verify", folder.path()]);
    assert!(verified.stdout.contains("checkpoint 2: 4 parts"), "{verified:?}");

    for place in [&["-n", "3"][..], &["--emulate", "3x1,wan=4ms"], &["-n", "1"]] {
        let restart = ["--restart", folder.path()];
        let words: Vec<&str> =
            ["run"].into_iter().chain(place.iter().copied()).chain(restart).chain(JOB).collect();
        let again = run(&[&words[..], &["60"]].concat());
        assert!(again.stdout.contains("every bit as on one thread"), "{place:?}: {again:?}");
        assert_eq!(again.code, Some(0));
        assert!(!again.stdout.contains("      40 "), "it begins later: {again:?}");
    }
}

/// Runs a command about checkpoints. Returns what it prints.
fn printed(arguments: &[&str]) -> String {
    let output = run(&[&["checkpoint"], arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout
}

/// The checkpoints that a command prints with `--json`.
fn described(arguments: &[&str]) -> Vec<serde_json::Value> {
    let text = printed(&[arguments, &["--json"]].concat());
    let of_line = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["version"], 1);
        assert_eq!(line["event"], "checkpoint");
        line["checkpoint"].clone()
    };
    text.lines().map(of_line).collect()
}

#[test]
fn checkpoints_are_listed_shown_and_verified_for_people_and_for_scripts() {
    let folder = Folder::new("shown");
    let flags = ["--checkpoint", folder.path(), "--checkpoint-every", "10steps"];
    assert_eq!(run(&fast_arguments(&flags, "20")).code, Some(0));
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();

    let all = described(&["ls", folder.path()]);
    let numbers: Vec<_> = all.iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2]);
    let listed = printed(&["ls", folder.path()]);
    let listed: Vec<_> = listed.lines().map(|line| columns(line)[..2].join(" ")).collect();
    assert_eq!(listed, ["NUMBER JOB", "1 leanmd", "2 leanmd"]);

    let last = &all[1];
    assert_eq!(
        described(&["show", folder.path()]),
        std::slice::from_ref(last),
        "by default, the last"
    );
    assert_eq!(described(&["show", folder.path(), "--number", "1"]), [all[0].clone()]);
    assert_eq!(["sites", "nodes", "pes"].map(|of| last[of].as_u64()), [2, 4, 4].map(Some));
    let (actors, shown) = (&last["actors"], printed(&["show", folder.path()]));
    assert!(shown.starts_with("checkpoint 2 of leanmd, made "), "{shown}");
    assert!(shown.contains(&format!("\n{actors} actors in ")), "{shown}");
    let (_, table) = shown.split_once("\n\n").unwrap();
    let rows: Vec<Vec<String>> = table.lines().map(columns).collect();
    let places: Vec<String> = rows.iter().map(|row| row[..3].join(" ")).collect();
    assert_eq!(places, ["SITE NODE PES", "a 0 1", "a 1 1", "b 2 1", "b 3 1"]);
    let of_nodes = rows[1..].iter().map(|row| row[3].parse::<u64>().unwrap());
    assert_eq!(Some(of_nodes.sum::<u64>()), actors.as_u64());

    assert_eq!(described(&["verify", folder.path()]), all);
    let verified = printed(&["verify", folder.path()]);
    for (line, number) in verified.lines().zip(1..=2) {
        let begin = format!("checkpoint {number}: 4 parts, ");
        assert!(line.starts_with(&begin) && line.ends_with(", intact"), "{line}");
    }
    for verb in ["ls", "show", "verify"] {
        let missing = run(&["checkpoint", verb, folder.path(), "--number", "7"]);
        assert_eq!(missing.code, Some(1), "{verb}: {missing:?}");
    }
}

#[test]
fn damaged_checkpoints_are_refused() {
    let folder = Folder::new("damaged");
    let flags = ["--checkpoint", folder.path(), "--checkpoint-every", "20steps"];
    assert_eq!(run(&fast_arguments(&flags, "20")).code, Some(0));
    let checkpoint = folder.0.join("checkpoint-00000001");
    let restart = |job: &[&str]| -> Output {
        run(&[&["run", "-n", "2", "--restart", folder.path()], job].concat())
    };
    let steps = [&JOB[..], &["40"]].concat();

    let other = restart(&["ring"]);
    assert_eq!(other.code, Some(1));
    assert!(other.stderr.contains("was made by job `leanmd`, and this is job `ring`"), "{other:?}");

    let files = fs::read_dir(&checkpoint).unwrap().map(|entry| entry.unwrap().path());
    let is_part = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with("-000002"));
    let part = files.into_iter().find(is_part).unwrap();
    let name = part.file_name().unwrap().to_str().unwrap();
    let bytes = fs::read(&part).unwrap();
    let mut altered = bytes.clone();
    altered[bytes.len() / 2] ^= 1;
    let mut newer = bytes.clone();
    newer[8] = 9;
    let cases = [
        (altered, "its digest does not match"),
        (bytes[..bytes.len() / 2].to_vec(), "its digest does not match"),
        (newer, "it has version 9, and this program reads version 6"),
        (b"something else, long enough to be the file of a part".to_vec(), "not a part of a"),
        (Vec::new(), "it is too short"),
    ];
    for (bytes, reason) in cases {
        fs::write(&part, bytes).unwrap();
        let refused = restart(&steps);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains(reason), "{reason}: {refused:?}");
        assert!(refused.stderr.contains(name), "{refused:?}");
        assert_eq!(run(&["checkpoint", "verify", folder.path()]).code, Some(1));
    }
    fs::remove_file(checkpoint.join("manifest")).unwrap();
    let refused = restart(&steps);
    assert!(refused.stderr.contains("there is no complete checkpoint in it"), "{refused:?}");
}
