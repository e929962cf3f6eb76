//! Nodes of real processes leave and join running jobs, whose results equal those of one thread in
//! every bit.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{JOB, LIMIT, Output, Running, SLOW_JOB, finish, gridctl, is_alive, run, until};
use rustix::process::{Pid, Signal, kill_process};

/// A job on four nodes at two sites, in a separate folder.
struct Changing {
    job: Running,
    folder: tempfile::TempDir,
}

impl Changing {
    /// A step crosses the wide area twice, so it takes 40 ms and little of the processor: there is
    /// time for the commands that change the job.
    fn start(flags: &[&str], steps: &str) -> Self {
        Self::start_job(&JOB, flags, steps)
    }

    fn start_job(job: &[&str], flags: &[&str], steps: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = ["run", "--driver", "cluster", "--emulate", "2x2,wan=20ms"];
        let job = job.iter().copied().chain([steps]);
        let arguments: Vec<&str> =
            place.into_iter().chain(flags.iter().copied()).chain(job).collect();
        let variables = [("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())];
        Self { job: Running::start_with(&arguments, &variables), folder }
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = gridctl(arguments);
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        finish(command)
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    }

    fn assert_verified(&mut self) {
        self.job.await_line("every bit as on one thread");
        assert_eq!(self.job.wait(LIMIT).expect("the job ends").code(), Some(0));
    }
}

fn terminate(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM).unwrap();
}

#[test]
fn nodes_and_sites_leave_on_request_and_join_again() {
    let mut changing = Changing::start_job(&SLOW_JOB, &[], "120");
    let nodes = changing.job.nodes(4);
    changing.job.await_line("      20 ");

    // Main runs on the first node.
    assert_eq!(changing.done(&["drain", "a/0"]), "a/0 has left\n");
    assert!(!is_alive(nodes[0]) || until(|| (!is_alive(nodes[0])).then_some(true)));
    assert_eq!(changing.job.nodes(3), nodes[1..], "those that stay go on in their processes");
    assert_eq!(changing.done(&["drain", "b"]), "b/2, b/3 have left\n");
    assert_eq!(changing.job.nodes(1), nodes[1..2]);
    assert_eq!(changing.done(&["add", "a/0", "b/3"]), "a/0, b/3 have joined\n");
    let now = changing.job.nodes(3);
    let stay: Vec<u32> = now.into_iter().filter(|pid| nodes.contains(pid)).collect();
    assert_eq!(stay, nodes[1..2], "only a/1 has never left");
    let listed = changing.done(&["nodes"]);
    let states: Vec<&str> =
        listed.lines().skip(1).filter_map(|line| line.split(' ').next_back()).collect();
    assert_eq!(states, ["member", "member", "absent", "member"], "{listed}");

    changing.assert_verified();
}

#[test]
fn a_node_leaves_after_sigterm() {
    let mut changing = Changing::start(&[], "100");
    let nodes = changing.job.nodes(4);
    changing.job.await_line("      20 ");

    terminate(nodes[1]);
    terminate(nodes[2]);

    changing.job.await_line("2 nodes go on");
    changing.assert_verified();
}

#[test]
fn spare_nodes_join_on_request() {
    let mut changing = Changing::start_job(&SLOW_JOB, &["--spare", "b"], "100");
    let nodes = changing.job.nodes(2);
    changing.job.await_line("      20 ");

    changing.done(&["add", "b"]);

    changing.job.await_line("4 nodes go on");
    let now = changing.job.nodes(4);
    assert!(nodes.iter().all(|pid| now.contains(pid)), "{nodes:?} stay: {now:?}");
    changing.assert_verified();
}

/// Returns the columns of each node that is listed, after the title.
fn listed(changing: &Changing) -> Vec<Vec<String>> {
    let listed = changing.done(&["nodes"]);
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    listed.lines().skip(1).map(columns).collect()
}

#[test]
fn nodes_that_the_grid_does_not_name_join_at_known_and_new_sites() {
    let mut changing = Changing::start(&[], "250");
    changing.job.nodes(4);
    changing.job.await_line("      20 ");

    assert_eq!(changing.done(&["add", "--at", "a", "--pes", "2", "a9"]), "a/4 has joined\n");
    assert_eq!(changing.done(&["add", "--at", "b", "-n", "2"]), "b/5, b/6 have joined\n");
    changing.done(&["drain", "b/5"]);
    assert_eq!(changing.done(&["add", "--at", "c", "c1"]), "c/7 has joined\n");

    let expected = [
        "a/0 a1 1 member",
        "a/1 a2 1 member",
        "b/2 b1 1 member",
        "b/3 b2 1 member",
        "a/4 a9 2 member",
        "b/5 b1 1 absent",
        "b/6 b2 1 member",
        "c/7 c1 1 member",
    ];
    let listed: Vec<String> = listed(&changing).iter().map(|columns| columns.join(" ")).collect();
    assert_eq!(listed, expected);
    changing.job.nodes(7);
    changing.assert_verified();
}

#[test]
fn a_job_on_this_machine_alone_gets_more_processes() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())];
    let arguments = [&["run", "-n", "1"][..], &SLOW_JOB, &["100"]].concat();
    let job = Running::start_with(&arguments, &variables);
    let mut changing = Changing { job, folder };
    changing.job.await_line("      20 ");

    assert_eq!(changing.done(&["add", "-n", "2"]), "local/1, local/2 have joined\n");

    changing.job.await_line("3 nodes go on");
    changing.assert_verified();
}

