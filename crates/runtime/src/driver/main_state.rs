//! Shows other threads what main does.

use crate::message::MainStatus;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What main does, for those who look for a reason that the job does not go on.
#[derive(Default)]
pub(super) struct MainState {
    status: AtomicU8,
    /// Whether other threads have asked for something in main's name, and may do so again.
    is_helped: AtomicBool,
}

const RUNS: u8 = 0;
const WAITS_INSIDE: u8 = 1;
const WAITS_OUTSIDE: u8 = 2;

impl MainState {
    /// It waits; for promises of Gridspan alone or not.
    pub(super) fn waits(&self, is_inside: bool) {
        let status = if is_inside { WAITS_INSIDE } else { WAITS_OUTSIDE };
        self.status.store(status, Ordering::SeqCst);
    }

    /// It goes on.
    pub(super) fn runs(&self) {
        self.status.store(RUNS, Ordering::SeqCst);
    }

    /// Another thread has asked for something.
    pub(super) fn is_helped(&self) {
        self.is_helped.store(true, Ordering::SeqCst);
    }

    /// What it does.
    pub(super) fn status(&self) -> MainStatus {
        match self.status.load(Ordering::SeqCst) {
            WAITS_INSIDE if !self.is_helped.load(Ordering::SeqCst) => MainStatus::WaitsInside,
            WAITS_INSIDE | WAITS_OUTSIDE => MainStatus::WaitsOutside,
            _ => MainStatus::Running,
        }
    }
}
