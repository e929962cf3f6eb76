//! Nodes as tasks of Slurm, and the hosts of other batch systems.
//!
//! A script replaces `srun`: it records its arguments and starts all tasks on this machine, each
//! with its variables and a copy of the standard input. The test `slurm` uses a real `srun`.
#![cfg(target_os = "linux")]

use crate::common::slurm::LOST_AFTER;
use crate::common::{
    LIMIT, Output, Running, SLOW_JOB, finish, gridctl, is_alive, proc_words, until,
};
use crate::ssh::{assert_no_secret, below};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

const SCRIPT: &str = r#"#!/bin/sh
echo "$@" >> "$FAKE/arguments"
hosts=$FAKE_HOSTS
per=1
while :; do
  case $1 in
    --jobid=*) eval "hosts=\$FAKE_HOSTS_OF_${1#*=}";;
    --het-group=*) eval "hosts=\$FAKE_HOSTS_${1#*=}";;
    --nodelist=*) hosts=$(echo "${1#*=}" | tr , ' ');;
    --ntasks-per-node=*) per=${1#*=};;
    --*) ;;
    *) break;;
  esac
  shift
done
if [ -n "$FAKE_FAILS" ]; then
  echo "srun: error: Unable to create step" >&2
  exit 1
fi
read -r line
echo "$line" >> "$FAKE/token"
if [ "$hosts" = "$FAKE_QUEUED" ]; then
  trap 'echo "srun: Cancelled pending job step" >&2; echo yes >> "$FAKE/cancelled"; exit 1' TERM
  echo yes > "$FAKE/queued"
  while :; do sleep 0.1; done
fi
id=0
for host in $hosts; do
  of_host=0
  while [ "$of_host" -lt "$per" ]; do
    export SLURM_PROCID=$id SLURM_LOCALID=$of_host SLURMD_NODENAME=$host SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
    env >> "$FAKE/environment"
    echo "$line" | "$@" &
    id=$((id + 1))
    of_host=$((of_host + 1))
  done
done
wait
"#;

/// An allocation of one CPU on each of four hosts.
pub(crate) const FOUR: [(&str, &str); 3] = [
    ("SLURM_JOB_NODELIST", "n[1-4]"),
    ("SLURM_JOB_CPUS_PER_NODE", "1(x4)"),
    ("FAKE_HOSTS", "n1 n2 n3 n4"),
];

pub(crate) struct Fake {
    folder: TempDir,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("srun");
        fs::write(&path, SCRIPT).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Checks that a text contains neither a key nor a word of the token that tasks have read.
    fn assert_no_secret(&self, text: &str) {
        assert_no_secret(text);
        let token = self.said("token");
        let words: Vec<&str> = token.split_whitespace().skip(1).collect();
        assert!(words.len() == 2 && words.iter().all(|word| word.len() == 64), "{token}");
        for word in words {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }

    /// Returns the variables of an allocation.
    pub(crate) fn variables(&self, set: &[(&str, &str)]) -> Vec<(String, String)> {
        let here = self.folder.path().display();
        let own = [
            ("PATH", format!("{here}:/usr/local/bin:/usr/bin:/bin")),
            ("FAKE", here.to_string()),
            ("XDG_RUNTIME_DIR", here.to_string()),
            ("SLURM_JOB_ID", "7".to_owned()),
        ];
        let set = set.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        own.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(set).collect()
    }

    fn run(&self, set: &[(&str, &str)], arguments: &[&str]) -> Output {
        let mut command = gridctl(arguments);
        command.envs(self.variables(set));
        finish(command)
    }

    fn start(&self, set: &[(&str, &str)], arguments: &[&str]) -> Running {
        let variables = self.variables(set);
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Running::start_with(arguments, &variables)
    }
}

/// Returns the agents of a launcher, in the order of their hosts, once there are `number` of them.
fn agents(running: &Running, number: usize) -> Vec<u32> {
    let host = |pid: u32| {
        let words = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut words = words.split(|&byte| byte == 0);
        let host = words.find_map(|word| word.strip_prefix(b"SLURMD_NODENAME="));
        host.map(<[u8]>::to_vec)
    };
    let is_agent = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|&byte| byte == 0).nth(1) == Some(&b"__task"[..])
    };
    until(|| {
        let mut found: Vec<u32> = below(running.child.id()).into_iter().filter(is_agent).collect();
        found.sort_by_key(|&pid| host(pid));
        (found.len() == number).then_some(found)
    })
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

