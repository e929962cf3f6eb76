//! `gridctl rpc run --token`: workflows on daemons. Some daemons and some clients are killed.
#![cfg(target_os = "linux")]

use crate::common::{LIMIT, Output, Running, finish, gridctl, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns a workflow of parallel chains and of a task that reads the last file of each chain. Each
/// chain begins with a file of the client. Every file has `bytes` bytes, and every task takes ten
/// seconds.
fn workflow(chains: u32, length: u32, bytes: u64) -> String {
    let file = |chain: u32, step: u32| format!("f{chain}_{step}");
    let (mut tasks, mut names) = (Vec::new(), vec!["out".to_owned()]);
    for chain in 0..chains {
        names.push(file(chain, 0));
        for step in 0..length {
            names.push(file(chain, step + 1));
            let (from, to) = (file(chain, step), file(chain, step + 1));
            tasks.push(json!({"id": format!("t{chain}_{step}"), "inputFiles": [from], "outputFiles": [to]}));
        }
    }
    let ends: Vec<String> = (0..chains).map(|chain| file(chain, length)).collect();
    tasks.push(json!({"id": "join", "inputFiles": ends, "outputFiles": ["out"]}));
    let times = tasks.iter().map(|task| json!({"id": task["id"], "runtimeInSeconds": 10}));
    let times: Vec<Value> = times.collect();
    let files = names.iter().map(|name| json!({"id": name, "sizeInBytes": bytes}));
    let files: Vec<Value> = files.collect();
    let specification = json!({"tasks": tasks, "files": files});
    let workflow = json!({"specification": specification, "execution": {"tasks": times}});
    json!({"name": "chains", "workflow": workflow}).to_string()
}

struct Grid {
    folder: tempfile::TempDir,
    registry: Running,
    members: Vec<Running>,
}

impl Grid {
    fn new(members: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("grid.token");
        let start = |flags: &[&str]| {
            let variables = [("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())];
            let flags = [&["rpc", "serve"], flags].concat();
            Running::start_with(&flags, &variables)
        };
        let token = token.to_str().unwrap();
        let registry = start(&["--registry", "--write-token", token]);
        registry.await_line("its token is");
        let member = |number: u32| {
            let name = format!("m{number}");
            let member = start(&["-p", "1", "--name", &name, "--join", token]);
            member.await_line("serves for the registry");
            member
        };
        let members = (0..members).map(member).collect();
        Self { folder, registry, members }
    }

    fn restart_registry(&mut self) {
        self.registry.child.kill().unwrap();
        self.registry.wait(LIMIT).unwrap();
        let token = self.token();
        let flags = ["rpc", "serve", "--registry", "--write-token", token.to_str().unwrap()];
        self.registry = Running::start(&flags);
        self.registry.await_line("its token is");
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("grid.token")
    }

    fn flags(&self, workflow: &Path, flags: &[&str]) -> Vec<String> {
        let (token, workflow) = (self.token(), workflow.to_str().unwrap());
        let all = ["rpc", "run", workflow, "--json", "--token", token.to_str().unwrap()];
        all.iter().chain(flags).map(|flag| (*flag).to_owned()).collect()
    }

    fn write(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("workflow.json");
        fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, text: &str, flags: &[&str]) -> Output {
        let flags = self.flags(&self.write(text), flags);
        finish(gridctl(&flags.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    fn start(&self, text: &str, flags: &[&str]) -> Running {
        let flags = self.flags(&self.write(text), flags);
        Running::start(&flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn end(self) {
        for mut daemon in self.members.into_iter().chain([self.registry]) {
            daemon.signal(Signal::TERM);
            assert_eq!(daemon.wait(LIMIT).and_then(|status| status.code()), Some(0));
        }
    }
}

fn tasks(document: &Value) -> Vec<(String, u64)> {
    let tasks = document["shortest"]["tasks"].as_array().unwrap().iter();
    let task = |task: &Value| {
        (task["task"].as_str().unwrap().to_owned(), task["server"].as_u64().unwrap())
    };
    tasks.map(task).collect()
}

#[test]
fn data_of_a_workflow_goes_from_server_to_server_and_not_through_the_client() {
    let grid = Grid::new(2);
    // For files of this size a second server pays off even if the links of a busy machine are
    // measured as slow.
    let output = grid.run(&workflow(2, 2, 100_000), &["--faster", "10"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();

    let tasks = tasks(&document);
    let servers = [0, 1].map(|server| tasks.iter().filter(|(_, of)| *of == server).count());
    assert_eq!((tasks.len(), servers.iter().min()), (5, Some(&2)), "{document}");
    let trial = &document["trials"][0];
    // Three consecutive steps of a second each.
    let makespan_s = trial["makespan_s"].as_f64().unwrap();
    assert!((3.0..20.0).contains(&makespan_s), "{document}");
    // The client sends the first files of two chains and receives the final result. The file that
    // `join` reads from the other server does not pass through the client.
    assert_eq!(trial["bytes_of_client"].as_u64(), Some(300_000), "{document}");
    grid.end();
}

#[test]
fn a_group_completes_although_a_server_and_the_registry_are_killed() {
    let mut grid = Grid::new(3);
    let going = grid.start(&workflow(3, 4, 1_000_000), &["--faster", "10"]);
    // Some steps of a second are complete by then.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let mut killed = grid.members.remove(1);
    killed.child.kill().unwrap();
    killed.wait(LIMIT).unwrap();
    // Servers find the registry again, and the group does not need it.
    grid.restart_registry();

    let document: Value = serde_json::from_str(&going.await_line("trials")).unwrap();

    let tasks = tasks(&document);
    assert!(tasks.len() >= 13, "13 tasks, and repeated ones: {document}");
    assert_eq!(tasks.last().unwrap().0, "join");
    // The killed server is removed from the list once its silence is noticed.
    until(|| {
        let token = grid.token();
        let list = gridctl(&["rpc", "ls", "--json", "--token", token.to_str().unwrap()]);
        let listed = finish(list).stdout;
        let is_listed = |name| listed.contains(name);
        (is_listed("m0") && is_listed("m2") && !is_listed("m1")).then_some(())
    });
    assert_eq!(grid.run(&workflow(1, 1, 10), &["--faster", "100"]).code, Some(0));
    grid.end();
}

#[test]
fn a_single_daemon_executes_a_workflow_and_shows_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("alone.token");
    let token = token.to_str().unwrap();
    let mut daemon = Running::start(&["rpc", "serve", "-p", "2", "--write-token", token]);
    daemon.await_line("its token is");
    let path = folder.path().join("workflow.json");
    fs::write(&path, workflow(2, 1, 1000)).unwrap();

    let run = ["rpc", "run", path.to_str().unwrap(), "--token", token, "--faster", "20"];
    let output = finish(gridctl(&run));

    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("executed on these servers"), "{}", output.stdout);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(LIMIT).and_then(|status| status.code()), Some(0));
    let no_server = finish(gridctl(&run));
    assert_eq!(no_server.code, Some(1), "{}", no_server.stdout);
    assert!(no_server.stderr.contains("nothing answers"), "{}", no_server.stderr);
}

/// Returns the resident memory of a process, in bytes.
fn resident(daemon: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn servers_free_the_data_of_a_killed_client() {
    const FILE: u64 = 100_000_000;
    let grid = Grid::new(1);
    let server = &grid.members[0];
    let before = resident(server);
    let mut client = grid.start(&workflow(2, 2, FILE), &["--faster", "0.1"]);
    until(|| (resident(server) > before + FILE).then_some(()));

    client.child.kill().unwrap();
    client.wait(LIMIT).unwrap();

    until(|| (resident(server) < before + FILE / 3).then_some(()));
    // The task that was started takes 100 s, so the daemons are killed instead of stopped.
    drop(grid);
}

#[test]
fn tasks_of_a_busy_server_are_executed_by_another() {
    let grid = Grid::new(2);
    let token = grid.token();
    let token = token.to_str().unwrap();
    let _busy = Running::start(&["rpc", "call", "sleep", "300", "--token", token]);
    let busy = until(|| {
        let listed = finish(gridctl(&["rpc", "ls", "--json", "--token", token])).stdout;
        let listed: Value = serde_json::from_str(&listed).ok()?;
        listed.as_array()?.iter().position(|server| server["calls"] == 1)
    });

    let output = grid.run(&workflow(2, 2, 1000), &["--faster", "20"]);

    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let done = tasks(&document);
    assert_eq!(done.len(), 5, "{document}");
    assert!(done.iter().all(|(_, server)| *server != busy as u64), "{document}");
    // The call of the busy server takes 300 s, so the daemons are killed instead of stopped.
    drop(grid);
}

#[test]
fn links_of_servers_are_measured_and_shown() {
    let grid = Grid::new(2);
    let token = grid.token();
    let list = || finish(gridctl(&["rpc", "ls", "--token", token.to_str().unwrap()])).stdout;

    let listed = until(|| Some(list()).filter(|listed| listed.matches("bit/s").count() == 2));

    assert!(listed.contains("latency") && listed.contains("m0"), "{listed}");
    grid.end();
}
