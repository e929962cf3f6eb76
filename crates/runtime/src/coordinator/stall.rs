//! Detects a job that can never continue, and reports what it waits for.
//!
//! **Start.** A driver with real time makes the coordinator watch. In virtual time a job stalls
//! when no event is left.
//!
//! **Steady state.** When the coordinator has been idle for [`IDLE`], it asks all PEs. Each answers
//! as soon as it is idle, with the count of its work so far, and with its unfinished work. Its
//! driver adds whether all packets that its node sent before the *previous* question have arrived,
//! and the status of main. If two rounds in a row are quiet and equal, no PE has done anything
//! between its two answers, and everything in flight at the first had arrived by the second without
//! any effect. As no timer is set, and main waits for nothing outside the job, nothing will ever
//! happen (compare F. Mattern, "Algorithms for distributed termination detection", 1987, section
//! 5).
//!
//! **Handlers.** A PE that is inside a handler does not answer. A watchdog beside it reports the
//! actor and the time since the handler began, and the coordinator issues a warning if no other PE
//! has work to do. It also issues a warning if some PEs do not stop for a checkpoint, and the
//! others stand still for long meanwhile.
//!
//! **Failure.** The coordinator reports a stall only after all PEs have answered, except those of
//! lost founders: a job that goes on without some founders, and stalls, ends with the error of
//! their loss. At the time limit the job ends after a diagnosis (`diagnosis.rs`), even if answers
//! are missing.

use super::machine::Coordinator;
use super::state::stall::Round;
use super::state::timers::Timer;
use crate::error::{JobError, Warning};
use crate::message::pending_work::PendingWork;
use crate::message::{Control, Looked, MainStatus};
use gridspan_topology::{PeId, Time};
use std::time::Duration;

/// Time for which the coordinator is idle before it asks.
const IDLE: Duration = Duration::from_secs(3);
/// Shortest pause between two checks, used while answers are equal. Packets in flight arrive within
/// it, or are known to be in flight.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two checks, reached while PEs are busy: each round costs a few packets per
/// PE.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Time that a PE spends in one handler before a warning: a computation of half a minute without a
/// message is rare.
pub(super) const HANDLER_LONG: Duration = Duration::from_secs(30);

impl Coordinator {
    /// Starts watching for stalls, if the job warns of them or ends by them, and for the time
    /// limit. Called only if time is real: in virtual time a job stalls when no event is left.
    pub fn watch(&mut self) {
        let now = self.now;
        let is_wanted = !self.common.watch.on_warning.is_empty() || self.common.watch.fails;
        let left = self.common.watch.time_left();
        let stall = &mut self.stall;
        if std::mem::replace(&mut stall.is_on, true) {
            return;
        }
        (stall.idle_since, stall.pause) = (now, PAUSE_MIN);
        if is_wanted {
            self.run_after(IDLE, Timer::CheckStall);
        }
        if let Some(left) = left {
            self.run_after(left, Timer::TimeIsUp);
        }
    }

    pub(super) fn check_stall(&mut self) {
        let (now, activity) = (self.now, self.activity());
        let stall = &mut self.stall;
        if stall.is_reported || stall.is_over_time {
            return;
        }
        if std::mem::replace(&mut stall.activity, activity) != activity {
            (stall.idle_since, stall.pause, stall.previous) = (now, PAUSE_MIN, None);
            stall.has_dropped = false;
        }
        let is_idle = now.since(stall.idle_since) >= IDLE;
        let (is_asking, pause) = (!stall.missing.is_empty(), stall.pause);
        let is_stuck = stall.missing.iter().all(|pe| stall.inside.contains_key(pe));
        if self.checkpoints.is_draining() {
            // PEs are idle until the checkpoint is made.
            self.tell_slow_checkpoint();
        } else if is_asking && is_idle && is_stuck && !stall.sum.is_quiet {
            // The round cannot find a stall, since a PE was not quiet, and it may not end soon,
            // since the missing PEs are inside handlers. So a new round begins.
            self.ask_all();
        } else if is_asking {
            self.tell_long_handlers();
        } else if is_idle {
            self.ask_all();
        }
        self.run_after(pause, Timer::CheckStall);
    }

    /// Begins a round of questions to all PEs.
    fn ask_all(&mut self) {
        let layout = &self.common.layout;
        let is_there = |pe: &PeId| !self.losses.contains(layout.node_of(*pe));
        let pes: Vec<PeId> = layout.pes().filter(is_there).collect();
        let stall = &mut self.stall;
        stall.round += 1;
        stall.missing = pes.iter().copied().collect();
        stall.sum = Round { is_quiet: true, ..Round::default() };
        let round = stall.round;
        for pe in pes {
            self.post(pe, Control::Look { round });
        }
    }

