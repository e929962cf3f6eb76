//! The times that tasks wait for their inputs: over idle links, and as observed.

use super::attempts::Attempt;
use crate::id::{DataId, Endpoint};

/// Inputs are estimated to be on their server after this multiple of their time over idle links,
/// because transfers share links, or after [`LONGER`] times the longest observed wait if that is
/// more.
const SHARED_BY: f64 = 8.0;
/// Multiple of the longest observed wait after which inputs are estimated to be on their server.
const LONGER: f64 = 2.0;
/// Part of each wait that is not for transfers, in seconds: a server begins a task with a delay,
/// and the client notices the beginning with a further delay.
const BEGIN_S: f64 = 0.01;

/// Time of a transfer of data between two endpoints over idle links, in seconds.
pub(super) type TransferTime<'a> = &'a dyn Fn(DataId, Endpoint, Endpoint) -> f64;

/// The times that attempts waited for their inputs on servers with a free core, in seconds.
#[derive(Debug, Default)]
pub(super) struct InputWaits {
    /// The longest wait.
    longest_s: f64,
    /// Sum of the waits without [`BEGIN_S`], each at least its time over idle links.
    waited_s: f64,
    /// Sum of the times of the same inputs over idle links.
    idle_s: f64,
}

impl InputWaits {
    pub(super) fn note(&mut self, waited_s: f64, idle_s: f64) {
        self.longest_s = self.longest_s.max(waited_s);
        self.waited_s += (waited_s - BEGIN_S).max(idle_s);
        self.idle_s += idle_s;
    }

    /// Returns the observed ratio of waits to the transfer times over idle links, from 1 to
    /// [`SHARED_BY`].
    pub(super) fn congestion(&self) -> f64 {
        match self.idle_s > 0.0 {
            true => (self.waited_s / self.idle_s).clamp(1.0, SHARED_BY),
            false => 1.0,
        }
    }

    /// Returns the estimated time at which the inputs of an attempt are on its server.
    pub(super) fn ready_s(&self, attempt: &Attempt) -> f64 {
        let possible_s = attempt.possible_s.unwrap_or(f64::INFINITY);
        match attempt.inputs_s > 0.0 {
            true => possible_s + (attempt.inputs_s * SHARED_BY).max(self.longest_s * LONGER),
            false => possible_s,
        }
    }
}
