//! `gridctl rpc serve`, `ls` and `call`: daemons that come, are stopped, are killed, and come back.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{LIMIT, Output, Running, finish, gridctl, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// gridctl, whose daemons are known in `folder`.
fn ask(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = gridctl(arguments);
    command.env("XDG_RUNTIME_DIR", folder);
    finish(command)
}

fn start(folder: &Path, arguments: &[&str]) -> Running {
    Running::start_with(arguments, &[("XDG_RUNTIME_DIR", folder.to_str().unwrap())])
}

fn end(mut daemon: Running) {
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(LIMIT).and_then(|status| status.code()), Some(0));
}

#[test]
fn a_daemon_serves_this_user_and_leaves_nothing_when_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let none = ask(folder.path(), &["rpc", "call", "add", "[1, 2]"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("start one with `gridctl rpc serve`"), "{}", none.stderr);

    let daemon = start(folder.path(), &["rpc", "serve", "-n", "2", "--name", "here"]);
    daemon.await_line("its token is");
    let tokens: Vec<_> = fs::read_dir(folder.path().join("gridspan")).unwrap().collect();
    let token = tokens[0].as_ref().unwrap().path();
    assert_eq!(fs::metadata(&token).unwrap().mode() & 0o777, 0o600, "it holds a private key");

    let sum = ask(folder.path(), &["rpc", "call", "add", "[1, 2.5]"]);
    assert_eq!((sum.code, sum.stdout.as_str()), (Some(0), "3.5\n"), "{}", sum.stderr);
    let listed = ask(folder.path(), &["rpc", "ls"]);
    assert!(
        listed.stdout.contains("here") && listed.stdout.contains("primes"),
        "{}",
        listed.stdout
    );
    let wrong = ask(folder.path(), &["rpc", "call", "add", "[1]"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("GRPC_SESSION_FAILED"), "{}", wrong.stderr);
    let unknown = ask(folder.path(), &["rpc", "call", "ad"]);
    assert!(unknown.stderr.contains("GRPC_FUNCTION_NOT_FOUND"), "{}", unknown.stderr);
    let stranger = tempfile::tempdir().unwrap();
    let other = start(stranger.path(), &["rpc", "serve", "-n", "1"]);
    let address = other.await_line("its token is");
    assert!(refused(&token, &address, folder.path()), "who has another token stays outside");
    end(other);

    // What is being called is answered.
    let going = Running::start_with(
        &["rpc", "call", "sleep", "1.5"],
        &[("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())],
    );
    until(|| {
        ask(folder.path(), &["rpc", "ls", "--json"]).stdout.contains("\"calls\": 1").then_some(())
    });
    end(daemon);
    going.await_line("1.5");
    assert!(!token.exists());
}

/// Whether a door refuses the token of another.
fn refused(token: &Path, told: &str, folder: &Path) -> bool {
    let address = told.split(" is at ").nth(1).unwrap().split(';').next().unwrap();
    let mut foreign: Value = serde_json::from_slice(&fs::read(token).unwrap()).unwrap();
    foreign["address"] = address.into();
    let path = folder.join("foreign.token");
    fs::write(&path, foreign.to_string()).unwrap();
    let output = ask(folder, &["rpc", "ls", "--token", path.to_str().unwrap()]);
    output.code == Some(1) && output.stderr.contains("nobody answers at")
}

#[test]
fn servers_join_a_registry_are_killed_and_find_it_again_when_it_was_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.token");
    let token = path.to_str().unwrap();
    let registry = ["rpc", "serve", "--registry", "--name", "registry", "--token", token];
    let first = start(folder.path(), &registry);
    first.await_line("its token is");
    let empty = ask(folder.path(), &["rpc", "call", "add", "[1, 2]", "--token", token]);
    assert!(empty.stderr.contains("GRPC_SERVER_NOT_FOUND"), "{}", empty.stderr);

    let member = |name: &str, speed: &str| {
        let flags = ["rpc", "serve", "-n", "1", "--name", name, "--speed", speed, "--join", token];
        let member = start(folder.path(), &flags);
        member.await_line("serves behind the door");
        member
    };
    let (slow, mut fast) = (member("slow", "1"), member("fast", "9"));
    // The call goes to the faster, which is killed under it, and is made again by the other.
    let call = ["rpc", "call", "sleep", "3", "--token", token];
    let going = start(folder.path(), &call);
    until(|| {
        ask(folder.path(), &["rpc", "ls", "--json", "--token", token])
            .stdout
            .contains("\"calls\": 1")
            .then_some(())
    });
    fast.child.kill().unwrap();
    fast.wait(LIMIT).unwrap();
    going.await_line("3");

    end(first);
    let away = ask(folder.path(), &["rpc", "ls", "--token", token]);
    assert_eq!(away.code, Some(1));
    assert!(away.stderr.contains("is its daemon still there?"), "{}", away.stderr);
    let second = start(folder.path(), &registry);
    second.await_line("its token is");
    slow.await_line("serves behind the door");
    let sum = ask(folder.path(), &["rpc", "call", "add", "[1, 2]", "--token", token]);
    assert_eq!((sum.code, sum.stdout.as_str()), (Some(0), "3.0\n"), "{}", sum.stderr);

    end(slow);
    let left = ask(folder.path(), &["rpc", "ls", "--json", "--token", token]);
    assert_eq!(left.stdout.trim(), "[]");
    end(second);
}
