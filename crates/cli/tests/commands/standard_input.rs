//! `gridctl run --stdin`: which nodes read the standard input.
#![cfg(target_os = "linux")]

use crate::common::{finish, gridctl};
use crate::slurm::{FOUR, Fake as FakeSrun};
use crate::ssh::Fake as FakeSsh;
use gridspan_runtime::{Actor, Context, Grid, Ix1, Job, Op, Per, To};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::process::{Command, ExitCode, Output, Stdio};
use std::{fs, thread};

/// Variable that makes this test program a user's program.
const IS_PROGRAM: &str = "GRIDCTL_TEST_READER";
/// The value with which the program reads before it becomes a node.
const EARLY: &str = "early";
/// The value with which the program reads on each node, in an actor.
const EACH: &str = "in each node";
/// The value with which the program holds the lock of standard output while it reads.
const LOCKED: &str = "locked";
/// More than a pipe holds, and more than a launcher sends ahead.
const LINES: usize = 30_000;

/// Reads the standard input of its node.
#[derive(Serialize, Deserialize)]
struct InputReader;

impl Actor for InputReader {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        read();
        cx.contribute(Op::Sum, 1_u64, To::main());
    }
}

/// Reads the standard input to its end, and prints its number of lines and bytes.
fn read() {
    let text = io::read_to_string(io::stdin()).unwrap();
    println!("read {} lines, {} bytes", text.lines().count(), text.len());
}

#[test]
fn a_process_of_another_test() {
    let Some(when) = std::env::var_os(IS_PROGRAM) else { return };
    let (is_early, is_locked, is_each) = (when == EARLY, when == LOCKED, when == EACH);
    if is_early {
        read();
    }
    let job = Job::new("read").actor::<InputReader>().main(async move |grid: Grid| {
        let _lock = is_locked.then(|| io::stdout().lock());
        if is_each {
            let readers = grid.create_group::<InputReader>(Per::Pe, |_| ()).await?;
            readers.broadcast(());
            let _: u64 = readers.reduction(Op::Sum).await?;
        } else if !is_early {
            read();
        }
        Ok(())
    });
    let code = gridspan::main(job);
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
}

/// The arguments that run the program with these flags. `when` states when it reads.
fn reading(when: &str, flags: &[&str]) -> Vec<String> {
    let own = std::env::current_exe().unwrap();
    let variable = format!("{IS_PROGRAM}={when}");
    let test = "standard_input::a_process_of_another_test";
    let program = [own.to_str().unwrap(), "--exact", test, "--nocapture"];
    let words = [&["run", "--env", &variable][..], flags, &program[..]].concat();
    words.into_iter().map(str::to_owned).collect()
}

