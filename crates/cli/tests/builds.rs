//! Nodes that run different builds of one program: they compare the structure of their messages
//! before they compute anything.
//!
//! This test is itself the program, of which each host has a copy in a separate folder. The name of
//! the folder selects the version of the program, so that several versions come from one
//! compilation. A script replaces `ssh`: it starts the copy of the requested host.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Output, finish, gridctl};
use gridspan::prelude::*;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Version on the launcher's host.
const CURRENT: &str = "current";
/// Version built again from the same sources, with an additional byte that has no effect.
const REBUILT: &str = "rebuilt";

fn main() -> ExitCode {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().and_then(Path::file_name).unwrap_or_default();
    if std::env::var_os("GRIDSPAN_DRIVER").is_some() {
        return program(folder.to_str().unwrap());
    }
    let all: [(&str, fn()); 5] = [
        ("equal_programs_run_without_a_warning", equal_programs_run_without_a_warning),
        ("a_different_message_type_is_an_error", a_different_message_type_is_an_error),
        ("a_different_answer_type_is_an_error", a_different_answer_type_is_an_error),
        ("a_different_task_type_is_an_error", a_different_task_type_is_an_error),
        ("a_rebuilt_program_causes_a_warning", a_rebuilt_program_causes_a_warning),
    ];
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    for (name, test) in all {
        if filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

/// Runs a program that exchanges messages of one type, answers of another and tasks of a third. For
/// all arguments its types have the same names, as in different versions of one source.
macro_rules! counters {
    ($message:ty, $answer:ty, $task:ty) => {{
        #[derive(Serialize, Deserialize)]
        struct Counter($message);

        #[derive(Clone, Serialize, Deserialize)]
        enum Order {
            Add($message),
            Ask(Reply<$answer>),
        }

        impl Actor for Counter {
            type Index = Ix1;
            type Init = ();
            type Message = Order;

            fn create((): (), _: &mut Context<'_, Self>) -> Self {
                Self(0)
            }

            fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
                match order {
                    Order::Add(amount) => self.0 += amount,
                    Order::Ask(reply) => cx.reply(reply, self.0 as $answer),
                }
            }
        }

        #[derive(Serialize, Deserialize)]
        struct Square($task);

        impl Task for Square {
            type Output = $task;
            type Join = ();

            fn run(self, _: &mut TaskContext<'_, Self>) -> Step<Self> {
                Step::Done(self.0 * self.0)
            }

            fn collect((): &mut (), _child: u32, _output: $task) {}

            fn joined((): (), _: &mut TaskContext<'_, Self>) -> Step<Self> {
                Step::Done(0)
            }
        }

        let job = Job::new("count").actor::<Counter>().tasks::<Square>();
        gridspan::main(job.main(async |grid: Grid| {
            let counters = grid.create::<Counter>(Ix1::range(16), |_| ()).await?;
            let mut total = 0;
            for member in 0..16 {
                counters.member(Ix1(member)).send(Order::Add(3));
                total +=
                    counters.member(Ix1(member)).ask(Duration::from_secs(20), Order::Ask).await?;
            }
            let square = grid.run_tasks(Square(12)).await?;
            println!("counted {total}, squared {square}");
            Ok(())
        }))
    }};
}

/// Runs the version in the folder of this name.
fn program(folder: &str) -> ExitCode {
    match folder {
        "messages" => counters!(i64, u64, u32),
        "answers" => counters!(u64, i64, u32),
        "tasks" => counters!(u64, u64, i32),
        _ => counters!(u64, u64, u32),
    }
}

/// Runs the program over a grid file; the host of the site `far` has the version of this name.
fn run(version: &str) -> Output {
    let hosts = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let own = std::env::current_exe().unwrap();
    for folder in [CURRENT, version] {
        fs::create_dir_all(hosts.path().join(folder)).unwrap();
        let copy = program_in(&hosts, folder);
        if !copy.exists() && (folder == REBUILT || fs::hard_link(&own, &copy).is_err()) {
            fs::copy(&own, &copy).unwrap();
        }
    }
    if version == REBUILT {
        let path = program_in(&hosts, REBUILT);
        fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"\n").unwrap();
    }
    let ssh = hosts.path().join("ssh.sh");
    let script = format!(
        "while [ \"$1\" != -- ]; do shift; done\nshift\n\
         exec sh -c \"$(printf %s \"$*\" | sed 's,/{CURRENT}/,/{version}/,g')\"\n"
    );
    fs::write(&ssh, script).unwrap();
    let grid = hosts.path().join("grid.toml");
    let text = "[site.near]\nhosts = [\"localhost\"]\n[site.far]\nhosts = [\"127.0.0.2\"]\n";
    fs::write(&grid, text).unwrap();

    let (ssh, grid) = (format!("sh {}", ssh.display()), grid.to_str().unwrap().to_owned());
    let program = program_in(&hosts, CURRENT).to_str().unwrap().to_owned();
    let mut command = gridctl(&["run", "--ssh", &ssh, "--grid", &grid, &program]);
    command.env("PATH", "/usr/bin:/bin");
    finish(command)
}

fn program_in(hosts: &TempDir, folder: &str) -> PathBuf {
    hosts.path().join(folder).join("program")
}

fn assert_counted(output: &Output) {
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("counted 48, squared 144"), "{output:?}");
}

/// Asserts that the error names the node, its site, its host and the difference, and that nothing
/// was computed.
fn assert_refused(output: &Output, difference: &str) {
    assert_eq!(output.code, Some(1), "{output:?}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let begin = format!(
        "error: node1 at site far, on host {}, runs another program or another version of it: ",
        host.trim()
    );
    let error = output.stderr.lines().find(|line| line.starts_with(&begin));
    let error = error.unwrap_or_else(|| panic!("there should be `{begin}`: {output:?}"));
    assert!(error.contains(difference), "`{error}` should contain `{difference}`");
    assert!(output.stderr.contains("hint: start all nodes from one build"), "{output:?}");
    assert!(!output.stdout.contains("counted"), "{output:?}");
}

fn equal_programs_run_without_a_warning() {
    let output = run(CURRENT);
    assert_counted(&output);
    assert!(!output.stderr.contains("build"), "{output:?}");
}

fn a_different_message_type_is_an_error() {
    let output = run("messages");
    let difference = "messages of builds::program::Counter are `Order { Add: u64, Ask: Handle { handle: (u32, u64), \
                      value: u64 } }` here, `Order { Add: i64, ";
    assert_refused(&output, difference);
}

/// Messages contain the type of an answer only in the handle that states where the answer goes.
fn a_different_answer_type_is_an_error() {
    let output = run("answers");
    let difference = "value: u64 } }` here, `Order { Add: u64, Ask: Handle { handle: (u32, u64), value: i64 } }` there";
    assert_refused(&output, difference);
}

/// Tasks travel as bytes.
fn a_different_task_type_is_an_error() {
    let output = run("tasks");
    let difference =
        "are `Traded { task: u32, output: u32 }` here, `Traded { task: i32, output: i32 }` there";
    assert_refused(&output, difference);
}

fn a_rebuilt_program_causes_a_warning() {
    let output = run(REBUILT);
    assert_counted(&output);
    let warning = "runs another build of the program; messages have the same structure";
    let line = output.stderr.lines().find(|line| line.contains(warning));
    let line = line.unwrap_or_else(|| panic!("there should be a warning: {output:?}"));
    assert!(line.contains("node1 at site far, on host "), "{line}");
}
