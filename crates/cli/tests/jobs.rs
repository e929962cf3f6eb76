//! `gridctl ps`, `kill`, `wait`, `logs` and `prune`.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{LIMIT, Output, Running, finish, gridctl, is_alive, launcher_of, launchers_of, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// A job that runs until the test ends it.
const ENDLESS: [&str; 3] = ["drill", "--wait", "600"];

/// The folders of a user. If the test fails, the jobs of the user are killed.
struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        let user = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(user.folder.path().join("run")).unwrap();
        user
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        let of = |name: &str| self.folder.path().join(name).display().to_string();
        [("XDG_RUNTIME_DIR", of("run")), ("XDG_STATE_HOME", of("state"))]
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gridctl(arguments);
        command.envs(self.variables());
        command
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments))
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output.stdout
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let variables = self.variables();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        Running::start_with(arguments, &variables)
    }

    /// Starts a detached job of two nodes, and returns its name.
    fn detach(&self, flags: &[&str], job: &[&str]) -> String {
        let started = self.done(&[&["run", "--detach", "-n", "2"], flags, job].concat());
        started.split(' ').next().unwrap().to_owned()
    }

    fn listed(&self) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.done(&["ps", "--json"])).unwrap();
        list.as_array().unwrap().clone()
    }

    /// What `gridctl ps` lists of a job.
    fn job(&self, id: &str) -> Value {
        self.listed().into_iter().find(|job| job["job"] == id).unwrap_or_default()
    }

    fn path(&self, id: &str, file: &str) -> PathBuf {
        self.folder.path().join("state/gridspan").join(id).join(file)
    }

    /// The processes of the nodes of a detached job.
    fn nodes(&self, id: &str) -> Vec<u32> {
        let Ok(text) = fs::read(self.path(id, "state.json")) else { return vec![] };
        let saved: Value = serde_json::from_slice(&text).unwrap();
        let processes = saved["content"]["processes"].as_object().unwrap().values();
        processes.map(|process| process["pid"].as_u64().unwrap() as u32).collect()
    }

    /// Kills the launcher of a detached job.
    fn kill_launcher(&self, id: &str) {
        let launcher = launcher_of(id);
        signal(launcher, Signal::KILL);
        until(|| (self.job(id)["state"] == "unattended").then_some(()));
    }

    /// Number of open connections that the launcher of a job has accepted.
    fn connections(&self, id: &str) -> usize {
        let socket = self.folder.path().join("run/gridspan").join(format!("{id}.sock"));
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        // The sixth field is the state, the last one the path.
        let is_one = |line: &&str| {
            line.ends_with(socket.to_str().unwrap()) && line.split_whitespace().nth(5) == Some("03")
        };
        sockets.lines().filter(is_one).count()
    }

    /// Waits until the launcher of a job has read the requests on all its connections. It may
    /// answer them later.
    fn await_requests(&self, id: &str, launcher: u32) {
        // Connections are accepted one after the other, and a thread reads each request.
        self.done(&["nodes", id]);
        let threads = || {
            let tasks = fs::read_dir(format!("/proc/{launcher}/task")).unwrap();
            let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
            let names = tasks.filter_map(|task| name(task.ok()?));
            names.filter(|name| name.starts_with("request")).count()
        };
        // Only the thread that accepts connections is left then.
        until(|| (threads() == 1).then_some(()));
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // The jobs have ended already if the test succeeded.
        if thread::panicking() {
            for job in fs::read_dir(self.folder.path().join("state/gridspan")).into_iter().flatten()
            {
                let id = job.unwrap().file_name().into_string().unwrap();
                if self.path(&id, "state.json").exists() {
                    let _ = self.command(&["kill", &id]).output();
                }
            }
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

fn assert_gone(nodes: &[u32]) {
    until(|| nodes.iter().all(|&node| !is_alive(node)).then_some(()));
}

#[test]
fn running_and_ended_jobs_are_listed_and_killed() {
    let user = User::new();
    assert_eq!(user.done(&["ps", "--json"]), "[]\n");
    let detached = user.detach(&[], &ENDLESS);
    let mut attached = user.start(&[&["run", "-n", "3"], &ENDLESS[..]].concat());
    attached.await_line("3 lines from 3 nodes");

    let listed = user.listed();
    let [first, second] = &listed[..] else { panic!("{listed:?}") };
    let described = [&first["job"], &first["program"], &first["state"]];
    assert_eq!(described, [&*detached, "drill", "running"]);
    assert_eq!((&first["nodes"], &first["pes"]), (&2.into(), &2.into()));
    assert_eq!((&first["detached"], &second["detached"]), (&true.into(), &false.into()));
    assert_eq!((&second["state"], &second["nodes"]), (&"running".into(), &3.into()));
    let text = user.done(&["ps"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("job ") && lines[0].ends_with("PEs  state"), "{text}");
    assert!(lines[1].starts_with(&detached) && lines[1].ends_with("2    2  running"), "{text}");

    let nodes = user.nodes(&detached);
    assert_eq!(user.done(&["kill", &detached]), format!("{detached} is killed\n"));
    assert!(nodes.iter().all(|&node| !is_alive(node)), "at once");
    let job = user.job(&detached);
    assert_eq!((&job["state"], &job["exit_code"]), (&"ended".into(), &137.into()));
    assert!(job["ended_ms"].as_u64() >= job["began_ms"].as_u64(), "{job}");
    assert!(user.done(&["ps"]).contains("stopped (137)\n"));
    assert_eq!(user.ask(&["attach", &detached]).code, Some(137));
    let again = user.ask(&["kill", &detached]);
    assert_eq!(again.code, Some(2), "{again:?}");

    let (id, nodes) = (second["job"].as_str().unwrap(), attached.nodes(3));
    user.done(&["kill", id]);
    assert_eq!(attached.wait(LIMIT).expect("it ends").code(), Some(137));
    assert_gone(&nodes);
    assert_eq!(user.listed().len(), 1, "a job that was not detached leaves nothing");
}

#[test]
fn a_job_is_killed_whose_launcher_does_not_answer_or_was_killed() {
    let user = User::new();
    let stopped = user.detach(&[], &ENDLESS);
    let nodes = user.nodes(&stopped);
    let launcher = launcher_of(&stopped);
    signal(launcher, Signal::STOP);

    user.done(&["kill", &stopped]);

    assert_gone(&[launcher]);
    assert_gone(&nodes);
    assert_eq!(user.job(&stopped)["exit_code"], 137);

    let killed = user.detach(&[], &ENDLESS);
    let nodes = user.nodes(&killed);
    user.kill_launcher(&killed);
    assert!(nodes.iter().all(|&node| is_alive(node)));
    assert!(user.done(&["ps"]).contains("unattended\n"));

    user.done(&["kill", &killed]);

    assert_gone(&nodes);
    assert_eq!(user.job(&killed)["exit_code"], 137);

    let mut attached = user.start(&[&["run", "-n", "2"], &ENDLESS[..]].concat());
    let nodes = attached.nodes(2);
    attached.await_line("2 lines from 2 nodes");
    let id = user.listed().iter().find(|job| job["detached"] == false).unwrap()["job"].clone();
    attached.signal(Signal::STOP);

    user.done(&["kill", id.as_str().unwrap()]);

    assert!(attached.wait(LIMIT).expect("it ends").code().is_none());
    assert_gone(&nodes);
}

#[test]
fn waiting_ends_with_the_exit_code_of_the_job() {
    let user = User::new();
    let short = user.detach(&[], &["drill", "--wait", "1"]);
    let long = user.detach(&[], &ENDLESS);
    let late = user.ask(&["wait", &long, "--timeout", "100ms"]);
    assert_eq!(late.code, Some(124), "{late:?}");
    assert!(late.stderr.contains(&format!("the job {long} still runs")), "{late:?}");
    assert_eq!(user.ask(&["wait", &short]).code, Some(0));
    let mut both = user.start(&["wait", &short, &long]);

    user.done(&["stop", &long]);

    assert_eq!(both.wait(LIMIT).expect("it ends").code(), Some(143));
    let unknown = user.ask(&["wait", &long, "none-1"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("no running job `none-1`"), "{unknown:?}");
}

#[test]
fn waiting_for_a_job_of_a_terminal_asks_its_launcher() {
    let user = User::new();
    for (end, code) in [(Signal::TERM, 143), (Signal::KILL, 1)] {
        let mut attached = user.start(&[&["run", "-n", "2"], &ENDLESS[..]].concat());
        attached.await_line("2 lines from 2 nodes");
        let id = user.listed()[0]["job"].as_str().unwrap().to_owned();
        let late = user.ask(&["wait", &id, "--timeout", "100ms"]);
        assert_eq!(late.code, Some(124), "{late:?}");
        let before = user.connections(&id);
        let mut waiting = user.start(&["wait", &id]);
        // A request after the signal would be refused, or find no job.
        until(|| (user.connections(&id) > before).then_some(()));
        user.await_requests(&id, attached.child.id());

        attached.signal(end);

        assert_eq!(waiting.wait(LIMIT).expect("it ends").code(), Some(code));
        attached.wait(LIMIT).expect("it ends");
    }
}

#[test]
fn a_job_whose_exit_code_is_not_known_does_not_end_the_wait_for_the_others() {
    let user = User::new();
    let mut attached = user.start(&[&["run", "-n", "2"], &ENDLESS[..]].concat());
    attached.await_line("2 lines from 2 nodes");
    let id = user.listed()[0]["job"].as_str().unwrap().to_owned();
    let long = user.detach(&[], &ENDLESS);
    let before = user.connections(&id);
    let mut waiting = user.start(&["wait", &id, &long]);
    until(|| (user.connections(&id) > before).then_some(()));
    user.await_requests(&id, attached.child.id());

    attached.signal(Signal::KILL);

    attached.wait(LIMIT).expect("it ends");
    thread::sleep(Duration::from_millis(500));
    assert!(waiting.child.try_wait().unwrap().is_none(), "it waits for the other job");
    user.done(&["stop", &long]);
    waiting.await_line(&format!("the job {id} has ended, with an exit code that is not known"));
    assert_eq!(waiting.wait(LIMIT).expect("it ends").code(), Some(1));
}

#[test]
fn a_job_of_one_node_is_listed_and_takes_requests_on_threads_of_gridctl() {
    assert_takes_requests(&["run"], "its only node is gridctl itself", None);
}

#[test]
fn a_job_of_one_node_is_listed_and_takes_requests_in_a_separate_process() {
    // With `--stdin none`, gridctl starts the node as a separate process.
    let flags = ["run", "--stdin", "none"];
    assert_takes_requests(&flags, "all nodes of this job are one process", Some(143));
}

/// Starts a job of one node, sends it requests, and stops it. `refusal`: why its node cannot leave;
/// `code`: the exit code of `gridctl run`.
fn assert_takes_requests(run: &[&str], refusal: &str, code: Option<i32>) {
    let user = User::new();
    let mut running = user.start(&[run, &ENDLESS[..]].concat());
    running.await_line("1 line from 1 node");
    let id = format!("drill-{}", running.child.id());

    let job = user.job(&id);
    assert_eq!((&job["state"], &job["nodes"]), (&"running".into(), &1.into()), "{job}");
    assert_eq!((&job["program"], &job["detached"]), (&"drill".into(), &false.into()));
    let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let nodes = parse(user.done(&["nodes", &id, "--json"]));
    assert_eq!((&nodes[0]["state"], &nodes[1]), (&"member".into(), &Value::Null), "{nodes}");
    let diagnosis = parse(user.done(&["doctor", &id, "--json"]));
    assert_eq!((&diagnosis["job"], &diagnosis["pes"]), (&id.as_str().into(), &job["pes"]));
    // On a busy machine, the counters of a PE may come too late for one sample.
    until(|| {
        let moment = parse(user.done(&["top", &id, "--once", "--json", "--every", "300ms"]));
        assert_eq!(moment["nodes"].as_array().unwrap().len(), 1, "{moment}");
        (moment["total"]["actors"] == 1).then_some(())
    });
    let name = nodes[0]["name"].as_str().unwrap();
    let refused = user.ask(&["drain", "--job", &id, name]);
    assert!(refused.stderr.contains(refusal), "{refused:?}");

    let before = user.connections(&id);
    let mut waiting = user.start(&["wait", &id]);
    until(|| (user.connections(&id) > before).then_some(()));
    user.await_requests(&id, running.child.id());
    assert_eq!(user.done(&["stop", &id]), "the job is stopping\n");

    assert_eq!(waiting.wait(LIMIT).expect("it ends").code(), Some(143));
    assert_eq!(running.wait(LIMIT).expect("it ends").code(), code);
    assert!(user.listed().is_empty());
}

#[test]
fn those_who_wait_for_a_job_on_threads_learn_which_signal_has_ended_it() {
    let user = User::new();
    let mut running = user.start(&[&["run"], &ENDLESS[..]].concat());
    running.await_line("1 line from 1 node");
    let id = format!("drill-{}", running.child.id());
    let before = user.connections(&id);
    let mut waiting = user.start(&["wait", &id]);
    until(|| (user.connections(&id) > before).then_some(()));
    user.await_requests(&id, running.child.id());

    running.signal(Signal::INT);

    assert_eq!(waiting.wait(LIMIT).expect("it ends").code(), Some(130));
    let ended = running.wait(LIMIT).expect("it ends");
    assert_eq!(ended.signal(), Some(Signal::INT.as_raw()), "as without those who wait");
}

#[test]
fn one_node_of_a_job_is_killed_and_the_job_treats_it_as_lost() {
    let user = User::new();
    let mut running = user.start(&[&["run", "-n", "3"], &ENDLESS[..]].concat());
    running.await_line("3 lines from 3 nodes");
    let id = format!("drill-{}", running.child.id());
    let nodes = running.nodes(3);

    let unknown = user.ask(&["kill", &id, "--node", "local/7"]);
    assert!(unknown.stderr.contains("`local/7`"), "{unknown:?}");
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let killed = user.done(&["kill", &id, "--node", "local/1"]);
    assert_eq!(killed, "local/1 is killed\n");

    // Without checkpoints, a loss ends a job.
    running.await_line("error: local/1 was killed by SIGKILL (9)");
    assert_eq!(running.wait(LIMIT).expect("it ends").code(), Some(1));
    assert_gone(&nodes);
}

#[test]
fn a_job_on_threads_is_stopped_although_gridctl_was_started_to_ignore_the_signal() {
    let user = User::new();
    let script =
        format!("trap '' TERM; exec {} run drill --wait 600", env!("CARGO_BIN_EXE_gridctl"));
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script]).env_clear().envs(user.variables()).stdin(Stdio::null());
    let mut running = Running::of(command);
    running.await_line("1 line from 1 node");

    assert_eq!(user.done(&["stop"]), "the job is stopping\n");

    let ended = running.wait(LIMIT).expect("it ends");
    assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()));
    assert!(user.listed().is_empty());
}