fn command(words: &[String]) -> Command {
    gridctl(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The command that runs the program on two nodes, with these flags.
fn reader(flags: &[&str]) -> Command {
    command(&reading(EARLY, &[&["-n", "2"][..], flags].concat()))
}

/// Runs a command with a pipe that brings this text. Returns its output, and whether all of the
/// text was read.
fn with_input(mut command: Command, text: String) -> (Output, bool) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // The pipe is closed when all is written, or when no process reads it.
    let writing = thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    (output, writing.join().unwrap().is_ok())
}

fn text() -> String {
    "0123456789\n".repeat(LINES)
}

/// Checks what the nodes of a site have read.
fn assert_read(output: &str, site: &str, expected: [&str; 2]) {
    for (node, expected) in expected.iter().enumerate() {
        let name = format!("{site}/{node}│ ");
        // The line may begin with the name of the test.
        let is_it = |line: &str| line.starts_with(&name) && line.ends_with(expected);
        assert!(output.lines().any(is_it), "{name}{expected} in\n{output}");
    }
}

#[test]
fn node_0_reads_a_pipe_to_its_end_and_the_other_nodes_nothing() {
    let (output, is_read) = with_input(reader(&[]), text());

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(is_read);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_read(&stdout, "local", ["read 30000 lines, 330000 bytes", "read 0 lines, 0 bytes"]);
}

#[test]
fn the_named_node_reads_a_pipe_to_its_end_and_the_other_node_nothing() {
    let expected = ["read 0 lines, 0 bytes", "read 30000 lines, 330000 bytes"];
    let (output, is_read) = with_input(reader(&["--stdin", "local/1"]), text());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(is_read);
    assert_read(&String::from_utf8(output.stdout).unwrap(), "local", expected);

    let fake = FakeSsh::new();
    let (ssh, grid) = (fake.command(), fake.grid(ELSEWHERE));
    let words = reading(EACH, &["--ssh", &ssh, "--grid", &grid, "--stdin", "far/1"]);
    let (output, is_read) = with_input(command(&words), text());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(is_read);
    assert_read(&String::from_utf8(output.stdout).unwrap(), "far", expected);
}

#[test]
fn a_node_that_the_job_does_not_have_is_an_error() {
    let output = finish(gridctl(&["run", "-n", "2", "--stdin", "local/2", "ring"]));
    assert_eq!(output.code, Some(2), "{output:?}");
    let error = "error: the grid of the job has no node `local/2`\nhint: its nodes: local/[0-1]";
    assert!(output.stderr.starts_with(error), "{output:?}");

    let output = finish(gridctl(&["run", "-n", "2", "--stdin", "2", "ring"]));
    assert_eq!(output.code, Some(2), "{output:?}");
    let hint = "write 0, none, all, or the name of a node, such as local/1";
    assert!(output.stderr.contains(hint), "{output:?}");
}

#[test]
fn all_nodes_read_a_pipe_to_its_end_if_the_user_wants_it() {
    let words = reading("in each node", &["-n", "3", "--stdin", "all"]);

    // The text is longer than what the launcher sends before the nodes have read something.
    let (output, is_read) = with_input(command(&words), text());

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(is_read);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let name = |node: usize| format!("local/{node}│ ");
    for node in 0..3 {
        let read = "read 30000 lines, 330000 bytes";
        let is_it = |line: &str| line.starts_with(&name(node)) && line.ends_with(read);
        assert!(stdout.lines().any(is_it), "{} in\n{stdout}", name(node));
    }
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
    assert_read(&output.stdout, "local", ["read 0 lines, 0 bytes"; 2]);
}

/// Two hosts, neither of which is this machine.
const ELSEWHERE: &str = "[site.far]\nhosts = [\"127.0.0.2\", \"127.0.0.3\"]\n";

/// Checks that one process has run main, and what it has read.
fn assert_read_in_main(output: &Output, expected: &str) {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let read: Vec<&str> = stdout.lines().filter_map(|line| line.split("read ").nth(1)).collect();
    assert_eq!(read, [expected], "{output:?}");
}

#[test]
fn node_0_reads_to_the_end_where_ssh_has_started_it() {
    let fake = FakeSsh::new();
    let (ssh, grid) = (fake.command(), fake.grid(ELSEWHERE));
    let words = reading("in main", &["--ssh", &ssh, "--grid", &grid]);

    // The text is longer than what the launcher sends before the node has read something.
    let (output, is_read) = with_input(command(&words), text());

    assert_read_in_main(&output, "30000 lines, 330000 bytes");
    assert!(is_read);
    let (output, _) = with_input(command(&words), String::new());
    assert_read_in_main(&output, "0 lines, 0 bytes");
    let words = reading("in main", &["--ssh", &ssh, "--grid", &grid, "--stdin", "none"]);
    let (output, is_read) = with_input(command(&words), text());
    assert_read_in_main(&output, "0 lines, 0 bytes");
    assert!(!is_read, "no process has read it");
}

#[test]
fn node_0_reads_to_the_end_while_it_holds_the_lock_of_its_output() {
    let fake = FakeSsh::new();
    let (ssh, grid) = (fake.command(), fake.grid(ELSEWHERE));
    let words = reading(LOCKED, &["--ssh", &ssh, "--grid", &grid]);

    let (output, is_read) = with_input(command(&words), text());

    assert_read_in_main(&output, "30000 lines, 330000 bytes");
    assert!(is_read);
}

#[test]
fn a_job_that_does_not_read_its_input_ends() {
    let fake = FakeSsh::new();
    let (ssh, grid) = (fake.command(), fake.grid(ELSEWHERE));
    let words = ["run", "--ssh", &ssh, "--grid", &grid, "--stdin", "0", "ring", "--members", "8"];

    let (output, is_read) = with_input(gridctl(&words), text().repeat(4));

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!is_read, "no more is read than is on its way");
}

#[test]
fn node_0_reads_to_the_end_as_a_task_of_slurm() {
    let fake = FakeSrun::new();
    // The nodes may be silent for seconds: they share few cores, although Slurm's variables give
    // each a separate one.
    let mut command = command(&reading("in main", &["--lost-after=20s"]));
    command.envs(fake.variables(&FOUR));

    let (output, is_read) = with_input(command, text());

    assert_read_in_main(&output, "30000 lines, 330000 bytes");
    assert!(is_read);
}

#[test]
fn an_input_that_cannot_be_passed_on_is_an_error_if_it_is_wanted() {
    let output = finish(gridctl(&["run", "--detach", "-n", "2", "--stdin", "0", "ring"]));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.starts_with("error: --stdin 0: "), "{output:?}");
    assert!(output.stderr.contains("hint: let the program read a file"), "{output:?}");
    let output = finish(gridctl(&["run", "--detach", "-n", "2", "--stdin", "all", "ring"]));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.starts_with("error: --stdin all: "), "{output:?}");
    let output = finish(gridctl(&["run", "--detach", "-n", "2", "--stdin", "local/1", "ring"]));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.starts_with("error: --stdin local/1: "), "{output:?}");
}
