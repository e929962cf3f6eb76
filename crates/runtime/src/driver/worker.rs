//! The thread of one PE.

#[cfg(feature = "net")]
use super::brake::Brake;
use super::gauge::Meter;
use super::inbox::{Inbox, Taken};
use super::processor_speed;
use super::share::Share;
use super::switch::{Switch, Undelivered};
use crate::address::id::MAIN_PE;
use crate::error::{JobError, panic_message};
use crate::message::Packet;
use crate::pe::{Next, Pe, Spent, TurnOutput};
use gridspan_topology::{PeId, Speed, Time};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Largest number of messages handled before the inbox is checked and the outbox is sent: enough
/// for batches, few enough to keep other PEs from waiting.
const TURN_MESSAGES: u32 = 256;
/// Time after which a turn begins no further chunk of messages. Short against a wide-area latency,
/// long against the cost of a turn.
const TURN: Duration = Duration::from_micros(200);
/// Largest number of messages handled before the clock is first read in a turn.
const CHUNK_MESSAGES: u32 = 16;
/// Handling time of a message after which the turn ends, so that what its handler sent leaves
/// before the next one runs: long beside the cost of a turn. Actors on two PEs that compute and
/// exchange would otherwise compute one after the other.
const SLOW: Duration = Duration::from_micros(20);
/// The time that a chunk should take, from which its size follows.
const CHUNK: Duration = Duration::from_nanos(TURN.as_nanos() as u64 / 8);
/// Time that each message of a chunk except the slowest one is assumed to take. With this time, a
/// first chunk of the largest size takes as long as a turn.
const USUAL: Duration = Duration::from_nanos(TURN.as_nanos() as u64 / CHUNK_MESSAGES as u64);
/// Number of turns in which the remembered time of a slow handler decreases to a third. Until it is
/// below [`SLOW`], turns handle one message each, which costs little compared with the handler.
const SLOWEST_TURNS: u32 = 16;
/// Largest number of actor types that the error about a full inbox names.
const FULLEST: usize = 3;
/// Period in which a PE that is held back by the network checks whether it may continue.
const RECHECK: Duration = Duration::from_millis(1);

/// The wait of a PE's thread while it has nothing to do.
pub(super) trait Idle {
    /// Waits until the inbox has packets, for `timeout` at most; may end earlier. Returns the part
    /// of this time in which the thread drove the network.
    fn wait(&mut self, inbox: &Inbox, timeout: Option<Duration>) -> Duration;
    /// Called once per turn while the PE has work. Returns how long the thread drove the network.
    fn attend(&mut self) -> Duration {
        Duration::ZERO
    }
    /// Returns for how long the thread has used its processor without work since the last call.
    fn take_spun(&mut self) -> Duration {
        Duration::ZERO
    }
}

/// Runs a PE until the job ends, and returns the outcome. Emulates `speed` if it is below
/// [`Speed::ORDINARY`].
pub(super) fn run(
    mut pe: Pe,
    switch: &Arc<Switch>,
    (begin, speed): (Instant, Speed),
    idle: &mut dyn Idle,
) -> Result<(), JobError> {
    let me = pe.id();
    let inbox = switch.inbox(me);
    let mut turn = Turn::default();
    prepare(&mut pe, begin, speed);
    let is_recorded = pe.is_recorded();
    let mut share = (pe.is_measured() || is_recorded).then(Share::new);
    let mut meter = Meter::new(switch.gauge(me), Time(begin.elapsed().as_nanos() as u64));
    #[cfg(feature = "net")]
    let mut brake = Brake::new(speed);
    loop {
        let instant = Instant::now();
        let now = Time(instant.duration_since(begin).as_nanos() as u64);
        if is_recorded {
            meter.record(now, &mut pe);
        }
        note_share(&mut pe, share.as_mut(), idle, (instant, now));
        meter.go_on(now, &pe, share.as_ref());
        #[cfg(feature = "net")]
        brake.begin();
        guard(&mut pe, |pe| turn.run(pe, inbox, switch, (begin, now)));
        #[cfg(feature = "net")]
        brake.end();
        if guard(&mut pe, |pe| turn.send(pe, switch)) != Some(true) {
            // Packets that could not be sent are dropped; this sends the error.
            guard(&mut pe, |pe| turn.send(pe, switch));
        }
        if let Some(outcome) = pe.outcome() {
            inbox.close();
            if me == MAIN_PE {
                switch.ending.declare();
            }
            return outcome.clone();
        }
        let held_back = switch.is_held_back();
        let has_packets = !turn.own.is_empty() || inbox.has_packets();
        let next = if has_packets { Next::Turn } else { pe.next(!held_back) };
        let Next::Wait { wakeup, trial } = next else {
            meter.note_network(idle.attend());
            continue;
        };
        let now = Time(begin.elapsed().as_nanos() as u64);
        meter.rest(now, &pe, share.as_ref());
        let timeout = wakeup.map(|wakeup| wakeup.since(now));
        let recheck = held_back.then_some(RECHECK);
        let trial = trial.map(|trial| trial.since(now));
        match &mut share {
            Some(share) if trial == Some(Duration::ZERO) => {
                // `try_out` restarts the counts, so they must not include the spinning so far.
                idle.take_spun();
                let spent = share.try_out(inbox).unwrap_or_default();
                pe.note_trial(Time(begin.elapsed().as_nanos() as u64), spent);
            }
            _ => {
                let timeout = [timeout, recheck, trial].into_iter().flatten().min();
                meter.note_network(idle.wait(inbox, timeout));
            }
        }
    }
}

