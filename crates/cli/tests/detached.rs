//! Detached jobs outlive their launcher, and another launcher attends to them.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    JOB, LIMIT, Output, Running, SLOW_JOB, finish, gridctl, is_alive, launcher_of, until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A detached job on four nodes at two sites.
struct Detached {
    id: String,
    folder: tempfile::TempDir,
}

impl Detached {
    /// A step crosses the wide area twice, so it takes 40 ms and little processor time. So another
    /// launcher can start before the job ends.
    fn start(flags: &[&str], steps: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = ["run", "--detach", "--emulate", "2x2,wan=20ms"];
        let job = JOB.into_iter().chain([steps]);
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
        let of = |name: &str| self.folder.path().join(name).display().to_string();
        fs::create_dir_all(of("run")).unwrap();
        [("XDG_RUNTIME_DIR", of("run")), ("XDG_STATE_HOME", of("state"))]
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments))
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    }

    /// Adds a node that was a member before, as soon as its old process has ended.
    fn add_again(&self, node: &str) {
        let added = until(|| {
            let added = self.ask(&["add", node]);
            (!added.stderr.contains("has not ended yet; try again")).then_some(added)
        });
        assert_eq!(added.stdout, format!("{node} has joined\n"), "{added:?}");
    }

    fn attach(&self) -> Running {
        let variables = self.variables();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        Running::start_with(&["attach", &self.id], &variables)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join("state/gridspan").join(&self.id).join(file)
    }

    /// The state that a launcher has saved.
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
        // Its files are open until its last thread has ended.
        let threads = || fs::read_dir(format!("/proc/{launcher}/task")).map_or(0, Iterator::count);
        until(|| (!is_alive(launcher) && threads() <= 1).then_some(()));
    }

    /// Waits until the output of the launcher, or of a node that prints without a launcher, has
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

/// Whether no process has a file of the job open.
fn is_without_processes(id: &str) -> bool {
    let is_of_job = |pid: u32| {
        let opened = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        let mut paths = opened.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        is_alive(pid) && paths.any(|path| path.to_string_lossy().contains(&format!("/{id}/")))
    };
    let pids = fs::read_dir("/proc").unwrap();
    let mut pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    !pids.any(is_of_job)
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
    let detached = Detached::start(&[], "200");
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
    let detached = Detached::start(&["--checkpoint-every", "10steps"], "250");
    let nodes = detached.nodes();
    detached.await_output("output", "      20 ");
    detached.kill_launcher();
    let unattended = detached.ask(&["nodes"]);
    assert_eq!(unattended.code, Some(2), "{unattended:?}");
    // The system does this when the user logs out.
    fs::remove_dir_all(detached.folder.path().join("run")).unwrap();

    let attached = detached.attach();

    attached.await_line("the launcher of this job has ended; this one attends to it now");
    assert_eq!(detached.nodes(), nodes, "no process was started or stopped");
    kill(nodes[1]);
    attached.await_line("3 nodes go on");
    assert_eq!(detached.done(&["drain", "b/3"]), "b/3 has left\n");
    detached.add_again("a/1");
    assert_verified(attached);
}

#[test]
fn a_job_ends_without_a_launcher_and_nothing_is_lost() {
    let detached = Detached::start(&[], "100");
    let nodes = detached.nodes();
    detached.await_output("output", "       5 ");
    detached.kill_launcher();
    until(|| nodes.iter().all(|&node| !is_alive(node)).then_some(()));

    let output = detached.ask(&["attach"]);

    assert_eq!(output.code, Some(0), "{output:?}");
    for step in (0..=100).step_by(5) {
        let line = format!("  {step:3} ");
        assert!(output.stdout.contains(&line), "step {step}: {output:?}");
    }
    assert!(output.stdout.contains("every bit as on one thread"), "{output:?}");
}