#[test]
fn logs_are_those_of_the_job_or_of_one_node() {
    let user = User::new();
    let id = user.detach(&[], &["drill", "--lines", "500", "--wait", "2"]);
    let mut followed = user.start(&["logs", "-f", &id]);
    followed.await_line("local/1│ node 1, line 500 of 500");
    assert_eq!(followed.wait(LIMIT).expect("it ends with the job").code(), Some(0));

    let all = user.done(&["logs", &id]);
    for node in ["local/0│ node 0", "local/1│ node 1"] {
        assert_eq!(all.lines().filter(|line| line.starts_with(node)).count(), 1000);
    }
    let one = user.ask(&["logs", &id, "--node", "local/1"]);
    assert_eq!(one.code, Some(0), "{one:?}");
    let expected = |what: &str| -> String {
        (1..=500).map(|line| format!("node 1, {what} {line} of 500\n")).collect()
    };
    assert_eq!(one.stdout, expected("line"), "without control lines");
    assert_eq!(one.stderr, expected("error line"));
    let unknown = user.ask(&["logs", &id, "--node", "local"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.stderr.contains("no node `local`\nhint: its nodes: local/[0-1]"),
        "{unknown:?}"
    );
}

#[test]
fn logs_without_a_launcher_are_printed_and_not_followed_for_ever() {
    let user = User::new();
    let id = user.detach(&[], &ENDLESS);
    let first_line = || user.ask(&["logs", &id, "--node", "local/0"]).stdout;
    // Output that the launcher has not read is lost when it is killed.
    until(|| first_line().contains("line 1 of 1\n").then_some(()));
    user.kill_launcher(&id);
    assert!(first_line().contains("line 1 of 1\n"));

    let followed = user.ask(&["logs", "-f", &id]);

    assert_eq!(followed.code, Some(1), "{followed:?}");
    assert!(followed.stderr.contains("no launcher attends"), "{followed:?}");
    user.done(&["kill", &id]);
}

#[test]
fn files_of_output_are_limited_and_the_last_lines_are_kept() {
    let user = User::new();
    let job = ["drill", "--lines", "60000", "--wait", "1"];
    let id = user.detach(&["--log-limit", "64kB"], &job);
    let mut followed = user.start(&["logs", "-f", &id, "--node", "local/1"]);
    assert_eq!(user.ask(&["wait", &id]).code, Some(0));
    assert_eq!(followed.wait(LIMIT).expect("it ends with the job").code(), Some(0));

    for file in ["output", "local-0.out", "local-1.err"] {
        let metadata = |name: &str| fs::metadata(user.path(&id, name)).unwrap();
        let (now, older) = (metadata(file), metadata(&format!("{file}.old")));
        assert!(now.len() > 1_500_000 && now.blocks() * 512 < 600_000, "{file}: {now:?}");
        assert!(older.len() < 64_200, "{file}: {older:?}");
    }
    for arguments in [&["logs", &id, "--node", "local/1"][..], &["logs", &id], &["attach", &id]] {
        let output = user.ask(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}");
        assert!(output.stdout.contains("line 60000 of 60000\n"), "{arguments:?}");
        assert!(output.stderr.contains(" bytes of older output were dropped\n"), "{arguments:?}");
        assert!(output.stdout.len() < 400_000, "{arguments:?}: {}", output.stdout.len());
    }
}

#[test]
fn folders_of_ended_jobs_are_removed_and_those_of_others_stay() {
    let user = User::new();
    let ended = user.detach(&[], &["drill", "--wait", "1"]);
    user.done(&["wait", &ended]);
    // Its launcher keeps the folder for a moment after it has noted the exit code.
    until(|| launchers_of(&ended).is_empty().then_some(()));
    let running = user.detach(&[], &ENDLESS);
    let unattended = user.detach(&[], &ENDLESS);
    user.kill_launcher(&unattended);

    let none = "0 folders removed, 0 B freed\n";
    assert_eq!(user.done(&["prune", "--older-than", "7d"]), none);
    let removed: Value = serde_json::from_str(&user.done(&["prune", "--json"])).unwrap();

    assert_eq!(removed.as_array().unwrap().len(), 1, "{removed}");
    assert_eq!(removed[0]["job"], *ended);
    assert!(removed[0]["bytes"].as_u64().unwrap() > 0);
    assert!(!user.path(&ended, "").exists());
    assert_eq!(user.done(&["prune"]), none);
    assert_eq!(user.listed().len(), 2);
    let nodes = [user.nodes(&running), user.nodes(&unattended)].concat();
    assert!(nodes.iter().all(|&node| is_alive(node)));
    for id in [running, unattended] {
        user.done(&["kill", &id]);
        until(|| launchers_of(&id).is_empty().then_some(()));
    }
    assert_gone(&nodes);
    assert!(user.done(&["prune"]).ends_with(" freed\n"));
    assert!(user.listed().is_empty());
}

#[test]
fn a_job_of_before_the_last_start_of_the_machine_is_gone() {
    let user = User::new();
    let id = user.detach(&[], &ENDLESS);
    let nodes = user.nodes(&id);
    user.kill_launcher(&id);
    nodes.iter().for_each(|&node| signal(node, Signal::KILL));
    assert_gone(&nodes);
    assert_eq!(user.job(&id)["state"], "unattended");

    let path = user.path(&id, "start.json");
    let mut start: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    start["content"]["boot"] = "another".into();
    fs::write(&path, start.to_string()).unwrap();

    assert_eq!(user.job(&id)["state"], "gone");
    assert!(user.done(&["ps"]).contains("gone\n"));
    assert_eq!(user.ask(&["kill", &id]).code, Some(2));
    assert!(user.done(&["prune"]).starts_with(&format!("{id}: ")));
    assert!(user.listed().is_empty());
}

#[test]
fn what_does_not_exist_is_refused() {
    let user = User::new();
    for (arguments, reason) in [
        (&["kill", "x-1"][..], "there is no running job `x-1`"),
        (&["kill"], "required arguments were not provided"),
        (&["wait"], "required arguments were not provided"),
        (&["logs"], "there is no detached job"),
        (&["logs", "x-1"], "there is no detached job `x-1`"),
        (&["prune", "--older-than", "week"], "such as 12h or 7d"),
        (&["run", "--log-limit", "1MB", "drill"], "required arguments were not provided"),
        (&["run", "--detach", "--log-limit", "1B", "drill"], "write a size from 4kB"),
    ] {
        let output = user.ask(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(output.stderr.contains(reason), "{arguments:?}: {output:?}");
    }
}
