//! The state of main, visible to other threads.

use crate::message::MainStatus;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// State of main, for the detection of stalls.
#[derive(Default)]
pub(super) struct MainState {
    status: AtomicU8,
    /// Whether other threads have issued requests in main's name, and may do so again.
    is_helped: AtomicBool,
}

const RUNS: u8 = 0;
const WAITS_INSIDE: u8 = 1;
const WAITS_OUTSIDE: u8 = 2;

impl MainState {
    /// Notes that main waits; `is_inside` if only for promises of Gridspan.
    pub(super) fn note_waiting(&self, is_inside: bool) {
        let status = if is_inside { WAITS_INSIDE } else { WAITS_OUTSIDE };
        self.status.store(status, Ordering::SeqCst);
    }

    /// Notes that main runs.
    pub(super) fn note_running(&self) {
        self.status.store(RUNS, Ordering::SeqCst);
    }

    /// Notes that another thread has issued a request in main's name.
    pub(super) fn note_helped(&self) {
        self.is_helped.store(true, Ordering::SeqCst);
    }

    pub(super) fn status(&self) -> MainStatus {
        match self.status.load(Ordering::SeqCst) {
            WAITS_INSIDE if !self.is_helped.load(Ordering::SeqCst) => MainStatus::WaitsInside,
            WAITS_INSIDE | WAITS_OUTSIDE => MainStatus::WaitsOutside,
            _ => MainStatus::Running,
        }
    }
}