/// Gives a PE its clocks, and the speed that it has or emulates.
fn prepare(pe: &mut Pe, begin: Instant, speed: Speed) {
    pe.set_stopwatch(Box::new(move || begin.elapsed().as_nanos() as u64));
    pe.set_clock(Box::new(move || begin.elapsed().as_nanos() as u64));
    pe.set_pace(speed);
    if pe.is_measured() {
        pe.set_speed(processor_speed::speed() * speed.factor());
    }
}

/// Tells a PE how long its thread has run, and waited to run, since the last reading; does nothing
/// until the next reading is due. Time that the thread spun counts as idle.
fn note_share(
    pe: &mut Pe,
    share: Option<&mut Share>,
    idle: &mut dyn Idle,
    (instant, now): (Instant, Time),
) {
    if let Some(spent) = share.and_then(|share| share.look(instant)) {
        let since = (spent.ran + spent.waited).as_nanos() as u64;
        pe.note_time(Spent { ran: spent.ran.saturating_sub(idle.take_spun()), ..spent });
        pe.record_waited(Time(now.0.saturating_sub(since)), spent.waited);
    }
}

/// Runs a step and returns its result; a panic fails the job.
fn guard<R>(pe: &mut Pe, step: impl FnOnce(&mut Pe) -> R) -> Option<R> {
    let panic = match catch_unwind(AssertUnwindSafe(|| step(pe))) {
        Ok(result) => return Some(result),
        Err(panic) => panic,
    };
    let error = pe.panicked(&panic_message(&*panic));
    pe.fail(error);
    None
}

/// The packets of a turn; kept from turn to turn to reuse the allocations.
#[derive(Default)]
struct Turn {
    own: Vec<(PeId, Packet)>,
    taken: Taken,
    pace: Pace,
}

impl Turn {
    fn run(&mut self, pe: &mut Pe, inbox: &Inbox, switch: &Switch, (begin, now): (Instant, Time)) {
        pe.set_now(now);
        for (from, packet) in self.own.drain(..) {
            pe.handle(from, packet);
        }
        inbox.take(&mut self.taken, pe.takes_messages());
        let Taken { actions, control, messages, losses } = &mut self.taken;
        for action in actions.drain(..) {
            pe.act(action);
        }
        for (from, packet) in control.drain(..) {
            pe.handle(from, packet);
        }
        // After the packets, because one of them may report the end of the job, after which nodes
        // leave.
        for action in losses.drain(..) {
            pe.act(action);
        }
        if pe.has_failed() {
            // A failed PE only waits for the end of the job.
            messages.clear();
        }
        for (from, packet) in messages.drain(..) {
            pe.handle(from, packet);
        }
        let for_network = switch.backlog_bytes();
        pe.set_waiting_bytes(inbox.bytes() + for_network + switch.carried_bytes(), for_network);
        if !switch.is_held_back() {
            self.pace.handle_messages(pe, begin, now);
        }
        pe.finish_turn();
    }

    /// Sends the packets of a turn, and has the switch carry out its commands. Returns whether all
    /// packets were sent; otherwise the PE has failed.
    fn send(&mut self, pe: &mut Pe, switch: &Arc<Switch>) -> bool {
        let me = pe.id();
        let TurnOutput { commands, packets, .. } = pe.take_output();
        for command in commands {
            switch.obey(me, command);
        }
        match switch.send(me, packets, &mut self.own) {
            Ok(()) => return true,
            Err(Undelivered::Stranger(pe_id)) => {
                let reason = format!("a packet names {pe_id}, which does not exist");
                pe.fail(JobError::Protocol(reason));
            }
            Err(Undelivered::Full(to)) => {
                let inbox = switch.inbox(to);
                pe.fail_full(to, inbox.bytes(), &inbox.fullest(FULLEST));
            }
        }
        false
    }
}

/// How many messages a turn handles. What they send leaves at the end of the turn, so a turn is
/// short unless one handler takes long.
#[derive(Default)]
struct Pace {
    /// The time of the slowest message of the last turns, which decreases with each turn. In a
    /// chunk of several messages only one that takes much longer than [`USUAL`] is noticed.
    slowest: Duration,
    /// The mean time of the messages of the slowest chunk of the last turns, which decreases, too.
    mean: Duration,
}