    pub(super) fn handle_looked(&mut self, from: PeId, looked: Looked) {
        let stall = &mut self.stall;
        let is_late = stall.is_over_time || looked.round != stall.round;
        if is_late || !stall.missing.remove(&from) {
            return;
        }
        stall.sum.activity = stall.sum.activity.wrapping_add(looked.activity);
        stall.sum.is_quiet &= looked.is_quiet;
        stall.sum.pending += looked.pending;
        if let Some(main) = looked.main {
            stall.main = main;
        }
        if !stall.missing.is_empty() {
            return;
        }
        let (activity, pending) = (self.activity(), self.pending_work());
        let is_quiet = self.has_only_upkeep();
        let stall = &mut self.stall;
        stall.sum.activity = stall.sum.activity.wrapping_add(activity);
        stall.sum.is_quiet &= is_quiet;
        stall.sum.pending += pending;
        let sum = stall.sum.clone();
        let previous = stall.previous.replace(sum.clone());
        let is_first = previous.is_none();
        let is_same = previous.is_some_and(|previous| is_same(&previous, &sum));
        stall.pause = match is_first || is_same {
            true => PAUSE_MIN,
            false => (stall.pause * 2).min(PAUSE_MAX),
        };
        match stall.main {
            // No node repeats the tasks of a lost founder before the coordinator has decided.
            _ if !self.losses.suspended.is_empty() => {}
            MainStatus::WaitsInside if is_same && sum.is_quiet && self.losses.is_any() => {
                self.needs_all_founders();
            }
            MainStatus::WaitsInside
                if is_same && sum.is_quiet && sum.pending.awaiting > 0 && !stall.has_dropped =>
            {
                // Drops messages to members that do not exist, if no others are left. The warning
                // then mentions them.
                self.stall.has_dropped = true;
                self.drop_all_stranded();
            }
            MainStatus::WaitsInside if is_same && sum.is_quiet => self.tell_stall(),
            MainStatus::WaitsOutside if is_same && sum.is_quiet => {
                tracing::info!("all PEs are idle, and main waits for something outside");
            }
            _ => {}
        }
    }

    fn tell_stall(&mut self) {
        self.stall.is_reported = true;
        let waits = self.stall.sum.pending.stalled();
        let warning = Warning::Stalled { waits: waits.clone() };
        self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        if self.common.watch.fails {
            self.fail(JobError::Stalled { waits });
        }
    }

    /// Notes that a PE has been inside one handler for the given nanoseconds, or is no longer
    /// inside.
    pub(super) fn note_inside(&mut self, pe: PeId, handler: Option<(String, u64)>) {
        let now = self.now;
        let inside = &mut self.stall.inside;
        match handler {
            Some((actor, ns)) => {
                inside.insert(pe, (actor, Time(now.0.saturating_sub(ns))));
            }
            None => drop(inside.remove(&pe)),
        }
    }

    /// Warns of long handlers if only they keep the job from continuing, or the coordinator from
    /// finding a stall.
    fn tell_long_handlers(&mut self) {
        let now = self.now;
        let stall = &mut self.stall;
        let is_long = |pe: &PeId| {
            let since = stall.inside.get(pe).map(|(_, since)| *since);
            since.is_some_and(|since| now.since(since) >= HANDLER_LONG)
        };
        let is_reported = stall.is_handler_reported;
        if is_reported || !stall.sum.is_quiet || !stall.missing.iter().all(is_long) {
            return;
        }
        stall.is_handler_reported = true;
        let pes = self.stall.missing.iter().copied();
        let warning = Warning::LongHandlers { inside: self.silence_of_all(pes) };
        self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
    }

    /// Handles the time limit of the job: begins a diagnosis, after which the job ends.
    pub(super) fn time_is_up(&mut self) {
        self.stall.is_over_time = true;
        self.begin_diagnosis(None);
    }
}

/// Whether the previous round was quiet and nothing has happened since. The texts of main's waits
/// may differ.
fn is_same(previous: &Round, sum: &Round) -> bool {
    let counts = |round: &Round| {
        let pending = round.pending.clone();
        let pending = PendingWork { main_waits: Vec::new(), absent_members: Vec::new(), ..pending };
        (round.activity, round.is_quiet, pending)
    };
    previous.is_quiet && counts(previous) == counts(sum)
}
