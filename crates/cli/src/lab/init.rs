//! The first process of a lab. When it ends, the system kills all other processes of the lab,
//! whichever process started them.

use crate::error::CliError;
use rustix::process::{WaitOptions, wait};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;
use std::io;
use std::process::ExitCode;
use std::thread;

/// Waits for the end of standard input, whose other end the forwarding process holds while it runs.
pub(super) fn run() -> Result<ExitCode, CliError> {
    let signals = Signals::new([SIGCHLD]).map_err(CliError::system("watch for signals"))?;
    let reap = move || reap_orphans(signals);
    let thread = thread::Builder::new().name("orphans".to_owned()).spawn(reap);
    thread.map_err(CliError::system("start a thread"))?;
    // An error ends the lab like the end of the input.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    Ok(ExitCode::SUCCESS)
}

/// Waits for processes whose parents have ended: the first process inherits them.
fn reap_orphans(mut signals: Signals) {
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if signals.forever().next().is_none() {
            return;
        }
    }
}