fn assert_verified(running: &mut Running) {
    running.await_line("every bit as on one thread");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(0));
}

#[test]
fn one_srun_starts_all_nodes_and_each_line_has_its_node() {
    let fake = Fake::new();
    let output = fake.run(&FOUR, &["run", "drill", "--lines", "3"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    for node in 0..4 {
        for line in 1..=3 {
            let out = format!("slurm/{node}│ node {node}, line {line} of 3\n");
            let err = format!("slurm/{node}│ node {node}, error line {line} of 3\n");
            assert!(output.stdout.contains(&out) && output.stderr.contains(&err), "{output:?}");
        }
    }
    let said = fake.said("arguments");
    let own = env!("CARGO_BIN_EXE_gridctl");
    let begin = format!(
        "--overlap --mpi=none --wait=0 --kill-on-bad-exit=0 --no-kill --nodes=4 --ntasks=4 \
         --ntasks-per-node=1 --cpu-bind=none {own} __task "
    );
    assert!(said.starts_with(&begin) && said.lines().count() == 1, "{said}");
    fake.assert_no_secret(&said);
    fake.assert_no_secret(&fake.said("environment"));
}

#[test]
fn arguments_and_environment_of_tasks_contain_no_secret() {
    let fake = Fake::new();
    let running = fake.start(&FOUR, &["run", "--env", "WHO=me", "drill", "--wait", "600"]);
    running.await_line("4 lines from 4 nodes");
    for agent in agents(&running, 4) {
        let nodes = below(agent);
        assert_eq!(nodes.len(), 1, "an agent runs one node");
        let words = proc_words(nodes[0], "cmdline");
        assert_eq!(words[1..], ["__job", "drill", "--wait", "600"]);
        let environment = proc_words(nodes[0], "environ");
        assert!(environment.contains(&"WHO=me".to_owned()), "{environment:?}");
        assert!(environment.contains(&"GRIDSPAN_NODES=4".to_owned()), "{environment:?}");
        for pid in [agent, nodes[0]] {
            fake.assert_no_secret(&proc_words(pid, "environ").join(" "));
            fake.assert_no_secret(&proc_words(pid, "cmdline").join(" "));
        }
    }
}

#[test]
fn tasks_of_a_host_and_of_other_components_are_nodes() {
    let fake = Fake::new();
    let set = [
        ("SLURM_HET_SIZE", "2"),
        ("SLURM_JOB_NODELIST_HET_GROUP_0", "n1"),
        ("SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0", "2"),
        ("SLURM_JOB_NODELIST_HET_GROUP_1", "g[1-2]"),
        ("SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1", "2(x2)"),
        ("SLURM_TASKS_PER_NODE_HET_GROUP_1", "2(x2)"),
        ("SLURM_CPUS_PER_TASK_HET_GROUP_1", "1"),
        ("FAKE_HOSTS_0", "n1"),
        ("FAKE_HOSTS_1", "g1 g2"),
    ];
    let plan = fake.run(&set, &["run", "--dry-run", "ring"]);
    let expected = "SITE   HOST   NODE  PES\nslurm  n1        0  0-1\n       g1        1  2\n\
                    \x20      g1        2  3\n       g2        3  4\n       g2        4  5\n\nprocesses";
    assert!(plan.stdout.starts_with(expected), "{plan:?}");
    let steps = plan.stdout.lines().filter(|line| line.contains("srun --overlap"));
    let second = steps.clone().nth(1).unwrap();
    assert_eq!(steps.count(), 2, "{plan:?}");
    let part = "--het-group=1 --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=1";
    assert!(second.contains(part) && second.contains(" __task PORT "), "{plan:?}");
    assert!(!plan.stdout.contains("not bound") && !plan.stdout.contains("pipe"), "{plan:?}");
    let secret =
        "a one-time secret follows on the standard input of srun; each node makes its own key";
    assert!(plan.stdout.contains(secret), "{plan:?}");
    let plan = fake.run(&set, &["run", "--dry-run", "--json", "ring"]);
    let bound = |binding| plan.stdout.matches(&format!("\"binding\":\"{binding}\"")).count();
    assert_eq!((bound("none"), bound("cores")), (1, 1), "{plan:?}");
    assert!(!fake.path("arguments").exists(), "a dry run starts nothing");

    let output = fake.run(&set, &["run", "ring", "--members", "12"]);

    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("10 rounds over 12 actors on 6 PEs"), "{output:?}");
    assert_eq!(fake.said("arguments").lines().count(), 2, "components share no standard input");
}

#[test]
fn a_lost_task_is_a_lost_node_and_the_job_goes_on() {
    for (on_loss, ending) in [("shrink", "3 nodes go on"), ("replace", "4 nodes go on")] {
        let fake = Fake::new();
        let flags = ["run", "--on-loss", on_loss, "--checkpoint-every", "10steps", LOST_AFTER];
        let mut running = fake.start(&FOUR, &[&flags[..], &SLOW_JOB, &["90"]].concat());
        running.await_line("      40 ");

        kill(agents(&running, 4)[2], Signal::KILL);

        running.await_line("lost slurm/2: ");
        running.await_line(ending);
        assert_verified(&mut running);
        let said = fake.said("arguments");
        let again = said.lines().nth(1).unwrap_or_default();
        let is_one = again.contains("--nodes=1 --ntasks=1 --nodelist=n3 ");
        assert_eq!(is_one, on_loss == "replace", "{said}");
    }
}

/// An allocation of one CPU on each of two hosts, and the hosts of another one.
const TWO: [(&str, &str); 4] = [
    ("SLURM_JOB_NODELIST", "n[1-2]"),
    ("SLURM_JOB_CPUS_PER_NODE", "1(x2)"),
    ("FAKE_HOSTS", "n1 n2"),
    ("FAKE_HOSTS_OF_9", "m1 m2"),
];

/// The variables inside the other allocation.
const OTHER: [(&str, &str); 3] =
    [("SLURM_JOB_ID", "9"), ("SLURM_JOB_NODELIST", "m[1-2]"), ("SLURM_JOB_CPUS_PER_NODE", "1(x2)")];

/// Prints one allocation, as Slurm 22.05 does.
const SCONTROL: &str = r#"#!/bin/sh
[ "$*" = "--details --oneliner show job 9" ] || { echo "Invalid job id specified" >&2; exit 1; }
echo "JobId=9 JobName=x JobState=RUNNING NodeList=m[1-2] NumCPUs=2    Nodes=m[1-2] CPU_IDs=0 Mem=0 GRES= MinCPUsNode=1"
"#;

#[test]
fn tasks_of_another_allocation_join_and_are_started_there_again() {
    let fake = Fake::new();
    let flags = ["run", "--on-loss", "replace", "--checkpoint-every", "10steps", LOST_AFTER];
    let mut running = fake.start(&TWO, &[&flags[..], &SLOW_JOB, &["130"]].concat());
    running.await_line("      20 ");

    let mut added = fake.start(&OTHER, &["add", "--here", "--at", "b"]);

    added.await_line("b/2, b/3 have joined");
    agents(&running, 4).into_iter().for_each(|pid| assert!(is_alive(pid)));
    running.await_line("      60 ");
    // The hosts in order are m1, m2, n1, n2.
    kill(agents(&running, 4)[1], Signal::KILL);
    running.await_line("lost b/3: ");
    running.await_line("4 nodes go on");
    assert_verified(&mut running);
    assert_eq!(added.wait(LIMIT).expect("it ends with the job").code(), Some(0));
    let said = fake.said("arguments");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("--overlap "), "{said}");
    assert!(
        lines[1].starts_with("--jobid=9 --overlap ") && lines[1].contains("--nodes=2 "),
        "{said}"
    );
    assert!(lines[2].starts_with("--jobid=9 ") && lines[2].contains("--nodelist=m2 "), "{said}");
}

