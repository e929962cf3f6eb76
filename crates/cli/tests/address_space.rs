//! `gridctl rpc serve` in a limited address space: a client that has the token sends long texts.
//! They cost some memory, but do not end the daemon.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{LIMIT, Output, finish, gridctl, until, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code of a shell that cannot set the limit.
const NO_LIMIT: i32 = 77;
const TEXT_BYTES: usize = 62_000_000;
/// Address space of the daemon, in kilobytes. The daemon needs 1.4 GB for the text of rows below:
/// in memory, the rows take eight times as many bytes as their text.
const ADDRESSES_KB: u32 = 2_000_000;

fn call(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = gridctl(&[&["rpc", "call"], arguments].concat());
    command.env("XDG_RUNTIME_DIR", folder);
    finish(command)
}

/// Returns two texts that a function refuses once it has read them: vectors of different lengths,
/// and too many empty rows for a product.
fn texts() -> [(&'static str, String, &'static str); 2] {
    let numbers = format!("[[{}1],[1]]", "1,".repeat(TEXT_BYTES / 2));
    let rows = format!("[[{}[]],[[1]]]", "[],".repeat(TEXT_BYTES / 3));
    [("dot", numbers, "do not go together"), ("multiply", rows, "elements at most")]
}

#[test]
fn long_texts_of_a_client_do_not_end_a_daemon_with_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("ulimit -v {ADDRESSES_KB} || exit {NO_LIMIT}; exec \"$0\" rpc serve -p 1");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_gridctl")]).env_clear();
    command.env("XDG_RUNTIME_DIR", folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut daemon = command.spawn().unwrap();
    let is_up = until(|| match daemon.try_wait().unwrap() {
        Some(status) => Some(Err(status)),
        None => (call(folder.path(), &["add", "[1, 2]"]).code == Some(0)).then_some(Ok(())),
    });
    if let Err(status) = is_up {
        assert_eq!(status.code(), Some(NO_LIMIT), "the daemon did not begin");
        eprintln!("skipped: this system does not limit address space by `ulimit -v`");
        return;
    }

    for (function, text, refusal) in texts() {
        let path = folder.path().join("text.json");
        fs::write(&path, text).unwrap();
        let output = call(folder.path(), &[function, &format!("@{}", path.display())]);
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        assert!(output.stderr.contains(refusal), "{}", output.stderr);
        let sum = call(folder.path(), &["add", "[1, 2]"]);
        assert_eq!((sum.code, sum.stdout.as_str()), (Some(0), "3.0\n"), "{}", sum.stderr);
    }

    kill_process(Pid::from_raw(daemon.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(wait(&mut daemon, LIMIT).and_then(|status| status.code()), Some(0));
}
