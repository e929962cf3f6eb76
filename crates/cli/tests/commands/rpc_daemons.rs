//! `gridctl rpc serve`, `ls` and `call`: daemons that start, are stopped or killed, and start
//! again.
#![cfg(target_os = "linux")]

use crate::common::{LIMIT, Output, Running, finish, gridctl, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Runs gridctl, which looks for its daemons in `folder`.
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
fn a_daemon_serves_its_user_and_removes_its_token_when_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let none = ask(folder.path(), &["rpc", "call", "add", "[1, 2]"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("start one with `gridctl rpc serve`"), "{}", none.stderr);

    let daemon = start(folder.path(), &["rpc", "serve", "-p", "2", "--name", "here"]);
    daemon.await_line("its token is");
    let tokens: Vec<_> = fs::read_dir(folder.path().join("gridspan")).unwrap().collect();
    let token = tokens[0].as_ref().unwrap().path();
    assert_eq!(fs::metadata(&token).unwrap().mode() & 0o777, 0o600, "it holds a private key");

    let sum = ask(folder.path(), &["rpc", "call", "add", "[1, 2.5]"]);
    assert_eq!((sum.code, sum.stdout.as_str()), (Some(0), "3.5\n"), "{}", sum.stderr);
    let file = folder.path().join("numbers.json");
    fs::write(&file, "[40,\n 2]").unwrap();
    let of_file = format!("@{}", file.display());
    let sum = ask(folder.path(), &["rpc", "call", "add", &of_file]);
    assert_eq!((sum.code, sum.stdout.as_str()), (Some(0), "42.0\n"), "{}", sum.stderr);
    let mut command = gridctl(&["rpc", "call", "add", "@-"]);
    command.env("XDG_RUNTIME_DIR", folder.path()).stdin(fs::File::open(&file).unwrap());
    assert_eq!(finish(command).stdout, "42.0\n");
    let none = ask(folder.path(), &["rpc", "call", "add", "@nowhere.json"]);
    assert!(none.stderr.contains("cannot read nowhere.json"), "{}", none.stderr);
    let listed = ask(folder.path(), &["rpc", "ls"]);
    assert!(
        listed.stdout.contains("here") && listed.stdout.contains("primes"),
        "{}",
        listed.stdout
    );
    let wrong = ask(folder.path(), &["rpc", "call", "add", "[1]"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("GRPC_SESSION_FAILED"), "{}", wrong.stderr);
    let infinite = ask(folder.path(), &["rpc", "call", "add", "[1e308, 1e308]"]);
    assert_eq!((infinite.code, infinite.stdout.as_str()), (Some(1), ""), "{}", infinite.stderr);
    assert!(infinite.stderr.contains("no infinite numbers"), "{}", infinite.stderr);
    let unknown = ask(folder.path(), &["rpc", "call", "ad"]);
    assert!(unknown.stderr.contains("GRPC_FUNCTION_NOT_FOUND"), "{}", unknown.stderr);
    let stranger = tempfile::tempdir().unwrap();
    let other = start(stranger.path(), &["rpc", "serve", "-p", "1"]);
    let address = other.await_line("its token is");
    assert!(refused(&token, &address, folder.path()), "another token is refused");
    end(other);

    // Before a daemon ends, it answers the call that it executes.
    let going = Running::start_with(
        &["rpc", "call", "sleep", "6.5"],
        &[("XDG_RUNTIME_DIR", folder.path().to_str().unwrap())],
    );
    until(|| {
        ask(folder.path(), &["rpc", "ls", "--json"]).stdout.contains("\"calls\": 1").then_some(())
    });
    end(daemon);
    going.await_line("6.5");
    assert!(!token.exists());
}

/// Whether a registry refuses the token of another registry.
fn refused(token: &Path, told: &str, folder: &Path) -> bool {
    let address = told.split(" is at ").nth(1).unwrap().split(';').next().unwrap();
    let mut foreign: Value = serde_json::from_slice(&fs::read(token).unwrap()).unwrap();
    foreign["address"] = address.into();
    let path = folder.join("foreign.token");
    fs::write(&path, foreign.to_string()).unwrap();
    let output = ask(folder, &["rpc", "ls", "--token", path.to_str().unwrap()]);
    output.code == Some(1) && output.stderr.contains("the token is stale")
}

#[test]
fn servers_find_a_restarted_registry_and_calls_survive_a_killed_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.token");
    let token = path.to_str().unwrap();
    let registry = ["rpc", "serve", "--registry", "--name", "registry", "--write-token", token];
    let first = start(folder.path(), &registry);
    first.await_line("its token is");
    let empty = ask(folder.path(), &["rpc", "call", "add", "[1, 2]", "--token", token]);
    assert!(empty.stderr.contains("GRPC_SERVER_NOT_FOUND"), "{}", empty.stderr);

    let member = |name: &str, speed: &str| {
        let flags = ["rpc", "serve", "-p", "1", "--name", name, "--speed", speed, "--join", token];
        let member = start(folder.path(), &flags);
        member.await_line("serves for the registry");
        member
    };
    let (slow, mut fast) = (member("slow", "1"), member("fast", "9"));
    // The call goes to the faster server, which the test kills during the call. It is repeated on
    // the other server.
    let call = ["rpc", "call", "sleep", "6.5", "--token", token];
    let going = start(folder.path(), &call);
    until(|| {
        ask(folder.path(), &["rpc", "ls", "--json", "--token", token])
            .stdout
            .contains("\"calls\": 1")
            .then_some(())
    });
    fast.child.kill().unwrap();
    fast.wait(LIMIT).unwrap();
    going.await_line("6.5");

    end(first);
    let away = ask(folder.path(), &["rpc", "ls", "--token", token]);
    assert_eq!(away.code, Some(1));
    assert!(away.stderr.contains("is its daemon still running?"), "{}", away.stderr);
    let second = start(folder.path(), &registry);
    second.await_line("its token is");
    slow.await_line("serves for the registry");
    let sum = ask(folder.path(), &["rpc", "call", "add", "[1, 2]", "--token", token]);
    assert_eq!((sum.code, sum.stdout.as_str()), (Some(0), "3.0\n"), "{}", sum.stderr);

    end(slow);
    let left = ask(folder.path(), &["rpc", "ls", "--json", "--token", token]);
    assert_eq!(left.stdout.trim(), "[]");
    end(second);
}

#[test]
fn queued_calls_are_dropped_when_their_callers_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.token");
    let token = path.to_str().unwrap();
    let registry = start(folder.path(), &["rpc", "serve", "--registry", "--write-token", token]);
    registry.await_line("its token is");
    let member = start(folder.path(), &["rpc", "serve", "-p", "1", "--join", token]);
    member.await_line("serves for the registry");
    let calls = |count: u32| {
        let text = format!("\"calls\": {count},");
        let listed = || ask(folder.path(), &["rpc", "ls", "--json", "--token", token]).stdout;
        until(|| listed().contains(&text).then_some(()));
    };
    let call =
        |seconds: &str| start(folder.path(), &["rpc", "call", "sleep", seconds, "--token", token]);

    // The only PE of the server executes one call to the end of the test. Two calls are queued
    // behind it: one of a caller that is killed, whose connection times out after some seconds,
    // and one with a timeout of a second.
    let first = call("300");
    calls(1);
    let mut second = call("300");
    calls(2);
    second.child.kill().unwrap();
    second.wait(LIMIT).unwrap();
    let late = ["rpc", "call", "sleep", "300", "--token", token, "--timeout", "1s"];
    let late = ask(folder.path(), &late);
    assert!(late.stderr.contains("GRPC_COMMUNICATION_FAILED"), "{}", late.stderr);

    // Both have left the queue before the PE could start them.
    calls(1);
    drop((first, member));
    end(registry);
}

