//! Nodes as tasks of a real Slurm. The test starts the daemons of Slurm on this machine, with a
//! `slurmd` for each of four nodes. Where Slurm is not installed, or its daemons do not start, the
//! test prints the reason and ends; with GRIDSPAN_NEED_SLURM it fails. `.ci/slurm` installs Slurm.
//! With GRIDSPAN_SLURM_COMMAND, it runs the shell command in this variable instead of the jobs. The
//! command finds the process of the test in STUDIES_SLURM_REAPER. This process adopts what the
//! daemons and the command start and leave behind, and waits for it as soon as it ends. So the
//! processor times of ended tasks and of their `slurmstepd` are added to those of its children.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::slurm::LOST_AFTER;
use common::{Running, SLOW_JOB, finish, processes_with, until, wait};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use rustix::process::{getpid, kill_process, set_child_subreaper, waitid, waitpid};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// If this variable is set, Slurm must start.
const NEED: &str = "GRIDSPAN_NEED_SLURM";
/// If this variable is set, the test only runs its value, a shell command that uses these daemons.
const COMMAND: &str = "GRIDSPAN_SLURM_COMMAND";
/// The variable in which the command finds the process that adopts orphans.
const REAPER: &str = "STUDIES_SLURM_REAPER";
/// Programs that must be installed. The others, such as `sinfo`, come with `srun`.
const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "salloc", "srun"];
/// Folders in which the programs may be.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
/// Time that the daemons have to start.
const START_MAX: Duration = Duration::from_secs(60);
/// Longest time until an allocation of one minute ends: Slurm checks the limit every half minute,
/// and then gives tasks time to end.
const TIME_LIMIT_MAX: Duration = Duration::from_secs(240);

/// The daemons.
struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // In reverse order of their starts: `slurmd` before the daemons to which it connects.
        for daemon in self.daemons.iter_mut().rev() {
            let pid = Pid::from_raw(daemon.id() as i32).unwrap();
            // It may have ended already.
            let _ = kill_process(pid, Signal::TERM);
            wait(daemon, Duration::from_secs(10));
        }
        // Tasks and their `slurmstepd` are found by the variables that they inherit from `slurmd`.
        for pid in processes_with("environ", self.path("slurm.conf").to_str().unwrap()) {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        }
    }
}