impl Pace {
    /// Handles the messages of a turn. The clock is read after every chunk; chunks grow while
    /// handlers are quick. If one has taken long lately, this handles one message: what it sends
    /// would otherwise wait for the next handler, which may take as long again.
    fn handle_messages(&mut self, pe: &mut Pe, begin: Instant, now: Time) {
        let clock = || Time(begin.elapsed().as_nanos() as u64).since(now);
        let (mut handled, mut elapsed) = (0, clock());
        let (most, mut chunk) = (self.most(), self.first_chunk());
        while handled < most {
            let step = pe.run(chunk.min(most - handled));
            if step == 0 {
                break;
            }
            let taken = clock().saturating_sub(elapsed);
            elapsed += taken;
            if handled == 0 {
                self.forget();
            }
            handled += step;
            self.note(step, taken);
            if elapsed > TURN || self.slowest > SLOW {
                break;
            }
            chunk = if elapsed < CHUNK { chunk * 2 } else { 1 };
        }
    }

    /// The largest number of messages of the next turn.
    fn most(&self) -> u32 {
        if self.slowest > SLOW { 1 } else { TURN_MESSAGES }
    }

    /// The number of messages of the first chunk, which should take no longer than [`CHUNK`].
    fn first_chunk(&self) -> u32 {
        let messages = CHUNK.as_nanos() / self.mean.as_nanos().max(1);
        u32::try_from(messages).unwrap_or(u32::MAX).clamp(1, CHUNK_MESSAGES)
    }

    /// Reduces the remembered times of earlier turns, once in each turn with messages.
    fn forget(&mut self) {
        self.slowest -= self.slowest / SLOWEST_TURNS;
        self.mean -= self.mean / SLOWEST_TURNS;
    }

    /// Notes how long a chunk of at least one message has taken. A slow message among quick ones
    /// may go unnoticed, but it raises the mean: the next chunks are smaller, and show it.
    fn note(&mut self, messages: u32, taken: Duration) {
        self.mean = self.mean.max(taken / messages.max(1));
        let slow = taken.saturating_sub(USUAL * messages.saturating_sub(1));
        self.slowest = self.slowest.max(slow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns with one quick message each, until slow ones are forgotten.
    fn quick_turns(pace: &mut Pace) {
        for _ in 0..8 * SLOWEST_TURNS {
            pace.forget();
            pace.note(1, Duration::from_micros(1));
        }
    }

    #[test]
    fn a_slow_message_among_quick_ones_lets_the_next_turns_handle_one_message() {
        for messages in [1, 4, CHUNK_MESSAGES] {
            let mut pace = Pace::default();
            pace.note(messages, 2 * TURN);
            assert_eq!((pace.most(), pace.first_chunk()), (1, 1), "{messages}");
            pace.forget();
            pace.note(1, Duration::from_micros(1));
            assert_eq!(pace.most(), 1, "{messages}: the slow one may come again");
            quick_turns(&mut pace);
            assert_eq!(pace.most(), TURN_MESSAGES, "{messages}");
        }
    }

    #[test]
    fn a_message_that_computes_for_a_part_of_a_turn_is_slow() {
        let mut pace = Pace::default();
        pace.note(1, TURN / 4);
        assert_eq!(pace.most(), 1);
    }

    #[test]
    fn a_message_of_a_part_of_a_turn_is_looked_for_in_smaller_chunks() {
        // One message of 60 us and 15 of 1 us. The sum could also be 16 messages of 5 us.
        let (mut pace, first) = (Pace::default(), Duration::from_micros(75));
        pace.note(CHUNK_MESSAGES, first);
        assert_eq!(pace.most(), TURN_MESSAGES);
        let chunk = pace.first_chunk();
        assert!((1..CHUNK_MESSAGES / 2).contains(&chunk), "{chunk}");
        pace.note(chunk, Duration::from_micros(60 + u64::from(chunk) - 1));
        assert_eq!(pace.first_chunk(), 1);
        pace.note(1, Duration::from_micros(60));
        assert_eq!(pace.most(), 1);
    }

    #[test]
    fn messages_of_which_a_chunk_fills_a_turn_are_handled_in_chunks() {
        let mut pace = Pace::default();
        for messages in [1, 4, CHUNK_MESSAGES] {
            pace.note(messages, USUAL * messages);
            assert_eq!(pace.most(), TURN_MESSAGES, "{messages}");
        }
        assert_eq!(pace.first_chunk(), 2, "a chunk takes an eighth of a turn");
        quick_turns(&mut pace);
        assert_eq!(pace.first_chunk(), CHUNK_MESSAGES);
    }
}
