//! Detached jobs outlive their launcher, and another one attends to them.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{LIMIT, Output, Running, finish, gridctl, is_alive, launcher_of, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Molecular dynamics whose result is compared bit by bit with a serial run.
const JOB: [&str; 6] = ["leanmd", "--atoms", "4000", "--check-serial", "--report-every", "5"];

/// A detached job on four nodes at two sites.
struct Detached {
    id: String,
    folder: tempfile::TempDir,
}

impl Detached {
    fn start(flags: &[&str], steps: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = ["run", "--detach", "--emulate", "2x2,wan=4ms"];
        let job = JOB.into_iter().chain(["--steps", steps]);
        let arguments: Vec<&str> =
            place.into_iter().chain(flags.iter().copied()).chain(job).collect();
        let mut detached = Self { id: String::new(), folder };
        let started = detached.done(&arguments);
        detached.id = started.split(' ').next().unwrap().to_owned();
        detached
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gridctl(arguments);
        self.variables().into_iter().for_each(|(name, value)| {
            command.env(name, value);
        });
        command
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        ["XDG_RUNTIME_DIR", "XDG_STATE_HOME"]
            .map(|name| (name, self.folder.path().display().to_string()))
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments))
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    }

    fn attach(&self) -> Running {
        let variables = self.variables();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        Running::start_with(&["attach", &self.id], &variables)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join("gridspan").join(&self.id).join(file)
    }

    /// What a launcher has saved.
    fn saved(&self) -> serde_json::Value {
        let text = fs::read(self.path("state.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()["content"].clone()
    }

    /// The processes of the nodes.
    fn nodes(&self) -> Vec<u32> {
        let saved = self.saved();
        let processes = saved["processes"].as_object().unwrap().values();
        processes.map(|process| process["pid"].as_u64().unwrap() as u32).collect()
    }

    fn kill_launcher(&self) {
        let launcher = launcher_of(&self.id);
        kill(launcher);
        until(|| (!is_alive(launcher)).then_some(()));
    }

    /// Waits until the output of the launcher, or of a node that prints while there is none, has
    /// this text.
    fn await_output(&self, file: &str, text: &str) {
        until(|| fs::read_to_string(self.path(file)).ok()?.contains(text).then_some(()));
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        // The processes have ended already if the test succeeded.
        if thread::panicking() && self.path("state.json").exists() {
            self.nodes().into_iter().filter(|&node| is_alive(node)).for_each(kill);
        }
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

fn assert_verified(mut attached: Running) {
    attached.await_line("every bit as on one thread");
    assert_eq!(attached.wait(LIMIT).expect("the job ends").code(), Some(0));
}

#[test]
fn attach_shows_the_output_of_a_detached_job_while_it_runs_and_afterwards() {
    let detached = Detached::start(&[], "60");
    let mut left = detached.attach();
    left.await_line("      10 ");
    left.signal(Signal::INT);
    assert!(left.wait(LIMIT).expect("it leaves").code().is_none());

    assert_verified(detached.attach());

    let again = detached.ask(&["attach"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let lines = again.stdout.lines().filter(|line| line.contains("ms/step")).count();
    assert_eq!(lines, 1, "all output, once: {again:?}");
    assert!(again.stdout.contains("every bit as on one thread"), "{again:?}");
    assert!(detached.nodes().into_iter().all(|node| !is_alive(node)));
}

#[test]
fn another_launcher_lets_the_job_go_on_after_losses_and_changes_its_nodes() {
    let detached = Detached::start(&["--checkpoint-every", "10steps"], "200");
    let nodes = detached.nodes();
    detached.await_output("output", "      20 ");
    detached.kill_launcher();
    let unattended = detached.ask(&["nodes"]);
    assert_eq!(unattended.code, Some(2), "{unattended:?}");

    let attached = detached.attach();

    attached.await_line("the launcher of this job has ended; this one attends to it now");
    assert_eq!(detached.nodes(), nodes, "no process was started or stopped");
    kill(nodes[1]);
    attached.await_line("3 nodes go on");
    assert_eq!(detached.done(&["drain", "b/3"]), "b/3 has left\n");
    assert_eq!(detached.done(&["add", "a/1"]), "a/1 has joined\n");
    assert_verified(attached);
}

#[test]
fn a_job_ends_without_a_launcher_and_nothing_is_lost() {
    let detached = Detached::start(&[], "60");
    let nodes = detached.nodes();
    detached.await_output("output", "       5 ");
    detached.kill_launcher();
    until(|| nodes.iter().all(|&node| !is_alive(node)).then_some(()));

    let output = detached.ask(&["attach"]);

    assert_eq!(output.code, Some(0), "{output:?}");
    for step in (0..=60).step_by(5) {
        let line = format!("  {step:3} ");
        assert!(output.stdout.contains(&line), "step {step}: {output:?}");
    }
    assert!(output.stdout.contains("every bit as on one thread"), "{output:?}");
}

#[test]
fn a_launcher_that_is_killed_during_a_recovery_is_replaced() {
    for pause in [0, 5, 15, 40] {
        let detached = Detached::start(&["--checkpoint-every", "5steps"], "100");
        detached.await_output("output", "      20 ");
        let node = detached.nodes()[2];
        let launcher = launcher_of(&detached.id);

        kill(node);
        thread::sleep(Duration::from_millis(pause));
        kill(launcher);

        let attached = detached.attach();
        attached.await_line("this one attends to it now");
        assert_verified(attached);
    }
}

#[test]
fn launchers_can_be_killed_again_and_again() {
    let detached = Detached::start(&["--checkpoint-every", "10steps"], "150");
    detached.await_output("output", "       5 ");
    for _ in 0..4 {
        detached.kill_launcher();
        let attached = detached.attach();
        attached.await_line("this one attends to it now");
        launcher_of(&detached.id);
    }
    assert_verified(detached.attach());
}

#[test]
fn a_detached_job_is_stopped_on_request() {
    let detached = Detached::start(&[], "100000");
    let nodes = detached.nodes();

    assert_eq!(detached.done(&["stop"]), "the job is stopping\n");

    assert_eq!(detached.ask(&["attach"]).code, Some(143));
    assert!(nodes.into_iter().all(|node| !is_alive(node)));
}

#[test]
fn what_cannot_be_detached_or_attached_is_refused() {
    let nothing = Detached { id: "none-1".to_owned(), folder: tempfile::tempdir().unwrap() };
    for (arguments, code, reason) in [
        (&["attach"][..], 2, "there is no detached job\nhint: start one with"),
        (&["attach", "x-1"], 2, "there is no detached job `x-1`"),
        (&["stop"], 2, "there is no running job"),
        (&["run", "--detach", "--guests", "1", "uts"], 2, "cannot be used with"),
        (&["run", "--detach", "leanmd", "--atoms", "many"], 2, "invalid value 'many'"),
        (&["run", "--detach", "-n", "2", "/bin/false"], 1, "ended on its own with exit code 1"),
    ] {
        let output = nothing.ask(arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        assert!(output.stderr.contains(reason), "{arguments:?}: {output:?}");
    }
}