impl Slurm {
    /// Starts the daemons, or returns why they cannot be used.
    fn start() -> Result<Self, String> {
        let mut programs = PROGRAMS.iter();
        if let Some(missing) = programs.find(|name| program(name).is_none()) {
            return Err(format!("{missing} is not installed"));
        }
        let folder = tempfile::tempdir().unwrap();
        // Daemons refuse a folder that other users may not enter.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut slurm = Self { folder, daemons: Vec::new() };
        slurm.configure();
        slurm.start_munge()?;
        slurm.daemon("slurmctld", &["-D"], "slurmctld.out");
        for node in ["n1", "n2", "n3", "n4"] {
            slurm.daemon("slurmd", &["-D", "-N", node], &format!("slurmd.{node}.out"));
        }
        slurm.await_nodes()?;
        Ok(slurm)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self) {
        let here = self.folder.path().display();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        let user = String::from_utf8(user).unwrap();
        let user = user.trim();
        let port = free_ports(5);
        let (first, last) = (port + 1, port + 4);
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={port}\n\
             SlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={here}/munge.socket\n\
             StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool.%n\n\
             SlurmctldPidFile={here}/slurmctld.pid\nSlurmdPidFile={here}/slurmd.%n.pid\n\
             SlurmctldLogFile={here}/slurmctld.log\nSlurmdLogFile={here}/slurmd.%n.log\n\
             ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             MpiDefault=none\nJobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             SchedulerType=sched/backfill\nSchedulerParameters=bf_interval=1\n\
             SlurmdParameters=config_overrides\nReturnToService=2\nKillWait=30\n\
             NodeName=n[1-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] \
             CPUs=2 State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        );
        fs::write(self.path("slurm.conf"), text).unwrap();
        fs::create_dir(self.path("state")).unwrap();
        for node in 1..=4 {
            fs::create_dir(self.path(&format!("spool.n{node}"))).unwrap();
        }
    }

    /// Starts a `munged` with its own key and socket.
    fn start_munge(&mut self) -> Result<(), String> {
        let key = self.path("munge.key");
        let mut bytes = [0; 1024];
        std::io::Read::read_exact(&mut File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
        fs::write(&key, bytes).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let here = self.folder.path().display().to_string();
        let file = |option: &str, name: &str| format!("--{option}={here}/munge.{name}");
        let arguments = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            file("key-file", "key"),
            file("socket", "socket"),
            file("pid-file", "pid"),
            file("log-file", "log"),
            file("seed-file", "seed"),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.daemon("munged", &arguments, "munge.out");
        let begin = Instant::now();
        while !self.path("munge.socket").exists() {
            if begin.elapsed() > START_MAX || self.has_ended() {
                return Err(format!("munged does not start: {}", self.outputs()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn daemon(&mut self, name: &str, arguments: &[&str], output: &str) {
        let mut command = self.command(name);
        let file = OpenOptions::new().create(true).append(true).open(self.path(output)).unwrap();
        command.args(arguments).stdout(file.try_clone().unwrap()).stderr(file);
        self.daemons.push(command.spawn().unwrap());
    }

    /// Returns a command of Slurm or Munge that knows these daemons only.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program(name).unwrap());
        command.env_clear().env("PATH", FOLDERS.join(":") + ":/bin").stdin(Stdio::null());
        command.env("SLURM_CONF", self.path("slurm.conf")).env("HOME", self.folder.path());
        command.current_dir(self.folder.path());
        command
    }

    fn has_ended(&mut self) -> bool {
        self.daemons.iter_mut().any(|daemon| daemon.try_wait().unwrap().is_some())
    }

    /// Waits until all nodes are idle.
    fn await_nodes(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let mut sinfo = self.command("sinfo");
            let listed = sinfo.args(["--noheader", "--Node", "--format=%N %T"]).output();
            let listed = listed.map_err(|error| format!("sinfo: {error}"))?;
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            if listed.lines().filter(|line| line.ends_with(" idle")).count() == 4 {
                return Ok(());
            }
            if begin.elapsed() > START_MAX || self.has_ended() {
                let outputs = self.outputs();
                return Err(format!("the nodes do not become idle: {listed}\n{outputs}"));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the last lines of the output of each daemon.
    fn outputs(&self) -> String {
        let mut all = String::new();
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "out" || kind == "log") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().rev().take(15).collect();
                all += &format!("--- {}\n", path.display());
                lines.iter().rev().for_each(|line| all += &format!("{line}\n"));
            }
        }
        all
    }

    /// Returns a command that runs gridctl inside an allocation.
    fn salloc(&self, allocation: &[&str], arguments: &[&str]) -> Command {
        let mut command = self.command("salloc");
        command.args(allocation).arg(env!("CARGO_BIN_EXE_gridctl")).args(arguments);
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        command
    }

    /// Returns a command that runs gridctl outside of allocations.
    fn command_of_gridctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gridctl"));
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        command
    }

    /// Runs gridctl inside an allocation to its end, and returns what it has printed.
    fn run(&self, allocation: &[&str], arguments: &[&str]) -> String {
        let output = finish(self.salloc(allocation, arguments));
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout + &output.stderr
    }

    /// Runs a command of the shell outside of allocations, in the environment of the test. Adopts
    /// orphans until the command ends.
    fn run_in_shell(&mut self, command: &OsStr) {
        set_child_subreaper(Some(getpid())).unwrap();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).env("SLURM_CONF", self.path("slurm.conf"));
        let mut shell = shell.env(REAPER, std::process::id().to_string()).spawn().unwrap();
        let status = loop {
            // It returns once a child has ended, whose status stays to be read.
            waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
            if let Some(status) = shell.try_wait().unwrap() {
                break status;
            }
            // Otherwise the status of a daemon that has ended would be found again and again.
            for daemon in &mut self.daemons {
                daemon.try_wait().unwrap();
            }
            let mut kept: Vec<u32> = self.daemons.iter().map(Child::id).collect();
            kept.push(shell.id());
            reap_orphans(&kept);
        };
        assert!(!self.has_ended(), "a daemon has ended: {}", self.outputs());
        assert!(status.success(), "{command:?}");
    }

    /// Waits until earlier allocations have ended.
    fn await_idle(&mut self) {
        self.await_nodes().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Reads the status of each child of this process that has ended, apart from `kept`.
fn reap_orphans(kept: &[u32]) {
    // In a line of proc_pid_stat(5), the state and the parent follow the name.
    let ended = format!("Z {} ", std::process::id());
    for entry in fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        let is_ended = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(&ended));
        if is_ended && !kept.contains(&pid) {
            waitpid(Pid::from_raw(pid as i32), WaitOptions::NOHANG).unwrap();
        }
    }
}

/// Returns the path of a program.
fn program(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

/// Returns the first of `number` consecutive TCP ports that are free now. The system gives them to
/// no process that lets it select a port, so they stay free until the daemons start.
fn free_ports(number: u16) -> u16 {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let is_free = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_ok();
    let mut all = (first..30_000).chain(20_000..first);
    all.find(|&first| (first..first + number).all(is_free)).unwrap()
}

/// Returns the agent on a node of these daemons, once there is one. Other tests on this machine
/// imitate tasks on nodes of the same name.
fn agent_on(slurm: &Slurm, node: &str) -> u32 {
    let configuration = slurm.path("slurm.conf");
    until(|| {
        let of_slurm = processes_with("environ", configuration.to_str().unwrap());
        let name = format!("SLURMD_NODENAME={node}\0");
        let is_on_node = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&name)
        };
        let is_agent = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|&byte| byte == 0).nth(1) == Some(&b"__task"[..])
        };
        of_slurm.into_iter().find(|pid| is_agent(pid) && is_on_node(pid))
    })
}