#[test]
fn an_added_node_that_is_lost_is_started_again() {
    let flags = ["--on-loss", "replace", "--checkpoint-every", "10steps"];
    let mut changing = Changing::start(&flags, "150");
    changing.job.nodes(4);
    changing.job.await_line("      20 ");
    assert_eq!(changing.done(&["add", "--at", "a", "a9"]), "a/4 has joined\n");
    let nodes = changing.job.nodes(5);
    changing.job.await_line("      50 ");

    kill_process(Pid::from_raw(nodes[4] as i32).unwrap(), Signal::KILL).unwrap();

    changing.job.await_line("lost a/4: it was killed by SIGKILL (9); 4 nodes are left");
    changing.job.await_line("5 nodes go on");
    assert!(listed(&changing).iter().all(|columns| columns[3] == "member"));
    changing.assert_verified();
}

#[test]
fn sigterm_stops_a_job_with_a_checkpoint_in_its_folder() {
    for is_to_all_nodes in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoints");
        let path = path.to_str().unwrap();
        let mut changing = Changing::start(&["--checkpoint", path], "100");
        let nodes = changing.job.nodes(4);
        changing.job.await_line("      20 ");

        match is_to_all_nodes {
            true => nodes.into_iter().for_each(terminate),
            false => changing.job.signal(Signal::TERM),
        }

        changing.job.await_line("stopped after checkpoint");
        assert_eq!(changing.job.wait(LIMIT).expect("the job ends").code(), Some(143));
        let place = ["run", "-n", "3", "--restart", path];
        let arguments = [&place[..], &JOB[..], &["100"]].concat();
        let again = run(&arguments);
        assert_eq!(again.code, Some(0), "{again:?}");
        assert!(again.stdout.contains("every bit as on one thread"), "{again:?}");
    }
}

#[test]
fn impossible_requests_are_refused_with_the_reason() {
    let changing = Changing::start(&[], "100000");
    changing.job.nodes(4);
    changing.job.await_line("       5 ");
    for (request, code, reason) in [
        (&["drain", "a", "b"][..], 1, "refuses: no node of the job would be left"),
        (&["add", "a/0"], 1, "refuses: a/0 is a member of the job already"),
        (&["drain", "mars"], 2, "has no node or site `mars`\nhint: its nodes: a/[0-1]"),
        (&["drain", "--job", "other-1", "a"], 2, "no running job `other-1`"),
        (&["add", "b7"], 2, "has no node or site `b7`\nhint: its nodes: a/[0-1]"),
        (&["add", "-n", "2"], 2, "several sites"),
        (&["add", "--at", "b", "b[7-"], 2, "`b[7-`: "),
        (&["add", "--at", "b", "-p", "2000000", "b7"], 1, "refuses: there are more than"),
        (&["add", "--at", "b c", "b7"], 1, "refuses: `b c` is not a site name"),
        (&["add", "--here", "--at", "b"], 2, "--here: this is no allocation of Slurm"),
        (&["add", "--slurm", "x9"], 2, "invalid value 'x9' for '--slurm"),
        (&["add", "-n", "2", "b7"], 2, "cannot be used with"),
        (&["add"], 2, "required"),
    ] {
        let output = changing.ask(request);
        assert_eq!(output.code, Some(code), "{output:?}");
        assert!(output.stderr.contains(reason), "{output:?}");
    }
    assert_eq!(listed(&changing).len(), 4, "what is refused leaves nothing behind");
}

#[test]
fn a_job_whose_main_cannot_begin_again_refuses_changes() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())];
    let job = ["run", "-n", "2", "drill", "--wait", "600"];
    let running = Running::start_with(&job, &variables);
    let nodes = running.nodes(2);
    let refused = until(|| {
        let mut command = gridctl(&["drain", "local/1"]);
        command.env("XDG_RUNTIME_DIR", folder.path());
        // Before the job runs, the request finds none.
        let output = finish(command);
        output.stderr.contains("refuses").then_some(output.stderr)
    });
    assert!(refused.contains("its main cannot begin again"), "{refused}");

    terminate(nodes[1]);
    running.await_line("SIGTERM (15)");
}
