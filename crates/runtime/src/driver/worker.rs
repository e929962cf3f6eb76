//! The thread of one PE.

use super::inbox::Inbox;
use super::switch::Switch;
use crate::error::JobError;
use crate::pe::Pe;
use gridspan_topology::Time;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Messages handled before the inbox is looked at and the outbox is sent: enough to make batches,
/// few enough to keep others from waiting.
const TURN_MESSAGES: u32 = 256;
/// How long a turn should last at most; with slow handlers it has fewer messages. Short against a
/// wide-area latency, long against the cost of a turn.
const TURN_NS: u64 = 200_000;
/// How long an idle PE looks for packets before it sleeps; about the cost of waking a thread.
const SPIN: Duration = Duration::from_micros(20);

/// How a PE's thread waits when there is nothing to do.
pub(super) trait Idle {
    /// Returns when the inbox has packets, or after `timeout`, or earlier.
    fn wait(&mut self, inbox: &Inbox, timeout: Option<Duration>);
    /// Called once a turn when there is something to do.
    fn attend(&mut self) {}
}

/// Sleeps until another thread has something.
pub(super) struct Park {
    /// Whether to look for packets for a while first. Only where every PE has a core of its own.
    pub(super) spin: bool,
}

impl Idle for Park {
    fn wait(&mut self, inbox: &Inbox, timeout: Option<Duration>) {
        if self.spin {
            let begin = Instant::now();
            while begin.elapsed() < SPIN {
                if inbox.is_ready() {
                    return;
                }
                std::hint::spin_loop();
            }
        }
        if inbox.fall_asleep() {
            match timeout {
                Some(timeout) => std::thread::park_timeout(timeout),
                None => std::thread::park(),
            }
            inbox.wake_up();
        }
    }
}

/// Runs a PE until the job ends. Returns how it ended.
pub(super) fn run(
    mut pe: Pe,
    switch: &Arc<Switch>,
    begin: Instant,
    idle: &mut dyn Idle,
) -> Result<(), JobError> {
    let me = pe.id();
    let inbox = switch.inbox(me);
    let soft_limit = pe.soft_limit();
    let (mut control, mut incoming, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let mut pace = Pace { begin: 0, budget: TURN_MESSAGES, handled: 0 };
    loop {
        let now = begin.elapsed().as_nanos() as u64;
        pace.next_turn(now);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| {
            pe.set_now(Time(now));
            for (from, packet) in own.drain(..) {
                pe.handle(from, packet);
            }
            // Consumers first: over the limit, messages wait outside.
            let room = pe.ready_bytes() < soft_limit;
            inbox.take(&mut control, room.then_some(&mut incoming));
            for (from, packet) in control.drain(..) {
                pe.handle(from, packet);
            }
            for (from, packet) in incoming.drain(..) {
                pe.handle(from, packet);
            }
            pe.set_waiting_bytes(inbox.bytes());
            pace.handled = pe.run(pace.budget);
            pe.finish_turn();
        })) {
            let (actor, place) = pe.running();
            let (actor, reason) = (actor.to_owned(), panic_message(&*panic));
            pe.fail(JobError::Panicked { actor, pe: me, place, reason });
        }
        switch.send(me, pe.outbox().drain(), &mut own);
        if let Some(outcome) = pe.outcome() {
            inbox.close();
            return outcome.clone();
        }
        if own.is_empty() && !pe.has_work() && !inbox.has_packets() {
            let now = Time(begin.elapsed().as_nanos() as u64);
            let timeout = pe.next_wakeup().map(|wakeup| wakeup.since(now));
            idle.wait(inbox, timeout);
        } else {
            idle.attend();
        }
    }
}

/// How many messages fit into a turn, by the time that those of the last one took.
struct Pace {
    begin: u64,
    budget: u32,
    handled: u32,
}

impl Pace {
    fn next_turn(&mut self, now: u64) {
        if self.handled > 0 {
            let each = (now.saturating_sub(self.begin) / u64::from(self.handled)).max(1);
            self.budget = (TURN_NS / each).clamp(1, u64::from(TURN_MESSAGES)) as u32;
        }
        (self.begin, self.handled) = (now, 0);
    }
}

/// What a panic said.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
