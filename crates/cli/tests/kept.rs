//! Detached jobs on several hosts outlive the machine of their launcher.
//!
//! A script replaces `ssh`: it runs the command on this machine, with another state folder for each
//! host. The machine of a launcher ends when the launcher, all that it has started, and the nodes
//! in its state folder are killed.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    LIMIT, Output, Running, SLOW_JOB, children_of, finish, gridctl, is_alive, proc_words, until,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file `gone/HOST` makes HOST unreachable.
const SCRIPT: &str = r#"
while [ "$1" != -- ]; do host=$1; shift; done
shift
[ ! -e "$FOLDER/gone/$host" ] || { echo "no route to $host" >&2; exit 255; }
XDG_STATE_HOME="$FOLDER/$host"
export XDG_STATE_HOME
sh -c "$*"
exit $?
"#;

/// The hosts of a job, and two machines with launchers: the job starts on `first`, and `second`
/// attaches to it later.
struct Machines {
    folder: tempfile::TempDir,
    id: String,
}

impl Machines {
    /// Starts a detached job from the first machine, on these hosts of one site.
    fn start(hosts: &[&str], steps: &str) -> Self {
        Self::start_with(hosts, steps, None)
    }

    /// Starts a job with this witness, in which `FOLDER` stands for the folder of all hosts.
    fn start_with(hosts: &[&str], steps: &str, witness: Option<&str>) -> Self {
        let mut machines = Self::of(hosts);
        let started = machines.run(steps, witness);
        assert_eq!(started.code, Some(0), "{started:?}");
        machines.id = started.stdout.split(' ').next().unwrap().to_owned();
        machines
    }

    /// Hosts of one site, on which nothing runs yet.
    fn of(hosts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let here = folder.path().to_str().unwrap();
        fs::write(path("ssh.sh"), SCRIPT.replace("$FOLDER", here)).unwrap();
        fs::create_dir(path("gone")).unwrap();
        let hosts: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
        fs::write(path("grid"), format!("[site.a]\nhosts = [{}]\n", hosts.join(", "))).unwrap();
        Self { folder, id: String::new() }
    }

    /// Starts a detached job from the first machine.
    fn run(&self, steps: &str, witness: Option<&str>) -> Output {
        let folder = self.folder.path().to_str().unwrap();
        let grid = format!("{folder}/grid");
        let flags = ["run", "--detach", "--grid", &grid, "--checkpoint-every", "10steps"];
        let witness = witness.map(|place| place.replace("FOLDER", folder));
        let witness = witness.iter().flat_map(|place| ["--witness", place.as_str()]);
        let job = SLOW_JOB.into_iter().chain([steps]);
        let arguments: Vec<_> = flags.into_iter().chain(witness).chain(job).collect();
        self.ask("first", &arguments)
    }

    /// The folder of the witness.
    fn witness(&self) -> PathBuf {
        self.folder.path().join("witness")
    }

    fn variables(&self, machine: &str) -> [(&'static str, String); 3] {
        let of = |name: &str| self.folder.path().join(name).display().to_string();
        let run = of(&format!("{machine}.run"));
        fs::create_dir_all(&run).unwrap();
        let ssh = format!("sh {}", of("ssh.sh"));
        [("XDG_RUNTIME_DIR", run), ("XDG_STATE_HOME", of(machine)), ("GRIDCTL_SSH", ssh)]
    }

    fn command(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut command = gridctl(arguments);
        command.envs(self.variables(machine));
        command
    }

    fn ask(&self, machine: &str, arguments: &[&str]) -> Output {
        finish(self.command(machine, arguments))
    }

    fn attach(&self, machine: &str, flags: &[&str]) -> Running {
        let variables = self.variables(machine);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let arguments = [&["attach"][..], flags, &[&*self.id]].concat();
        Running::start_with(&arguments, &variables)
    }

    /// A file of the folder of the job on a machine with a launcher.
    fn path(&self, machine: &str, file: &str) -> PathBuf {
        self.folder.path().join(machine).join("gridspan").join(&self.id).join(file)
    }

    fn await_output(&self, machine: &str, text: &str) {
        until(|| {
            fs::read_to_string(self.path(machine, "output")).ok()?.contains(text).then_some(())
        });
    }

    /// The launcher of the job that runs on this machine.
    fn launcher(&self, machine: &str) -> u32 {
        let state = format!("XDG_STATE_HOME={}", self.folder.path().join(machine).display());
        until(|| {
            let is_of_machine = |pid: &u32| {
                // The process may end at this moment.
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|&byte| byte == 0).any(|word| word == state.as_bytes())
            };
            common::launchers_of(&self.id).into_iter().find(is_of_machine)
        })
    }