fn each_host_is_a_node_with_all_its_cpus(slurm: &Slurm) {
    let whole = ["-N4", "--exclusive"];
    slurm.run(&whole, &["run", LOST_AFTER, "queens"]);
    let printed = slurm.run(&whole, &["run", LOST_AFTER, "drill"]);
    for node in 0..4 {
        for line in ["line 1 of 1", "error line 1 of 1"] {
            let expected = format!("test/{node}│ node {node}, {line}\n");
            assert!(printed.contains(&expected), "{expected}: {printed}");
        }
    }
    let printed = slurm.run(&whole, &["run", LOST_AFTER, "ring"]);
    assert!(printed.contains("on 8 PEs"), "{printed}");
}

fn each_task_is_a_node(slurm: &Slurm) {
    let wanted = ["-N2", "--ntasks-per-node=2", "--cpus-per-task=1"];
    let printed = slurm.run(&wanted, &["run", LOST_AFTER, "drill"]);
    assert!(printed.contains("4 lines from 4 nodes"), "{printed}");
}

fn a_heterogeneous_allocation_is_one_job(slurm: &Slurm) {
    let wanted = ["-N1", "--exclusive", ":", "-N2", "--exclusive"];
    let printed = slurm.run(&wanted, &["run", LOST_AFTER, "ring"]);
    assert!(printed.contains("on 6 PEs"), "{printed}");
}

fn a_job_goes_on_without_a_killed_task(slurm: &Slurm) {
    let flags = ["run", LOST_AFTER, "--on-loss", "shrink", "--checkpoint-every", "10steps"];
    let arguments = [&flags[..], &SLOW_JOB, &["200"]].concat();
    let mut running = Running::of(slurm.salloc(&["-N4", "--no-kill"], &arguments));
    running.await_line("      40 ");

    let agent = Pid::from_raw(agent_on(slurm, "n3") as i32).unwrap();
    kill_process(agent, Signal::KILL).unwrap();

    running.await_line("lost test/2: ");
    running.await_line("3 nodes go on");
    running.await_line("every bit as on one thread");
    assert_eq!(running.wait(common::LIMIT).expect("the job ends").code(), Some(0));
}