#[test]
fn an_srun_that_waits_in_the_queue_is_cancelled_when_the_job_ends() {
    let fake = Fake::new();
    let set = [&TWO[..], &[("FAKE_QUEUED", "m1 m2")]].concat();
    let mut running = fake.start(&set, &[&["run", LOST_AFTER][..], &SLOW_JOB, &["300"]].concat());
    running.await_line("      20 ");
    let mut added = fake.start(&OTHER, &["add", "--here", "--at", "b"]);
    until(|| fake.path("queued").exists().then_some(()));

    running.signal(Signal::INT);

    let text =
        "warning: srun is cancelled: it has started no task yet, and b/2, b/3 are not needed";
    running.await_line(text);
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(130));
    assert_eq!(fake.said("cancelled"), "yes\n");
    assert!(added.wait(LIMIT).is_some());
}

#[test]
fn an_allocation_is_named_by_its_number() {
    let fake = Fake::new();
    let path = fake.path("scontrol");
    fs::write(&path, SCONTROL).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    let mut running = fake.start(&TWO, &[&["run", LOST_AFTER][..], &SLOW_JOB, &["120"]].concat());
    running.await_line("      20 ");

    let unknown = fake.run(&TWO, &["add", "--slurm", "8"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let reason = "cannot use the allocation 8 of Slurm: Invalid job id specified\nhint: `squeue";
    assert!(unknown.stderr.contains(reason), "{unknown:?}");
    let refused = fake.run(&TWO, &["add", "--at", "slurm", "n3"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("its nodes are tasks of Slurm; add those of"), "{refused:?}");

    let added = fake.run(&TWO, &["add", "--slurm", "9"]);

    assert_eq!((added.code, added.stdout.as_str()), (Some(0), "slurm/2, slurm/3 have joined\n"));
    running.await_line("4 nodes go on");
    assert_verified(&mut running);
}

#[test]
fn sigterm_of_all_tasks_stops_a_job_with_a_checkpoint() {
    let fake = Fake::new();
    let path = fake.path("checkpoints");
    let flags = ["run", "--checkpoint", path.to_str().unwrap(), LOST_AFTER];
    let mut running = fake.start(&FOUR, &[&flags[..], &SLOW_JOB, &["300"]].concat());
    running.await_line("      20 ");

    // Slurm does this when the time of an allocation is over.
    agents(&running, 4).into_iter().for_each(|pid| kill(pid, Signal::TERM));

    running.await_line("stopped after checkpoint");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(143));
}

#[test]
fn a_task_whose_node_cannot_leave_ends_at_sigterm() {
    let fake = Fake::new();
    let mut running = fake.start(&FOUR, &["run", "drill", "--wait", "600"]);
    running.await_line("4 lines from 4 nodes");

    kill(agents(&running, 4)[1], Signal::TERM);

    running.await_line("error: slurm/1 was killed by SIGTERM (15)");
    assert_eq!(running.wait(LIMIT).expect("the job ends").code(), Some(1));
}

#[test]
fn tasks_end_with_their_launcher() {
    for signal in [Signal::KILL, Signal::TERM] {
        let fake = Fake::new();
        let mut running = fake.start(&FOUR, &["run", "drill", "--wait", "600"]);
        running.await_line("4 lines from 4 nodes");
        let processes = below(running.child.id());
        assert!(processes.len() >= 9, "srun, four agents and four nodes: {processes:?}");

        running.signal(signal);

        assert!(running.wait(LIMIT).is_some());
        until(|| (!processes.iter().any(|&pid| is_alive(pid))).then_some(()));
    }
}

#[test]
fn an_srun_that_fails_is_explained() {
    let fake = Fake::new();
    let set = [&FOUR[..], &[("FAKE_FAILS", "1")]].concat();
    let output = fake.run(&set, &["run", "ring"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    for text in [
        "warning: srun: error: Unable to create step",
        "srun has started no node on host `n",
        "hint: the warnings above are those of srun",
    ] {
        assert!(output.stderr.contains(text), "{text}: {output:?}");
    }

    fs::remove_file(fake.path("srun")).unwrap();
    let mut command = gridctl(&["run", "ring"]);
    command.envs(fake.variables(&FOUR)).env("PATH", fake.folder.path());
    let output = finish(command);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("needs `srun` in $PATH"), "{output:?}");
}

#[test]
fn a_program_that_is_missing_on_the_hosts_is_explained() {
    let fake = Fake::new();
    let output = fake.run(&FOUR, &["run", "/nowhere/program"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("` cannot run the program\nhint: "), "{output:?}");
    assert!(output.stderr.contains("cannot start /nowhere/program"), "{output:?}");
}

#[test]
fn what_a_job_of_tasks_cannot_do_is_refused() {
    let fake = Fake::new();
    let output = fake.run(&FOUR, &["run", "--detach", "ring"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("cannot be detached\nhint: submit a script"), "{output:?}");
    let step = [&FOUR[..], &[("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "0")]].concat();
    let output = fake.run(&step, &["run", "ring"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("srun has started gridctl 4 times"), "{output:?}");
    let alone = fake.run(&FOUR, &["run", "-n", "2", "ring"]);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    assert!(!fake.path("arguments").exists(), "a place on the command line comes first");
}

#[test]
fn an_agent_that_no_launcher_has_started_says_so() {
    let output = finish(gridctl(&["__task", "1", "localhost"]));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("this process is not a task of a job\nhint: "), "{output:?}");
}

#[test]
fn hosts_of_pbs_lsf_and_host_files_are_nodes() {
    let fake = Fake::new();
    let file = fake.path("hosts");
    let file = file.to_str().unwrap();
    fs::write(file, "localhost\nlocalhost\n127.0.0.1\n").unwrap();
    let set = |name, value| {
        let mut command = gridctl(&["run", "ring", "--members", "8"]);
        command.env(name, value);
        finish(command)
    };
    for (name, value) in
        [("PBS_NODEFILE", file), ("LSB_DJOB_HOSTFILE", file), ("LSB_MCPU_HOSTS", "localhost 3")]
    {
        let output = set(name, value);
        assert_eq!(output.code, Some(0), "{output:?}");
        let site = if name.starts_with("PBS") { "pbs" } else { "lsf" };
        assert!(output.stdout.contains(&format!("{site}/0│ 10 rounds")), "{output:?}");
        assert!(output.stdout.contains("on 3 PEs"), "{output:?}");
    }
    fs::write(file, "localhost slots=2 max_slots=4 # here\n127.0.0.1:1\n").unwrap();
    let plan = finish(gridctl(&["run", "--hostfile", file, "--dry-run", "ring"]));
    let expected =
        "SITE   HOST        NODE  PES\nhosts  localhost      0  0-1\n       127.0.0.1      1  2\n";
    assert!(plan.stdout.starts_with(expected), "{plan:?}");
    let output = finish(gridctl(&["run", "--hostfile", file, "ring", "--members", "8"]));
    assert_eq!(output.code, Some(0), "{output:?}");

    fs::write(file, "localhost\nlocalhost slots=none\n").unwrap();
    let wrong = finish(gridctl(&["run", "--hostfile", file, "ring"]));
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let error = format!("error: {file}:2: `slots=none` has no number of slots; write one from 1");
    assert!(wrong.stderr.contains(&error), "{wrong:?}");
    let missing = set("PBS_NODEFILE", "/nowhere/nodes");
    assert!(missing.stderr.contains("cannot read the host file /nowhere/nodes"), "{missing:?}");
}
