//! Which signals gridctl may handle, and how it stops itself.

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::SIGCHLD;
use signal_hook::flag;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Stops ignoring SIGCHLD, if gridctl inherited that from its parent: the system does not report
/// how children end while SIGCHLD is ignored. Call this before the first process is started.
pub(crate) fn heed_children() {
    if not_ignored(&[SIGCHLD]).is_empty()
        // Any handler has this effect, and the processes that gridctl starts do not inherit it.
        && let Err(error) = flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))
    {
        tracing::warn!(%error, "the ends of processes are not known, since SIGCHLD is ignored");
    }
}

/// Returns the signals among `wanted` that gridctl does not ignore. `nohup` makes it ignore SIGHUP,
/// and a shell without job control makes it ignore SIGINT in the background.
pub(crate) fn not_ignored(wanted: &[i32]) -> Vec<i32> {
    // Where the system has no such file, no signal counts as ignored.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored(&status);
    let is_ignored =
        |signal: i32| u32::try_from(signal - 1).is_ok_and(|bit| ignored >> bit & 1 == 1);
    wanted.iter().copied().filter(|&signal| !is_ignored(signal)).collect()
}

/// Parses the set of ignored signals in the form of proc(5): signal 1 is the lowest bit.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}

/// Returns the exit code of a process that a signal has ended, as shells report it.
pub(crate) const fn exit_code(signal: i32) -> u8 {
    128 + (signal & 0x7f) as u8
}

/// Stops this process until it is continued.
pub(crate) fn stop() {
    if let Err(error) = kill_process(getpid(), Signal::STOP) {
        tracing::error!(%error, "cannot stop");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    #[test]
    fn the_exit_code_of_a_signal_is_above_128() {
        assert_eq!([0, 1, 9, 15, 127].map(exit_code), [128, 129, 137, 143, 255]);
    }

    #[test]
    fn ignored_signals_are_parsed_from_the_status_of_a_process() {
        // Output of `nohup sh -c 'grep SigIgn /proc/self/status'`.
        let status = "Name:\tgrep\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000001\n";

        assert_eq!(ignored(status), 1 << (SIGHUP - 1));
        assert_eq!(ignored(""), 0);
        assert_eq!(not_ignored(&[SIGINT, SIGTERM]), [SIGINT, SIGTERM], "a test ignores neither");
    }
}