    /// The shells through which the launcher on the first machine reaches a host.
    fn shells(&self, host: &str) -> Vec<u32> {
        let mut shells = children_of(self.launcher("first"));
        shells.retain(|&shell| proc_words(shell, "cmdline").iter().any(|word| word == host));
        shells
    }

    /// The process of a node, as the keeper on its host has recorded it.
    fn node(&self, host: &str, node: &str) -> u32 {
        let jobs = self.folder.path().join(host).join("gridspan");
        let found = until(|| {
            let mut folders =
                fs::read_dir(&jobs).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
            let text = folders.find_map(|job| fs::read(job.join(node).join("node")).ok())?;
            serde_json::from_slice::<serde_json::Value>(&text).ok()
        });
        found["pid"].as_u64().unwrap() as u32
    }

    /// Ends the first machine, which has these nodes.
    fn end_first(&self, nodes: &[u32]) {
        let launcher = self.launcher("first");
        let started = children_of(launcher);
        kill(launcher, Signal::KILL);
        for &process in &started {
            // It may have ended with its input.
            let _ = kill_process_group(Pid::from_raw(process as i32).unwrap(), Signal::KILL);
        }
        nodes.iter().for_each(|&node| kill(node, Signal::KILL));
        until(|| {
            let mut all = started.iter().chain(nodes).chain([&launcher]);
            (!all.any(|&pid| is_alive(pid))).then_some(())
        });
    }