/// Nodes of two other allocations join: `gridctl add` runs inside the first, and names the second
/// by its number.
fn tasks_of_other_allocations_join_a_job(slurm: &Slurm) {
    let flags = ["run", LOST_AFTER, "--on-loss", "replace", "--checkpoint-every", "10steps"];
    let arguments = [&flags[..], &SLOW_JOB, &["300"]].concat();
    let mut running = Running::of(slurm.salloc(&["-N2", "--exclusive"], &arguments));
    running.await_line("      20 ");

    let inside = slurm.salloc(&["-N1", "--exclusive"], &["add", "--here", "--at", "b"]);
    let mut inside = Running::of(inside);
    inside.await_line("b/2 has joined");
    running.await_line("3 nodes go on");

    let mut held = slurm.command("salloc");
    held.args(["-N1", "--exclusive", "--no-shell"]);
    let held = finish(held);
    // It prints `salloc: Granted job allocation 7`.
    let (_, number) = held.stderr.split_once("job allocation ").unwrap();
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    let mut add = slurm.command_of_gridctl(&["add", "--slurm", &number, "--at", "test"]);
    add.env("PATH", FOLDERS.join(":"));
    let added = finish(add);
    assert_eq!((added.code, added.stdout.as_str()), (Some(0), "test/3 has joined\n"), "{added:?}");

    running.await_line("4 nodes go on");
    running.await_line("every bit as on one thread");
    assert_eq!(running.wait(common::LIMIT).expect("the job ends").code(), Some(0));
    assert_eq!(inside.wait(common::LIMIT).expect("it ends with the job").code(), Some(0));
    let released = slurm.command("scancel").arg(&number).status().unwrap();
    assert!(released.success());
}

fn the_time_limit_of_the_allocation_stops_a_job_with_a_checkpoint(slurm: &Slurm) {
    let checkpoints = slurm.path("checkpoints");
    let checkpoints = checkpoints.to_str().unwrap();
    let flags = ["run", LOST_AFTER, "--checkpoint", checkpoints];
    let arguments = [&flags[..], &SLOW_JOB, &["1000000"]].concat();
    let running = Running::of(slurm.salloc(&["-N2", "--time=1"], &arguments));

    running.await_line_for("stopped after checkpoint", TIME_LIMIT_MAX);

    until(|| processes_with("cmdline", checkpoints).is_empty().then_some(()));
    let verified = common::run(&["checkpoint", "verify", checkpoints]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

/// A part of the test, with its name.
type Part = (&'static str, fn(&Slurm));

#[test]
fn jobs_run_in_allocations_of_slurm() {
    let mut slurm = match Slurm::start() {
        Ok(slurm) => slurm,
        Err(reason) if std::env::var_os(NEED).is_some() => panic!("{NEED} is set: {reason}"),
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    if let Some(command) = std::env::var_os(COMMAND) {
        return slurm.run_in_shell(&command);
    }
    let parts: [Part; 6] = [
        ("all CPUs", each_host_is_a_node_with_all_its_cpus),
        ("tasks", each_task_is_a_node),
        ("components", a_heterogeneous_allocation_is_one_job),
        ("a killed task", a_job_goes_on_without_a_killed_task),
        ("other allocations", tasks_of_other_allocations_join_a_job),
        ("the time limit", the_time_limit_of_the_allocation_stops_a_job_with_a_checkpoint),
    ];
    for (what, part) in parts {
        let begin = Instant::now();
        part(&slurm);
        slurm.await_idle();
        println!("{what}: {:.1} s", begin.elapsed().as_secs_f64());
    }
}
