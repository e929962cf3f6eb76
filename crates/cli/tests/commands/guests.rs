//! `gridctl join`: nodes that join a running job, leave it, and are killed.
#![cfg(target_os = "linux")]

use crate::common::{LIMIT, Running, finish, gridctl, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Starts gridctl, which keeps the files of its jobs in `folder`.
fn start(folder: &Path, arguments: &[&str]) -> Running {
    Running::start_with(arguments, &[("XDG_RUNTIME_DIR", folder.to_str().unwrap())])
}

/// Returns the unused invitations.
fn invitations(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("gridspan")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| path.to_str().unwrap().contains("/queens-");
    paths.filter(|path| is_one(path) && path.to_str().unwrap().contains(".invitation-")).collect()
}

#[test]
fn guests_join_leave_and_are_killed_without_changing_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let tolerant =
        ["run", "-n", "2", "--guests", "3", "--tolerate-lost-guests", "queens", "-n", "16"];
    let mut job = start(folder.path(), &tolerant);
    let files = until(|| Some(invitations(folder.path())).filter(|files| files.len() == 3));
    for file in files {
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o600, "it holds a private key");
    }

    let mut guests: Vec<Running> = (0..3).map(|_| start(folder.path(), &["join"])).collect();
    (0..3).for_each(|_| drop(job.await_line("has joined at site local")));
    assert_eq!(invitations(folder.path()).len(), 0, "each is for one node");
    let victim = Pid::from_raw(guests[0].nodes(1)[0] as i32).unwrap();
    kill_process(victim, Signal::KILL).unwrap();
    guests[1].signal(Signal::INT);

    job.await_line("owed run again");
    job.await_line("verified: yes (14772512 solutions");
    assert_eq!(job.wait(LIMIT).and_then(|status| status.code()), Some(0));
    let codes = guests.iter_mut().map(|guest| guest.wait(LIMIT).and_then(|status| status.code()));
    assert_eq!(codes.collect::<Vec<_>>(), [Some(137), Some(0), Some(0)]);
}

#[test]
fn a_guest_joins_again_when_the_job_goes_on_without_a_lost_node() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["run", "-n", "3", "--guests", "1", "--tolerate-lost-guests"];
    let flags = [&flags[..], &["--on-loss", "shrink", "queens", "-n", "16"]].concat();
    let mut job = start(folder.path(), &flags);
    let nodes = job.nodes(3);
    until(|| (invitations(folder.path()).len() == 1).then_some(()));
    let mut guest = start(folder.path(), &["join"]);
    job.await_line("has joined at site local");

    kill_process(Pid::from_raw(nodes[2] as i32).unwrap(), Signal::KILL).unwrap();

    job.await_line("lost local/2: ");
    job.await_line("2 nodes go on");
    guest.await_line("have changed; joining it again");
    job.await_line("has joined at site local");
    job.await_line("verified: yes (14772512 solutions");
    assert_eq!(job.wait(LIMIT).and_then(|status| status.code()), Some(0));
    assert_eq!(guest.wait(LIMIT).and_then(|status| status.code()), Some(0));
}

#[test]
fn joining_a_job_without_invitations_gives_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let _job = start(folder.path(), &["run", "-n", "2", "drill", "--wait", "600"]);
    let _started = until(|| fs::read_dir(folder.path().join("gridspan")).ok()?.next());

    let output = until(|| {
        let output = finish(gridctl_in(folder.path()));
        output.stderr.contains("no invitation").then_some(output)
    });

    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("hint: start the job with `--guests N`"), "{}", output.stderr);
}

fn gridctl_in(folder: &Path) -> std::process::Command {
    let mut command = gridctl(&["join"]);
    command.env("XDG_RUNTIME_DIR", folder);
    command
}