#[test]
fn tokens_hold_the_advertised_address_and_stale_tokens_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let everywhere = ["rpc", "serve", "-p", "1", "--listen", "0.0.0.0:0"];
    let refused = ask(folder.path(), &everywhere);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--advertise"), "{}", refused.stderr);

    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (old, new) = (path("old.token"), path("new.token"));
    let flags =
        |token| [&everywhere[..], &["--advertise", "127.0.0.1", "--write-token", token]].concat();
    let daemon = start(folder.path(), &flags(&old));
    daemon.await_line("its token is");
    let listed = ask(folder.path(), &["rpc", "ls", "--token", &old]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let written: Value = serde_json::from_slice(&fs::read(&old).unwrap()).unwrap();
    let address = written["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    end(daemon);

    // Another daemon, with other certificates, at the same address.
    let next = ["rpc", "serve", "-p", "1", "--listen", address, "--write-token", &new];
    let daemon = start(folder.path(), &next);
    daemon.await_line("its token is");
    let stale = ask(folder.path(), &["rpc", "ls", "--token", &old]);
    assert_eq!(stale.code, Some(1));
    assert!(stale.stderr.contains("the token is stale"), "{}", stale.stderr);
    end(daemon);

    // A killed daemon leaves its token, which does not count as that of a running daemon.
    let mut killed = start(folder.path(), &["rpc", "serve", "-p", "1"]);
    killed.await_line("its token is");
    killed.child.kill().unwrap();
    killed.wait(LIMIT).unwrap();
    let none = ask(folder.path(), &["rpc", "ls"]);
    assert!(none.stderr.contains("no daemon of this user is running"), "{}", none.stderr);
}