#[test]
fn a_launcher_that_is_killed_during_a_recovery_is_replaced() {
    for pause in [0, 5, 15, 40] {
        let detached = Detached::start(&["--checkpoint-every", "5steps"], "120");
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
fn a_node_that_has_left_and_joined_again_is_taken_over() {
    let detached = Detached::start(&["--checkpoint-every", "10steps"], "250");
    detached.await_output("output", "      10 ");
    detached.done(&["drain", "b/3"]);
    detached.add_again("b/3");
    let again = detached.nodes()[3];
    detached.await_output("output", "      60 ");
    detached.kill_launcher();

    let attached = detached.attach();

    attached.await_line("this one attends to it now");
    detached.await_output("output", "      80 ");
    kill(again);
    attached.await_line("lost b/3: it ended before its part of the job was done");
    attached.await_line("3 nodes go on");
    assert_verified(attached);
}

#[test]
fn another_launcher_finds_nodes_that_were_added() {
    let detached = Detached::start(&["--checkpoint-every", "10steps"], "250");
    detached.await_output("output", "      10 ");
    assert_eq!(detached.done(&["add", "--at", "a", "a7", "a8"]), "a/4, a/5 have joined\n");
    let nodes = detached.nodes();
    detached.await_output("output", "      60 ");
    detached.kill_launcher();

    let attached = detached.attach();

    attached.await_line("this one attends to it now");
    assert_eq!(detached.nodes(), nodes, "no process was started or stopped");
    detached.await_output("output", "      80 ");
    kill(nodes[4]);
    attached.await_line("lost a/4: it ended before its part of the job was done");
    attached.await_line("5 nodes go on");
    // Numbers of the first launcher are not used again.
    assert_eq!(detached.done(&["add", "--at", "b", "b9"]), "b/6 has joined\n");
    assert_eq!(detached.ask(&["logs", "--node", "a/5", &detached.id]).code, Some(0));
    assert_verified(attached);
}

#[test]
fn another_launcher_has_the_grid_and_the_variables_of_the_first_one() {
    let folder = tempfile::tempdir().unwrap();
    let grid = folder.path().join("grid.toml");
    fs::write(&grid, "[site.a]\nhosts = [\"localhost\", \"localhost\"]\n").unwrap();
    let mut detached = Detached { id: String::new(), folder };
    let place = ["run", "--detach", "--grid", grid.to_str().unwrap(), "--env", "OF_USER"];
    let job = SLOW_JOB.into_iter().chain(["300"]);
    let mut command = detached.command(&place.into_iter().chain(job).collect::<Vec<_>>());
    command.env("OF_USER", "x");
    let started = finish(command);
    assert_eq!(started.code, Some(0), "{started:?}");
    detached.id = started.stdout.split(' ').next().unwrap().to_owned();
    let nodes = detached.nodes();
    assert_eq!(nodes.len(), 2);
    fs::remove_file(&grid).unwrap();
    detached.kill_launcher();

    let attached = detached.attach();

    attached.await_line("this one attends to it now");
    assert_eq!(detached.nodes(), nodes);
    assert_verified(attached);
}

#[test]
fn a_job_without_a_launcher_is_stopped_on_request() {
    let detached = Detached::start(&[], "100000");
    let nodes = detached.nodes();
    detached.kill_launcher();

    assert_eq!(detached.done(&["stop"]), "the job is stopping\n");

    assert_eq!(detached.ask(&["attach"]).code, Some(143));
    assert!(nodes.into_iter().all(|node| !is_alive(node)));
}

#[test]
fn a_launcher_that_is_killed_at_the_start_leaves_no_process() {
    for pause in [0, 20, 80] {
        let mut detached = Detached { id: String::new(), folder: tempfile::tempdir().unwrap() };
        let mut command =
            detached.command(&["run", "--detach", "-n", "8", "ring", "--rounds", "99999999"]);
        let mut started = command.spawn().unwrap();
        let jobs = detached.folder.path().join("state/gridspan");
        detached.id = until(|| {
            let names = fs::read_dir(&jobs)
                .ok()?
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            names.into_iter().find(|name| name.starts_with("ring"))
        });
        thread::sleep(Duration::from_millis(pause));
        detached.kill_launcher();
        started.wait().unwrap();

        // This stops the job if it has begun; otherwise, `attach` fails.
        detached.ask(&["stop"]);
        let ended = detached.ask(&["attach"]);
        assert_ne!(ended.code, Some(0), "{ended:?}");
        until(|| is_without_processes(&detached.id).then_some(()));
    }
}

#[test]
fn launchers_can_be_killed_again_and_again() {
    let detached = Detached::start(&["--checkpoint-every", "10steps"], "400");
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
