//! `gridctl run --stdin`: which node reads the standard input.
#![cfg(target_os = "linux")]

use crate::common::{finish, gridctl};
use gridspan_runtime::{Grid, Job};
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::{fs, thread};

/// Variable that makes this test program a user's program.
const IS_PROGRAM: &str = "GRIDCTL_TEST_READER";
/// More than a pipe holds.
const LINES: usize = 30_000;

#[test]
fn a_process_of_another_test() {
    if std::env::var_os(IS_PROGRAM).is_some() {
        let text = io::read_to_string(io::stdin()).unwrap();
        println!("read {} lines, {} bytes", text.lines().count(), text.len());
        let code = gridspan::main(Job::new("read").main(async |_: Grid| Ok(())));
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    }
}

/// The command that runs the program on two nodes, with these flags.
fn reader(flags: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let variable = format!("{IS_PROGRAM}=yes");
    let test = "standard_input::a_process_of_another_test";
    let program = [own.to_str().unwrap(), "--exact", test, "--nocapture"];
    gridctl(&[&["run", "-n", "2", "--env", &variable], flags, &program].concat())
}

fn text() -> String {
    "0123456789\n".repeat(LINES)
}

/// Checks what the nodes have read.
fn assert_read(output: &str, expected: [&str; 2]) {
    for (node, expected) in expected.iter().enumerate() {
        let name = format!("local/{node}│ ");
        // The line may begin with the name of the test.
        let is_it = |line: &str| line.starts_with(&name) && line.ends_with(expected);
        assert!(output.lines().any(is_it), "{name}{expected} in\n{output}");
    }
}

#[test]
fn node_0_reads_a_pipe_to_its_end_and_the_other_nodes_nothing() {
    let mut command = reader(&[]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // The pipe is closed when all is written.
    let writing = thread::spawn(move || input.write_all(text().as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_read(&stdout, ["read 30000 lines, 330000 bytes", "read 0 lines, 0 bytes"]);
}

#[test]
fn no_node_reads_a_file_if_the_user_does_not_want_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    fs::write(&path, text()).unwrap();
    let mut command = reader(&["--stdin", "none"]);
    command.stdin(fs::File::open(&path).unwrap());

    let output = finish(command);

    assert_eq!(output.code, Some(0), "{output:?}");
    assert_read(&output.stdout, ["read 0 lines, 0 bytes"; 2]);
}

#[test]
fn an_input_that_cannot_be_passed_on_is_an_error_if_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let grid = folder.path().join("grid.toml");
    fs::write(&grid, "[site.a]\nhosts = [\"127.0.0.2\"]\n").unwrap();
    let elsewhere = ["run", "--grid", grid.to_str().unwrap(), "--stdin", "0", "ring"];
    let detached = ["run", "--detach", "-n", "2", "--stdin", "0", "ring"];
    for arguments in [&elsewhere[..], &detached] {
        let output = finish(gridctl(arguments));
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.starts_with("error: --stdin 0: "), "{output:?}");
        assert!(output.stderr.contains("hint: let the program read a file"), "{output:?}");
    }
}