    /// Waits until no keeper has a folder of the job.
    fn assert_forgotten(&self, hosts: &[&str]) {
        let prefix = format!("{}.", self.id);
        let is_kept = |host: &str| {
            let entries = fs::read_dir(self.folder.path().join(host).join("gridspan")).unwrap();
            let mut names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
            names.any(|name| name.starts_with(&prefix))
        };
        until(|| (!hosts.iter().any(|host| is_kept(host))).then_some(()));
    }
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

fn assert_verified(attached: &mut Running) {
    attached.await_line("every bit as on one thread");
    assert_eq!(attached.wait(LIMIT).expect("the job ends").code(), Some(0));
}

#[test]
fn a_connection_that_breaks_is_opened_again_and_nothing_is_lost() {
    let machines = Machines::start(&["127.0.0.2", "127.0.0.3", "127.0.0.4"], "150");
    machines.await_output("first", "      20 ");
    let node = machines.node("127.0.0.3", "a-1");
    let shells = children_of(machines.launcher("first"));
    assert_eq!(shells.len(), 3);
    for shell in shells {
        kill_process_group(Pid::from_raw(shell as i32).unwrap(), Signal::KILL).unwrap();
    }

    assert_verified(&mut machines.attach("first", &[]));

    let output = machines.ask("first", &["attach"]);
    assert!(output.stdout.contains("it is opened again"), "{output:?}");
    assert!(!output.stdout.contains("lost a/"), "{output:?}");
    for step in (0..=150).step_by(5) {
        let line = format!("  {step:3} ");
        assert_eq!(output.stdout.matches(&line).count(), 1, "step {step}: {output:?}");
    }
    assert!(!is_alive(node));
    machines.assert_forgotten(&["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
}

#[test]
fn another_machine_lets_the_job_go_on_when_that_of_the_launcher_has_ended() {
    let machines = Machines::start(&["localhost", "127.0.0.2", "127.0.0.3"], "90");
    machines.await_output("first", "      30 ");
    let others = [machines.node("127.0.0.2", "a-1"), machines.node("127.0.0.3", "a-2")];
    machines.end_first(&[machines.node("first", "a-0")]);
    assert!(others.into_iter().all(is_alive));

    let mut attached = machines.attach("second", &["--from", "127.0.0.3"]);

    attached.await_line("the launcher of this job has ended; this one attends to it now");
    attached.await_line("lost a/0: its host cannot be reached");
    attached.await_line("2 nodes go on");
    assert_eq!(machines.node("127.0.0.2", "a-1"), others[0], "no process was started again");
    assert_verified(&mut attached);
    assert!(!others.into_iter().any(is_alive));
    machines.assert_forgotten(&["127.0.0.2", "127.0.0.3"]);
}

#[test]
fn another_machine_finds_a_node_that_was_added() {
    let machines = Machines::start(&["localhost", "127.0.0.2", "127.0.0.3"], "130");
    machines.await_output("first", "      20 ");
    let added = machines.ask("first", &["add", "--at", "a", "127.0.0.4"]);
    assert_eq!((added.code, added.stdout.as_str()), (Some(0), "a/3 has joined\n"), "{added:?}");
    machines.await_output("first", "      60 ");
    let others = [("127.0.0.2", "a-1"), ("127.0.0.3", "a-2"), ("127.0.0.4", "a-3")];
    let others = others.map(|(host, node)| machines.node(host, node));
    machines.end_first(&[machines.node("first", "a-0")]);
    assert!(others.into_iter().all(is_alive));

    // The new node's host has all that another launcher needs.
    let mut attached = machines.attach("second", &["--from", "127.0.0.4"]);

    attached.await_line("lost a/0: its host cannot be reached");
    attached.await_line("3 nodes go on");
    assert_eq!(machines.node("127.0.0.4", "a-3"), others[2], "no process was started again");
    assert_verified(&mut attached);
    machines.assert_forgotten(&["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
}

#[test]
fn absent_nodes_join_no_more_at_once_than_members_stay() {
    let machines = Machines::start(&["localhost", "127.0.0.2", "127.0.0.3"], "300");
    machines.await_output("first", "      20 ");
    let drained = machines.ask("first", &["drain", "a/1", "a/2"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");

    // The processes of drained nodes may need some time to end.
    let add = |nodes: &[&str]| {
        until(|| {
            let added = machines.ask("first", &[&["add"], nodes].concat());
            (!added.stderr.contains("has not ended yet")).then_some(added)
        })
    };
    let refused = add(&["a/1", "a/2"]);

    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("it has 1 node that stays"), "{refused:?}");
    for node in ["a/1", "a/2"] {
        let added = add(&[node]);
        assert_eq!(added.stdout, format!("{node} has joined\n"), "{added:?}");
    }
    assert_verified(&mut machines.attach("first", &[]));
}

#[test]
fn nothing_is_lost_if_the_machine_of_the_launcher_had_no_node() {
    let machines = Machines::start(&["127.0.0.2", "127.0.0.3"], "80");
    machines.await_output("first", "      10 ");
    let nodes = [machines.node("127.0.0.2", "a-0"), machines.node("127.0.0.3", "a-1")];
    machines.end_first(&[]);
    // The nodes run to the end of the job without a launcher.
    until(|| (!nodes.into_iter().any(is_alive)).then_some(()));

    let mut attached = machines.attach("second", &["--from", "127.0.0.2"]);

    attached.await_line("      80 ");
    assert_verified(&mut attached);
}

#[test]
fn half_of_the_nodes_go_on_only_if_the_user_knows_that_the_others_have_ended() {
    let machines = Machines::start(&["localhost", "127.0.0.2"], "80");
    machines.await_output("first", "      30 ");
    machines.end_first(&[machines.node("first", "a-0")]);

    let refused = machines.ask("second", &["attach", "--from", "127.0.0.2"]);

    assert_eq!(refused.code, Some(1), "{refused:?}");
    let reason = "1 of the 2 members of the job agree, but it takes more than half of them, or half \
                  with a/0; a/0 cannot be reached";
    assert!(refused.stderr.contains(reason), "{refused:?}");
    assert!(refused.stderr.contains("`--ended`"), "{refused:?}");
    let wrong = machines.ask("second", &["attach", "--from", "127.0.0.2", "--ended", "b/7"]);
    assert!(wrong.stderr.contains("no node or site `b/7`"), "{wrong:?}");

    let mut attached = machines.attach("second", &["--from", "127.0.0.2", "--ended", "a/0"]);
    attached.await_line("1 node goes on");
    assert_verified(&mut attached);
}

#[test]
fn half_of_the_nodes_go_on_if_the_witness_settles_on_them() {
    let machines = Machines::start_with(&["localhost", "127.0.0.2"], "80", Some("FOLDER/witness"));
    machines.await_output("first", "      30 ");
    machines.end_first(&[machines.node("first", "a-0")]);

    let mut attached = machines.attach("second", &["--from", "127.0.0.2"]);

    attached.await_line("1 node goes on");
    assert_verified(&mut attached);
}

#[test]
fn half_of_the_nodes_do_not_go_on_if_the_witness_has_settled_on_the_others() {
    let machines = Machines::start_with(&["localhost", "127.0.0.2"], "80", Some("FOLDER/witness"));
    machines.await_output("first", "      30 ");
    machines.end_first(&[machines.node("first", "a-0")]);
    let mut of_jobs = fs::read_dir(machines.witness()).unwrap();
    let settled = of_jobs.next().unwrap().unwrap().path().join("run-0");
    fs::write(&settled, "[0]").unwrap();

    let refused = machines.ask("second", &["attach", "--from", "127.0.0.2"]);

    assert_eq!(refused.code, Some(1), "{refused:?}");
    let reason = "or the half on which the witness has settled, a/0; a/0 cannot be reached";
    assert!(refused.stderr.contains(reason), "{refused:?}");
    let refused = machines.ask("second", &["attach", "--from", "127.0.0.2", "--ended", "a/0"]);
    let reason = "or a part of the half on which the witness has settled, a/0";
    assert!(refused.stderr.contains(reason), "{refused:?}");
    // The user knows that nothing is left of that half.
    fs::remove_file(&settled).unwrap();
    let mut attached = machines.attach("second", &["--from", "127.0.0.2", "--ended", "a/0"]);
    attached.await_line("1 node goes on");
    assert_verified(&mut attached);
}

#[test]
fn half_of_the_nodes_go_on_if_a_third_host_settles_on_them() {
    let machines = Machines::start_with(&["localhost", "127.0.0.2"], "80", Some("ssh://127.0.0.9"));
    machines.await_output("first", "      30 ");
    machines.end_first(&[machines.node("first", "a-0")]);
    let of_jobs = machines.folder.path().join("127.0.0.9/gridspan/witness");
    let of_job = fs::read_dir(of_jobs).unwrap().next().unwrap().unwrap().path();
    assert!(of_job.join("job").exists() && !of_job.join("run-0").exists());
    let gone = machines.folder.path().join("gone/127.0.0.9");
    fs::write(&gone, "").unwrap();

    let refused = machines.ask("second", &["attach", "--from", "127.0.0.2"]);

    assert_eq!(refused.code, Some(1), "{refused:?}");
    let reason = "a/0 cannot be reached; the witness: ssh://127.0.0.9: no route to 127.0.0.9";
    assert!(refused.stderr.contains(reason), "{refused:?}");
    assert!(!of_job.join("run-0").exists(), "no answer is no grant");
    fs::remove_file(&gone).unwrap();
    let mut attached = machines.attach("second", &["--from", "127.0.0.2"]);
    attached.await_line("1 node goes on");
    assert_eq!(fs::read_to_string(of_job.join("run-0")).unwrap(), "[1]");
    assert_verified(&mut attached);
}

#[test]
fn a_witness_is_told_of_the_majority_that_goes_on() {
    let hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];
    let machines = Machines::start_with(&hosts, "100000", Some("ssh://127.0.0.9"));
    machines.await_output("first", "      20 ");
    let (lost, shells) = (machines.node("127.0.0.4", "a-2"), machines.shells("127.0.0.4"));
    fs::write(machines.folder.path().join("gone/127.0.0.4"), "").unwrap();

    kill(lost, Signal::KILL);
    for shell in shells {
        // It may have ended with the node.
        let _ = kill_process_group(Pid::from_raw(shell as i32).unwrap(), Signal::KILL);
    }

    machines.await_output("first", "2 nodes go on");
    let of_jobs = machines.folder.path().join("127.0.0.9/gridspan/witness");
    let settled = fs::read_dir(of_jobs).unwrap().next().unwrap().unwrap().path().join("run-0");
    let told = until(|| fs::read_to_string(&settled).ok());
    assert_eq!(told, "[0,1]");
    assert_eq!(machines.ask("first", &["stop"]).code, Some(0));
    assert_eq!(machines.ask("first", &["attach"]).code, Some(143));
}

#[test]
fn a_witness_that_cannot_be_used_is_an_error_at_the_start_of_the_job() {
    let machines = Machines::of(&["localhost", "127.0.0.2"]);
    fs::write(machines.folder.path().join("gone/127.0.0.9"), "").unwrap();
    // This file is in the place of the host's state folder.
    fs::write(machines.folder.path().join("127.0.0.8"), "").unwrap();
    for (witness, code, expected) in [
        ("ssh://127.0.0.9", 1, "cannot use the witness ssh://127.0.0.9: no route to 127.0.0.9"),
        ("ssh://127.0.0.8", 1, "cannot use the witness ssh://127.0.0.8: "),
        ("ssh://localhost/data", 2, "is another witness on each machine with a launcher"),
        ("ssh://", 2, "`ssh://` names no host"),
        ("no-folder-of-this-name", 2, "write `ssh://HOST` or `ssh://HOST/DIR` for another host"),
    ] {
        let refused = machines.run("10", Some(witness));
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
}

#[test]
fn a_launcher_that_was_stopped_while_another_one_took_over_ends_and_changes_nothing() {
    let machines = Machines::start(&["localhost", "127.0.0.2", "127.0.0.3"], "100000");
    machines.await_output("first", "      20 ");
    let (launcher, local) = (machines.launcher("first"), machines.node("first", "a-0"));
    kill(launcher, Signal::STOP);

    let mut attached = machines.attach("second", &["--from", "127.0.0.2"]);

    attached.await_line("2 nodes go on");
    let others = [machines.node("127.0.0.2", "a-1"), machines.node("127.0.0.3", "a-2")];
    kill(launcher, Signal::CONT);
    machines.await_output("first", "another launcher attends to this job");
    until(|| (!is_alive(launcher) && !is_alive(local)).then_some(()));
    assert!(others.into_iter().all(is_alive), "they belong to the other launcher");
    let refused = machines.ask("first", &["attach"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("a launcher attends to the job"), "{refused:?}");
    assert!(!machines.path("first", "exit").exists(), "the job goes on");
    let reports = || fs::read_to_string(machines.path("second", "output")).unwrap().lines().count();
    let before = reports();
    until(|| (reports() > before + 3).then_some(()));
    assert_eq!(machines.ask("second", &["stop"]).code, Some(0));
    assert_eq!(attached.wait(LIMIT).expect("the job ends").code(), Some(143));
    assert!(!others.into_iter().any(is_alive));
}

#[test]
fn a_job_whose_launcher_attends_to_it_is_not_taken_over() {
    let machines = Machines::start(&["127.0.0.2", "127.0.0.3"], "100000");

    let refused = machines.ask("second", &["attach", "--from", "127.0.0.3"]);

    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("a launcher attends to the job"), "{refused:?}");
    let nothing = machines.ask("second", &["attach", "--from", "127.0.0.4"]);
    assert!(nothing.stderr.contains("has no node of a detached job"), "{nothing:?}");
    assert_eq!(machines.ask("first", &["stop"]).stdout, "the job is stopping\n");
    assert_eq!(machines.ask("first", &["attach"]).code, Some(143));
}

#[test]
fn a_host_that_is_gone_is_lost_and_too_few_hosts_end_the_launcher_alone() {
    let machines = Machines::start(&["127.0.0.2", "127.0.0.3", "127.0.0.4"], "100000");
    let gone = |host: &str| machines.folder.path().join("gone").join(host);
    let cut = |host: &str, node: u32, shells: &[u32]| {
        fs::write(gone(host), "").unwrap();
        kill(node, Signal::KILL);
        for &shell in shells {
            let _ = kill_process_group(Pid::from_raw(shell as i32).unwrap(), Signal::KILL);
        }
    };
    machines.await_output("first", "      20 ");
    let node =
        |number: usize| machines.node(&format!("127.0.0.{}", number + 2), &format!("a-{number}"));
    cut("127.0.0.4", node(2), &machines.shells("127.0.0.4"));
    machines.await_output("first", "2 nodes go on");
    let (launcher, kept) = (machines.launcher("first"), node(1));
    // Wait for another checkpoint: nine reports are 45 steps.
    until(|| {
        let output = fs::read_to_string(machines.path("first", "output")).ok()?;
        (output.split_once("2 nodes go on")?.1.lines().count() > 10).then_some(())
    });

    // Half of the two members is enough only if it has the first node, whose host is cut off here.
    cut("127.0.0.2", node(0), &children_of(launcher));

    machines.await_output("first", "1 of the 2 members of the job agree");
    until(|| (!is_alive(launcher)).then_some(()));
    assert!(is_alive(kept) && !machines.path("first", "exit").exists(), "the job can go on");
    let mut attached = machines.attach("first", &["--ended", "127.0.0.2"]);
    attached.await_line("1 node goes on");
    assert_eq!(machines.ask("first", &["stop"]).code, Some(0));
    assert_eq!(attached.wait(LIMIT).expect("the job ends").code(), Some(143));
    assert!(!is_alive(kept));
}

impl Drop for Machines {
    fn drop(&mut self) {
        // All have ended already if the test succeeded.
        let of_job = |pid: &u32| {
            let folder = self.folder.path().as_os_str().as_encoded_bytes();
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(folder.len()).any(|window| window == folder)
        };
        if std::thread::panicking() {
            let pids = fs::read_dir("/proc")
                .unwrap()
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            pids.filter(of_job).for_each(|pid| {
                let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
            });
        }
    }
}

#[test]
fn a_job_whose_folder_was_started_elsewhere_needs_that_folder() {
    let machines = Machines::start(&["127.0.0.2"], "100000");
    let kept = until(|| {
        let jobs = fs::read_dir(machines.folder.path().join("127.0.0.2/gridspan")).ok()?;
        let mut jobs = jobs.filter_map(|entry| Some(entry.ok()?.path().join("a-0/start.json")));
        jobs.find(|path| path.exists())
    });
    let text = fs::read_to_string(&kept).unwrap();
    let here = std::env::current_dir().unwrap();
    let here = serde_json::to_string(Path::new(&here)).unwrap();
    fs::write(&kept, text.replace(&here, "\"/nowhere/at/all\"")).unwrap();

    let refused = machines.ask("second", &["attach", "--from", "127.0.0.2"]);

    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("the job was started in /nowhere/at/all"), "{refused:?}");
    machines.ask("first", &["stop"]);
    assert_eq!(machines.ask("first", &["attach"]).code, Some(143));
}
