//! A program that never releases the lock of its standard output: its nodes still answer requests,
//! and these answers do not appear inside the lines of the program.
#![cfg(target_os = "linux")]

use crate::common::{Output, Running, finish, gridctl, until};
use gridspan_runtime::{Actor, Context, Grid, Ix1, Job};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Variable that makes this test program a user's program.
const IS_PROGRAM: &str = "GRIDCTL_TEST_LOCKED_OUTPUT";
/// The parts in which the program prints a line. Each is larger than the buffer of the standard
/// library, and together they are more than a pipe takes in one atomic write.
const PARTS: [char; 3] = ['a', 'b', 'c'];
const PART_BYTES: usize = 3000;

/// Prints for ever, inside one handler that holds the lock.
#[derive(Serialize, Deserialize)]
struct Printer;

impl Actor for Printer {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {
        let mut out = io::stdout().lock();
        for number in 0_u64.. {
            for part in PARTS {
                out.write_all(part.to_string().repeat(PART_BYTES).as_bytes()).unwrap();
                out.flush().unwrap();
                // Time for a control line to come in between.
                thread::sleep(Duration::from_millis(2));
            }
            writeln!(out, " {number}").unwrap();
        }
    }
}

#[test]
fn a_process_of_another_test() {
    if std::env::var_os(IS_PROGRAM).is_none() {
        return;
    }
    let job = Job::new("locked").actor::<Printer>().main(async move |grid: Grid| {
        let printers = grid.create::<Printer>(Ix1::range(2), |_| ()).await?;
        printers.broadcast(());
        grid.quiescence().await?;
        Ok(())
    });
    gridspan::main(job);
}

/// Runs gridctl, which finds running jobs in `folder`.
fn asked(folder: &Path, words: &[&str]) -> Output {
    let mut command = gridctl(words);
    command.env("XDG_RUNTIME_DIR", folder);
    let output = finish(command);
    assert_eq!(output.code, Some(0), "{output:?}");
    output
}

/// The line of the program with this number, after the name of its node.
fn line(node: u32, number: u64) -> String {
    let parts: String = PARTS.map(|part| part.to_string().repeat(PART_BYTES)).concat();
    format!("local/{node}│ {parts} {number}")
}

#[test]
fn nodes_answer_while_their_program_holds_the_lock_of_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let variable = format!("{IS_PROGRAM}=yes");
    let test = "locked_output::a_process_of_another_test";
    let place = ["run", "-n", "2", "--env", &variable];
    let program = [own.to_str().unwrap(), "--exact", test, "--nocapture"];
    let variables = [("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())];
    let job = Running::start_with(&[&place[..], &program].concat(), &variables);
    // The line before it may begin with the name of the test.
    job.await_line(&line(0, 1));

    // A PE or a node may answer too late on a busy machine.
    until(|| {
        let output = asked(folder.path(), &["top", "--once", "--json", "--every", "300ms"]);
        let object: Value = serde_json::from_str(&output.stdout).unwrap();
        (object["nodes_heard"] == 2 && object["nodes"][1]["late_pes"] == 1).then_some(())
    });
    until(|| {
        let output = asked(folder.path(), &["doctor"]);
        output.stdout.contains("has been inside a handler of").then_some(())
    });

    let mut next = 2;
    while next < 200 {
        let printed = job.await_line("local/0│ ");
        assert!(printed == line(0, next), "line {next} is {printed}");
        next += 1;
    }
}
