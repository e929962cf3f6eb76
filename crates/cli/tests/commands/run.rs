//! `gridctl run`: exit codes, output and errors.

use crate::common::{Output, finish, gridctl, run};
use std::io::Write;

fn last_paragraph(output: &Output) -> &str {
    let begin = output.stderr.rfind("error: ").expect("there should be an error");
    &output.stderr[begin..]
}

#[test]
fn a_built_in_job_runs_in_this_process_and_exits_with_zero() {
    let output = run(&["run", "ring", "--members", "8", "--rounds", "3"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.starts_with("3 rounds over 8 actors on "), "{output:?}");
    assert!(output.stdout.contains("verified: yes (24 hops, "), "{output:?}");
}

#[test]
fn node_processes_print_whole_lines_behind_their_names() {
    let output = run(&["run", "-n", "3", "drill", "--lines", "20"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    for node in 0..3 {
        let prefix = format!("local/{node}│ node {node}, line ");
        assert_eq!(output.stdout.lines().filter(|line| line.starts_with(&prefix)).count(), 20);
        let prefix = format!("local/{node}│ node {node}, error line ");
        assert_eq!(output.stderr.lines().filter(|line| line.starts_with(&prefix)).count(), 20);
    }
    assert!(output.stdout.lines().all(|line| line.starts_with("local/")), "{output:?}");
    // Lines of different nodes come over different pipes, in any order.
    let end = "local/0│ 60 lines from 3 nodes";
    assert!(output.stdout.lines().any(|line| line == end), "{output:?}");
}

#[test]
fn the_lines_of_each_node_are_in_files_if_the_user_wants_that() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("logs");
    let path = folder.to_str().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();

    let output = run(&["run", "-n", "2", "--logs", path, "drill", "--lines", "20"]);

    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("local/1│ node 1, line "), "{output:?}");
    for node in 0..2 {
        for (ending, begin) in [("out", "line"), ("err", "error line")] {
            let text = read(&format!("local-{node}.{ending}"));
            let begin = format!("node {node}, {begin} ");
            assert_eq!(text.lines().filter(|line| line.starts_with(&begin)).count(), 20, "{text}");
        }
    }
    // A job of one process has the files of one node, which replace those of the job before.
    let output = run(&["run", "--driver", "embedded", "-n", "1", "--logs", path, "ring"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(read("local-0.out"), output.stdout);
    assert_eq!(read("local-0.err"), "");

    let output = run(&["run", "--detach", "--logs", path, "ring"]);
    assert_eq!(output.code, Some(2), "{output:?}");
}

#[test]
fn only_the_lines_of_some_nodes_are_printed_if_the_user_wants_that() {
    let sites = ["run", "--site", "a:2", "--site", "b", "--only", "a/1,b", "drill"];
    let output = run(&sites);
    assert_eq!(output.code, Some(0), "{output:?}");
    for (begin, is_shown) in [("a/0│ ", false), ("a/1│ ", true), ("b/2│ ", true)] {
        let is_there = output.stdout.lines().any(|line| line.starts_with(begin));
        assert_eq!(is_there, is_shown, "{begin}: {output:?}");
    }
    let output = run(&["run", "-n", "2", "--only", "c", "drill"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let output = run(&["run", "-n", "2", "--only", "local/0", "drill", "--abort", "1"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("    node 1 was told to abort"), "{output:?}");
}

#[test]
fn emulated_sites_run_in_one_process_and_in_several() {
    let grid = ["--emulate", "2x1,wan=10ms"];
    let output = run(&["run", grid[0], grid[1], "ring", "--rounds", "2"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let processes = ["run", "--driver", "cluster", grid[0], grid[1], "ring", "--rounds", "2"];
    let output = run(&processes);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.starts_with("a/0│ 2 rounds over 64 actors on 2 PEs"), "{output:?}");
}

#[test]
fn a_failed_job_exits_with_1_and_ends_with_the_error() {
    for place in [&["run"][..], &["run", "-n", "2"]] {
        let output = run(&[place, &["drill", "--fail"]].concat());
        assert_eq!(output.code, Some(1), "{output:?}");
        let last = last_paragraph(&output);
        assert!(last.lines().any(|line| line == "error: main was told to fail"), "{output:?}");
        // There is no advice beyond the program's message.
        assert!(!output.stderr.contains("hint: "), "{output:?}");
    }
}

#[test]
fn the_failed_node_is_named_with_its_last_lines_and_a_hint() {
    let expected = [
        ("--panic", "node 1 was told to panic", "hint: set RUST_BACKTRACE=1 to see where\n"),
        (
            "--abort",
            "local/1 was killed by SIGABRT (6)",
            "hint: set RUST_BACKTRACE=1 to see where\n",
        ),
        ("--exit", "local/1 ended on its own with exit code 3", "hint: its last output"),
    ];
    for (order, message, hint) in expected {
        let output = run(&["run", "-n", "3", "drill", "--lines", "50", order, "1"]);
        assert_eq!(output.code, Some(1), "{output:?}");
        let begin = output.stderr.rfind("the last lines of local/1 on standard error:\n").unwrap();
        let last = &output.stderr[begin..];
        let error = last_paragraph(&output);
        assert!(error.lines().next().is_some_and(|line| line.contains(message)), "{output:?}");
        assert_eq!(error.lines().count(), 2, "and the hint: {output:?}");
        assert_eq!(last.lines().filter(|line| line.starts_with("    ")).count(), 20, "{last}");
        assert!(last.contains("    node 1, error line 50 of 50\n"), "{output:?}");
        assert!(last.contains(hint), "{output:?}");
    }
}

#[test]
fn invalid_command_lines_exit_with_2_and_a_hint() {
    let cases: [(&[&str], &[&str]); 12] = [
        (&["run"], &["there is no program to run", "gridctl programs"]),
        (&["run", "rign"], &["no built-in job `rign`", "did you mean `ring`?"]),
        (&["run", "xyzzy"], &["no built-in job `xyzzy`", "`gridctl programs` lists"]),
        (&["run", "ring", "--bogus"], &["unexpected argument '--bogus'"]),
        (
            &["run", "ring", "--emulate", "2x1"],
            &["no option `--emulate`", "`gridctl run --emulate … ring …`"],
        ),
        (&["sim", "ring", "-g", "x.toml"], &["no option `-g`", "before the job's name"]),
        (&["run", "--env", "NO_SUCH", "ring"], &["`NO_SUCH` is not set", "--env NO_SUCH=VALUE"]),
        (&["run", "--wdir", "/nowhere", "ring"], &["--wdir: cannot run in /nowhere"]),
        (&["run", "--bogus", "ring"], &["unexpected argument '--bogus'"]),
        (&["run", "./nothing-here"], &["cannot start ./nothing-here", "check the path"]),
        (&["run", "--emulate", "two", "ring"], &["`two` is not a shape", "2x4"]),
        (&["run", "--balance", "best", "ring"], &["invalid value 'best'", "rotate"]),
    ];
    for (arguments, texts) in cases {
        let output = run(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(texts.iter().all(|text| output.stderr.contains(text)), "{output:?}");
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn errors_of_a_grid_file_name_line_and_column() {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(b"[site.a]\nhosts = [\"localhost\"]\npes = \"two\"\n").unwrap();
    let path = file.path().to_str().unwrap();
    for arguments in [["run", "--grid", path, "ring"], ["sim", "--grid", path, "ring"]] {
        let output = run(&arguments);
        assert_eq!(output.code, Some(2), "{output:?}");
        let expected = format!("error: grid file {path}, line 3, column 7: `pes` must be");
        assert!(output.stderr.starts_with(&expected), "{output:?}");
    }
}

#[test]
fn a_grid_of_this_machine_runs_and_an_unknown_host_is_refused() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[site.a]\nhosts = [\"localhost\"]\n[site.b]\nhosts = [\"127.0.0.1\"]\n")
        .unwrap();
    let output = run(&["run", "--grid", file.path().to_str().unwrap(), "ring"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.starts_with("a/0│ 10 rounds over 64 actors on 2 PEs"), "{output:?}");

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[site.a]\nhosts = [\"nowhere.invalid\"]\n").unwrap();
    let output = run(&["run", "--grid", file.path().to_str().unwrap(), "ring"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        output.stderr.contains("nowhere.invalid") && output.stderr.contains("hint: `--emulate")
    );
    let output = run(&["run", "--dry-run", "--grid", file.path().to_str().unwrap(), "ring"]);
    assert_eq!(output.code, Some(0), "a plan can be made for other machines: {output:?}");
}

#[test]
fn a_program_of_the_user_runs_under_every_driver() {
    // gridctl is linked with the crate, so it can act as a program of the user.
    let own = env!("CARGO_BIN_EXE_gridctl");
    let drivers: [(&[&str], &str); 4] = [
        (&["run", "-n", "2"], "local/0│ 2 rounds over 9 actors on 2 PEs"),
        (&["run", "--driver", "embedded", "-n", "3"], "2 rounds over 9 actors on 3 PEs"),
        (&["run", "--driver", "embedded", "-e", "2x1,wan=1ms"], "2 rounds over 9 actors on 2 PEs"),
        (&["sim", "--pes", "64"], "2 rounds over 9 actors on 64 PEs"),
    ];
    for (driver, expected) in drivers {
        let program = [own, "__job", "ring", "--rounds", "2", "--members", "9"];
        let output = run(&[driver, &program].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stdout.starts_with(expected), "{output:?}");
    }
}

#[test]
fn seed_and_strategy_reach_the_nodes() {
    let places: [&[&str]; 3] = [&["run"], &["run", "-n", "2"], &["sim", "--pes", "2"]];
    for place in places {
        let output = run(&[place, &["--seed", "7", "--balance", "rotate", "ring"]].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        let mut command = gridctl(&[place, &["ring"]].concat());
        command.env("GRIDSPAN_BALANCE", "best");
        let output = finish(command);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains("GRIDSPAN_BALANCE: there is no strategy `best`"));
    }
}

#[test]
fn a_program_that_does_not_join_is_an_error() {
    let output = run(&["run", "-n", "2", "/bin/true"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(last_paragraph(&output).contains("ended before it joined the job"), "{output:?}");
    assert!(last_paragraph(&output).contains("hint: is the program linked"), "{output:?}");

    let output = run(&["run", "-n", "2", "/bin/sh", "-c", "echo wrong usage >&2; exit 2"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("    wrong usage\n"), "{output:?}");
}

#[test]
fn partial_lines_and_very_long_lines_are_printed() {
    let script = "printf 'no end'; exit 3";
    let output = run(&["run", "-n", "1", "/bin/sh", "-c", script]);
    assert_eq!(output.stdout, "local/0│ no end\n");

    let script = "head -c 200000 /dev/zero | tr '\\0' x; exit 3";
    let output = run(&["run", "-n", "1", "/bin/sh", "-c", script]);
    assert_eq!(output.stdout.matches('x').count(), 200_000);
    assert_eq!(output.stdout.lines().count(), 4, "pieces of 64 KiB");
}

#[test]
fn json_has_one_event_per_line_from_started_to_finished() {
    let output = run(&["run", "-n", "2", "--json", "drill", "--abort", "1"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let events: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["version"] == 1), "{output:?}");
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!(
        (count("started"), count("listening"), count("exited"), count("finished")),
        (1, 2, 2, 1)
    );
    assert_eq!(events[0]["nodes"][1]["site"], "local");
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["exit_code"]), (&"finished".into(), &1.into()));
    assert_eq!(last["failure"]["node"], 1);
    let said = |event: &&serde_json::Value| {
        event["event"] == "output" && event["stream"] == "stdout" && event["node"] == 0
    };
    assert_eq!(events.iter().find(said).unwrap()["text"], "node 0, line 1 of 1");
}

#[test]
fn json_works_under_the_embedded_driver() {
    let output = run(&["run", "--json", "ring"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("\"text\":\"10 rounds over 64 actors"), "{output:?}");
    let output = run(&["run", "--json", "drill", "--fail"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("\"message\":\"main was told to fail\""), "{output:?}");
}

#[test]
fn a_dry_run_shows_the_places_and_runs_nothing() {
    let output = run(&["run", "--dry-run", "--emulate", "2x1x2", "drill", "--fail"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let rows: Vec<Vec<_>> =
        output.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["a", "a1", "0", "0-1"]);
    assert_eq!(rows[2], ["b", "b1", "1", "2-3"]);
    assert!(output.stdout.contains("\n  all nodes  env "), "one process: {output:?}");
    assert!(output.stdout.contains(" __job drill --fail\n"), "{output:?}");
    let links = "emulated links, at the start:\n  latency 10ms, bandwidth 1gbit  a-b\n";
    assert!(output.stdout.contains(links), "{output:?}");
    let output = run(&["run", "--dry-run", "-n", "3", "--spare", "local/2", "ring"]);
    assert!(output.stdout.contains("    2  2  spare\n"), "{output:?}");
    assert_eq!(output.stdout.matches(" __job ring\n").count(), 2, "{output:?}");
}

#[test]
fn more_pes_than_cores_are_mentioned_in_one_line() {
    let output = run(&["run", "--driver", "embedded", "-n", "4000", "ring", "--rounds", "1"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let line = output.stderr.lines().next().unwrap();
    assert!(line.starts_with("4000 PEs on ") && line.ends_with(", sharing"), "{output:?}");
}

#[test]
fn flags_override_the_environment_and_invalid_variables_are_refused() {
    let pes = |arguments: &[&str], pes: &str| {
        let mut command = gridctl(arguments);
        command.env("GRIDSPAN_PES", pes);
        finish(command)
    };
    assert!(pes(&["run", "ring"], "3").stdout.contains("on 3 PEs"));
    let flag = ["run", "--driver", "embedded", "-n", "2", "ring"];
    assert!(pes(&flag, "3").stdout.contains("on 2 PEs"));
    let output = pes(&["run", "ring"], "many");
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("GRIDSPAN_PES=\"many\" is not a number from 1"), "{output:?}");
}

#[test]
fn programs_are_listed_and_help_exits_with_0() {
    let output = run(&["programs"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stdout.lines().any(|line| line.starts_with("ring ")), "{output:?}");
    for arguments in [&["--help"][..], &["run", "--help"], &["run", "ring", "--help"]] {
        let output = run(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stdout.contains("Usage: "), "{output:?}");
    }
}

#[test]
fn an_unwritable_dump_is_an_error_before_the_job_runs() {
    for verb in ["run", "sim"] {
        let output = run(&[verb, "--balance-dump", "/nowhere/dump", "ring"]);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains("cannot write /nowhere/dump"), "{output:?}");
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn nodes_see_the_variables_and_the_folder_that_the_user_names() {
    let script = "echo $COLOUR $SHAPE in $(pwd); exit 3";
    let mut command = crate::common::gridctl(&[
        "run",
        "-n",
        "2",
        "--env",
        "COLOUR=red",
        "--env",
        "SHAPE",
        "--wdir",
        "/",
        "/bin/sh",
        "-c",
        script,
    ]);
    command.env("SHAPE", "round");
    let output = finish(command);
    assert!(output.stdout.contains("│ red round in /\n"), "{output:?}");
}

#[test]
fn a_port_in_use_is_reported_with_its_setting_in_the_grid_file() {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    // With this grid the node listens where others could reach it, though none does.
    let text = format!("[site.a]\nhosts = [\"localhost\", \"127.0.0.2\"]\nport = {port}\n");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();

    let ssh = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ssh.path(), "exec sleep 20").unwrap();
    let command = format!("sh {}", ssh.path().display());

    let output = run(&["run", "--ssh", &command, "--grid", file.path().to_str().unwrap(), "ring"]);

    assert_eq!(output.code, Some(1), "{output:?}");
    let last = last_paragraph(&output);
    assert!(last.contains("cannot receive at") && last.contains("ddress already in use"), "{last}");
    assert!(last.contains(&format!("another `port` than {port} in the grid file")), "{last}");
}

/// Variable that makes this test program a user's program that runs two jobs.
const TWO_JOBS: &str = "GRIDCTL_TEST_TWO_JOBS";

#[test]
fn a_process_of_another_test() {
    if std::env::var_os(TWO_JOBS).is_some() {
        for _ in 0..2 {
            gridspan::main(gridspan_runtime::Job::new("one of two"));
        }
        std::process::exit(7);
    }
}

#[test]
fn a_second_job_in_a_node_is_an_error() {
    let own = std::env::current_exe().unwrap();
    let variable = format!("{TWO_JOBS}=yes");
    let output = run(&[
        "run",
        "-n",
        "2",
        "--env",
        &variable,
        own.to_str().unwrap(),
        "--exact",
        "run::a_process_of_another_test",
        "--nocapture",
    ]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("cannot run a second one"), "{output:?}");
    assert!(output.stderr.contains("ended on its own with exit code 7"), "{output:?}");
}
